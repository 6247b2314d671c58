//! The engine: one loop over all sessions, each statement at its due moment, each answer on record.
//!
//! The reference is `pgdyno.trace.engine.loop`: the same order of doing things, the same arithmetic of lag. What is
//! sent is in `engine/sends.rs`, what comes back in `engine/answers.rs`.

mod answers;
mod pause;
mod sends;

use crate::keys::KeyBook;
use crate::plan::Plan;
use crate::pool::{Job, Pool};
use crate::session::{skip, Session};
use crate::sys::{self, Poll};
use crate::tally::Tally;
use crate::tape::Tape;
use pause::Pausing;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

const CHUNK: usize = 65536;
const TICK_US: i64 = 200_000;
/// It wakes at least so often, so that one that was kept from running knows since when.
const PULSE_US: i64 = 10_000;
/// What is due within it is looked out for: to sleep and to wake up takes as long of the processor.
const NEAR_US: i64 = 10;
/// Lateness of ours that is passed on to what a session sends next; less may be of any machine.
const LATE_US: i64 = 2000;
const RECORD_SIZE: usize = 91;
const KEPT: usize = RECORD_SIZE * 1024;

/// What a moment on the heap is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timed {
    Due,
    Cancel,
    Stall,
    Tick,
}

/// One run over a tape.
pub struct Engine {
    plan: Arc<Plan>,
    tape: Tape,
    tally: Tally,
    /// Why the run ends before the tape does.
    ended: String,
    /// What went wrong with the records: then nobody can be told how the run ended.
    broken: Option<String>,
    file: File,
    records: Vec<u8>,
    sessions: Vec<Session>,
    keys: KeyBook,
    numbers: HashMap<u32, u32>,
    live: usize,
    /// Moment, what for, number of the session, and its place: what is past its place is of no meaning.
    heap: BinaryHeap<Reverse<(i64, Timed, u32, u64)>>,
    pool: Pool,
    poll: Poll,
    begin: i64,
    pausing: Pausing,
    /// For when the timer is set.
    armed: i64,
    /// Since when it was to run and did not, where that is long enough to matter.
    away: i64,
}

impl Engine {
    /// Make one for the plan's share of a tape; records are appended to `file`.
    pub fn new(plan: Plan, tape: Tape, file: File) -> io::Result<Engine> {
        let plan = Arc::new(plan);
        let own = tape.sessions().filter(|one| one.ordinal % plan.shards == plan.shard);
        let sessions: Vec<_> = own
            .map(|one| Session {
                ordinal: one.ordinal,
                place: one.first,
                last: one.last,
                ended_seq: -1,
                ..Session::default()
            })
            .collect();
        let poll = Poll::new()?;
        Ok(Engine {
            tape,
            tally: Tally::default(),
            ended: String::new(),
            broken: None,
            file,
            records: Vec::with_capacity(KEPT),
            numbers: sessions.iter().enumerate().map(|(number, one)| (one.ordinal, number as u32)).collect(),
            live: sessions.len(),
            sessions,
            keys: KeyBook::default(),
            heap: BinaryHeap::new(),
            pool: Pool::new(plan.clone(), poll.waker()?),
            poll,
            begin: 0,
            pausing: Pausing::default(),
            armed: i64::MIN,
            away: i64::MAX,
            plan,
        })
    }

    /// Send the tape; the error is for records that cannot be written. No session stays open, whatever ends it.
    pub fn run(mut self) -> Result<Tally, String> {
        self.begin = sys::monotonic_ns() + (self.plan.starts_in_s * 1e9) as i64;
        let now = self.now();
        self.heap.push(Reverse((now + TICK_US, Timed::Tick, 0, 0)));
        for number in 0..self.sessions.len() {
            self.advance(number, now);
        }
        let mut buffer = vec![0; CHUNK];
        while self.live > 0 && self.ended.is_empty() {
            self.heed_pause();
            if let Err(error) = self.step(&mut buffer) {
                self.end(&error.to_string());
            }
            match sys::signalled() {
                0 => {}
                sys::SIGINT => self.end("SIGINT"),
                _ => self.end("SIGTERM"),
            }
        }
        self.close();
        match self.broken {
            Some(reason) => Err(reason),
            None => Ok(self.tally),
        }
    }

    #[inline]
    fn now(&self) -> i64 {
        (sys::monotonic_ns() - self.begin).div_euclid(1000)
    }

    fn end(&mut self, reason: &str) {
        if self.ended.is_empty() {
            self.ended = reason.into();
        }
    }

    fn step(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let now = self.now();
        let mut next = now;
        while let Some(Reverse((moment, kind, number, place))) = self.heap.peek().copied() {
            if moment > now {
                next = moment;
                break;
            }
            self.heap.pop();
            if kind == Timed::Tick {
                self.tick(now);
            } else if self.sessions[number as usize].place == place {
                if kind != Timed::Cancel && self.rests(number as usize) {
                    self.rest(number as usize, kind, now);
                } else {
                    self.at_moment(number as usize, kind, moment, now);
                }
            }
        }
        let is_near = next - now <= NEAR_US;
        if !is_near {
            self.arm(now, next);
        }
        let events = self.poll.wait(is_near)?;
        let over = if is_near { next } else { self.armed };
        self.away = if self.now() - over >= LATE_US { over } else { i64::MAX };
        for event in 0..events {
            match self.poll.token(event) {
                Poll::TIMER => {}
                Poll::WAKE => {
                    self.poll.calm();
                    while let Ok(answered) = self.pool.answered.try_recv() {
                        self.take_opened(answered);
                    }
                }
                number => {
                    self.send_rest(number as usize);
                    self.read(number as usize, buffer);
                }
            }
        }
        Ok(())
    }

    /// Have the timer wake it at `next`, or by the pulse; one that is on its way for that is left alone.
    fn arm(&mut self, now: i64, next: i64) {
        let pulse = now + PULSE_US;
        if next <= pulse {
            self.armed = next;
        } else if self.armed <= now || self.armed > pulse {
            self.armed = pulse;
        }
        self.poll.arm(self.begin + self.armed * 1000);
    }

    fn at_moment(&mut self, number: usize, kind: Timed, moment: i64, now: i64) {
        let stall = self.plan.stall_ms * 1000;
        let session = &mut self.sessions[number];
        match kind {
            Timed::Due if session.gates.is_empty() => self.act_and_advance(number, now),
            Timed::Due => {
                session.is_held = true;
                let begin = session.due.max(session.previous_done);
                self.after(number, begin + stall, Timed::Stall);
            }
            Timed::Cancel if session.is_busy => {
                let job = Job::Cancel { pid: session.pid, key: session.key.clone() };
                self.tally.cancelled += 1;
                self.submit(job);
            }
            Timed::Stall if !session.gates.is_empty() => {
                let opens = self.opens_at(number, moment, now, stall);
                if opens > now {
                    self.after(number, opens, Timed::Stall);
                    return;
                }
                let session = &mut self.sessions[number];
                session.gates.clear();
                (session.is_held, session.released) = (false, opens);
                self.tally.stalls += 1;
                self.act_and_advance(number, now);
            }
            _ => {}
        }
    }

    /// When the gates of a held session open or, where that is after `now`, are looked at again.
    ///
    /// They open where what they wait for may wait for them: a statement whose answer is long in coming, as a lock may
    /// hold it, the session itself, or nobody. What is late, or not due, gets there: to pass it would break the order,
    /// and locks and gates then really wait for each other. This look was planned for `asked`: that it comes later does
    /// not prolong a stall, it is our own lateness.
    fn opens_at(&self, number: usize, asked: i64, now: i64, stall: i64) -> i64 {
        let (mut earliest, mut seen, mut held) = (now + stall, HashSet::from([number]), vec![number]);
        while let Some(one) = held.pop() {
            let gates = &self.sessions[one].gates;
            for gate in gates {
                let Some(other) = self.numbers.get(&gate.0).map(|other| *other as usize).filter(|one| *one != number)
                else {
                    return asked;
                };
                let session = &self.sessions[other];
                if !seen.insert(other) {
                    continue;
                }
                if session.is_held {
                    held.push(other);
                } else if session.is_busy && session.sent >= 0 {
                    earliest = earliest.min(asked.max(session.sent + stall));
                }
            }
        }
        earliest
    }

    fn after(&mut self, number: usize, moment: i64, kind: Timed) {
        self.heap.push(Reverse((moment, kind, number as u32, self.sessions[number].place)));
    }

    fn submit(&mut self, job: Job) {
        if let Err(error) = self.pool.submit(job) {
            self.end(&error);
        }
    }

    fn tick(&mut self, now: i64) {
        self.heap.push(Reverse((now + TICK_US, Timed::Tick, 0, 0)));
        if now.rem_euclid(1_000_000) < TICK_US {
            sys::let_go(self.tape.content); // about once a second, so that a tape of any length takes the memory of one
        }
        self.flush();
        if self.plan.max_seconds.is_some_and(|most| (now - self.pausing.total(now)) as f64 >= most * 1e6) {
            self.end("the time limit");
        }
        self.tell(now);
    }

    fn tell(&mut self, now: i64) {
        self.count_open();
        (self.tally.at_us, self.tally.cpu_s) = (now, sys::process_cpu_s());
        let mut out = io::stdout().lock();
        if out.write_all(self.tally.line().as_bytes()).and_then(|()| out.flush()).is_err() {
            self.end("nobody listens");
        }
    }

    /// Write the records that are kept.
    fn flush(&mut self) {
        // after a failure a part of a record may stand at the end
        if self.broken.is_none() {
            if let Err(error) = self.file.write_all(&self.records) {
                let text = error.to_string();
                let reason =
                    format!("the records cannot be written: {}", text.split(" (os error").next().unwrap_or(""));
                self.end(&reason);
                self.broken = Some(reason);
            }
        }
        self.records.clear();
    }

    /// End all sessions; what the server is still at is cancelled, so that nothing of ours goes on there.
    fn close(&mut self) {
        self.end_pause(self.now().max(0));
        let busy = self.sessions.iter().filter(|session| session.is_at_work());
        let busy = busy.map(|session| (session.pid, session.key.clone())).collect();
        self.pool.end(busy);
        for number in 0..self.sessions.len() {
            if self.sessions[number].is_at_work() && !self.sessions[number].is_restoring {
                self.keep(number, -1, skip::RUN_ENDED);
            }
            self.drop_connection(number);
        }
        self.flush();
        if self.broken.is_none() {
            self.tally.ended = if self.ended.is_empty() { "complete".into() } else { self.ended.clone() };
            self.tell(self.now());
        }
    }
}
