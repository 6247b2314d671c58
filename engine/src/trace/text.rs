//! Parts of a text, and what is looked for in texts: the same as the regular expressions of `trace/lines.py` and
//! `trace/rows.py` find, whose white space and word ends are ASCII.

/// A part of the text of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub at: u32,
    pub len: u32,
}

impl Span {
    /// What csvlog has for NULL.
    pub const NONE: Span = Span { at: u32::MAX, len: 0 };

    pub fn is_some(self) -> bool {
        self.at != u32::MAX
    }

    pub fn of(self, text: &[u8]) -> Option<&[u8]> {
        self.is_some().then(|| &text[self.at as usize..(self.at + self.len) as usize])
    }

    /// What follows so many of its bytes.
    pub fn from(self, skipped: usize) -> Span {
        Span { at: self.at + skipped as u32, len: self.len - skipped as u32 }
    }

    pub fn first(self, len: usize) -> Span {
        Span { at: self.at, len: len as u32 }
    }
}

/// Where a byte is next, eight at a time.
pub fn find_byte(text: &[u8], from: usize, wanted: u8) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let pattern = LOW * u64::from(wanted);
    let mut at = from;
    while let Some(eight) = text.get(at..at + 8) {
        let differs = u64::from_le_bytes(eight.try_into().expect("eight bytes")) ^ pattern;
        let hits = differs.wrapping_sub(LOW) & !differs & (LOW << 7);
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text[at.min(text.len())..].iter().position(|byte| *byte == wanted).map(|more| at + more)
}

/// Where a text is next in another.
pub fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = find_byte(text, at, wanted[0]) {
        if text[found..].starts_with(wanted) {
            return Some(found);
        }
        at = found + 1;
    }
    None
}

pub fn contains(text: &[u8], wanted: &[u8]) -> bool {
    find(text, wanted).is_some()
}

/// Characters of a text in UTF-8.
pub fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// What follows so many characters.
pub fn skip_characters(text: &[u8], count: usize) -> usize {
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80);
    starts.map(|(at, _)| at).nth(count).unwrap_or(text.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub fn ends_word(text: &[u8], at: usize) -> bool {
    !text.get(at).is_some_and(|byte| is_word(*byte))
}

/// A place in a text from which on words are expected.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn spaces(&mut self) -> bool {
        let before = self.at;
        while self.text.get(self.at).is_some_and(|byte| is_space(*byte)) {
            self.at += 1;
        }
        self.at > before
    }

    fn word(&mut self, words: &[&str]) -> bool {
        let rest = &self.text[self.at..];
        for word in words {
            if rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word.as_bytes()) {
                self.at += word.len();
                return true;
            }
        }
        false
    }

    /// Take white space and a word, or nothing.
    fn spaced(&mut self, words: &[&str]) -> bool {
        let before = self.at;
        let is_there = self.spaces() && self.word(words);
        if !is_there {
            self.at = before;
        }
        is_there
    }

    fn ends(&mut self) -> bool {
        self.spaces();
        if self.text.get(self.at) == Some(&b';') {
            self.at += 1;
        }
        self.spaces();
        self.at == self.text.len()
    }
}

/// Whether a statement begins a transaction: 1, ends one: 2, or does neither: 0.
pub fn control(sql: &[u8]) -> u8 {
    let mut words = Words { text: sql, at: 0 };
    words.spaces();
    if words.word(&["begin"]) || (words.word(&["start"]) && words.spaced(&["transaction"])) {
        return u8::from(ends_word(sql, words.at));
    }
    if sql.len() < 1200 && characters(sql) < 300 && ends_transaction(sql) {
        return 2;
    }
    0
}

fn ends_transaction(sql: &[u8]) -> bool {
    let mut words = Words { text: sql, at: 0 };
    words.spaces();
    if words.word(&["commit", "end", "rollback", "abort"]) {
        words.spaced(&["work", "transaction"]);
        let before = words.at;
        if words.spaced(&["and"]) {
            words.spaced(&["no"]);
            if !words.spaced(&["chain"]) {
                words.at = before;
            }
        }
        return words.ends();
    }
    if !(words.word(&["prepare"]) && words.spaced(&["transaction"]) && words.spaces()) {
        return false;
    }
    let name = &sql[words.at..];
    words.at += find_byte(name, 0, b';').unwrap_or(name.len());
    words.ends()
}

/// Whether there is a `$1`.
pub fn has_parameters(sql: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = find_byte(sql, at, b'$') {
        if sql.get(found + 1).is_some_and(u8::is_ascii_digit) {
            return true;
        }
        at = found + 1;
    }
    false
}

/// Whether there is a `$1` that is in no constant.
pub fn binds_parameters(sql: &[u8]) -> bool {
    let mut key = Vec::new();
    if has_parameters(sql) {
        without_constants(sql, &mut key);
    }
    has_parameters(&key)
}

/// Whether there is a `$1` and no other parameter, constants aside.
pub fn binds_one(sql: &[u8]) -> bool {
    let mut key = Vec::new();
    without_constants(sql, &mut key);
    let (mut at, mut found) = (0, false);
    while let Some(dollar) = find_byte(&key, at, b'$') {
        at = dollar + 1;
        let digits = key[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 && &key[at..at + digits] != b"1" {
            return false;
        }
        found |= digits > 0;
    }
    found
}

/// Where the literal ends whose quote is at this place: quotes in it are doubled. Of one without an end, where its last
/// pair of quotes would end it; None where nothing does.
pub fn literal_end(text: &[u8], quote: usize) -> Option<usize> {
    let (mut at, mut last_pair) = (quote + 1, None);
    while let Some(found) = find_byte(text, at, b'\'') {
        if text.get(found + 1) != Some(&b'\'') {
            return Some(found + 1);
        }
        last_pair = Some(found + 1);
        at = found + 2;
    }
    last_pair
}

/// Append a statement without its constants, which do not matter to a fingerprint: few texts are left then.
pub fn without_constants(sql: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    if !has_plain_constants(sql) {
        out.extend_from_slice(sql);
        return;
    }
    let mut at = 0;
    while at < sql.len() {
        let byte = sql[at];
        if byte == b'\'' {
            if let Some(end) = literal_end(sql, at) {
                out.extend_from_slice(b"''");
                at = end;
                continue;
            }
        }
        let is_number = byte.is_ascii_digit()
            && out.len() > begin
            && matches!(out[out.len() - 1], b' ' | b'=' | b'(' | b',' | b'+' | b'*' | b'/' | b'<' | b'>' | b'-')
            && at > 0;
        if is_number {
            if let Some(end) = number_end(sql, at) {
                out.push(b'0');
                at = end;
                continue;
            }
        }
        out.push(byte);
        at += 1;
    }
}

/// A statement of rows without quoted names, comments, or quotes by dollars.
fn has_plain_constants(sql: &[u8]) -> bool {
    let mut words = Words { text: sql, at: 0 };
    words.spaces();
    if !words.word(&["select", "insert", "update", "delete", "with", "values"]) || !ends_word(sql, words.at) {
        return false;
    }
    for (at, byte) in sql.iter().enumerate() {
        let next = sql.get(at + 1);
        let is_other = match byte {
            b'"' | b'\\' => true,
            b'-' => next == Some(&b'-'),
            b'/' => next == Some(&b'*'),
            b'$' => {
                let rest = &sql[at + 1..];
                let name = rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
                rest.get(name) == Some(&b'$')
            }
            _ => false,
        };
        if is_other {
            return false;
        }
    }
    true
}

fn number_end(sql: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| from + sql[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(at);
    if sql.get(whole) == Some(&b'.') {
        let end = digits(whole + 1);
        if end > whole + 1 && ends_word(sql, end) {
            return Some(end);
        }
    }
    ends_word(sql, whole).then_some(whole)
}

/// Whether a text is in UTF-8 without NUL; its last letter may be cut.
pub fn check_text(text: &[u8], at_end: bool) -> Result<(), &'static str> {
    if let Err(error) = std::str::from_utf8(text) {
        if at_end || error.error_len().is_some() {
            return Err("it is not in UTF-8");
        }
    }
    let holds_nul = |part: &[u8]| part.iter().fold(false, |found, byte| found | (*byte == 0));
    if text.chunks(4096).any(holds_nul) {
        return Err("it holds a NUL byte");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sql: &str) -> String {
        let mut out = Vec::new();
        without_constants(sql.as_bytes(), &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn constants_go_and_names_stay() {
        assert_eq!(
            key("select t1.a from t1 where b = 12.5 and c='it''s' -3"),
            "select t1.a from t1 where b = 0 and c='' -0"
        );
        assert_eq!(key("select 5x, 7.5y,8.5.6"), "select 5x, 0.5y,0.6");
        assert_eq!(key("select 'a''b"), "select '''b");
        assert_eq!(key("select \"a\" = 5"), "select \"a\" = 5");
        assert_eq!(key("call f(5)"), "call f(5)");
    }

    #[test]
    fn words_of_transactions() {
        for (sql, wanted) in [
            ("BEGIN;", 1),
            ("start  transaction read only", 1),
            ("beginning", 0),
            ("start", 0),
            (" end ; ", 2),
            ("commit and no chain", 2),
            ("rollback to a", 0),
            ("prepare transaction 'x' ;", 2),
            ("", 0),
            ("prepare transaction 'x'; select 1", 0),
            ("abort work", 2),
            ("commit and", 0),
        ] {
            assert_eq!(control(sql.as_bytes()), wanted, "{sql}");
        }
    }

    #[test]
    fn bytes_are_found_where_they_are() {
        let text = b"0123456789abcdef0";
        for (at, byte) in text.iter().enumerate().take(16) {
            assert_eq!(find_byte(text, 0, *byte), Some(at));
        }
        assert_eq!(find_byte(text, 1, b'0'), Some(16));
        assert_eq!(find_byte(text, 0, b'x'), None);
        assert_eq!(find(text, b"9ab"), Some(9));
    }
}
