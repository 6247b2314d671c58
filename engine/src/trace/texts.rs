//! Texts of a column while its row group is filled.

use super::symbols::{Hashed, Symbols, Told};
use std::collections::hash_map::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

const MOST_IN_DICTIONARY: usize = 1 << 14;

/// Texts, each kept once as long as few are different.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    pub ends: Vec<usize>,
    pub chosen: Vec<u32>,
    known: HashMap<u64, u32, Hashed>,
    /// What is chosen for a symbol, and 1 more; 0 for none.
    of_symbol: Vec<u32>,
    plain_bytes: usize,
}

impl Texts {
    fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let begin = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[begin..self.ends[number]]
    }

    pub fn put_told(&mut self, told: Told, symbols: &Symbols, hasher: &RandomState) -> usize {
        let text = symbols.text(told).unwrap_or_default();
        if let Told::Symbol(symbol) = told {
            let symbol = symbol as usize;
            if symbol >= self.of_symbol.len() {
                self.of_symbol.resize(symbol + 1, 0);
            }
            match self.of_symbol[symbol] {
                0 => {
                    self.put(text, hasher);
                    self.of_symbol[symbol] = self.chosen.last().map_or(0, |number| number + 1);
                }
                number => {
                    self.plain_bytes += text.len() + 4;
                    self.chosen.push(number - 1);
                }
            }
        } else {
            self.put(text, hasher);
        }
        text.len()
    }

    fn put(&mut self, text: &[u8], hasher: &RandomState) {
        self.plain_bytes += text.len() + 4;
        if let Some(last) = self.chosen.last().copied() {
            if self.get(last) == text {
                self.chosen.push(last);
                return;
            }
        }
        let fresh = self.ends.len() as u32;
        let mut number = fresh;
        if self.ends.len() < MOST_IN_DICTIONARY {
            let found = *self.known.entry(hasher.hash_one(text)).or_insert(fresh);
            if found < fresh && self.get(found) == text {
                number = found;
            }
        }
        if number == fresh {
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
        }
        self.chosen.push(number);
    }

    pub fn is_dictionary(&self) -> bool {
        self.ends.len() < MOST_IN_DICTIONARY && 4 * (self.bytes.len() + 4 * self.ends.len()) < 3 * self.plain_bytes
    }

    pub fn put_all(&self, numbers: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
        for number in numbers {
            let text = self.get(number);
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text);
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.chosen.clear();
        self.known.clear();
        self.of_symbol.clear();
        self.plain_bytes = 0;
    }
}
