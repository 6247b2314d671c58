//! A tape: what is to be sent. `pgdyno.trace.engine.tape` says how it is laid out and what its fields mean.

use crate::sys;
use std::fs::File;

pub const CONNECT: u8 = 0;
pub const SEND: u8 = 1;
pub const DISCONNECT: u8 = 2;
pub const SKIP: u8 = 3;
pub const RESETS_ROLE: u8 = 1;
pub const HAS_KEYS: u8 = 2;
pub const HOLDS: u8 = 4;
pub type SqlState = [u8; 5];
pub const NO_ERROR: SqlState = [0; 5];

const MAGIC: &[u8] = b"PGDYTAPE";
const VERSION: u32 = 3;
const HEADER_SIZE: usize = 40;
const RECORD_SIZE: usize = 45;
const GATE_SIZE: usize = 8;
const SESSION_SIZE: usize = 16;

/// A record but for its gates and its payload, which lie at `gates` and `payload`.
#[derive(Debug, Clone, Copy)]
pub struct TapeRecord {
    pub due: i64,
    pub think: i64,
    pub cancel: i64,
    pub seq: u32,
    pub act: u8,
    pub flags: u8,
    pub expected: SqlState,
    pub gates: usize,
    pub gate_count: usize,
    pub payload: usize,
    pub end: usize,
}

/// A session of a tape: its ordinal, and its records by their places in the index.
#[derive(Debug, Clone, Copy)]
pub struct TapeSession {
    pub ordinal: u32,
    pub first: u64,
    pub last: u64,
}

/// A whole tape, as it lies in memory.
#[derive(Clone, Copy)]
pub struct Tape {
    pub content: &'static [u8],
    index: usize,
    records: u64,
    table: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

impl Tape {
    /// Map a tape; the error says why the file is none.
    pub fn map(file: &File) -> Result<Tape, String> {
        let size = file.metadata().map_err(|error| format!("the tape cannot be read: {error}"))?.len();
        if size == 0 {
            return Err("the tape is empty".into());
        }
        Tape::of(sys::map(file, size as usize).map_err(|error| format!("the tape cannot be read: {error}"))?)
    }

    fn of(content: &'static [u8]) -> Result<Tape, String> {
        let field = |at| u64_at(content, at).unwrap_or(0);
        if content.len() < HEADER_SIZE || !content.starts_with(MAGIC) {
            return Err("the file is no tape".into());
        }
        let (version, sessions) = (field(8) as u32, field(8) >> 32);
        if version != VERSION {
            return Err(format!("a tape of version {version}; this engine reads {VERSION}"));
        }
        let (records, index, table) = (field(16), field(24), field(32));
        let ends = |begin: u64, count: u64, size: usize| begin.checked_add(count.checked_mul(size as u64)?);
        let is_whole =
            ends(index, records, 8) == Some(table) && ends(table, sessions, SESSION_SIZE) == Some(content.len() as u64);
        if !is_whole {
            return Err("the tape is not whole: whoever wrote it has not ended".into());
        }
        Ok(Tape { content, index: index as usize, records, table: table as usize })
    }

    /// Return the sessions, in the order in which they are due first.
    pub fn sessions(&self) -> impl Iterator<Item = TapeSession> {
        self.content[self.table..].chunks_exact(SESSION_SIZE).map(|row| {
            let first = u64_at(row, 4).unwrap_or(0);
            let count = u32_at(row, 12).unwrap_or(0);
            TapeSession { ordinal: u32_at(row, 0).unwrap_or(0), first, last: first.saturating_add(count.into()) }
        })
    }

    /// Return the record at a place of the index; None where the tape is damaged.
    #[inline]
    pub fn record(&self, place: u64) -> Option<TapeRecord> {
        if place >= self.records {
            return None;
        }
        let offset = usize::try_from(u64_at(self.content, self.index + 8 * place as usize)?).ok()?;
        let head: &[u8; RECORD_SIZE] = self.content.get(offset..offset.checked_add(RECORD_SIZE)?)?.try_into().ok()?;
        let gate_count = usize::from(u16::from_le_bytes([head[39], head[40]]));
        let gates = offset + RECORD_SIZE;
        let payload = gates + gate_count * GATE_SIZE;
        let end = payload + u32_at(head, 41)? as usize;
        if end > self.content.len() {
            return None;
        }
        Some(TapeRecord {
            due: u64_at(head, 0)? as i64,
            think: u64_at(head, 8)? as i64,
            cancel: u64_at(head, 16)? as i64,
            seq: u32_at(head, 28)?,
            act: head[32],
            flags: head[33],
            expected: [head[34], head[35], head[36], head[37], head[38]],
            gates,
            gate_count,
            payload,
            end,
        })
    }

    /// Return the gates of a record: a session, and its statement that must have ended.
    pub fn gates(&self, record: &TapeRecord) -> impl Iterator<Item = (u32, u32)> {
        self.content[record.gates..record.payload]
            .chunks_exact(GATE_SIZE)
            .map(|gate| (u32_at(gate, 0).unwrap_or(0), u32_at(gate, 4).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        for value in [1_000_000i64, -1, 7] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend([3, 0, 0, 0, 9, 0, 0, 0, SEND, RESETS_ROLE]);
        bytes.extend(b"23505");
        bytes.extend([1, 0, 4, 0, 0, 0]);
        bytes.extend([5, 0, 0, 0, 6, 0, 0, 0]);
        bytes.extend(b"data");
        let index = bytes.len() as u64;
        bytes.extend((HEADER_SIZE as u64).to_le_bytes());
        let table = bytes.len() as u64;
        bytes.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&[VERSION as u8, 0, 0, 0, 1, 0, 0, 0]);
        for (at, value) in [(16, 1), (24, index), (32, table)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn lasting(bytes: Vec<u8>) -> &'static [u8] {
        Box::leak(bytes.into_boxed_slice())
    }

    #[test]
    fn a_tape_is_read() {
        let tape = Tape::of(lasting(tape())).unwrap();
        let sessions: Vec<_> = tape.sessions().map(|one| (one.ordinal, one.first, one.last)).collect();
        assert_eq!(sessions, [(3, 0, 1)]);
        let record = tape.record(0).unwrap();
        assert_eq!((record.due, record.think, record.cancel), (1_000_000, -1, 7));
        assert_eq!((record.seq, record.act, record.flags, &record.expected), (9, SEND, RESETS_ROLE, b"23505"));
        assert_eq!(tape.gates(&record).collect::<Vec<_>>(), [(5, 6)]);
        assert_eq!(&tape.content[record.payload..record.end], b"data");
        assert!(tape.record(1).is_none());
    }

    #[test]
    fn a_damaged_one_is_refused_or_ends_at_the_damage() {
        let whole = tape();
        for end in 0..whole.len() {
            assert!(Tape::of(lasting(whole[..end].to_vec())).is_err(), "{end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(tape) = Tape::of(lasting(damaged)) {
                for session in tape.sessions() {
                    if let Some(record) = tape.record(session.first) {
                        assert!(tape.gates(&record).count() <= record.gate_count);
                    }
                }
            }
        }
    }
}
