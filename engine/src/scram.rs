//! Prove a password to a server: SCRAM-SHA-256 (RFC 5802, RFC 7677) and MD5.

use crate::digest::{base64, from_base64, md5, pbkdf2, sha256, HmacKey, Sha256};
use std::collections::HashMap;
use std::sync::Mutex;

/// Of a server's choice (PostgreSQL's own is 4,096): a hostile one would keep the client at work for hours.
const MOST_ITERATIONS: u32 = 1_000_000;
const MOST_SALTED: usize = 256;
pub const MECHANISM: &str = "SCRAM-SHA-256";
const NOT_SHOWN: &str = "the server has not shown that it knows the password";

type SaltedBy = HashMap<(String, Vec<u8>, u32), Sha256>;

/// Passwords after their many rounds: one role's sessions share salt and iterations, so the dear part is done once.
#[derive(Default)]
pub struct Salted(Mutex<SaltedBy>);

impl Salted {
    fn get(&self, password: &str, salt: Vec<u8>, iterations: u32) -> Sha256 {
        let key = (password.to_owned(), salt, iterations);
        let Ok(mut known) = self.0.lock() else { return pbkdf2(password.as_bytes(), &key.1, iterations) };
        if let Some(found) = known.get(&key) {
            return *found;
        }
        if known.len() >= MOST_SALTED {
            known.clear();
        }
        let found = pbkdf2(password.as_bytes(), &key.1, iterations);
        known.insert(key, found);
        found
    }
}

/// Return what PostgreSQL's `md5` method asks for.
pub fn md5_answer(user: &str, password: &str, salt: &[u8]) -> String {
    let inner = md5(format!("{password}{user}").as_bytes());
    format!("md5{}", md5(&[inner.as_bytes(), salt].concat()))
}

/// One exchange: send `first`, answer with `last`, then `verify` that the server knows the password, too.
pub struct Scram {
    nonce: String,
    bare: String,
    signature: Option<Sha256>,
    pub is_verified: bool,
}

impl Scram {
    /// PostgreSQL takes the user of the connection, whatever stands here.
    pub fn new(user: &str, nonce: String) -> Scram {
        Scram { bare: format!("n={user},r={nonce}"), nonce, signature: None, is_verified: false }
    }

    /// Return the first message; there is no channel binding.
    pub fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// Return the proof; the error is for a challenge that is none, or is not for us.
    pub fn last(&mut self, password: &str, challenge: &[u8], salted: &Salted) -> Result<String, String> {
        let unreadable = || "the server's SCRAM challenge cannot be read".to_owned();
        let challenge = std::str::from_utf8(challenge).map_err(|_| unreadable())?;
        let part = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)).ok_or_else(unreadable);
        let nonce = part("r=")?;
        let salt = from_base64(part("s=")?).ok_or_else(unreadable)?;
        let iterations: u32 = part("i=")?.parse().map_err(|_| unreadable())?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server's SCRAM challenge is not an answer to ours".into());
        }
        if iterations == 0 || iterations > MOST_ITERATIONS {
            return Err(format!(
                "the server asks for {iterations} rounds of SCRAM; at most {MOST_ITERATIONS} are done"
            ));
        }
        let salted = HmacKey::new(&salted.get(password, salt, iterations));
        let client_key = salted.code(b"Client Key");
        let bare = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{bare}", self.bare);
        let mut proof = HmacKey::new(&sha256(&client_key)).code(signed.as_bytes());
        for (byte, key) in proof.iter_mut().zip(client_key) {
            *byte ^= key;
        }
        self.signature = Some(HmacKey::new(&salted.code(b"Server Key")).code(signed.as_bytes()));
        Ok(format!("{bare},p={}", base64(&proof)))
    }

    /// Check the server's answer to the proof.
    pub fn verify(&mut self, answer: &[u8]) -> Result<(), String> {
        let wanted = self.signature.map(|signature| format!("v={}", base64(&signature))).unwrap_or_default();
        let differs = wanted.bytes().zip(answer).fold(0, |sum, (one, other)| sum | (one ^ other));
        if wanted.is_empty() || answer.len() != wanted.len() || differs != 0 {
            return Err(NOT_SHOWN.into());
        }
        self.is_verified = true;
        Ok(())
    }

    /// Refuse a server that lets us in without having shown that it knows the password.
    pub fn accepted(exchange: Option<&Scram>) -> Result<(), String> {
        match exchange {
            Some(scram) if !scram.is_verified => Err(NOT_SHOWN.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn scram() -> Scram {
        Scram::new("user", "rOprNGfwEbeRWgbNEkqO".into())
    }

    #[test]
    fn the_exchange_of_rfc_7677() {
        let (mut scram, salted) = (scram(), Salted::default());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let last = scram.last("pencil", CHALLENGE.as_bytes(), &salted).unwrap();
        let proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, format!("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,{proof}"));
        assert!(scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=").is_err());
        assert!(scram.verify(b"").is_err() && Scram::accepted(Some(&scram)).is_err());
        scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(scram.is_verified && Scram::accepted(Some(&scram)).is_ok() && Scram::accepted(None).is_ok());
        assert_eq!(salted.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_challenge_of_a_hostile_server_is_refused() {
        assert!(scram().verify(b"").is_err(), "before there was a proof");
        for (from, to) in [
            ("r=rO", "r=r0"),
            ("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            ("i=4096", "i=0"),
            ("i=4096", "i=1000001"),
            ("i=4096", "i=99999999999999999999"),
            ("i=4096", "i=-1"),
            ("s=W22", "s=%%%"),
            ("r=", "x="),
        ] {
            let challenge = CHALLENGE.replacen(from, to, 1);
            assert!(scram().last("pencil", challenge.as_bytes(), &Salted::default()).is_err(), "{to}");
        }
        assert!(scram().last("pencil", b"\xff", &Salted::default()).is_err());
    }

    #[test]
    fn md5_as_postgresql_asks_for_it() {
        assert_eq!(md5_answer("user", "pencil", b"\x01\x02\x03\x04"), "md54376eb6913b38f9aaff38dc7cf19ca76");
    }
}
