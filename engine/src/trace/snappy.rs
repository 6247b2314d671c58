//! Snappy's block format, written: a length, then literals and copies of what was before.

use super::bytes::put_varint;

const TABLE_BITS: u32 = 14;
const BLOCK: usize = 1 << 16;

/// Append a text compressed.
pub fn compress(text: &[u8], out: &mut Vec<u8>) {
    put_varint(out, text.len() as u64);
    let mut table = vec![0_u16; 1 << TABLE_BITS];
    for block in text.chunks(BLOCK) {
        table.fill(0);
        compress_block(block, &mut table, out);
    }
}

fn compress_block(text: &[u8], table: &mut [u16], out: &mut Vec<u8>) {
    let (mut at, mut literal, mut missed) = (1, 0, 32);
    while at + 4 <= text.len() {
        let word = bytes_of_u32(text, at);
        let slot = &mut table[(word.wrapping_mul(0x1E35_A7BD) >> (32 - TABLE_BITS)) as usize];
        let candidate = usize::from(*slot);
        *slot = at as u16;
        if bytes_of_u32(text, candidate) != word {
            at += missed >> 5; // what does not repeat is passed over faster and faster
            missed += 1;
            continue;
        }
        put_literal(&text[literal..at], out);
        let mut end = at + 4;
        while end < text.len() && text[end] == text[candidate + end - at] {
            end += 1;
        }
        put_copy(at - candidate, end - at, out);
        (at, literal, missed) = (end, end, 32);
    }
    put_literal(&text[literal..], out);
}

fn bytes_of_u32(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"))
}

fn put_literal(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let less = text.len() - 1;
    match less {
        0..=59 => out.push((less as u8) << 2),
        60..=255 => out.extend_from_slice(&[60 << 2, less as u8]),
        _ => out.extend_from_slice(&[61 << 2, less as u8, (less >> 8) as u8]),
    }
    out.extend_from_slice(text);
}

fn put_copy(offset: usize, mut length: usize, out: &mut Vec<u8>) {
    while length > 0 {
        let part = length.min(64);
        out.extend_from_slice(&[((part - 1) as u8) << 2 | 2, offset as u8, (offset >> 8) as u8]);
        length -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut at = packed.iter().position(|byte| byte & 0x80 == 0).expect("a length") + 1;
        let mut out: Vec<u8> = Vec::new();
        while at < packed.len() {
            let tag = usize::from(packed[at]);
            let number = |from: usize| usize::from(packed[from]) + 256 * usize::from(packed[from + 1]);
            if tag & 3 == 2 {
                let from = out.len() - number(at + 1);
                (0..=tag >> 2).for_each(|step| out.push(out[from + step]));
                at += 3;
                continue;
            }
            assert_eq!(tag & 3, 0);
            let (length, begin) = match tag >> 2 {
                60 => (usize::from(packed[at + 1]), at + 2),
                61 => (number(at + 1), at + 3),
                less => (less, at + 1),
            };
            out.extend_from_slice(&packed[begin..=begin + length]);
            at = begin + length + 1;
        }
        out
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut random = 7_u32;
        for length in [0, 1, 3, 4, 5, 63, 64, 65, 66, 67, 68, 300, 70_000, 200_000] {
            for letters in [1, 2, 200] {
                let text: Vec<u8> = (0..length)
                    .map(|_| {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        ((random >> 16) % letters) as u8
                    })
                    .collect();
                let mut packed = Vec::new();
                compress(&text, &mut packed);
                assert!(unpacked(&packed) == text, "{length} of {letters}");
            }
        }
    }
}
