//! Statements of lines: `trace/pairing.py` line by line, session after session instead of array by array. What a line
//! is, which belong together, and what is carried into the next segment is said there.

use super::lines::{Line, NONE};
use std::collections::HashMap;

const BEGIN: u8 = 1;
const END: u8 = 2;

/// A statement, or an end of a session.
pub struct Row {
    /// The line that has text, name and parameters.
    pub source: usize,
    pub error: Option<usize>,
    pub seq: i64,
    pub due: i64,
    pub end: i64,
    pub parse: i64,
    pub bind: i64,
    pub execute: i64,
    pub tx: i64,
    pub xid: i64,
    pub place: i64,
    pub code: u8,
}

/// What is known of a session between two segments.
pub struct Session {
    /// Its number among all that were ever seen.
    pub slot: u32,
    pub first_t: i64,
    /// It began before the log did: lines of it are missing, or its start is earlier, which is known to the second.
    pub is_older: bool,
    last_n: i64,
    pub seq: i64,
    tx: i64,
    vx: i64,
    ctl: u8,
    xid: i64,
    pub end: i64,
    pub first_due: i64,
    last_kind: u8,
    pub connected: bool,
    pub ended: bool,
    /// It began before the log, and its first statement here begins no transaction.
    joined: bool,
    /// It ends a transaction that it had begun by then.
    begun_before: bool,
    /// Statements of its first transaction that nothing else keeps from being sent.
    pub of_first_tx: i64,
    /// User, database and application as rows first tell them.
    pub person: [Option<Box<[u8]>>; 3],
    /// Names of prepared statements and hashes of their texts.
    pub names: Vec<(Box<[u8]>, u64)>,
    /// Transaction of the last statement that was counted.
    pub counted_tx: Option<i64>,
}

impl Session {
    fn new(slot: u32, first_t: i64, first_n: i64, is_older: bool) -> Session {
        Session {
            slot,
            first_t,
            is_older,
            last_n: first_n - 1,
            seq: 0,
            tx: NONE,
            vx: 0,
            ctl: 0,
            xid: NONE,
            end: 0,
            first_due: NONE,
            last_kind: 0,
            connected: false,
            ended: false,
            joined: false,
            begun_before: false,
            of_first_tx: 0,
            person: [None, None, None],
            names: Vec::new(),
            counted_tx: None,
        }
    }

    /// Whether its first transaction here began before the log; one that never ends has several statements.
    pub fn begins_within_tx(&self) -> bool {
        self.begun_before || (self.joined && self.tx == 0 && self.seq - i64::from(self.ended) > 1)
    }
}

#[derive(Default)]
pub struct Pairing {
    pub sessions: HashMap<i64, Session>,
    pub gaps: i64,
    pub orphans: i64,
    pub cut: i64,
    pub unworded: i64,
    pub read: i64,
    pub slots: u32,
    /// When the first line of all was written.
    pub begins: Option<i64>,
}

/// Lines of a segment, and their text.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    pub lines: &'a [Line],
    pub text: &'a [u8],
    /// Those before were carried into it.
    pub again: usize,
    /// Place of the first line in the whole log.
    pub first_place: i64,
    pub is_last: bool,
}

/// What the lines of one session in one segment came to.
#[derive(Default)]
pub struct Paired {
    pub rows: Vec<Row>,
    pub carried: Vec<usize>,
    /// Places in their session and lines of errors that came after their statement.
    pub late: Vec<(i64, usize)>,
}

impl Pairing {
    /// Pair lines of a session, in the order of their numbers.
    pub fn pair(&mut self, segment: Segment, order: &[u32], out: &mut Paired) -> Result<(), &'static str> {
        let Segment { lines, text, again, is_last, .. } = segment;
        out.rows.clear();
        out.carried.clear();
        out.late.clear();
        let sid = lines[order[0] as usize].sid;
        self.number(sid, lines, order, again)?;
        let session = self.sessions.get_mut(&sid).ok_or("a session is not known")?;
        let events: Vec<usize> =
            order.iter().map(|at| *at as usize).filter(|at| !matches!(lines[*at].kind, b'.' | b'R')).collect();
        if events.is_empty() {
            return Ok(());
        }
        let at = |event: usize| &lines[events[event]];
        let size = events.len();
        let is_fresh = |event: usize| event == 0 || event == size || begins(at(event - 1), at(event), text);
        let fresh: Vec<bool> = (0..=size).map(is_fresh).collect();
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(size); // with what each is based on
        let mut is_row = vec![false; size];
        for event in 0..size {
            let kind = at(event).kind;
            let is_unended = matches!(kind, b'S' | b'X' | b'P' | b'B') && fresh[event + 1];
            if is_unended && !is_last && event + 1 == size {
                let mut first = event;
                while first > 0 && event - first < 2 && !fresh[first] {
                    first -= 1;
                }
                out.carried.extend(&events[first..]);
                continue;
            }
            let is_started =
                !fresh[event] && matches!(kind, b'D' | b'E') && event > 0 && matches!(at(event - 1).kind, b'S' | b'X');
            if kind == b'D' && !is_started {
                let is_first = session.last_kind == 0 && event == 0;
                self.cut += i64::from(is_first);
                self.orphans += i64::from(!is_first);
            }
            let is_whole = matches!(kind, b'T' | b'U' | b'N' | b'C' | b'Q' | b'F')
                || (kind == b'D' && is_started)
                || (kind == b'E' && (at(event).sql.is_some() || !fresh[event]));
            self.cut += i64::from(is_last && is_unended && matches!(kind, b'S' | b'X'));
            if is_whole || (is_unended && kind != b'B') {
                is_row[event] = true;
                places.push((event, if is_started { event - 1 } else { event }));
            }
        }
        make_rows(session, segment, &events, &fresh, &places, out);
        for event in 0..size {
            let is_login = at(event).kind == b'L';
            if !is_login && (at(event).kind != b'E' || at(event).sql.is_some() || !fresh[event]) {
                continue;
            }
            let (kind, seq) = if event == 0 {
                (session.last_kind, session.seq - 1)
            } else if is_row[event - 1] {
                let row = places.partition_point(|(place, _)| *place < event) - 1;
                (at(event - 1).kind, out.rows[row].seq)
            } else {
                (b'.', 0)
            };
            if if is_login { kind == b'C' } else { matches!(kind, b'U' | b'D') } {
                out.late.push((seq, events[event]));
            } else if !is_login {
                self.unworded += 1;
            }
        }
        if let (Some(first), Some(last)) = (out.rows.first(), out.rows.last()) {
            let (first_kind, last_kind) = (at(places[0].0).kind, at(places[places.len() - 1].0).kind);
            if session.seq == 0 {
                session.first_due = first.due;
                session.connected = first_kind == b'C';
            }
            session.seq = last.seq + 1;
            session.ended = last_kind == b'Q';
            session.end = last.end.max(last.due + last.parse.max(0) + last.bind.max(0));
        }
        let kind = at(size - 1).kind;
        session.last_kind = if kind != b'D' || is_row[size - 1] { kind } else { b'.' };
        Ok(())
    }

    fn number(&mut self, sid: i64, lines: &[Line], order: &[u32], again: usize) -> Result<(), &'static str> {
        let mut fresh = order.iter().map(|at| *at as usize).filter(|at| *at >= again).map(|at| &lines[at]).peekable();
        let Some(first) = fresh.peek() else { return Ok(()) };
        let session = self.sessions.entry(sid).or_insert_with(|| {
            self.slots += 1;
            let is_older = first.n > 1 || self.begins.is_some_and(|begins| started(sid) + 1_000_000 <= begins);
            Session::new(self.slots - 1, first.t, first.n, is_older)
        });
        for line in fresh {
            if line.n <= session.last_n {
                return Err("line numbers come twice, or out of order");
            }
            self.gaps += line.n - session.last_n - 1;
            session.last_n = line.n;
        }
        Ok(())
    }
}

/// When a session began, in microseconds since 1970: the first eight digits of its number are the second.
pub fn started(sid: i64) -> i64 {
    let digits = i64::from(16 - sid.leading_zeros() / 4);
    (sid >> (4 * (digits - 8).max(0))) * 1_000_000
}

/// Tell whether the second of two lines begins a new group.
fn begins(first: &Line, then: &Line, text: &[u8]) -> bool {
    let fails = then.kind == b'E' && (!then.sql.is_some() || then.sql.of(text) == first.sql.of(text));
    let joins = match first.kind {
        b'S' | b'X' => then.kind == b'D' || (fails && !is_before_begin(then.tag.of(text))),
        b'P' => matches!(then.kind, b'B' | b'X' | b'U') || fails,
        b'B' => matches!(then.kind, b'X' | b'U') || fails,
        _ => false,
    };
    !joins
}

/// Whether an error's statement failed before it was begun, by what its session did.
fn is_before_begin(tag: Option<&[u8]>) -> bool {
    tag.is_some_and(|tag| [b"idle".as_slice(), b"PARSE", b"BIND"].iter().any(|word| tag.starts_with(word)))
}

fn make_rows(
    session: &mut Session,
    segment: Segment,
    events: &[usize],
    fresh: &[bool],
    places: &[(usize, usize)],
    out: &mut Paired,
) {
    let at = |event: usize| &segment.lines[events[event]];
    let before =
        |event: usize, wanted: u8| (event > 0 && !fresh[event] && at(event - 1).kind == wanted).then(|| event - 1);
    let mut end_before = session.end;
    let (mut vx_before, mut xid_before) = (session.vx, session.xid);
    let mut told = session.ctl;
    for (number, (place, base)) in places.iter().copied().enumerate() {
        let line = at(place);
        let kind = line.kind;
        let bind = before(base, b'B');
        let parse = before(bind.unwrap_or(base), b'P');
        let is_failed = kind == b'E';
        let bind_us = bind.map_or(NONE, |bind| at(bind).dur);
        let mut parse_us = parse.map_or(NONE, |parse| at(parse).dur);
        if matches!(kind, b'N' | b'P') {
            parse_us = line.dur;
        }
        let execute_us = if matches!(kind, b'T' | b'U' | b'D') { line.dur } else { NONE };
        let waited = if is_failed && base != place { line.t - at(base).t } else { 0 };
        let spent = bind_us.max(0) + parse_us.max(0) + execute_us.max(0) + waited.max(0);
        let end = line.t.max(end_before + spent);
        end_before = end;

        let is_edge = matches!(kind, b'C' | b'Q');
        let (vx, ctl, xid) = if is_edge { (0, 0, NONE) } else { (line.vx, at(base).ctl, line.xid) };
        let closes = ctl == END && vx == 0 && vx_before > 0;
        let continues = if vx == NONE { told == BEGIN } else { (vx > 0 && vx == vx_before) || closes };
        session.tx += i64::from(!continues && !is_edge);
        let whole_xid = if closes && xid == NONE { xid_before } else { xid };
        (vx_before, xid_before) = (vx, xid);
        session.xid = whole_xid;
        if ctl > 0 {
            told = ctl;
        }
        if number == 0 && session.seq == 0 {
            session.joined = session.is_older && kind != b'C' && ctl != BEGIN;
        }
        session.begun_before |= session.joined && session.tx == 0 && ctl == END;

        let source = if is_failed && base == place { bind.or(parse).unwrap_or(place) } else { base };
        let code = match at(source).kind {
            b'T' | b'S' => b'S',
            b'U' | b'X' | b'B' => b'X',
            b'P' if is_failed => b'X',
            b'P' => b'N',
            other => other,
        };
        out.rows.push(Row {
            source: events[source],
            error: is_failed.then(|| events[place]),
            seq: session.seq + number as i64,
            due: end - spent,
            end: if matches!(kind, b'S' | b'X') { NONE } else { end },
            parse: parse_us,
            bind: bind_us,
            execute: execute_us,
            tx: if is_edge { NONE } else { session.tx },
            xid: whole_xid,
            place: if matches!(kind, b'S' | b'X' | b'P' | b'B') {
                NONE
            } else {
                segment.first_place + events[place] as i64
            },
            code,
        });
    }
    session.vx = vx_before;
    session.ctl = told;
}

/// Return places of lines, session after session, in the order of their numbers: nearly always that of the log.
pub fn by_session(lines: &[Line]) -> Vec<u32> {
    let mut slots: HashMap<i64, usize> = HashMap::new();
    let (mut groups, mut of_line) = (Vec::<u32>::new(), Vec::with_capacity(lines.len()));
    let mut last = (i64::MIN, 0);
    for line in lines {
        if line.sid != last.0 {
            let fresh = slots.len();
            last = (line.sid, *slots.entry(line.sid).or_insert(fresh));
            groups.resize(slots.len(), 0);
        }
        groups[last.1] += 1;
        of_line.push(last.1 as u32);
    }
    let mut next = 0;
    for count in &mut groups {
        next += std::mem::replace(count, next);
    }
    let mut order = vec![0; lines.len()];
    for (at, group) in of_line.into_iter().enumerate() {
        let place = &mut groups[group as usize];
        order[*place as usize] = at as u32;
        *place += 1;
    }
    let mut from = 0;
    for to in groups {
        let part = &mut order[from..to as usize];
        if part.windows(2).any(|two| lines[two[0] as usize].n > lines[two[1] as usize].n) {
            part.sort_by_key(|at| lines[*at as usize].n);
        }
        from = to as usize;
    }
    order
}
