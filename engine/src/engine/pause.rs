//! A pause of the run: no transaction is begun, open ones end by the schedule, and every later moment shifts.
//!
//! The reference is `pgdyno.trace.engine.pausing`.

use super::{Engine, Timed};
use crate::sys;
use std::cmp::Reverse;

/// A pause that lasts, and what those before it came to; times in us.
#[derive(Default)]
pub(super) struct Pausing {
    /// Since when one lasts.
    pub since: Option<i64>,
    /// By how much those that are over have shifted the schedule.
    pub shift: i64,
    /// Sessions that are due, and wait for its end.
    resting: Vec<u32>,
}

impl Pausing {
    /// How long all pauses took until now, the one that lasts included.
    pub fn total(&self, now: i64) -> i64 {
        self.shift + self.since.map_or(0, |since| now - since)
    }
}

impl Engine {
    /// Begin a pause, or end it, where who started us has asked for that.
    pub(super) fn heed_pause(&mut self) {
        if sys::pause_asked() == self.pausing.since.is_some() {
            return;
        }
        let now = self.now();
        match self.pausing.since {
            None => {
                self.pausing.since = Some(now);
                self.tally.pauses.push([now, -1, 0]);
            }
            // nothing is due before the run begins, and a negative end says that a pause lasts
            Some(since) if now >= 0 => {
                self.end_pause(now);
                self.go_on(since, now);
            }
            Some(_) => {}
        }
    }

    /// Tell whether a session may begin nothing now: a pause lasts, and it is in no transaction.
    pub(super) fn rests(&self, number: usize) -> bool {
        self.pausing.since.is_some() && !self.sessions[number].answer.in_transaction
    }

    /// Keep a session whose moment came in a pause for its end; a gate of it stays as it is.
    pub(super) fn rest(&mut self, number: usize, kind: Timed, now: i64) {
        if kind == Timed::Due {
            self.pausing.resting.push(number as u32);
        } else {
            self.after(number, now + self.plan.stall_ms * 1000, kind);
        }
    }

    /// Count the sessions that are at something in the pause that lasts.
    pub(super) fn count_open(&mut self) {
        if self.pausing.since.is_some() {
            let open = |one: &&crate::session::Session| one.connection.is_some() && one.is_open();
            let count = self.sessions.iter().filter(open).count() as i64;
            if let Some(pause) = self.tally.pauses.last_mut() {
                pause[2] = count;
            }
        }
    }

    /// End the pause that lasts, if one does.
    pub(super) fn end_pause(&mut self, now: i64) {
        self.count_open();
        if let (Some(since), Some(pause)) = (self.pausing.since.take(), self.tally.pauses.last_mut()) {
            pause[1] = now;
            self.pausing.shift += now - since;
        }
    }

    /// Shift what is to come, but for sessions in a transaction: theirs is shifted from its end on.
    fn go_on(&mut self, since: i64, now: i64) {
        for session in self.sessions.iter_mut().filter(|one| !one.is_open()) {
            // a captured pause that began while the clock stood still begins when it goes on
            let from = if self.plan.thinks { since.max(session.previous_done) } else { since };
            session.due += now - from;
            session.shift = self.pausing.shift;
            for moment in [&mut session.previous_done, &mut session.released] {
                if *moment > since {
                    *moment = now;
                }
            }
        }
        let (sessions, heap) = (&self.sessions, std::mem::take(&mut self.heap));
        let shifted = |Reverse((moment, kind, number, place)): Reverse<(i64, Timed, u32, u64)>| {
            let session = &sessions[number as usize];
            let waits = kind == Timed::Due && session.place == place && !session.is_open();
            Reverse((if waits { session.due.max(now) } else { moment }, kind, number, place))
        };
        self.heap = heap.into_iter().map(shifted).collect();
        for number in std::mem::take(&mut self.pausing.resting) {
            let moment = self.sessions[number as usize].due.max(now);
            self.after(number as usize, moment, Timed::Due);
        }
    }
}
