//! Logs read segment by segment, with what is known between two of them.

use super::edges::Edge;
use super::known::{KnownTexts, NO_KEY};
use super::lines::{Line, Reader};
use super::pairing::{by_session, Paired, Pairing, Row, Segment, Session};
use super::records::{Record, COLUMNS};
use super::rows::{Reasons, RowMaker, Sql};
use super::spill::{Part, Spill};
use super::symbols::{Symbols, Told};
use super::text::{check_text, Span};
use crate::json::write_text;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

const LONGEST: usize = 256 << 20;
/// Bytes of rows that are sorted at once.
const RUN: usize = 8 << 20;

pub enum Failure {
    /// The log is not as PostgreSQL writes it.
    Odd(&'static str),
    Io(io::Error),
}

impl From<&'static str> for Failure {
    fn from(reason: &'static str) -> Failure {
        Failure::Odd(reason)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// A log, and the part of it that counts.
pub struct Source {
    pub file: File,
    pub begin: u64,
    pub left: Option<u64>,
}

/// A session that needs no more attention.
pub struct Kept {
    pub first_t: i64,
    pub sid: i64,
    pub slot: u32,
}

#[derive(Default)]
struct Lost {
    unreadable: i64,
    cut_sessions: i64,
    late: i64,
}

pub struct Builder {
    reader: Reader,
    maker: RowMaker,
    pairing: Pairing,
    segment: usize,
    spill: Spill,
    /// Rows that are not on disk yet.
    out: Vec<u8>,
    parts: Vec<Part>,
    carry: Vec<Line>,
    carry_text: Vec<u8>,
    known: KnownTexts,
    ended: HashSet<i64>,
    /// Slots of sessions whose first transaction began before the log.
    pub within_tx: HashSet<u32>,
    pub kept: Vec<Kept>,
    pub edges: Vec<Edge>,
    /// States of errors that came after their statement, by slot and place.
    pub late: HashMap<(u32, i64), Box<[u8]>>,
    lost: Lost,
    /// Lines, those of a duration alone, whole ones, ends of sessions; and the shortest duration.
    pub counts: [i64; 5],
    /// When the server came up again, after which no session of before was there.
    pub starts: Vec<i64>,
    first_due: i64,
    last_t: i64,
    last_due: i64,
}

impl Builder {
    pub fn new(zones: Vec<(String, i64)>, reasons: Reasons, segment: usize, spill: File) -> Builder {
        Builder {
            reader: Reader::new(zones),
            maker: RowMaker::new(reasons),
            pairing: Pairing::default(),
            segment,
            spill: Spill::new(spill),
            out: Vec::new(),
            parts: Vec::new(),
            carry: Vec::new(),
            carry_text: Vec::new(),
            known: KnownTexts::default(),
            ended: HashSet::new(),
            within_tx: HashSet::new(),
            kept: Vec::new(),
            edges: Vec::new(),
            late: HashMap::new(),
            lost: Lost::default(),
            counts: [0, 0, 0, 0, i64::MAX],
            starts: Vec::new(),
            first_due: i64::MAX,
            last_t: 0,
            last_due: i64::MIN,
        }
    }

    /// Read a log after those that were before it, cut into the same segments as `trace/logs.py` does.
    pub fn read(&mut self, mut source: Source) -> Result<(), Failure> {
        source.file.seek(SeekFrom::Start(source.begin))?;
        let (mut text, mut rest, mut size, mut at_end) = (Vec::new(), Vec::new(), self.segment, false);
        while !at_end {
            text.clear();
            text.extend_from_slice(&self.carry_text);
            let base = text.len();
            text.append(&mut rest);
            while text.len() - base < size {
                let wanted = match source.left {
                    None => size - (text.len() - base),
                    Some(left) => left.min(size as u64) as usize,
                };
                let read = (&source.file).take(wanted as u64).read_to_end(&mut text)?;
                if let Some(left) = source.left.as_mut() {
                    *left -= read as u64;
                }
                if read == 0 {
                    break;
                }
            }
            at_end = text.len() - base < size;
            check_text(&text[base..], at_end)?;
            let mut lines = std::mem::take(&mut self.carry);
            let again = lines.len();
            let end = self.lines(&mut text, base, at_end, &mut lines)?;
            rest.extend_from_slice(&text[end..]);
            if lines.len() == again {
                self.carry = lines;
                if rest.len() > LONGEST {
                    return Err(Failure::Odd("a record is longer than any should be"));
                }
                size *= if rest.is_empty() { 1 } else { 2 };
                continue;
            }
            self.pair(lines, again, &text, false)?;
        }
        Ok(())
    }

    /// Append the lines of a text from a place on; return where the first record begins that has no end.
    fn lines(
        &mut self,
        text: &mut Vec<u8>,
        base: usize,
        at_end: bool,
        lines: &mut Vec<Line>,
    ) -> Result<usize, Failure> {
        let (mut record, mut at, mut columns) = (Record::new(), base, 0);
        let before = lines.len();
        loop {
            let mut is_last = false;
            if !record.read(text, at)? {
                let last = &text[at..];
                if !at_end || last.iter().all(|byte| matches!(byte, b' ' | 9..=13)) {
                    break;
                }
                is_last = true;
                let is_open = last.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
                text.push(b'\n'); // a line may lack its end alone
                let is_whole = !is_open && record.read(text, at)?;
                if !is_open && (!is_whole || record.end != text.len()) {
                    return Err(Failure::Odd("the last lines are no record"));
                }
                if is_open || !COLUMNS.contains(&record.count) {
                    if lines.len() == before {
                        return Err(Failure::Odd("no record is whole"));
                    }
                    self.lost.unreadable += 1;
                    text.truncate(at);
                    break;
                }
            }
            if columns == 0 {
                columns = record.count;
            }
            if record.count != columns || !COLUMNS.contains(&columns) {
                return Err(Failure::Odd("a record has another number of fields"));
            }
            lines.push(self.reader.line(&mut record, text)?);
            at = record.end;
            if is_last {
                break;
            }
        }
        Ok(at)
    }

    /// Pair what is left open.
    pub fn end(&mut self) -> Result<(), Failure> {
        let lines = std::mem::take(&mut self.carry);
        let text = std::mem::take(&mut self.carry_text);
        let again = lines.len();
        self.pair(lines, again, &text, true)?;
        self.put_run()?;
        let sids: Vec<i64> = self.pairing.sessions.keys().copied().collect();
        sids.into_iter().for_each(|sid| self.retire(sid));
        self.kept.sort_unstable_by_key(|one| (one.first_t, one.sid));
        Ok(())
    }

    fn pair(&mut self, lines: Vec<Line>, again: usize, text: &[u8], is_last: bool) -> Result<(), Failure> {
        let first_place = self.pairing.read - again as i64;
        self.pairing.read += (lines.len() - again) as i64;
        self.pairing.begins = self.pairing.begins.or(lines.first().map(|line| line.t));
        for line in &lines {
            self.last_t = self.last_t.max(line.t);
            self.counts[0] += 1;
            self.counts[1] += i64::from(line.kind == b'D');
            self.counts[2] += i64::from(matches!(line.kind, b'T' | b'U'));
            self.counts[3] += i64::from(line.kind == b'Q');
            if matches!(line.kind, b'D' | b'T' | b'U') {
                self.counts[4] = self.counts[4].min(line.dur);
            }
            self.starts.extend((line.kind == b'R').then_some(line.t));
        }
        let order = by_session(&lines);
        let segment = Segment { lines: &lines, text, again, first_place, is_last };
        let (mut paired, mut rows, mut carried, mut touched) = (Paired::default(), Vec::new(), Vec::new(), Vec::new());
        let mut from = 0;
        while from < order.len() {
            let sid = lines[order[from] as usize].sid;
            let to = from + order[from..].iter().take_while(|at| lines[**at as usize].sid == sid).count();
            let group = &order[from..to];
            from = to;
            if self.ended.contains(&sid) {
                return Err(Failure::Odd("a session goes on after its end"));
            }
            self.pairing.pair(segment, group, &mut paired)?;
            if let Some(session) = self.pairing.sessions.get_mut(&sid) {
                self.maker.learn(session, segment, group);
                for (seq, error) in &paired.late {
                    self.lost.late += i64::from(lines[*error].kind == b'E');
                    let state = lines[*error].state.of(text).unwrap_or_default();
                    let key = (session.slot, seq + i64::from(!session.connected));
                    let known = self.late.entry(key).or_insert_with(|| state.into());
                    if state < &**known {
                        *known = state.into();
                    }
                }
            }
            rows.extend(paired.rows.drain(..).map(|row| (sid, row)));
            carried.append(&mut paired.carried);
            touched.push(sid);
        }
        self.put(&rows, &lines, text)?;
        carried.sort_unstable();
        self.carry_text = Vec::new();
        for at in carried {
            let mut line = lines[at].clone();
            for span in line.spans() {
                if let Some(part) = span.of(text) {
                    let moved = Span { at: self.carry_text.len() as u32, len: part.len() as u32 };
                    self.carry_text.extend_from_slice(part);
                    *span = moved;
                }
            }
            self.carry.push(line);
        }
        for sid in touched {
            if self.pairing.sessions.get(&sid).is_some_and(|session| session.ended) {
                self.retire(sid);
            }
        }
        Ok(())
    }

    /// Put down the rows of a segment.
    fn put(&mut self, rows: &[(i64, Row)], lines: &[Line], text: &[u8]) -> Result<(), Failure> {
        let keys = self.known.judge(&mut self.maker, rows, lines, text)?;
        for ((sid, row), (key, again)) in rows.iter().zip(keys) {
            let session = self.pairing.sessions.get_mut(sid).ok_or("a session is not known")?;
            let begin = self.out.len() as u32;
            let again = again.map_or(Told::Nothing, Told::Symbol);
            let sql = (key != NO_KEY).then(|| Sql { judged: &self.known.judged[key as usize], again });
            self.maker.put(row, session, lines, text, sql, &mut self.out)?;
            let seq = row.seq + i64::from(!session.connected);
            self.last_due = self.last_due.max(row.due);
            let key = (row.due, session.first_t, *sid, seq);
            self.parts.push(Part { key, slot: session.slot, begin, end: self.out.len() as u32 });
        }
        if self.out.len() > RUN {
            self.put_run()?;
        }
        Ok(())
    }

    fn put_run(&mut self) -> io::Result<()> {
        self.spill.put_run(&self.out, &mut self.parts)?;
        self.out.clear();
        self.parts.clear();
        Ok(())
    }

    fn retire(&mut self, sid: i64) {
        let Some(session) = self.pairing.sessions.remove(&sid) else { return };
        if session.seq == 0 {
            return;
        }
        if session.begins_within_tx() && self.within_tx.insert(session.slot) {
            self.maker.refuse_more(session.of_first_tx);
        }
        let Session { slot, first_t, first_due, seq, end, connected, ended, person, .. } = session;
        self.lost.cut_sessions += i64::from(session.is_older && !session.connected);
        self.first_due = self.first_due.min(first_due);
        self.kept.push(Kept { first_t, sid, slot });
        self.ended.insert(sid);
        if !(connected && ended) {
            self.edges.push(Edge { slot, first_t, sid, first_due, seqs: seq, end, connected, ended, person });
        }
    }

    pub fn summary(&self) -> String {
        let counts = &self.maker.counts;
        let mut out = String::from("{");
        for (name, number) in [
            ("begin", self.begin()),
            ("end", self.last()),
            ("sessions", self.kept.len() as i64),
            ("statements", counts.statements),
            ("transactions", counts.transactions),
            ("errors", counts.errors + self.lost.late),
            ("lines", self.counts[0]),
            ("alone", self.counts[1]),
            ("whole", self.counts[2]),
            ("quickest", self.counts[4]),
            ("truncated", counts.broken + self.pairing.orphans),
            ("unworded", self.pairing.unworded),
            ("doubtful", counts.doubtful),
            ("cut_values", counts.cut_values()),
            ("unreadable", self.lost.unreadable),
            ("without_params", counts.unbound),
            ("gaps", self.pairing.gaps),
            ("cut_sessions", self.lost.cut_sessions),
            ("cut_statements", self.pairing.cut),
        ] {
            let _ = write!(out, "\"{name}\":{number},");
        }
        out.push_str("\"refused\":{");
        for (number, (reason, count)) in counts.refused.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            write_text(&mut out, &String::from_utf8_lossy(reason));
            let _ = write!(out, ":{count}");
        }
        out.push_str("}}");
        out
    }

    pub fn begin(&self) -> i64 {
        if self.kept.is_empty() {
            0
        } else {
            self.first_due
        }
    }

    pub fn last(&self) -> i64 {
        self.last_t.max(self.last_due)
    }

    pub fn reasons(&self) -> &Reasons {
        &self.maker.reasons
    }

    pub fn symbols(&self) -> &Symbols {
        &self.maker.symbols
    }

    /// Return the numbers of sessions in the order of their begin, by slot.
    pub fn numbers(&self) -> Vec<u32> {
        let mut found = vec![u32::MAX; self.pairing.slots as usize];
        self.kept.iter().enumerate().for_each(|(number, one)| found[one.slot as usize] = number as u32);
        found
    }

    pub fn take_spill(&mut self) -> io::Result<Spill> {
        self.spill.take()
    }
}
