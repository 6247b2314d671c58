//! SHA-256 (FIPS 180-4) with HMAC (RFC 2104) and PBKDF2 (RFC 8018), MD5 (RFC 1321), base64 (RFC 4648).

pub type Sha256 = [u8; 32];
const BLOCK: usize = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const K: [u32; 64] = roots();

const SHA_BEGIN: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const MD5_BEGIN: [u32; 4] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
const MD5_TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

const fn roots() -> [u32; 64] {
    let (mut found, mut count, mut number) = ([0; 64], 0, 2u128);
    while count < 64 {
        let mut divisor = 2;
        while divisor * divisor <= number && number % divisor != 0 {
            divisor += 1;
        }
        if divisor * divisor > number {
            // The largest root with root^3 <= number * 2^96: the cube root with 32 bits after the point.
            let (mut root, mut bit) = (0u128, 1u128 << 35);
            while bit > 0 {
                let next = root | bit;
                if next * next * next <= number << 96 {
                    root = next;
                }
                bit >>= 1;
            }
            found[count] = root as u32;
            count += 1;
        }
        number += 1;
    }
    found
}

fn sha_block(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for n in 16..64 {
        let (w15, w2) = (words[n - 15], words[n - 2]);
        let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
        let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
        words[n] = words[n - 16].wrapping_add(s0).wrapping_add(words[n - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for n in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let one = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(K[n]).wrapping_add(words[n]);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let two = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *old = old.wrapping_add(new);
    }
}

/// Return what follows the whole blocks of `data`: the rest, a bit that is set, zeros, `length` in bits.
fn padded(rest: &[u8], length: [u8; 8]) -> Vec<u8> {
    let mut tail = rest.to_vec();
    tail.push(0x80);
    tail.resize((tail.len() + 8).div_ceil(BLOCK) * BLOCK - 8, 0);
    tail.extend(length);
    tail
}

/// Digest `data` after `before` bytes that are in `state` already.
fn sha_end(mut state: [u32; 8], data: &[u8], before: usize) -> Sha256 {
    let whole = data.chunks_exact(BLOCK);
    let tail = padded(whole.remainder(), (8 * (before + data.len()) as u64).to_be_bytes());
    for block in whole.chain(tail.chunks_exact(BLOCK)) {
        sha_block(&mut state, block);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// Return the digest.
pub fn sha256(data: &[u8]) -> Sha256 {
    sha_end(SHA_BEGIN, data, 0)
}

/// A key of HMAC, with its two blocks digested beforehand: PBKDF2 uses them thousands of times.
pub struct HmacKey {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl HmacKey {
    /// Take a key of any length.
    pub fn new(key: &[u8]) -> HmacKey {
        let mut block = [0; BLOCK];
        if key.len() > BLOCK {
            block[..32].copy_from_slice(&sha256(key));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let digested = |with: u8| {
            let mut state = SHA_BEGIN;
            sha_block(&mut state, &block.map(|byte| byte ^ with));
            state
        };
        HmacKey { inner: digested(0x36), outer: digested(0x5c) }
    }

    /// Return the code of a message.
    pub fn code(&self, message: &[u8]) -> Sha256 {
        sha_end(self.outer, &sha_end(self.inner, message, BLOCK), BLOCK)
    }
}

/// Return the first block of PBKDF2 with HMAC-SHA-256.
pub fn pbkdf2(password: &[u8], salt: &[u8], iterations: u32) -> Sha256 {
    let key = HmacKey::new(password);
    let mut code = key.code(&[salt, &[0, 0, 0, 1]].concat());
    let mut sum = code;
    for _ in 1..iterations {
        code = key.code(&code);
        for (byte, other) in sum.iter_mut().zip(code) {
            *byte ^= other;
        }
    }
    sum
}

/// Return the digest in hexadecimal digits.
pub fn md5(data: &[u8]) -> String {
    let mut state = MD5_BEGIN;
    let whole = data.chunks_exact(BLOCK);
    let tail = padded(whole.remainder(), (8 * data.len() as u64).to_le_bytes());
    for block in whole.chain(tail.chunks_exact(BLOCK)) {
        let mut words = [0u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = state;
        for n in 0..64 {
            let (mixed, word) = match n / 16 {
                0 => ((b & c) | (!b & d), n),
                1 => ((d & b) | (!d & c), 5 * n + 1),
                2 => (b ^ c ^ d, 3 * n + 5),
                _ => (c ^ (b | !d), 7 * n),
            };
            let sine = (((n + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(words[word % 16]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(MD5_TURNS[n / 16][n % 4])));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d]) {
            *old = old.wrapping_add(new);
        }
    }
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Return bytes as base64.
pub fn base64(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len().div_ceil(3) * 4);
    for part in data.chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n)) as usize & 63];
            text.push(if n <= part.len() { letter as char } else { '=' });
        }
    }
    text
}

/// Return what base64 stands for; None for anything else.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 != 0 || text.len() - letters.len() > 2 {
        return None;
    }
    let mut data = Vec::with_capacity(text.len() / 4 * 3);
    for part in letters.chunks(4) {
        let mut bits = 0;
        for letter in part {
            bits = bits << 6 | LETTERS.iter().position(|one| one == letter)? as u32;
        }
        bits <<= 6 * (4 - part.len());
        data.extend_from_slice(&bits.to_be_bytes()[1..part.len()]);
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sha256_as_in_fips_180() {
        for (data, digest) in [
            (String::new(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc".into(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".into(),
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            ("a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ] {
            assert_eq!(hex(&sha256(data.as_bytes())), digest);
        }
    }

    #[test]
    fn hmac_as_in_rfc_4231() {
        for (key, message, code) in [
            (&[0x0b; 20][..], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&HmacKey::new(key).code(message)), code);
        }
    }

    #[test]
    fn pbkdf2_as_in_rfc_7914() {
        let found = pbkdf2(b"passwd", b"salt", 1);
        assert_eq!(hex(&found), "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
        let found = pbkdf2(b"Password", b"NaCl", 80_000);
        assert_eq!(hex(&found), "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56");
    }

    #[test]
    fn md5_as_in_rfc_1321() {
        for (data, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
            (&"1234567890".repeat(8), "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(md5(data.as_bytes()), digest);
        }
    }

    #[test]
    fn base64_as_in_rfc_4648() {
        for (data, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(data.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(data.as_bytes()));
        }
        for wrong in ["Z", "Zg=", "Zg", "====", "Z===", "Zg==Zg==", "Zm9\n", "Zmü"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
