//! pgdyno's compiled engine: a plan as JSON on standard input, lines of progress on standard output.
//!
//! SIGINT and SIGTERM end it, SIGUSR1 pauses it and SIGUSR2 has it go on: once it has told something, and not before.
//!
//! It does what `python -m pgdyno.trace.engine` does, and `tests/contract/test_engine_contract.py` holds both to it.

mod digest;
mod engine;
mod json;
mod keys;
mod login;
mod plan;
mod pool;
mod scram;
mod session;
mod sys;
mod tally;
mod tape;
mod trace;
mod wire;

use engine::Engine;
use plan::Plan;
use std::io::{self, Read};
use std::process::exit;
use tape::Tape;

/// What it is told and tells; raised here and in `src/pgdyno/trace/engines.py` with every change of either.
const VERSION: u32 = 1;
const ENDED_BEFORE: i32 = 1;
const NO_TAPE: i32 = 2;

/// Run one engine, or say its version; exit code 0 for a tape that was sent whole, 1 for one that ended before, 2 for no tape.
fn main() {
    let done = match std::env::args().nth(1).as_deref() {
        Some("version") => {
            println!("{VERSION}");
            Ok(0)
        }
        Some("trace") => trace::run(sys::parent()),
        _ => run(sys::parent()),
    };
    let code = match done {
        Ok(code) => code,
        Err((code, reason)) => {
            eprintln!("{reason}");
            code
        }
    };
    exit(code); // threads that are still at opening a session end with us
}

fn run(parent: i32) -> Result<i32, (i32, String)> {
    let before = |reason| (ENDED_BEFORE, reason);
    let failed = |what: &'static str| move |error: io::Error| (ENDED_BEFORE, format!("{what}: {error}"));
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(failed("the plan cannot be read"))?;
    let plan = Plan::read(&text).map_err(before)?;
    if let Some((uid, gid, groups)) = plan.account().map_err(before)? {
        sys::become_account(uid, gid, &groups).map_err(failed("the account cannot be taken on"))?;
    }
    if !sys::end_with(parent) {
        return Ok(ENDED_BEFORE); // nobody is left who knows that it would load a server
    }
    let file = sys::inherited(plan.tape).map_err(failed("the tape cannot be read"))?;
    let records = sys::inherited(plan.records).map_err(failed("the records cannot be written"))?;
    let tape = Tape::map(&file).map_err(|reason| (NO_TAPE, reason))?;
    let engine = Engine::new(plan, tape, records).map_err(failed("the engine cannot start"))?;
    sys::listen_to_signals();
    let tally = engine.run().map_err(before)?;
    Ok(if tally.ended == "complete" { 0 } else { ENDED_BEFORE })
}
