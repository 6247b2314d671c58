//! What is sent: a session's next record at its moment.

use super::{Engine, Timed};
use crate::keys;
use crate::pool::Job;
use crate::session::skip;
use crate::sys::send_some;
use crate::tape::{CONNECT, DISCONNECT, HAS_KEYS, HOLDS, SEND, SKIP};
use crate::wire::TERMINATE;
use std::io::ErrorKind;

impl Engine {
    /// Load the session's next record and do it, or wait for its moment.
    pub(super) fn advance(&mut self, number: usize, mut now: i64) {
        while self.sessions[number].place < self.sessions[number].last {
            if !self.load(number) {
                self.end("the tape is damaged");
                return;
            }
            let session = &self.sessions[number];
            if session.lost != skip::SENT || session.act == SKIP {
                let why = if session.lost == skip::SENT { skip::REFUSED } else { session.lost };
                self.skip(number, why);
            } else if session.is_broken {
                self.sessions[number].is_broken = session.flags & HOLDS != 0;
                self.skip(number, skip::PIPELINE_FAILED);
            } else if session.due > now || !session.gates.is_empty() || self.pausing.since.is_some() {
                self.after(number, session.due.max(now), Timed::Due);
                return;
            } else if !self.act(number) {
                return;
            }
            now = self.now();
        }
        self.live -= 1;
    }

    /// Do the record whose moment has come, and what follows it at once.
    pub(super) fn act_and_advance(&mut self, number: usize, now: i64) {
        if self.act(number) {
            self.advance(number, now);
        }
    }

    fn load(&mut self, number: usize) -> bool {
        let Some(record) = self.tape.record(self.sessions[number].place) else { return false };
        let session = &mut self.sessions[number];
        (session.cancel_us, session.seq, session.act) = (record.cancel, record.seq, record.act);
        (session.flags, session.expected) = (record.flags, record.expected);
        session.payload = record.payload..record.end;
        if !session.answer.in_transaction {
            session.shift = self.pausing.shift;
        }
        session.due = if self.plan.thinks && record.think >= 0 && session.previous_done > 0 {
            session.previous_done.saturating_add((record.think as f64 / self.plan.speed) as i64)
        } else {
            ((record.due as f64 / self.plan.speed) as i64).saturating_add(session.shift)
        };
        (session.sent, session.first, session.released) = (-1, -1, -1);
        session.answer.reset();
        session.names = 0..0;
        if record.flags & HAS_KEYS != 0 {
            let Some(block) = keys::block(self.tape.content, &session.payload) else { return false };
            session.payload.start = block.names.end;
            (session.answer.learns, session.names) = (block.learns, block.names);
        }
        if record.gate_count > 0 {
            for gate in self.tape.gates(&record) {
                let other = self.numbers.get(&gate.0).copied();
                if other.is_some_and(|other| self.sessions[other as usize].ended_seq >= gate.1.into()) {
                    continue;
                }
                self.sessions[number].gates.push(gate);
                if let Some(other) = other {
                    self.sessions[other as usize].waiting.push(number as u32);
                }
            }
        }
        true
    }

    /// Do the session's record; return whether it is done with already.
    fn act(&mut self, number: usize) -> bool {
        let session = &mut self.sessions[number];
        match session.act {
            SEND if session.connection.is_some() => {
                session.is_busy = true;
                session.sent = (crate::sys::monotonic_ns() - self.begin).div_euclid(1000);
                self.tally.sent += 1;
                if session.cancel_us >= 0 {
                    let moment = session.sent.saturating_add(session.cancel_us);
                    self.after(number, moment, Timed::Cancel);
                }
                let session = &mut self.sessions[number];
                session.unsent = session.payload.clone();
                if session.flags & HOLDS != 0 {
                    // what closes a statement first is answered alike
                    let closes_first = self.tape.content.get(session.payload.start) == Some(&b'C');
                    session.answer.closes = 1 + u8::from(closes_first);
                }
                if !session.names.is_empty() && !self.name_keys(number) {
                    self.end("the tape is damaged");
                    return false;
                }
                self.send(number)
            }
            CONNECT if session.lost == skip::SENT => {
                session.is_busy = true;
                let words = self.tape.content.get(session.payload.clone()).unwrap_or_default();
                let mut words = words.split(|byte| *byte == 0).map(|word| String::from_utf8(word.to_vec()));
                let [Some(Ok(user)), Some(Ok(database)), Some(Ok(application))] =
                    [words.next(), words.next(), words.next()]
                else {
                    self.end("the tape is damaged");
                    return false;
                };
                self.submit(Job::Open { number: number as u32, user, database, application });
                false
            }
            DISCONNECT if session.lost == skip::SENT => {
                session.sent = (crate::sys::monotonic_ns() - self.begin).div_euclid(1000);
                let done = session.sent;
                if let Some(connection) = session.connection.as_ref() {
                    let _ = send_some(connection, TERMINATE);
                }
                self.drop_connection(number);
                self.keep(number, done, skip::SENT);
                self.sessions[number].previous_done = done;
                self.leave(number);
                true
            }
            _ => {
                if session.lost == skip::SENT {
                    session.lost = skip::NOT_CONNECTED;
                }
                let why = session.lost;
                self.skip(number, why);
                true
            }
        }
    }

    /// Send the message with the keys of this run; false where the tape is damaged.
    fn name_keys(&mut self, number: usize) -> bool {
        let session = &mut self.sessions[number];
        let tape = self.tape.content;
        let (Some(names), Some(message)) = (tape.get(session.names.clone()), tape.get(session.payload.clone())) else {
            return false;
        };
        let Some(message) = self.keys.message(names, message, &mut self.tally) else { return false };
        session.unsent = 0..0;
        session.unsent_own.extend(message);
        true
    }

    fn skip(&mut self, number: usize, why: u8) {
        self.tally.skipped += 1;
        self.keep(number, -1, why);
        self.leave(number);
    }

    /// Leave the record that has ended.
    pub(super) fn leave(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        session.place += 1;
        session.gates.clear();
        session.is_held = false;
        if session.flags & HAS_KEYS != 0 {
            session.answer.forget_keys();
        }
        session.ended_seq = session.seq.into();
        if !session.waiting.is_empty() {
            self.let_go(number);
        }
    }

    /// Take the gates away that a session has passed; what that sets free is due at once.
    fn let_go(&mut self, number: usize) {
        let (now, passed, ordinal) = (self.now(), self.sessions[number].ended_seq, self.sessions[number].ordinal);
        let waiting = std::mem::take(&mut self.sessions[number].waiting);
        for other in waiting {
            let session = &mut self.sessions[other as usize];
            session.gates.retain(|gate| gate.0 != ordinal || i64::from(gate.1) > passed);
            if session.gates.iter().any(|gate| gate.0 == ordinal) {
                self.sessions[number].waiting.push(other);
            } else if session.gates.is_empty() && session.is_held {
                (session.is_held, session.released) = (false, now);
                self.after(other as usize, now, Timed::Due);
            }
        }
    }

    /// Send a message of ours, after what is not sent yet.
    pub(super) fn send_own(&mut self, number: usize, message: &[u8]) -> bool {
        self.sessions[number].unsent_own.extend_from_slice(message);
        self.send(number)
    }

    /// Go on with what the socket did not take, if there is anything.
    pub(super) fn send_rest(&mut self, number: usize) {
        let session = &self.sessions[number];
        if (!session.unsent.is_empty() || !session.unsent_own.is_empty()) && self.send(number) {
            let now = self.now();
            self.advance(number, now);
        }
    }

    /// Send what is to be sent; return whether that ended the record, as the connection is lost.
    fn send(&mut self, number: usize) -> bool {
        let session = &mut self.sessions[number];
        let Some(connection) = session.connection.as_ref() else { return false };
        loop {
            let from_tape = self.tape.content.get(session.unsent.clone()).unwrap_or_default();
            let data = if from_tape.is_empty() { &session.unsent_own[..] } else { from_tape };
            if data.is_empty() {
                break;
            }
            match send_some(connection, data) {
                Ok(size) if from_tape.is_empty() => drop(session.unsent_own.drain(..size)),
                Ok(size) => session.unsent.start += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = crate::login::said(&error);
                    return self.lose(number, &reason);
                }
            }
        }
        let wants_room = !session.unsent.is_empty() || !session.unsent_own.is_empty();
        if wants_room != session.watches_room {
            session.watches_room = wants_room;
            if let Err(error) = self.poll.watch_room(connection, number as u64, wants_room) {
                let reason = crate::login::said(&error);
                return self.lose(number, &reason);
            }
        }
        false
    }
}
