//! Records of csvlog taken apart, strictly: what PostgreSQL does not write is left to the Python builder.

use super::text::{find_byte, Span};

pub const MOST_FIELDS: usize = 26;
pub const COLUMNS: [usize; 3] = [23, 24, 26];

#[derive(Clone, Copy)]
pub struct Field {
    pub span: Span,
    pub is_doubled: bool,
}

pub struct Record {
    pub fields: [Field; MOST_FIELDS],
    pub count: usize,
    pub end: usize,
}

impl Record {
    pub fn new() -> Record {
        Record { fields: [Field { span: Span::NONE, is_doubled: false }; MOST_FIELDS], count: 0, end: 0 }
    }

    /// Read the record that begins here; false where its end is missing. The text stays as it is.
    pub fn read(&mut self, text: &[u8], begin: usize) -> Result<bool, &'static str> {
        let mut at = begin;
        self.count = 0;
        loop {
            let (from, to, after, is_doubled);
            if text.get(at) == Some(&b'"') {
                let Some((end, doubled)) = quoted_end(text, at + 1) else { return Ok(false) };
                (from, to, after, is_doubled) = (at + 1, end, end + 1, doubled);
            } else {
                let Some(end) = bare_end(text, at)? else { return Ok(false) };
                (from, to, after, is_doubled) = (at, end, end, false);
            }
            if self.count == MOST_FIELDS {
                return Err("a record has too many fields");
            }
            let span = if to > from { Span { at: from as u32, len: (to - from) as u32 } } else { Span::NONE };
            self.fields[self.count] = Field { span, is_doubled };
            self.count += 1;
            match text.get(after) {
                None => return Ok(false),
                Some(b',') => at = after + 1,
                Some(b'\n') => {
                    self.end = after + 1;
                    return Ok(true);
                }
                Some(_) => return Err("a quote ends within a field"),
            }
        }
    }

    /// Give a field with its doubled quotes made single in place; the record is not read again.
    pub fn take(&mut self, text: &mut [u8], number: usize) -> Span {
        if number >= self.count {
            return Span::NONE;
        }
        let Field { span, is_doubled } = self.fields[number];
        if !is_doubled {
            return span;
        }
        let (mut from, mut to, end) = (span.at as usize, span.at as usize, (span.at + span.len) as usize);
        while from < end {
            let stop = find_byte(&text[..end], from, b'"').map_or(end, |quote| quote + 1);
            text.copy_within(from..stop, to);
            to += stop - from;
            from = stop + 1;
        }
        Span { at: span.at, len: to as u32 - span.at }
    }
}

fn quoted_end(text: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut is_doubled) = (from, false);
    loop {
        let quote = find_byte(text, at, b'"')?;
        if text.get(quote + 1) != Some(&b'"') {
            return Some((quote, is_doubled));
        }
        is_doubled = true;
        at = quote + 2;
    }
}

fn bare_end(text: &[u8], from: usize) -> Result<Option<usize>, &'static str> {
    for (at, byte) in text.iter().enumerate().skip(from) {
        match byte {
            b',' | b'\n' => return Ok(Some(at)),
            b'"' | b'\r' => return Err("a field without quotes holds what needs them"),
            _ => (),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_made_single_and_ends_are_missed() {
        let mut text = b"a,\"x\"\"y\"\"\",,\"\"\nrest,\"".to_vec();
        let mut record = Record::new();
        assert_eq!(record.read(&text, 0), Ok(true));
        assert_eq!((record.count, record.end), (4, 15));
        assert_eq!(record.take(&mut text, 1).of(&text), Some(&b"x\"y\""[..]));
        assert!(!record.take(&mut text, 2).is_some() && !record.take(&mut text, 3).is_some());
        assert_eq!(record.read(&text, 15), Ok(false));
        assert!(record.read(b"a\"b\n", 0).is_err());
        assert!(record.read(b"\"a\"b\n", 0).is_err());
    }
}
