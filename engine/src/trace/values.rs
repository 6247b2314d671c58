//! Bound values of a line: `$1 = 'a', $2 = NULL`, with quotes doubled; what `trace/rows.py` does by regular expressions.

use super::text::{characters, find, find_byte, literal_end};

/// Bound values: parts of a text, and which of them have doubled quotes.
#[derive(Default)]
pub struct Values {
    pub found: Vec<Option<(usize, usize)>>,
    /// The log does not hold them all as the server writes them.
    pub is_broken: bool,
}

impl Values {
    pub fn read(&mut self, told: &[u8]) {
        self.found.clear();
        let (mut at, mut length) = (0, 0);
        while let Some(begin) = find_byte(told, at, b'$') {
            at = begin + 1;
            let digits = told[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || !told[at + digits..].starts_with(b" = ") {
                continue;
            }
            let value = at + digits + 3;
            let end = if told[value..].starts_with(b"NULL") {
                self.found.push(None);
                value + 4
            } else if told.get(value) == Some(&b'\'') {
                let Some(end) = literal_end(told, value) else { continue };
                self.found.push(Some((value + 1, end - 1)));
                end
            } else {
                continue;
            };
            length += characters(&told[begin..end]);
            at = end;
        }
        let joints = 2 * self.found.len().saturating_sub(1);
        self.is_broken = length + joints != characters(told);
    }
}

/// Append a value with its quotes single.
pub fn put_single(out: &mut Vec<u8>, value: &[u8]) {
    let mut at = 0;
    while let Some(quote) = find_byte(value, at, b'\'') {
        out.extend_from_slice(&value[at..=quote]);
        at = quote + if value.get(quote + 1) == Some(&b'\'') { 2 } else { 1 };
    }
    out.extend_from_slice(&value[at..]);
}

/// The values in the context of an error.
pub fn in_context(context: &[u8]) -> Option<&[u8]> {
    const BEFORE: &[u8] = b" with parameters: ";
    find(context, b" with parameters: $1 = ").map(|at| &context[at + BEFORE.len()..])
}

/// The value that could not be read when it was bound, in the context of its error, where it is that of `$1`.
pub fn of_one(context: &[u8]) -> Option<&[u8]> {
    const BEFORE: &[u8] = b" parameter ";
    let mut rest = context;
    while let Some(at) = find(rest, b" parameter $1 = '") {
        rest = &rest[at + BEFORE.len()..];
        let is_closed = rest.iter().filter(|byte| **byte == b'\'').count() % 2 == 0;
        if is_closed && literal_end(rest, 5) == Some(rest.len()) {
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(told: &str) -> (Vec<Option<String>>, bool) {
        let mut values = Values::default();
        values.read(told.as_bytes());
        let texts = values.found.iter().map(|one| {
            one.map(|(from, to)| {
                let mut out = Vec::new();
                put_single(&mut out, &told.as_bytes()[from..to]);
                String::from_utf8(out).expect("UTF-8")
            })
        });
        (texts.collect(), values.is_broken)
    }

    #[test]
    fn values_come_back_as_they_were_bound() {
        let some = |text: &str| Some(text.to_string());
        assert_eq!(
            values("$1 = 'a''b', $2 = NULL, $3 = 'é, $4 = NULL'"),
            (vec![some("a'b"), None, some("é, $4 = NULL")], false)
        );
        assert_eq!(values("$1 = 'a', $2 = 'cut"), (vec![some("a")], true));
        assert_eq!(values("$1 = 'a''b"), (vec![some("a")], true));
        assert_eq!(of_one(b"unnamed portal parameter $1 = 'a''b'"), Some(&b"$1 = 'a''b'"[..]));
        assert!(
            of_one(b"unnamed portal parameter $1 = 'a' more").is_none() && of_one(b"a parameter $2 = 'a'").is_none()
        );
        assert_eq!(in_context(b"x\nportal \"\" with parameters: $1 = 'a'"), Some(&b"$1 = 'a'"[..]));
    }
}
