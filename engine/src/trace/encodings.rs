//! How Parquet puts down many numbers: runs and packed bits, and differences.

use super::bytes::{put_small, put_varint};

/// Append numbers below `1 << width` as runs of equal ones, and eights of packed bits.
pub fn put_hybrid(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut at = 0;
    while at < numbers.len() {
        let equal = run(numbers, at);
        if equal >= 8 || at + equal == numbers.len() {
            put_varint(out, (equal as u64) << 1);
            out.extend_from_slice(&numbers[at].to_le_bytes()[..width.div_ceil(8) as usize]);
            at += equal;
            continue;
        }
        let begin = at;
        while at < numbers.len() && run(numbers, at) < 8 {
            at += 8;
        }
        let eights = (at - begin) / 8;
        put_varint(out, (eights as u64) << 1 | 1);
        let part = &numbers[begin..at.min(numbers.len())];
        let filling = std::iter::repeat(0).take(at - begin - part.len());
        put_bits(part.iter().map(|number| u64::from(*number)).chain(filling), width, out);
        at = at.min(numbers.len());
    }
}

/// How many numbers are equal from here on; counting ends where it is enough for a run, unless it is one.
fn run(numbers: &[u32], at: usize) -> usize {
    let first = numbers[at];
    numbers[at..].iter().take_while(|number| **number == first).count()
}

fn put_bits(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0_u128, 0);
    for number in numbers {
        held |= u128::from(number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

const BLOCK: usize = 128;
const PARTS: usize = 4;

/// Append numbers as DELTA_BINARY_PACKED.
pub fn put_differences(numbers: &[i64], out: &mut Vec<u8>) {
    put_varint(out, BLOCK as u64);
    put_varint(out, PARTS as u64);
    put_varint(out, numbers.len() as u64);
    put_small(out, numbers.first().copied().unwrap_or(0));
    let steps: Vec<i64> = numbers.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
    for block in steps.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        put_small(out, least);
        let above: Vec<u64> = block.iter().map(|step| step.wrapping_sub(least) as u64).collect();
        let part_length = BLOCK / PARTS;
        let widths: Vec<u32> = above
            .chunks(part_length)
            .map(|part| 64 - part.iter().fold(0, |all, one| all | one).leading_zeros())
            .collect();
        for part in 0..PARTS {
            out.push(widths.get(part).map_or(0, |width| *width as u8));
        }
        for (part, width) in above.chunks(part_length).zip(widths) {
            let filling = std::iter::repeat(0).take(part_length - part.len());
            put_bits(part.iter().copied().chain(filling), width, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_format() {
        let mut out = Vec::new();
        put_hybrid(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [3, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        out.clear();
        put_hybrid(&[1; 100], 1, &mut out);
        assert_eq!(out, [200, 1, 1]);
        out.clear();
        put_differences(&[1, 2, 3, 4, 5], &mut out);
        assert_eq!(out, [128, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
    }
}
