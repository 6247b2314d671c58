//! Rows between reading and writing: sorted runs in one file, merged at the end. Only runs that overlap are open.

use super::bytes::{put_varint, Taker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const BUFFER: usize = 1 << 16;
/// Bytes that hold the numbers before any row.
const HEAD: usize = 40;

/// A row of a run: when it is due, when its session began and which it is, its place there; the session's slot, and the
/// part of the bytes that holds the rest.
pub struct Part {
    pub key: (i64, i64, i64, i64),
    pub slot: u32,
    pub begin: u32,
    pub end: u32,
}

/// What rows are merged by: when they are due, the number of the session, the place in it.
pub type Key = (i64, u32, i64);

struct Run {
    first_due: i64,
    at: u64,
    end: u64,
}

pub struct Spill {
    file: File,
    end: u64,
    runs: Vec<Run>,
    bytes: Vec<u8>,
}

impl Spill {
    pub fn new(file: File) -> Spill {
        Spill { file, end: 0, runs: Vec::new(), bytes: Vec::new() }
    }

    pub fn take(&mut self) -> io::Result<Spill> {
        Ok(Spill {
            file: self.file.try_clone()?,
            end: self.end,
            runs: std::mem::take(&mut self.runs),
            bytes: Vec::new(),
        })
    }

    pub fn put_run(&mut self, rows: &[u8], parts: &mut [Part]) -> io::Result<()> {
        parts.sort_unstable_by_key(|part| part.key);
        let Some(first) = parts.first() else { return Ok(()) };
        let mut due = first.key.0;
        self.runs.push(Run { first_due: due, at: self.end, end: 0 });
        self.bytes.clear();
        for part in parts.iter() {
            put_varint(&mut self.bytes, (part.key.0 - due) as u64);
            put_varint(&mut self.bytes, u64::from(part.slot));
            put_varint(&mut self.bytes, part.key.3 as u64);
            put_varint(&mut self.bytes, u64::from(part.end - part.begin));
            self.bytes.extend_from_slice(&rows[part.begin as usize..part.end as usize]);
            due = part.key.0;
        }
        self.file.write_all_at(&self.bytes, self.end)?;
        self.end += self.bytes.len() as u64;
        if let Some(run) = self.runs.last_mut() {
            run.end = self.end;
        }
        Ok(())
    }

    /// Give all rows in their order; `numbers` are those of the sessions, by slot.
    pub fn merge(mut self, numbers: &[u32], mut take: impl FnMut(Key, &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.bytes = Vec::new();
        let runs = self.runs.iter().enumerate();
        let mut waiting: BinaryHeap<Reverse<(Key, usize)>> =
            runs.map(|(number, run)| Reverse(((run.first_due, 0, 0), number))).collect();
        let mut open: Vec<Option<Reading>> = self.runs.iter().map(|_| None).collect();
        while let Some(Reverse((_, number))) = waiting.pop() {
            let run = &self.runs[number];
            let fresh =
                || Reading { at: run.at, end: run.end, held: Vec::new(), taken: 0, due: run.first_due, next: None };
            let is_fresh = open[number].is_none();
            let reading = open[number].get_or_insert_with(fresh);
            if is_fresh {
                reading.advance(&self.file, numbers)?;
            }
            while let Some((key, length)) = reading.next {
                if let Some(Reverse((other, _))) = waiting.peek() {
                    if key > *other {
                        break;
                    }
                }
                take(key, reading.row(&self.file, length)?)?;
                reading.advance(&self.file, numbers)?;
            }
            match reading.next {
                Some((key, _)) => waiting.push(Reverse((key, number))),
                None => open[number] = None,
            }
        }
        Ok(())
    }
}

struct Reading {
    at: u64,
    end: u64,
    held: Vec<u8>,
    taken: usize,
    due: i64,
    next: Option<(Key, usize)>,
}

impl Reading {
    /// Hold so many bytes, or all that are left.
    fn hold(&mut self, file: &File, count: usize) -> io::Result<()> {
        let have = self.held.len() - self.taken;
        if have >= count || self.at == self.end {
            return Ok(());
        }
        self.held.drain(..self.taken);
        self.taken = 0;
        let more = (BUFFER.max(count - have) as u64).min(self.end - self.at) as usize;
        self.held.resize(have + more, 0);
        file.read_exact_at(&mut self.held[have..], self.at)?;
        self.at += more as u64;
        Ok(())
    }

    /// Read the numbers before the next row.
    fn advance(&mut self, file: &File, numbers: &[u32]) -> io::Result<()> {
        self.hold(file, HEAD)?;
        let mut taker = Taker(&self.held[self.taken..]);
        if taker.0.is_empty() {
            self.next = None;
            return Ok(());
        }
        self.due += taker.varint()? as i64;
        let session = numbers.get(taker.varint()? as usize).ok_or(io::ErrorKind::InvalidData)?;
        let key = (self.due, *session, taker.varint()? as i64);
        self.next = Some((key, taker.varint()? as usize));
        self.taken = self.held.len() - taker.0.len();
        Ok(())
    }

    fn row(&mut self, file: &File, length: usize) -> io::Result<&[u8]> {
        self.hold(file, length)?;
        let begin = self.taken;
        self.taken += length;
        self.held.get(begin..begin + length).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
