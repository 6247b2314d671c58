//! Numbers and texts one after another, as rows are put down between reading and writing, and as the two programs talk.

use super::symbols::Told;
use std::io;

const NO_TEXT: u32 = u32::MAX;

pub fn put_count(out: &mut Vec<u8>, count: Option<usize>) {
    out.extend_from_slice(&count.map_or(NO_TEXT, |count| count as u32).to_le_bytes());
}

pub fn put_text(out: &mut Vec<u8>, text: Option<&[u8]>) {
    put_count(out, text.map(<[u8]>::len));
    out.extend_from_slice(text.unwrap_or_default());
}

/// Append a number that is small in most cases.
pub fn put_small(out: &mut Vec<u8>, number: i64) {
    put_varint(out, ((number << 1) ^ (number >> 63)) as u64);
}

pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn put_told(out: &mut Vec<u8>, told: Told) {
    match told {
        Told::Nothing => out.push(0),
        Told::Text(text) => {
            out.push(1);
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
        Told::Symbol(number) => put_varint(out, u64::from(number) + 2),
    }
}

/// Takes off the begin what was put.
pub struct Taker<'a>(pub &'a [u8]);

impl<'a> Taker<'a> {
    fn bytes(&mut self, count: usize) -> io::Result<&'a [u8]> {
        if count > self.0.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (found, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(found)
    }

    pub fn text(&mut self) -> io::Result<Option<&'a [u8]>> {
        match u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")) {
            NO_TEXT => Ok(None),
            length => Ok(Some(self.bytes(length as usize)?)),
        }
    }

    pub fn varint(&mut self) -> io::Result<u64> {
        let (mut number, mut shift) = (0, 0);
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    pub fn small(&mut self) -> io::Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn told(&mut self) -> io::Result<Told<'a>> {
        Ok(match self.varint()? {
            0 => Told::Nothing,
            1 => {
                let length = self.varint()?;
                Told::Text(self.bytes(length as usize)?)
            }
            number => Told::Symbol((number - 2) as u32),
        })
    }
}
