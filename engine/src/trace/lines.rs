//! What a record is to a statement: the same as `trace/lines.py` says, for records whose numbers are as PostgreSQL
//! writes them. Words of the server are matched at the begin of a message only.

use super::records::Record;
use super::text::{control, find, find_byte, Span};

pub const NONE: i64 = -1;
const APPLICATION: &[u8] = b" application_name=";
const CLIENTS: [&[u8]; 3] = [b"client backend", b"walsender", b"not initialized"];
const SEVERITIES: [&[u8]; 13] = [
    b"LOG", b"ERROR", b"FATAL", b"PANIC", b"WARNING", b"NOTICE", b"INFO", b"DEBUG", b"DEBUG1", b"DEBUG2", b"DEBUG3",
    b"DEBUG4", b"DEBUG5",
];

/// A line of a session; texts are in the text of its segment.
#[derive(Clone)]
pub struct Line {
    pub sid: i64,
    pub n: i64,
    pub t: i64,
    pub kind: u8,
    pub dur: i64,
    pub vx: i64,
    pub xid: i64,
    pub ctl: u8,
    pub user: Span,
    pub database: Span,
    pub application: Span,
    pub label: Span,
    pub sql: Span,
    pub detail: Span,
    pub state: Span,
    pub tag: Span,
    pub is_walsender: bool,
}

impl Line {
    pub fn spans(&mut self) -> [&mut Span; 8] {
        [
            &mut self.user,
            &mut self.database,
            &mut self.application,
            &mut self.label,
            &mut self.sql,
            &mut self.detail,
            &mut self.state,
            &mut self.tag,
        ]
    }
}

/// What reading lines needs to know, and what it remembers: days are long.
pub struct Reader {
    pub zones: Vec<(String, i64)>,
    day: ([u8; 10], i64),
}

type Odd = &'static str;

impl Reader {
    pub fn new(zones: Vec<(String, i64)>) -> Reader {
        Reader { zones, day: ([0; 10], 0) }
    }

    /// Make a line of a record; the error says what PostgreSQL does not write so.
    pub fn line(&mut self, record: &mut Record, text: &mut [u8]) -> Result<Line, Odd> {
        let field = |number: usize| if number < record.count { record.fields[number].span } else { Span::NONE };
        let t = self.moment(field(0).of(text).unwrap_or_default())?;
        let sid = session(field(5).of(text).unwrap_or_default()).ok_or("a session id is none")?;
        let n = number(field(6).of(text).unwrap_or_default()).ok_or("a line number is none")?;
        let xid = match field(10).of(text) {
            None => NONE,
            Some(text) => match number(text).ok_or("a transaction id is none")? {
                0 => NONE,
                found => found,
            },
        };
        let vx = field(9).of(text).map_or(Some(NONE), virtual_transaction).ok_or("a virtual transaction is none")?;
        let (severity, query, context) = (field(11), field(19), field(18));
        let tag_told = field(7).of(text).unwrap_or_default();
        let (is_startup, is_before) =
            (tag_told == b"startup", tag_told.starts_with(b"PARSE") || tag_told.starts_with(b"BIND"));
        let backend = field(23).of(text);
        let is_client = field(1).is_some() && backend.map_or(true, |backend| CLIENTS.contains(&backend));
        let is_walsender = backend == Some(CLIENTS[1]);
        let (user, database) = (record.take(text, 1), record.take(text, 2));
        let mut line = Line {
            sid,
            n,
            t,
            kind: b'.',
            dur: NONE,
            vx,
            xid,
            ctl: 0,
            user,
            database,
            application: record.take(text, 22),
            label: Span::NONE,
            sql: Span::NONE,
            detail: Span::NONE,
            state: Span::NONE,
            tag: Span::NONE,
            is_walsender,
        };
        let said = severity.of(text).unwrap_or_default();
        let is_error = said == b"ERROR" || (query.is_some() && (said == b"FATAL" || said == b"PANIC"));
        let is_login = said == b"FATAL" && !is_error && is_startup;
        let is_log = said == b"LOG";
        let is_told = is_log && !context.is_some(); // what a function says (RAISE LOG) has a context
        if is_client && severity.is_some() && !SEVERITIES.contains(&said) {
            return Err("a line is not in English");
        }
        let message = record.take(text, 13);
        if is_told {
            self.take_message(&mut line, message, is_client, text)?;
            if is_before && line.kind == b'D' {
                line.kind = b'.'; // log_duration says how long a parse or a bind took, and not of what
            }
            if is_client && line.kind == b'.' && is_other_duration(message.of(text).unwrap_or_default()) {
                return Err("a line is not in English");
            }
        }
        if !is_client {
            let words = message.of(text).unwrap_or_default();
            let is_start = is_log && !user.is_some() && words.starts_with(b"database system was ");
            line.kind = if is_start { b'R' } else { b'.' };
        } else if is_error {
            line.kind = b'E';
            line.sql = record.take(text, 19);
            line.detail = record.take(text, 18);
            line.state = record.take(text, 12);
            line.tag = record.take(text, 7);
        } else if is_login {
            line.kind = b'L';
            line.state = record.take(text, 12);
        } else if matches!(line.kind, b'B' | b'U' | b'X') {
            line.detail = record.take(text, 14);
        }
        if matches!(line.kind, b'S' | b'T' | b'X' | b'U' | b'E') {
            line.ctl = line.sql.of(text).map_or(0, control);
        }
        Ok(line)
    }

    fn take_message(&self, line: &mut Line, message: Span, is_client: bool, text: &[u8]) -> Result<(), Odd> {
        let words = message.of(text).unwrap_or_default();
        let (mut rest, mut skipped) = (words, 0);
        let is_timed = words.starts_with(b"duration: ");
        if is_timed {
            let end = find(words, b" ms").ok_or("a duration has no unit")?;
            line.dur = duration(&words[10..end]).ok_or("a duration is none")?;
            if !words[end..].starts_with(b" ms  ") {
                line.kind = if words.len() == end + 3 { b'D' } else { b'.' };
                return Ok(());
            }
            skipped = end + 5;
            rest = &words[skipped..];
        }
        let kinds: &[(&[u8], u8)] = if is_timed {
            &[
                (b"statement: ", b'T'),
                (b"execute ", b'U'),
                (b"bind ", b'B'),
                (b"parse <unnamed>: ", b'P'),
                (b"parse ", b'N'),
                (b"fastpath function call: ", b'F'),
            ]
        } else {
            &[
                (b"statement: ", b'S'),
                (b"execute ", b'X'),
                (b"connection authorized: ", b'C'),
                (b"replication connection authorized: ", b'C'),
                (b"disconnection: ", b'Q'),
            ]
        };
        let first = rest.first();
        let fits = |begin: &[u8]| begin.first() == first && rest.starts_with(begin);
        let Some((begin, kind)) = kinds.iter().find(|(begin, _)| fits(begin)) else { return Ok(()) };
        line.kind = *kind;
        let rest_span = message.from(skipped);
        match kind {
            _ if !is_client => (),
            b'T' | b'S' => line.sql = rest_span.from(begin.len()),
            b'F' => line.sql = rest_span,
            b'C' if line.application.of(text).map_or(true, <[u8]>::is_empty) => {
                // the name of a session is not its own yet when its connection is logged
                if let Some(at) = find(rest, APPLICATION) {
                    let name = rest_span.from(at + APPLICATION.len());
                    let ends = [&b" SSL enabled ("[..], b" GSS ("];
                    let words = name.of(text).unwrap_or_default();
                    line.application =
                        name.first(ends.iter().filter_map(|end| find(words, end)).min().unwrap_or(words.len()));
                }
            }
            b'P' | b'N' | b'B' | b'U' | b'X' => {
                let name_at = find_byte(rest, 0, b' ').map_or(0, |space| space + 1);
                let colon = find(rest, b": ").filter(|colon| *colon >= name_at).ok_or("a name has no end")?;
                line.label = rest_span.first(colon).from(name_at);
                line.sql = rest_span.from(colon + 2);
            }
            _ => (),
        }
        Ok(())
    }

    /// Microseconds since 1970 of a time such as 2026-11-26 09:08:42.440 UTC.
    fn moment(&mut self, told: &[u8]) -> Result<i64, Odd> {
        const ODD: &str = "a time is none";
        if told.len() < 25
            || told[10] != b' '
            || told[13] != b':'
            || told[16] != b':'
            || told[19] != b'.'
            || told[23] != b' '
        {
            return Err(ODD);
        }
        if self.day.0 != told[..10] {
            self.day = (told[..10].try_into().expect("ten bytes"), day(&told[..10]).ok_or(ODD)?);
        }
        let part = |from: usize, to: usize| number(&told[from..to]).ok_or(ODD);
        let (hour, minute, second, milli) = (part(11, 13)?, part(14, 16)?, part(17, 19)?, part(20, 23)?);
        if hour > 23 || minute > 59 || second > 59 {
            return Err(ODD);
        }
        let zone = &told[24..];
        let found = self.zones.iter().find(|(name, _)| name.as_bytes() == zone);
        let east = found.map(|(_, seconds)| *seconds).ok_or("a time zone is not known beforehand")?;
        let seconds = self.day.1 * 86_400 + hour * 3600 + minute * 60 + second - east;
        Ok(seconds * 1_000_000 + milli * 1000)
    }
}

/// Days since 1970 of a date of the Gregorian calendar.
fn day(told: &[u8]) -> Option<i64> {
    if told[4] != b'-' || told[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(&told[..4])?, number(&told[5..7])?, number(&told[8..])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *days.get(usize::try_from(month - 1).ok()?)?;
    if year < 1970 || day < 1 || day > length {
        return None;
    }
    let before: i64 = days[..(month - 1) as usize].iter().sum();
    let years = year - 1;
    Some(years * 365 + years / 4 - years / 100 + years / 400 - 719_162 + before + day - 1)
}

fn number(told: &[u8]) -> Option<i64> {
    if told.is_empty() || told.len() > 18 {
        return None;
    }
    told.iter().try_fold(0, |sum: i64, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn session(told: &[u8]) -> Option<i64> {
    let point = find_byte(told, 0, b'.')?;
    if point == 0 || point + 1 == told.len() || told.len() > 16 {
        return None;
    }
    let digits = told.iter().enumerate().filter(|(at, _)| *at != point);
    digits.map(|(_, byte)| byte).try_fold(0, |sum: i64, byte| match byte {
        b'0'..=b'9' => Some(sum * 16 + i64::from(byte - b'0')),
        b'a'..=b'f' => Some(sum * 16 + i64::from(byte - b'a') + 10),
        _ => None,
    })
}

fn virtual_transaction(told: &[u8]) -> Option<i64> {
    let slash = find_byte(told, 0, b'/')?;
    let process = told.strip_prefix(b"-").map_or(&told[..slash], |_| &told[1..slash]);
    number(process)?;
    number(&told[slash + 1..])
}

/// Whether a message may be a duration in another language than English, such as `Dauer: 0.087 ms`.
fn is_other_duration(message: &[u8]) -> bool {
    if message.starts_with(b"duration: ") {
        return false;
    }
    let words = String::from_utf8_lossy(&message[..message.len().min(200)]);
    let number = words.trim_start_matches(|letter: char| letter.is_alphabetic() || letter == ' ');
    let number = number.strip_prefix(':').unwrap_or(number);
    let number = number.strip_prefix(' ').unwrap_or(number);
    let unit = number.trim_start_matches(|letter: char| letter.is_ascii_digit());
    unit.starts_with('.') && number.len() > unit.len() && number.len() < words.len()
}

fn duration(told: &[u8]) -> Option<i64> {
    let point = told.len().checked_sub(4)?;
    if told[point] != b'.' || told.len() > 16 {
        return None;
    }
    Some(number(&told[..point])? * 1000 + number(&told[point + 1..])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_the_server_writes_them() {
        let mut reader = Reader::new(vec![("UTC".to_string(), 0), ("CET".to_string(), 3600)]);
        assert_eq!(reader.moment(b"1970-01-02 00:00:01.234 UTC"), Ok(86_401_234_000));
        assert_eq!(reader.moment(b"2024-02-29 12:00:00.000 CET"), Ok(1_709_204_400_000_000));
        assert!(reader.moment(b"2023-02-29 12:00:00.000 UTC").is_err());
        assert!(reader.moment(b"2024-02-29 12:00:00.000 XYZ").is_err());
        assert_eq!(session(b"6b07f722.3e15"), Some(0x6b07_f722_3e15));
        assert_eq!((virtual_transaction(b"10/62"), virtual_transaction(b"-1/0")), (Some(62), Some(0)));
        for (message, wanted) in
            [("Dauer: 0.087 ms", true), ("durée : 0.1 ms", true), ("0.087 ms", false), ("a: b", false)]
        {
            assert_eq!(is_other_duration(message.as_bytes()), wanted, "{message}");
        }
        assert_eq!((duration(b"0.087"), duration(b"12.5"), duration(b"x.123")), (Some(87), None, None));
    }
}
