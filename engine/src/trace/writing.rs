//! The finished trace: rows in their order, with sessions numbered, as Parquet.

use super::bytes::{put_small, put_told, put_varint, Taker};
use super::pairing::started;
use super::parquet::Writer;
use super::rows::KINDS;
use super::segments::Builder;
use super::spill::{Key, Part, Spill};
use super::symbols::Told;
use std::fs::File;
use std::io;

impl Builder {
    /// Write all rows to a file.
    pub fn write(&mut self, file: File, columns: &[(String, String)]) -> io::Result<()> {
        let mut spill = self.take_spill()?;
        self.put_edges(&mut spill)?;
        let place = |name: &str| columns.iter().position(|(known, _)| known == name).ok_or(io::ErrorKind::InvalidInput);
        let mut places = [0; NAMES.len()];
        for (at, name) in places.iter_mut().zip(NAMES) {
            *at = place(name)?;
        }
        let mut writer = Writer::new(file, columns)?;
        let begin = self.begin();
        spill.merge(&self.numbers(), |key, row| self.write_row(&mut writer, &places, key, row, begin))?;
        writer.finish()
    }

    /// Make up the begins and ends of sessions that the log does not have.
    fn put_edges<'a>(&'a self, spill: &mut Spill) -> io::Result<()> {
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        for edge in &self.edges {
            let due = edge.first_due.min(started(edge.sid).max(self.begin()));
            let told = [
                (!edge.connected, 0, due, 0),
                (!edge.ended, KINDS.len() - 1, self.last(), edge.seqs + i64::from(!edge.connected)),
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

    fn write_row(&self, writer: &mut Writer, places: &[usize], key: Key, row: &[u8], begin: i64) -> io::Result<()> {
        let (due, session, seq) = key;
        let symbols = self.symbols();
        let mut taker = Taker(&row[1..]);
        let kind = KINDS.get(usize::from(row[0])).ok_or(io::ErrorKind::InvalidData)?;
        let numbers = [i64::from(session), seq, due - begin];
        numbers.iter().zip(places).for_each(|(number, place)| writer.number(*place, Some(*number)));
        let mut tx = -1;
        for (at, place) in places[3..10].iter().enumerate() {
            let number = taker.small()?;
            if at == 5 {
                tx = number;
            }
            let told = if at == 0 { number + due - begin } else { number };
            writer.number(*place, (number != -1).then_some(told));
        }
        writer.number(places[10], None);
        writer.text(places[11], Told::Text(kind.as_bytes()), symbols);
        let mut texts = [Told::Nothing; 8];
        for text in &mut texts {
            *text = taker.told()?;
        }
        if texts[3] == Told::Nothing && !self.late.is_empty() {
            let slot = self.kept[session as usize].slot;
            texts[3] = self.late.get(&(slot, seq)).map_or(Told::Nothing, |state| Told::Text(state));
            if *kind == "connect" && texts[3] != Told::Nothing && texts[7] == Told::Nothing {
                texts[7] = Told::Text(&self.reasons().login);
            }
        }
        if tx == 0 && texts[7] == Told::Nothing && self.within_tx.contains(&self.kept[session as usize].slot) {
            texts[7] = Told::Text(&self.reasons().begun);
        }
        texts.iter().zip(&places[12..20]).for_each(|(text, place)| writer.text(*place, *text, symbols));
        let count = taker.varint()?.checked_sub(1).map(|count| count as usize);
        writer.list(places[20], count);
        for number in 0..count.unwrap_or(0) {
            writer.element(places[20], number == 0, taker.told()?, symbols);
        }
        writer.number(places[21], Some(i64::from(!taker.0.is_empty())));
        writer.text(places[22], Told::Nothing, symbols);
        writer.end_row()
    }
}

/// Columns in the order in which a row has them.
const NAMES: [&str; 23] = [
    "session",
    "seq",
    "due_us",
    "end_us",
    "parse_us",
    "bind_us",
    "execute_us",
    "place",
    "tx",
    "xid",
    "commit_pos",
    "kind",
    "statement",
    "sql",
    "fingerprint",
    "sqlstate",
    "user",
    "database",
    "application",
    "refused",
    "params",
    "implied",
    "keys",
];
