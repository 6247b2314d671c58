//! Texts of statements without their constants: their fingerprints and judgements are asked for once.

use super::ask;
use super::lines::Line;
use super::pairing::Row;
use super::rows::{Judged, RowMaker};
use super::symbols::{Hashed, Told};
use super::text::without_constants;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io;

const MOST_KNOWN: usize = 50_000;
const MOST_KNOWN_BYTES: usize = 16 << 20;
const MOST_TEXTS: usize = 20_000;
/// In place of a number, where a row has no text.
pub const NO_KEY: u32 = u32::MAX;

/// Texts without their constants, and what is known of them.
#[derive(Default)]
pub struct KnownTexts {
    by_key: HashMap<Box<[u8]>, u32>,
    /// By the hash of a whole text, which spares to take its constants away.
    by_text: HashMap<u64, (u32, Option<u32>), Hashed>,
    pub judged: Vec<Judged>,
    bytes: usize,
}

impl KnownTexts {
    /// Return what is known of the text of each row, after having asked for what is not, and its symbol if it came again.
    pub fn judge(
        &mut self,
        maker: &mut RowMaker,
        rows: &[(i64, Row)],
        lines: &[Line],
        text: &[u8],
    ) -> io::Result<Vec<(u32, Option<u32>)>> {
        if self.by_key.len() > MOST_KNOWN || self.bytes > MOST_KNOWN_BYTES {
            *self = KnownTexts::default();
        }
        if self.by_text.len() > MOST_TEXTS {
            self.by_text.clear();
        }
        let mut fresh: Vec<Box<[u8]>> = Vec::new();
        let mut key = Vec::new();
        let mut found = Vec::with_capacity(rows.len());
        for (_, row) in rows {
            let line = &lines[row.source];
            let Some(sql) = line.sql.of(text) else {
                found.push((NO_KEY, None));
                continue;
            };
            let hash = maker.hasher.hash_one(sql);
            if let Some((number, symbol)) = self.by_text.get_mut(&hash) {
                if symbol.is_none() {
                    if let Told::Symbol(fresh) = maker.symbols.of(Some(sql)) {
                        *symbol = Some(fresh);
                    }
                }
                found.push((*number, *symbol));
                continue;
            }
            key.clear();
            without_constants(sql, &mut key);
            let number = match self.by_key.get(&key[..]) {
                Some(number) => *number,
                None => {
                    let number = self.by_key.len() as u32;
                    self.by_key.insert(key[..].into(), number);
                    fresh.push(key[..].into());
                    number
                }
            };
            self.by_text.insert(hash, (number, None));
            found.push((number, None));
        }
        if !fresh.is_empty() {
            let texts: Vec<&[u8]> = fresh.iter().map(|text| &**text).collect();
            self.judged.extend(ask(&texts)?);
            self.bytes += texts.iter().map(|text| text.len()).sum::<usize>();
        }
        Ok(found)
    }
}
