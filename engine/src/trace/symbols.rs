//! Texts that come again and again, by number; a bounded table, so that other texts stay what they are.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

const MOST: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told<'a> {
    Nothing,
    Text(&'a [u8]),
    Symbol(u32),
}

#[derive(Default)]
pub struct Symbols {
    known: HashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
    bytes: usize,
    last: [u32; 4],
}

impl Symbols {
    pub fn of<'a>(&mut self, text: Option<&'a [u8]>) -> Told<'a> {
        let Some(text) = text else { return Told::Nothing };
        if let Some(number) = self.known.get(text) {
            return Told::Symbol(*number);
        }
        if self.texts.len() >= MOST || self.bytes + text.len() > MOST_BYTES {
            return Told::Text(text);
        }
        let number = self.texts.len() as u32;
        self.known.insert(text.into(), number);
        self.texts.push(text.into());
        self.bytes += text.len();
        Told::Symbol(number)
    }

    /// The same for one of four columns whose texts mostly are the ones of the row before.
    pub fn again<'a>(&mut self, column: usize, text: Option<&'a [u8]>) -> Told<'a> {
        let last = self.last[column];
        if text.is_some() && self.texts.get(last as usize).map(|known| &**known) == text {
            return Told::Symbol(last);
        }
        let told = self.of(text);
        if let Told::Symbol(number) = told {
            self.last[column] = number;
        }
        told
    }

    pub fn text<'a>(&'a self, told: Told<'a>) -> Option<&'a [u8]> {
        match told {
            Told::Nothing => None,
            Told::Text(text) => Some(text),
            Told::Symbol(number) => self.texts.get(number as usize).map(|text| &**text),
        }
    }
}

/// For keys that are hashes already.
#[derive(Default, Clone)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl BuildHasher for Hashed {
    type Hasher = Hashed;

    fn build_hasher(&self) -> Hashed {
        Hashed(0)
    }
}
