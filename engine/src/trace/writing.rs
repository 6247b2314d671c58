//! The finished trace: rows in their order, with sessions numbered, as Parquet.

use super::bytes::Taker;
use super::parquet::Writer;
use super::rows::KINDS;
use super::segments::Builder;
use super::spill::Key;
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
