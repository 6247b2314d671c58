//! A trace of csvlog: what `trace/build.py` does with DuckDB and numpy, at a fraction of the processor time.
//!
//! It is told what to read on standard input, asks there and on standard output for the fingerprints of new texts, and
//! says what it found before it writes. What is not as PostgreSQL writes it is not judged here: it says so and ends, and
//! the Python builder reads the log. `tests/contract/test_trace_builders.py` holds both to the same traces.

mod bytes;
mod edges;
mod encodings;
mod known;
mod lines;
mod pairing;
mod parquet;
mod records;
mod rows;
mod segments;
mod snappy;
mod spill;
mod symbols;
mod text;
mod texts;
mod thrift;
mod values;
mod writing;

use crate::json::{self, Json};
use crate::sys;
use bytes::{put_count, put_text, Taker};
use rows::Judged;
use segments::{Builder, Failure, Source};
use std::io::{self, Read, Write};

/// Build one trace; exit code 0, also where the log has to be read by the Python builder, 1 where it cannot.
pub fn run(parent: i32) -> Result<i32, (i32, String)> {
    if !sys::end_with(parent) {
        return Ok(1);
    }
    match build() {
        Ok(()) => Ok(0),
        Err(Failure::Odd(reason)) => match answer(b'O', reason.as_bytes()) {
            Ok(()) => Ok(0),
            Err(error) => Err((1, error.to_string())),
        },
        Err(Failure::Io(error)) => Err((1, error.to_string())),
    }
}

fn build() -> Result<(), Failure> {
    let asked = read_plan()?;
    let files = asked.list("logs").into_iter().map(|log| {
        let left = log.number("end").map(|end| (end - log.number("begin").unwrap_or(0)).max(0) as u64);
        let file = sys::inherited(log.number("fd").unwrap_or(-1) as i32)?;
        Ok(Source { file, begin: log.number("begin").unwrap_or(0) as u64, left })
    });
    let sources: io::Result<Vec<Source>> = files.collect();
    let descriptor = |name: &str| sys::inherited(asked.number(name).unwrap_or(-1) as i32);
    let zones = match asked.0.iter().find(|(name, _)| name == "zones") {
        Some((_, Json::Object(zones))) => {
            zones.iter().filter_map(|(name, east)| Some((name.clone(), whole(east)?))).collect()
        }
        _ => Vec::new(),
    };
    let reasons = rows::Reasons {
        ours: asked.text("ours"),
        login: asked.text("login"),
        replication: asked.text("replication"),
        fastpath: asked.text("fastpath"),
        fetch: asked.text("fetch"),
        begun: asked.text("begun"),
    };
    let segment = asked.number("segment").unwrap_or(1 << 20) as usize;
    let mut builder = Builder::new(zones, reasons, segment, descriptor("spill")?);
    for source in sources? {
        builder.read(source)?;
    }
    builder.end()?;
    answer(b'S', builder.summary().as_bytes())?;
    let mut word = [0];
    if io::stdin().read(&mut word)? == 0 || word != *b"W" {
        return Ok(()); // what was found is no trace
    }
    let columns: Vec<(String, String)> =
        asked.list("columns").iter().map(|column| (column.string("name"), column.string("type"))).collect();
    builder.write(descriptor("out")?, &columns)?;
    answer(b'E', b"")?;
    Ok(())
}

/// Members of an object of the plan.
struct Plan(Vec<(String, Json)>);

impl Plan {
    fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(whole)
    }

    fn string(&self, name: &str) -> String {
        match self.get(name) {
            Some(Json::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn text(&self, name: &str) -> Vec<u8> {
        self.string(name).into_bytes()
    }

    fn list(&self, name: &str) -> Vec<Plan> {
        let Some(Json::List(found)) = self.get(name) else { return Vec::new() };
        found
            .iter()
            .filter_map(|one| if let Json::Object(members) = one { Some(Plan(members.clone())) } else { None })
            .collect()
    }
}

fn whole(value: &Json) -> Option<i64> {
    if let Json::Number(number) = value {
        Some(*number as i64)
    } else {
        None
    }
}

fn read_plan() -> io::Result<Plan> {
    let text = String::from_utf8(read_part()?).map_err(|_| io::ErrorKind::InvalidData)?;
    match json::read(&text) {
        Ok(Json::Object(members)) => Ok(Plan(members)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Read what a length stands before.
fn read_part() -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    let mut stdin = io::stdin().lock();
    stdin.read_exact(&mut length)?;
    let mut part = vec![0; u32::from_le_bytes(length) as usize];
    stdin.read_exact(&mut part)?;
    Ok(part)
}

fn answer(kind: u8, text: &[u8]) -> io::Result<()> {
    let mut out = vec![kind];
    put_text(&mut out, Some(text));
    let mut stdout = io::stdout().lock();
    stdout.write_all(&out)?;
    stdout.flush()
}

/// Ask for the fingerprints and the judgement of texts.
fn ask(texts: &[&[u8]]) -> io::Result<Vec<Judged>> {
    let mut out = Vec::new();
    put_count(&mut out, Some(texts.len()));
    texts.iter().for_each(|text| put_text(&mut out, Some(text)));
    answer(b'K', &out)?;
    let part = read_part()?;
    let mut taker = Taker(&part);
    let mut next = || Ok::<_, io::Error>(taker.text()?.map(Box::from));
    texts.iter().map(|_| Ok(Judged { fingerprint: next()?, reason: next()?, shown: next()? })).collect()
}
