//! One session of a replay: where it is in the tape, what it waits for, and what the server has answered so far.

use crate::keys::{of_row, Learn};
use crate::tape::{SqlState, NO_ERROR};
use crate::wire::rows_of;
use std::fs::File;
use std::ops::Range;

/// Bytes of a message that is waited for; what an error has beyond them is passed over.
const LONGEST: usize = 65536;

/// Why a statement was not sent: `pgdyno.trace.engine.records.Skip`.
pub mod skip {
    pub const SENT: u8 = 0;
    pub const REFUSED: u8 = 1;
    pub const NOT_CONNECTED: u8 = 2;
    pub const CONNECTION_LOST: u8 = 3;
    pub const RUN_ENDED: u8 = 4;
    pub const PIPELINE_FAILED: u8 = 5;
}

/// Its place in the tape's index, its connection, and the statement that it is at; times in us, -1 for not yet.
#[derive(Default)]
pub struct Session {
    pub ordinal: u32,
    pub place: u64,
    /// Place of the first record that is not its own.
    pub last: u64,
    pub connection: Option<File>,
    pub pid: i32,
    pub key: Vec<u8>,
    pub restore_role: Vec<u8>,
    /// Why nothing more is sent.
    pub lost: u8,

    pub seq: u32,
    pub act: u8,
    pub flags: u8,
    pub cancel_us: i64,
    pub expected: SqlState,
    /// Of the payload in the tape.
    pub payload: Range<usize>,
    /// Places of the message that name keys, in the tape.
    pub names: Range<usize>,
    pub gates: Vec<(u32, u32)>,
    /// Sessions with a gate that this one opens.
    pub waiting: Vec<u32>,
    /// The seq of its last statement that ended; -1 for none.
    pub ended_seq: i64,
    /// It is due, and a gate is closed.
    pub is_held: bool,

    pub due: i64,
    /// By how much pauses of the run have shifted its schedule.
    pub shift: i64,
    pub sent: i64,
    pub first: i64,
    pub previous_done: i64,
    /// When its last gate opened; -1 where none held it.
    pub released: i64,
    /// By how much we were late at its last statement, or in reading the answer.
    pub debt: i64,
    pub is_busy: bool,
    /// A statement of its pipeline failed, so that the others are not sent.
    pub is_broken: bool,
    /// It is at a statement of ours, after one that reset its role.
    pub is_restoring: bool,
    /// What of the tape the socket did not take yet.
    pub unsent: Range<usize>,
    /// Messages of ours that it did not take yet, after those.
    pub unsent_own: Vec<u8>,
    /// Its socket is watched for room to write.
    pub watches_room: bool,
    pub answer: Answer,
}

impl Session {
    /// Tell whether the server is at something of ours.
    pub fn is_at_work(&self) -> bool {
        self.is_busy && self.connection.is_some()
    }

    /// Tell whether it is at something that a pause of the run lets end: a statement, or a transaction.
    pub fn is_open(&self) -> bool {
        self.is_busy || self.answer.in_transaction
    }
}

/// What has come of an answer.
#[derive(Default, Debug, Clone, PartialEq)]
pub struct Answer {
    pub rows: i64,
    pub received: u64,
    pub sqlstate: SqlState,
    /// A transaction is open, failed or not, by what the server said last.
    pub in_transaction: bool,
    /// The server waits for data of a COPY.
    pub wants_copy: bool,
    /// In a pipeline: so many things has the server to close until the statement is answered, without being ready.
    pub closes: u8,
    /// A statement of a pipeline failed: the server waits for its end.
    pub wants_sync: bool,
    /// Keys that it brings.
    pub learns: Vec<Learn>,
    /// Those that have come, by their numbers.
    pub brought: Vec<(u32, Vec<u8>)>,
    /// The next row, where keys are waited for.
    row: u32,
    /// The begin of a message whose rest has not come.
    pub partial: Vec<u8>,
    /// Bytes of a message that is passed over and have not come.
    passing: usize,
}

impl Answer {
    /// Begin the next statement's answer.
    pub fn reset(&mut self) {
        (self.rows, self.received, self.sqlstate) = (-1, 0, NO_ERROR);
    }

    /// Forget what a connection that is no more has begun to say.
    pub fn forget(&mut self) {
        self.partial.clear();
        (self.passing, self.wants_copy, self.in_transaction) = (0, false, false);
        (self.closes, self.wants_sync) = (0, false);
        self.forget_keys();
    }

    /// Wait for no keys any more.
    pub fn forget_keys(&mut self) {
        self.learns.clear();
        self.brought.clear();
        self.row = 0;
    }

    /// Take bytes apart; return whether the answer is whole: the server is ready for the next statement.
    ///
    /// Rows, notices and data of a COPY are counted and passed over, however large. The error is for what is not the
    /// protocol.
    pub fn take(&mut self, data: &[u8]) -> Result<bool, String> {
        self.received += data.len() as u64;
        if self.passing >= data.len() {
            self.passing -= data.len();
            return Ok(false);
        }
        let data = &data[self.passing..];
        self.passing = 0;
        if self.partial.is_empty() {
            let (is_ready, used) = self.parse(data)?;
            self.partial.extend_from_slice(&data[used..]);
            return Ok(is_ready);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(data);
        let (is_ready, used) = self.parse(&joined)?;
        joined.drain(..used);
        self.partial = joined;
        Ok(is_ready)
    }

    /// Take messages apart; return also how many bytes are done with.
    fn parse(&mut self, data: &[u8]) -> Result<(bool, usize), String> {
        let (mut rest, mut is_ready) = (data, false);
        while let [kind, l0, l1, l2, l3, body @ ..] = rest {
            let length = i32::from_be_bytes([*l0, *l1, *l2, *l3]);
            let is_row = *kind == b'D' && !self.learns.is_empty();
            let is_kept = is_row || matches!(kind, b'C' | b'E' | b'Z' | b'G');
            if length < 4 || (is_kept && !is_row && *kind != b'E' && length as usize > LONGEST) {
                return Err(format!("a message of {length} bytes"));
            }
            let size = length as usize - 4;
            let here = body.get(..size);
            let is_long = is_row && length as usize > LONGEST;
            if here.is_none() && is_kept && !is_long && rest.len() < LONGEST {
                break;
            }
            self.passing = size.saturating_sub(body.len());
            let content = here.unwrap_or(body);
            rest = &body[content.len()..];
            match kind {
                b'C' => {
                    if let Some(rows) = rows_of(content) {
                        self.rows = if self.rows < 0 { rows } else { self.rows.saturating_add(rows) };
                    }
                }
                b'Z' => {
                    is_ready = true;
                    self.in_transaction = matches!(content.first(), Some(b'T' | b'E'));
                }
                b'E' => {
                    self.sqlstate = code_of(content);
                    (self.wants_sync, self.closes) = (self.closes > 0, 0);
                }
                b'3' if self.closes > 0 => {
                    self.closes -= 1;
                    if self.closes == 0 {
                        (is_ready, self.in_transaction) = (true, true);
                    }
                }
                b'G' => self.wants_copy = true,
                b'D' if is_row => {
                    let (row, brought) = (self.row, &mut self.brought);
                    if !is_long {
                        of_row(&self.learns, row, content, |key, value| brought.push((key, value.to_vec())));
                    }
                    self.row = self.row.saturating_add(1);
                }
                _ => {}
            }
        }
        Ok((is_ready, data.len() - rest.len()))
    }
}

/// Return the SQLSTATE of an error.
fn code_of(body: &[u8]) -> SqlState {
    let code = body.split(|byte| *byte == 0).find(|part| part.first() == Some(&b'C'));
    code.and_then(|part| part[1..].get(..5)?.try_into().ok()).unwrap_or(*b"XX000")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message;

    fn answer() -> Vec<u8> {
        let mut error = b"SERROR\0VERROR\0C22012\0Mdivision by zero\0".to_vec();
        error.resize(67 - 4, b'x');
        [
            message(b'T', &[1; 300]),
            message(b'D', &[0; 5000]),
            message(b'C', b"SELECT 7\0"),
            message(b'N', b"SNOTICE\0C00000\0\0"),
            message(b'C', b"INSERT 0 2\0"),
            message(b'G', &[0; 3]),
            message(b'E', &error),
            message(b'Z', b"I"),
        ]
        .concat()
    }

    fn taken(data: &[u8], cuts: &mut dyn FnMut() -> usize) -> (Answer, Result<usize, String>) {
        let (mut found, mut ready, mut at) = (Answer::default(), 0, 0);
        found.reset();
        while at < data.len() {
            let end = (at + cuts()).min(data.len());
            match found.take(&data[at..end]) {
                Ok(is_ready) => ready += usize::from(is_ready),
                Err(error) => return (found, Err(error)),
            }
            assert!(found.partial.len() <= 2 * LONGEST, "no server fills our memory");
            at = end;
        }
        (found, Ok(ready))
    }

    /// Numbers that look random, the same in each run.
    fn lottery(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }

    #[test]
    fn however_an_answer_is_cut_it_says_the_same() {
        let data = answer();
        let (whole, ready) = taken(&data, &mut || usize::MAX / 2);
        assert_eq!((whole.rows, whole.received, whole.wants_copy, ready), (9, data.len() as u64, true, Ok(1)));
        assert_eq!(&whole.sqlstate, b"22012", "the length of that error, 67, is the letter C");
        for seed in 0..2000 {
            let mut draw = lottery(seed);
            assert_eq!(taken(&data, &mut || draw() as usize % 40 + 1), (whole.clone(), Ok(1)));
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_keep_much() {
        for seed in 0..3000 {
            let mut draw = lottery(seed);
            let mut data = answer();
            for _ in 0..draw() % 8 + 1 {
                let at = draw() as usize % data.len();
                data[at] = draw() as u8;
            }
            let _ = taken(&data, &mut || draw() as usize % 3000 + 1);
        }
    }

    #[test]
    fn a_statement_of_a_pipeline_is_answered_by_what_closes_it() {
        let done =
            [message(b'3', b""), message(b'2', b""), message(b'C', b"INSERT 0 1\0"), message(b'3', b"")].concat();
        for cut in 1..done.len() {
            let mut answer = Answer { closes: 2, ..Answer::default() };
            assert_eq!(answer.take(&done[..cut]), Ok(false));
            assert_eq!(answer.take(&done[cut..]), Ok(true));
            assert!(answer.in_transaction && !answer.wants_sync);
        }
        let mut answer = Answer { closes: 1, ..Answer::default() };
        assert_eq!(answer.take(&message(b'E', b"SERROR\0C23505\0\0")), Ok(false));
        assert!(answer.wants_sync && answer.closes == 0, "the server passes over everything until a Sync");
        assert_eq!(answer.take(&message(b'Z', b"I")), Ok(true));
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let mut error = message(b'E', b"SERROR\0C42601\0M");
        error[1..5].copy_from_slice(&10_000_000i32.to_be_bytes());
        error.resize(10_000_001, b'x');
        error.extend(message(b'Z', b"I"));
        let (found, ready) = taken(&error, &mut || LONGEST);
        assert_eq!((&found.sqlstate, ready, found.partial.len()), (b"42601", Ok(1), 0));
        for kind in [b"C", b"Z", b"G"] {
            let mut answer = Answer::default();
            assert!(answer.take(&[&kind[..], b"\x3b\x9a\xca\0"].concat()).is_err());
        }
        for length in [b"\xff\xff\xff\xff", b"\0\0\0\x03"] {
            assert!(Answer::default().take(&[b"D", &length[..]].concat()).is_err());
        }
    }
}
