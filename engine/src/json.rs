//! JSON as far as a plan needs it: read whole, with a bound on how deep it nests; texts written for progress.

use std::fmt::Write;

const DEEPEST: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Read a document; the error says at which byte it is none.
pub fn read(text: &str) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0 };
    let found = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return reader.wrong();
    }
    Ok(found)
}

/// Append a text as JSON has it, in ASCII but for what needs none.
pub fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong<T>(&self) -> Result<T, String> {
        Err(format!("no JSON at byte {}", self.at))
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn is(&mut self, letter: u8) -> bool {
        self.space();
        let found = self.next() == Some(letter);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.space();
        if depth > DEEPEST {
            return self.wrong();
        }
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match self.next() {
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'[') => {
                self.at += 1;
                let mut list = Vec::new();
                if self.is(b']') {
                    return Ok(Json::List(list));
                }
                loop {
                    list.push(self.value(depth + 1)?);
                    if self.is(b']') {
                        return Ok(Json::List(list));
                    }
                    if !self.is(b',') {
                        return self.wrong();
                    }
                }
            }
            Some(b'{') => {
                self.at += 1;
                let mut members = Vec::new();
                if self.is(b'}') {
                    return Ok(Json::Object(members));
                }
                loop {
                    self.space();
                    let name = self.string()?;
                    if !self.is(b':') {
                        return self.wrong();
                    }
                    members.push((name, self.value(depth + 1)?));
                    if self.is(b'}') {
                        return Ok(Json::Object(members));
                    }
                    if !self.is(b',') {
                        return self.wrong();
                    }
                }
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let begin = self.at;
        while matches!(self.next(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        match self.text[begin..self.at].parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Json::Number(number)),
            _ => self.wrong(),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if self.next() != Some(b'"') {
            return self.wrong();
        }
        self.at += 1;
        let mut found = String::new();
        loop {
            let plain = self.text.as_bytes()[self.at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=31));
            let Some(size) = plain else { return self.wrong() };
            found.push_str(&self.text[self.at..self.at + size]);
            self.at += size;
            match self.next() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(found);
                }
                Some(b'\\') => found.push(self.escape()?),
                _ => return self.wrong(),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let letter = self.next();
        self.at += 1;
        Ok(match letter {
            Some(same @ (b'"' | b'\\' | b'/')) => same as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut code = self.hexadecimal()?;
                if (0xd800..0xdc00).contains(&code) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.hexadecimal()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return self.wrong();
                    }
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                match char::from_u32(code) {
                    Some(found) => found,
                    None => return self.wrong(),
                }
            }
            _ => return self.wrong(),
        })
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or(b"");
        if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return self.wrong();
        }
        let code = u32::from_str_radix(&self.text[self.at..self.at + 4], 16);
        self.at += 4;
        code.or_else(|_| self.wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        let text = r#"{"a": [1, -2.5e3, null, true], "b": {}, "\u00fc\ud83d\ude00": "x\n\"\\\/\u0001ü"}"#;
        let Ok(Json::Object(members)) = read(text) else { panic!("{:?}", read(text)) };
        let list = vec![Json::Number(1.0), Json::Number(-2500.0), Json::Null, Json::Bool(true)];
        assert_eq!(members[0], ("a".into(), Json::List(list)));
        assert_eq!(members[1], ("b".into(), Json::Object(vec![])));
        assert_eq!(members[2], ("ü😀".into(), Json::Text("x\n\"\\/\u{1}ü".into())));
    }

    #[test]
    fn what_is_none_is_refused_and_nothing_panics() {
        let whole = r#"{"a": [1, "\u00fc\ud83d\ude00ü", {"b": false}]}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert!(read(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        for text in [
            "",
            "nul",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\u00ü\"",
            "\"\\",
            "1e999",
            "[1,]",
            "{\"a\" 1}",
            "1 2",
            "\"\n\"",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        let text = "ü\"\\\n\u{1}\u{7f}/😀";
        let mut out = String::new();
        write_text(&mut out, text);
        assert_eq!(read(&out), Ok(Json::Text(text.into())));
    }
}
