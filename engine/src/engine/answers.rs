//! What comes back, and what is kept of it.

use super::{Engine, KEPT, LATE_US};
use crate::login::said;
use crate::pool::Answered;
use crate::session::skip;
use crate::sys::receive_some;
use crate::tape::{SqlState, NO_ERROR, RESETS_ROLE};
use crate::wire::{COPY_FAIL, COPY_FAIL_SYNC, SYNC};
use std::io::ErrorKind;

/// SQLSTATE of a statement whose connection ended before the answer.
const CONNECTION_FAILURE: SqlState = *b"08006";
/// SQLSTATE of a session that could not be opened.
const REFUSED_CONNECTION: SqlState = *b"08001";

impl Engine {
    /// Read what a session's server says until there is no more.
    pub(super) fn read(&mut self, number: usize, buffer: &mut [u8]) {
        loop {
            let session = &mut self.sessions[number];
            let Some(connection) = session.connection.as_ref() else { return };
            let size = match receive_some(connection, buffer) {
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.lose_and_advance(number, &said(&error)),
            };
            let now = (crate::sys::monotonic_ns() - self.begin).div_euclid(1000);
            if session.first < 0 {
                session.first = now;
            }
            match session.answer.take(&buffer[..size]) {
                Err(error) => {
                    return self.lose_and_advance(number, &format!("what answers is not PostgreSQL: {error}"));
                }
                Ok(true) if session.is_busy => self.answered(number, now),
                Ok(_) if session.answer.wants_copy => self.refuse_copy(number),
                Ok(_) if session.answer.wants_sync => {
                    (session.answer.wants_sync, session.is_broken) = (false, true);
                    self.send_and_advance(number, SYNC);
                }
                Ok(_) if size == 0 => return self.lose_and_advance(number, "the server closed the connection"),
                Ok(_) if !session.is_busy => {
                    session.first = -1; // a notice between two statements
                    session.answer.reset();
                }
                Ok(_) => {}
            }
            if size < buffer.len() {
                return;
            }
        }
    }

    fn refuse_copy(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        session.answer.wants_copy = false;
        // A simple query ends with its own ReadyForQuery; after an extended one the Sync was taken for data.
        let is_simple = self.tape.content.get(session.payload.start) == Some(&b'Q');
        self.send_and_advance(number, if is_simple { COPY_FAIL } else { COPY_FAIL_SYNC });
    }

    fn send_and_advance(&mut self, number: usize, message: &[u8]) {
        if self.send_own(number, message) {
            let now = self.now();
            self.advance(number, now);
        }
    }

    fn answered(&mut self, number: usize, now: i64) {
        if self.sessions[number].is_restoring {
            self.sessions[number].is_restoring = false;
        } else {
            self.keep(number, now, skip::SENT);
            let session = &mut self.sessions[number];
            if session.answer.sqlstate == NO_ERROR {
                for (key, value) in std::mem::take(&mut session.answer.brought) {
                    self.keys.learn(key, &value, &mut self.tally);
                }
            }
            if session.flags & RESETS_ROLE != 0 && !session.restore_role.is_empty() {
                session.is_restoring = true;
                let message = session.restore_role.clone();
                if self.send_own(number, &message) {
                    self.advance(number, now);
                }
                return;
            }
        }
        self.next(number, now);
    }

    /// Leave the record that has ended, for the next one.
    fn next(&mut self, number: usize, now: i64) {
        let session = &mut self.sessions[number];
        (session.is_busy, session.previous_done) = (false, now);
        if self.away < now {
            session.debt += now - session.sent.max(self.away); // it may have come at any moment since
        }
        self.leave(number);
        self.advance(number, now);
    }

    /// Take a session that a thread has opened, or could not.
    pub(super) fn take_opened(&mut self, (number, began, found): Answered) {
        let number = number as usize;
        let now = self.now();
        let session = &mut self.sessions[number];
        session.first = now;
        session.sent = (began - self.begin).div_euclid(1000);
        match found {
            Ok(opened) => {
                let added = self.poll.add(&opened.connection, number as u64);
                session.connection = Some(opened.connection);
                (session.pid, session.key, session.restore_role) = (opened.pid, opened.key, opened.restore_role);
                session.answer.partial = opened.backlog;
                self.tally.open_sessions += 1;
                if let Err(error) = added {
                    self.end(&said(&error));
                }
            }
            Err(reason) => {
                self.tally.not_opened += 1;
                self.tally.because(&reason);
                (session.lost, session.answer.sqlstate) = (skip::NOT_CONNECTED, REFUSED_CONNECTION);
            }
        }
        self.keep(number, now, skip::SENT);
        self.next(number, now);
    }

    /// Give a session's connection up; return whether that ended the record that it was at.
    pub(super) fn lose(&mut self, number: usize, reason: &str) -> bool {
        if self.sessions[number].connection.is_none() {
            return false;
        }
        self.drop_connection(number);
        self.tally.lost_sessions += 1;
        self.tally.because(reason);
        let now = self.now();
        let session = &mut self.sessions[number];
        session.lost = skip::CONNECTION_LOST;
        if !session.is_busy {
            return false;
        }
        if !session.is_restoring {
            session.answer.sqlstate = CONNECTION_FAILURE;
            self.keep(number, now, skip::SENT);
        }
        let session = &mut self.sessions[number];
        (session.is_restoring, session.is_busy, session.previous_done) = (false, false, now);
        self.leave(number);
        true
    }

    fn lose_and_advance(&mut self, number: usize, reason: &str) {
        if self.lose(number, reason) {
            let now = self.now();
            self.advance(number, now);
        }
    }

    pub(super) fn drop_connection(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        if session.connection.take().is_some() {
            self.tally.open_sessions -= 1;
        }
        session.unsent = 0..0;
        session.unsent_own.clear();
        session.watches_room = false;
        session.answer.forget();
    }

    /// Put the session's record on file; its lag is split by what it waited for.
    ///
    /// An engine that stood still is late once, and its session then behind for as long as it takes to catch up. That
    /// is still the engine's, though each statement waits for an answer, where it is at least half of what the session
    /// is behind: beyond that a server is slow.
    pub(super) fn keep(&mut self, number: usize, done: i64, why: u8) {
        let session = &mut self.sessions[number];
        let (due, sent) = (session.due, session.sent);
        let (mut injector, mut gate, mut server) = (0, 0, 0);
        if sent >= 0 && why == skip::SENT {
            let mut may = due;
            if session.previous_done > may {
                (may, server) = (session.previous_done, session.previous_done - due);
            }
            if session.released > may {
                (may, gate) = (session.released, session.released - may);
            }
            injector = sent - may;
            if 2 * session.debt >= server {
                let moved = session.debt.min(server);
                (injector, server) = (injector + moved, server - moved);
            }
            session.debt = if injector >= LATE_US { injector } else { 0 };
            self.tally.late_us = self.tally.late_us.max(injector);
            if done >= 0 {
                self.tally.done += 1;
                self.tally.errors += u64::from(session.answer.sqlstate != session.expected);
            }
        }
        let answer = &session.answer;
        let received = answer.received as i64;
        let numbers = [due, sent, session.first, done, injector, gate, server, answer.rows, received];
        self.records.extend_from_slice(&session.ordinal.to_le_bytes());
        self.records.extend_from_slice(&session.seq.to_le_bytes());
        for number in numbers {
            self.records.extend_from_slice(&number.to_le_bytes());
        }
        self.records.extend_from_slice(&answer.sqlstate);
        self.records.extend_from_slice(&session.expected);
        self.records.push(why);
        if self.records.len() >= KEPT {
            self.flush();
        }
    }
}
