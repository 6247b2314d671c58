//! Messages of PostgreSQL's wire protocol, version 3, as far as an engine makes or reads them itself.

const PROTOCOL: i32 = 196_608;
const CANCEL: i32 = 80_877_102;
pub const TERMINATE: &[u8] = b"X\0\0\0\x04";
pub const SYNC: &[u8] = b"S\0\0\0\x04";
pub const COPY_FAIL: &[u8] = b"f\0\0\0\x20the data are not in the log\0";
pub const COPY_FAIL_SYNC: &[u8] = b"f\0\0\0\x20the data are not in the log\0S\0\0\0\x04";

/// Append a text and the zero byte that ends it.
fn put_text(out: &mut Vec<u8>, text: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err("a text of the protocol cannot hold a zero byte".into());
    }
    out.extend(text.as_bytes());
    out.push(0);
    Ok(())
}

/// Return a message of the kind: its letter, its length, its body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend((body.len() as i32 + 4).to_be_bytes());
    out.extend(body);
    out
}

/// Return the first message of a connection: user, database and settings of the session.
pub fn startup(settings: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    let mut out = vec![0; 4];
    out.extend(PROTOCOL.to_be_bytes());
    for (name, value) in settings {
        put_text(&mut out, name)?;
        put_text(&mut out, value)?;
    }
    out.push(0);
    let size = out.len() as i32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    Ok(out)
}

/// Return what asks the server, on a connection of its own, to cancel what process `pid` is at.
pub fn cancel_request(pid: i32, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    for number in [12 + key.len() as i32, CANCEL, pid] {
        out.extend(number.to_be_bytes());
    }
    out.extend(key);
    out
}

/// Return a simple query.
pub fn query(sql: &str) -> Result<Vec<u8>, String> {
    let mut body = Vec::with_capacity(sql.len() + 1);
    put_text(&mut body, sql)?;
    Ok(message(b'Q', &body))
}

/// Return the words of an error.
pub fn words_of_error(body: &[u8]) -> String {
    let words = body.split(|byte| *byte == 0).find(|part| part.first() == Some(&b'M'));
    words.map_or("the server refuses the session".into(), |part| String::from_utf8_lossy(&part[1..]).into_owned())
}

/// Return the rows that a command tag counts, `INSERT 0 5` -> 5; None where it counts none.
pub fn rows_of(tag: &[u8]) -> Option<i64> {
    let tag = &tag[..tag.len() - tag.iter().rev().take_while(|byte| **byte == 0).count()];
    let last = tag.rsplit(|byte| *byte == b' ').next()?;
    if last.is_empty() || last.len() > 18 || !last.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(last.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_protocol_has_them() {
        assert_eq!(query("x").unwrap(), b"Q\0\0\0\x06x\0");
        assert!(query("\0").is_err());
        assert_eq!(startup(&[("user", "u")]).unwrap(), b"\0\0\0\x10\0\x03\0\0user\0u\0\0");
        assert_eq!(cancel_request(258, b"abcd"), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02abcd");
        assert_eq!(COPY_FAIL, message(b'f', b"the data are not in the log\0"));
        assert_eq!(COPY_FAIL_SYNC, [COPY_FAIL, b"S\0\0\0\x04"].concat());
        assert_eq!(words_of_error(b"SFATAL\0C3D000\0Mno \xff\0\0"), "no \u{fffd}");
    }

    #[test]
    fn rows_are_those_of_the_tag() {
        for (tag, rows) in [
            (&b"INSERT 0 5\0"[..], Some(5)),
            (b"SELECT 12\0", Some(12)),
            (b"BEGIN\0", None),
            (b"COPY \0", None),
            (b"", None),
            (b"\0\0", None),
            (b"SELECT 9999999999999999999\0", None),
        ] {
            assert_eq!(rows_of(tag), rows);
        }
    }
}
