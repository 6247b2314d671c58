//! Sessions whose begin or end is not in the log, and what is made up for it; `trace/rows.py` says why.

use super::bytes::{put_small, put_told, put_varint};
use super::pairing::started;
use super::rows::KINDS;
use super::segments::Builder;
use super::spill::{Part, Spill};
use super::symbols::Told;
use std::io;

/// One whose begin or end is not in the log.
pub struct Edge {
    pub slot: u32,
    pub first_t: i64,
    pub sid: i64,
    pub first_due: i64,
    pub seqs: i64,
    /// Of its last statement.
    pub end: i64,
    pub connected: bool,
    pub ended: bool,
    pub person: [Option<Box<[u8]>>; 3],
}

impl Builder {
    /// Make up the begins and ends of sessions that the log does not have.
    pub fn put_edges<'a>(&'a self, spill: &mut Spill) -> io::Result<()> {
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        for edge in &self.edges {
            let due = edge.first_due.min(started(edge.sid).max(self.begin()));
            let told = [
                (!edge.connected, 0, due, 0),
                (!edge.ended, KINDS.len() - 1, self.left(edge), edge.seqs + i64::from(!edge.connected)),
            ];
            for (_, kind, due, seq) in told.into_iter().filter(|one| one.0) {
                let from = rows.len() as u32;
                rows.push(kind as u8);
                (0..7).for_each(|_| put_small(&mut rows, -1));
                (0..4).for_each(|_| put_told(&mut rows, Told::Nothing));
                let told = |text: Option<&'a [u8]>| text.map_or(Told::Nothing, Told::Text);
                edge.person.iter().for_each(|text| put_told(&mut rows, told(text.as_deref())));
                let is_ours = edge.person[2].as_deref().is_some_and(|name| name.starts_with(b"pgdyno"));
                put_told(&mut rows, told(is_ours.then(|| &*self.reasons().ours)));
                put_varint(&mut rows, 0);
                rows.push(1);
                let key = (due, edge.first_t, edge.sid, seq);
                parts.push(Part { key, slot: edge.slot, begin: from, end: rows.len() as u32 });
            }
        }
        spill.put_run(&rows, &mut parts)
    }

    /// When a session ended that has no end in the log: with its server, or with its last statement where a log has no
    /// ends at all.
    fn left(&self, edge: &Edge) -> i64 {
        if self.counts[3] == 0 {
            return edge.end.min(self.last());
        }
        self.starts.iter().copied().filter(|start| *start > edge.end).min().unwrap_or(self.last())
    }
}
