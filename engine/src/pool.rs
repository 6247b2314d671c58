//! Threads for what blocks: opening sessions, and asking the server to cancel.

use crate::login::{cancel, open_session, Opened};
use crate::plan::Plan;
use crate::scram::Salted;
use crate::sys::monotonic_ns;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{scope, Builder};

const MOST_THREADS: usize = 16;
const STACK: usize = 256 * 1024;

/// What a thread is asked for.
pub enum Job {
    Open { number: u32, user: String, database: String, application: String },
    Cancel { pid: i32, key: Vec<u8> },
}

/// A session that was asked for: its number, when that began (ns), and what came of it.
pub type Answered = (u32, i64, Result<Opened, String>);

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

struct Shared {
    plan: Arc<Plan>,
    salted: Salted,
    queue: Mutex<Queue>,
    more: Condvar,
    wake: File,
}

/// At most 16 threads, which take jobs in the order in which they came; they end with the process.
pub struct Pool {
    shared: Arc<Shared>,
    sender: Sender<Answered>,
    pub answered: Receiver<Answered>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, answered: &Sender<Answered>) {
        let mut queue = self.queue();
        loop {
            let Some(job) = queue.jobs.pop_front() else {
                queue.idle += 1;
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            match job {
                Job::Open { number, user, database, application } => {
                    let began = monotonic_ns();
                    let found = open_session(&self.plan, &self.salted, &user, &database, &application);
                    if answered.send((number, began, found)).is_err() {
                        return;
                    }
                    let _ = (&self.wake).write(&1u64.to_ne_bytes());
                }
                Job::Cancel { pid, key } => cancel(&self.plan, pid, &key),
            }
            queue = self.queue();
        }
    }
}

impl Pool {
    /// Make a pool without a thread as yet; `wake` is written to when a session was answered.
    pub fn new(plan: Arc<Plan>, wake: File) -> Pool {
        let (sender, answered) = channel();
        let (salted, queue, more) = (Salted::default(), Mutex::default(), Condvar::new());
        Pool { shared: Arc::new(Shared { plan, salted, queue, more, wake }), sender, answered }
    }

    /// Have a job done; the error is that of a system which gives us no thread at all.
    pub fn submit(&self, job: Job) -> Result<(), String> {
        let mut queue = self.shared.queue();
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.threads < MOST_THREADS {
            let (shared, sender) = (self.shared.clone(), self.sender.clone());
            match Builder::new().stack_size(STACK).spawn(move || shared.work(&sender)) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => return Err(format!("no thread can be started: {error}")),
                Err(_) => {}
            }
        }
        self.shared.more.notify_one();
        Ok(())
    }

    /// Forget what no thread has begun, then cancel what these sessions are at, and wait for that.
    pub fn end(&self, busy: Vec<(i32, Vec<u8>)>) {
        self.shared.queue().jobs.clear();
        let (busy, plan) = (Mutex::new(busy), &*self.shared.plan);
        scope(|scope| {
            for _ in 0..MOST_THREADS {
                let work = || loop {
                    let next = busy.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some((pid, key)) = next else { return };
                    cancel(plan, pid, &key);
                };
                if Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_err() {
                    work();
                }
            }
        });
    }
}
