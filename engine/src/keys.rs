//! Keys that a server made: learned from answers, and sent in the place of the captured ones.
//!
//! `pgdyno.trace.engine.keys` says what stands before a message of the tape. A value that is none of a key's letters is
//! not taken: nothing that a server says becomes SQL.

use crate::tally::Tally;
use std::collections::HashMap;
use std::ops::Range;

const HEAD: usize = 4;
const LEARN: usize = 8;
const NAME: usize = 15;
const BOUND: u8 = 0;
const NUMBER: u8 = 2;
const LONGEST: usize = 64;

/// A key that an answer brings: its number, and the row and the field that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learn {
    pub key: u32,
    pub row: u16,
    pub field: u16,
}

/// A place of a message that names a key.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Name {
    key: u32,
    place: u8,
    message: usize,
    at: usize,
    length: usize,
}

/// What stands before a record's message: what is learned, where what it names is in the tape, and how long it is.
pub struct Block {
    pub learns: Vec<Learn>,
    pub names: Range<usize>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(number(bytes, at)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(number(bytes, at)?))
}

/// Take the block at the begin of a payload apart; the message begins where `names` ends. None where it is damaged.
pub fn block(tape: &[u8], payload: &Range<usize>) -> Option<Block> {
    let bytes = tape.get(payload.clone())?;
    let names = HEAD + usize::from(u16_at(bytes, 0)?) * LEARN;
    let end = names + usize::from(u16_at(bytes, 2)?) * NAME;
    bytes.get(..end)?;
    let learn = |one: &[u8]| Some(Learn { key: u32_at(one, 0)?, row: u16_at(one, 4)?, field: u16_at(one, 6)? });
    let learns = bytes[HEAD..names].chunks_exact(LEARN).map(learn).collect::<Option<_>>()?;
    Some(Block { learns, names: payload.start + names..payload.start + end })
}

/// The keys of a run, by their numbers.
#[derive(Default)]
pub struct KeyBook(HashMap<u32, Box<[u8]>>);

impl KeyBook {
    /// Take what a row of an answer brings.
    pub fn learn(&mut self, key: u32, value: &[u8], tally: &mut Tally) {
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        if !value.is_empty() && value.len() <= LONGEST && value.iter().all(is_key) {
            self.0.insert(key, value.into());
            tally.keys_learned += 1;
        }
    }

    /// Return a message with the keys of this run; where one is not known, it stays the captured one. None: damaged.
    pub fn message(&self, names: &[u8], message: &[u8], tally: &mut Tally) -> Option<Vec<u8>> {
        let mut found = message.to_vec();
        let mut grown = 0;
        for one in names.chunks_exact(NAME) {
            let name = Name {
                key: u32_at(one, 0)?,
                place: one[4],
                message: u32_at(one, 5)? as usize,
                at: u32_at(one, 9)? as usize,
                length: u16_at(one, 13)?.into(),
            };
            let value = self.0.get(&name.key).map(|value| &value[..]);
            let Some(value) = value.filter(|value| name.place != NUMBER || value.iter().all(u8::is_ascii_digit)) else {
                tally.keys_unknown += 1;
                continue;
            };
            let (at, more) = (name.at.checked_add_signed(grown)?, value.len() as isize - name.length as isize);
            found.get(at..at.checked_add(name.length)?)?;
            found.splice(at..at + name.length, value.iter().copied());
            add(&mut found, name.message + 1, more)?;
            if name.place == BOUND {
                add(&mut found, at.checked_sub(4)?, more)?;
            }
            grown += more;
            tally.keys_sent += 1;
        }
        Some(found)
    }
}

/// Add to a length that stands in a message.
fn add(message: &mut [u8], at: usize, more: isize) -> Option<()> {
    let old = i32::from_be_bytes(number(message, at)?);
    message.get_mut(at..at + 4)?.copy_from_slice(&(old.wrapping_add(more as i32)).to_be_bytes());
    Some(())
}

/// Give each key that a row of an answer brings; of a row that is cut, those that are whole.
pub fn of_row(learns: &[Learn], row: u32, body: &[u8], mut take: impl FnMut(u32, &[u8])) {
    if learns.iter().all(|one| u32::from(one.row) != row) {
        return;
    }
    let be_u16 = |at| Some(u16::from_be_bytes(number(body, at)?));
    let Some(count) = be_u16(0) else { return };
    let mut at = 2;
    for field in 0..count {
        let Some(length) = number(body, at).map(i32::from_be_bytes) else { return };
        at += 4;
        let Ok(length) = usize::try_from(length) else { continue };
        let Some(value) = body.get(at..at + length) else { return };
        for one in learns.iter().filter(|one| u32::from(one.row) == row && one.field == field) {
            take(one.key, value);
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: u32, place: u8, message: u32, at: u32, length: u16) -> Vec<u8> {
        let mut out = key.to_le_bytes().to_vec();
        out.push(place);
        out.extend(message.to_le_bytes());
        out.extend(at.to_le_bytes());
        out.extend(length.to_le_bytes());
        out
    }

    #[test]
    fn a_block_is_taken_apart_and_damage_is_none() {
        let mut bytes = vec![9, 1, 0, 2, 0];
        for number in [7u16, 0, 3, 1] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([name(7, BOUND, 0, 5, 2), name(8, NUMBER, 0, 9, 1)].concat());
        bytes.extend(b"Q");
        let found = block(&bytes, &(1..bytes.len())).unwrap();
        assert_eq!(found.learns, [Learn { key: 7, row: 3, field: 1 }]);
        assert_eq!((found.names.start, &bytes[found.names.end..]), (13, &b"Q"[..]));
        for end in 1..bytes.len() - 1 {
            assert!(block(&bytes, &(1..end)).is_none(), "{end}");
        }
    }

    #[test]
    fn places_have_the_keys_of_the_run() {
        let (mut book, mut tally) = (KeyBook::default(), Tally::default());
        for (key, value) in [(1, &b"12345"[..]), (2, b"id"), (3, b"1;DROP"), (4, b""), (5, &[b'1'; 65])] {
            book.learn(key, value, &mut tally);
        }
        assert_eq!(tally.keys_learned, 2);
        let names = [name(1, NUMBER, 0, 5, 2), name(2, NUMBER, 0, 8, 1), name(3, NUMBER, 0, 10, 1)].concat();
        let found = book.message(&names, b"Q\0\0\0\x0cab c d\0\0", &mut tally).unwrap();
        assert_eq!(found, b"Q\0\0\0\x0f12345 c d\0\0");
        assert_eq!((tally.keys_sent, tally.keys_unknown), (1, 2), "a name is no number, and becomes none");
        let found = book.message(&name(1, BOUND, 3, 12, 1), b"xxxB\0\0\0\x0a\0\0\0\x019z", &mut tally).unwrap();
        assert_eq!(found, b"xxxB\0\0\0\x0e\0\0\0\x0512345z");
        for at in [3, 40, u32::MAX] {
            assert!(book.message(&name(1, BOUND, 0, at, 60), b"Q\0\0\0\x04", &mut tally).is_none());
        }
    }

    #[test]
    fn a_row_gives_what_is_asked_for() {
        let learns = [Learn { key: 7, row: 1, field: 0 }, Learn { key: 8, row: 1, field: 2 }];
        let body = b"\0\x03\0\0\0\x0217\xff\xff\xff\xff\0\0\0\x01x";
        let of = |row, body: &[u8]| {
            let mut found = Vec::new();
            of_row(&learns, row, body, |key, value| found.push((key, value.to_vec())));
            found
        };
        assert_eq!(of(1, body), [(7, b"17".to_vec()), (8, b"x".to_vec())]);
        assert_eq!(of(0, body), []);
        for end in 0..body.len() {
            assert!(of(1, &body[..end]).len() < 2, "{end}");
        }
    }
}
