//! Rows of a trace of paired lines: names, values, refusals; what `trace/rows.py` says in SQL.

use super::bytes::{put_small, put_told, put_varint};
use super::lines::Line;
use super::pairing::{Row, Segment, Session};
use super::symbols::{Symbols, Told};
use super::text::{binds_one, binds_parameters, contains, ends_word};
use super::values::{in_context, of_one, put_single, Values};
use std::collections::hash_map::RandomState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Why a row is never sent, whatever its text.
pub struct Reasons {
    pub ours: Vec<u8>,
    pub login: Vec<u8>,
    pub replication: Vec<u8>,
    pub fastpath: Vec<u8>,
    pub fetch: Vec<u8>,
    pub begun: Vec<u8>,
}

/// What is known of a text without its constants.
#[derive(Default, Clone)]
pub struct Judged {
    pub fingerprint: Option<Box<[u8]>>,
    pub reason: Option<Box<[u8]>>,
    /// In place of the text, where that may hold a password.
    pub shown: Option<Box<[u8]>>,
}

/// A text of a statement: what is known of it, and its symbol where it comes again.
#[derive(Clone, Copy)]
pub struct Sql<'a> {
    pub judged: &'a Judged,
    pub again: Told<'a>,
}

/// Counts of what rows hold.
#[derive(Default)]
pub struct Counts {
    pub statements: i64,
    pub transactions: i64,
    pub errors: i64,
    pub broken: i64,
    pub doubtful: i64,
    pub unbound: i64,
    pub refused: BTreeMap<Vec<u8>, i64>,
    /// Of the values that end in dots, how many are how long; and the longest of all.
    cut: BTreeMap<usize, i64>,
    longest: usize,
}

impl Counts {
    /// How many values the server cut: none is longer but by bytes of a letter.
    pub fn cut_values(&self) -> i64 {
        self.cut.range((self.longest.saturating_sub(3)).max(4)..).map(|(_, count)| count).sum()
    }

    fn value(&mut self, value: &[u8]) {
        self.longest = self.longest.max(value.len());
        if value.ends_with(b"...") && value.len() > 3 {
            *self.cut.entry(value.len()).or_default() += 1;
        }
    }
}

/// Puts rows down one after another.
pub struct RowMaker {
    pub reasons: Reasons,
    pub counts: Counts,
    pub symbols: Symbols,
    pub hasher: RandomState,
    values: Values,
    value: Vec<u8>,
    name: Vec<u8>,
}

pub const KINDS: [&str; 5] = ["connect", "simple", "parse", "extended", "disconnect"];
const CONNECT: usize = 0;
const SIMPLE: usize = 1;
const PARSE: usize = 2;
const EXTENDED: usize = 3;
const DISCONNECT: usize = 4;

impl RowMaker {
    pub fn new(reasons: Reasons) -> RowMaker {
        RowMaker {
            reasons,
            counts: Counts::default(),
            symbols: Symbols::default(),
            hasher: RandomState::new(),
            values: Values::default(),
            value: Vec::new(),
            name: Vec::new(),
        }
    }

    /// Count rows as refused that began before the log, which only a later line told.
    pub fn refuse_more(&mut self, count: i64) {
        if count > 0 {
            *self.counts.refused.entry(self.reasons.begun.clone()).or_default() += count;
        }
    }

    /// Note names of prepared statements.
    pub fn learn(&self, session: &mut Session, segment: Segment, group: &[u32]) {
        let of_group = group.iter().map(|at| &segment.lines[*at as usize]);
        for line in of_group.filter(|line| line.kind == b'N') {
            let label = line.label.of(segment.text).unwrap_or_default();
            let hash = self.hasher.hash_one(line.sql.of(segment.text).unwrap_or_default());
            if !session.names.iter().any(|(name, known)| **name == *label && *known == hash) {
                session.names.push((label.into(), hash));
            }
        }
    }

    /// Append a row; its key stands elsewhere. The error says what only the parse tree of its text would tell.
    pub fn put(
        &mut self,
        row: &Row,
        session: &mut Session,
        lines: &[Line],
        text: &[u8],
        sql_known: Option<Sql>,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        let line = &lines[row.source];
        let error = row.error.map(|at| &lines[at]);
        let sql = line.sql.of(text);
        let judged = sql_known.map(|known| known.judged);
        let tag = error.and_then(|error| error.tag.of(text));
        let state = error.and_then(|error| error.state.of(text));
        let is_named = |tag: &[u8], word: &[u8]| tag.starts_with(word) && ends_word(tag, word.len());
        let kind = match row.code {
            b'C' => CONNECT,
            b'Q' => DISCONNECT,
            b'N' => PARSE,
            b'X' => EXTENDED,
            b'E' => {
                let is_extended = match tag {
                    Some(tag) => is_named(tag, b"PARSE") || is_named(tag, b"BIND"),
                    None => sql.is_some_and(binds_parameters),
                };
                if is_extended {
                    EXTENDED
                } else {
                    SIMPLE
                }
            }
            _ => SIMPLE,
        };
        let given = if line.kind == b'E' { None } else { line.detail.of(text) };
        let given = given.map(|detail| &detail[super::text::skip_characters(detail, 12)..]);
        let in_error = || {
            let context = error.and_then(|error| error.detail.of(text))?;
            in_context(context).or_else(|| of_one(context).filter(|_| sql.is_some_and(binds_one)))
        };
        let told = given.or_else(in_error).filter(|told| !told.is_empty());
        if let Some(told) = told {
            self.values.read(told);
            self.counts.broken += i64::from(self.values.is_broken);
            self.counts.doubtful += i64::from(contains(told, b"...'"));
        }
        let is_e = row.code == b'E';
        if row.code == b'X' && state.is_none() && told.is_none() && sql.is_some_and(binds_parameters) {
            return Err("a statement may lack its bound values");
        }
        if kind == EXTENDED && matches!(row.code, b'E' | b'X') && told.is_none() && sql.is_some_and(binds_parameters) {
            if let Some(state) = state {
                let is_parse = tag.is_some_and(|tag| tag.starts_with(b"PARSE"));
                self.counts.unbound += i64::from(!(is_e && (is_parse || (tag.is_none() && state.starts_with(b"42")))));
            }
        }
        let label = line.label.of(text);
        self.name.clear();
        let statement = match kind {
            PARSE | EXTENDED if is_e => {
                // without a tag, what has parameters was bound, unless its text is wrong
                let is_untold = || state.is_some_and(|state| !state.starts_with(b"42"));
                let is_bind = tag.map_or_else(is_untold, |tag| tag.starts_with(b"BIND"));
                let asked = sql.filter(|_| is_bind).map(|sql| self.hasher.hash_one(sql));
                let named = session.names.iter().filter(|(_, hash)| Some(*hash) == asked).map(|(name, _)| &**name);
                named.min().or(Some(b""))
            }
            PARSE | EXTENDED => label.map(|label| statement_name(label, session, &mut self.name)),
            _ => None,
        };
        let application = line.application.of(text);
        let is_edge = matches!(kind, CONNECT | DISCONNECT);
        for (known, text) in session.person.iter_mut().zip([line.user.of(text), line.database.of(text), application]) {
            if known.is_none() {
                *known = text.map(Box::from);
            }
        }
        let reason: Option<&[u8]> = if application.is_some_and(|name| name.starts_with(b"pgdyno")) {
            Some(&self.reasons.ours)
        } else if is_edge {
            None
        } else if line.is_walsender {
            Some(&self.reasons.replication)
        } else if row.code == b'F' {
            Some(&self.reasons.fastpath)
        } else if label.is_some_and(|label| label.starts_with(b"fetch from ")) {
            Some(&self.reasons.fetch)
        } else {
            None
        };
        let reason = reason.or_else(|| judged.and_then(|judged| judged.reason.as_deref()));
        if !is_edge {
            self.counts.statements += 1;
            self.counts.errors += i64::from(state.is_some());
            self.counts.transactions += i64::from(session.counted_tx != Some(row.tx));
            session.counted_tx = Some(row.tx);
            match reason {
                None => session.of_first_tx += i64::from(row.tx == 0),
                Some(reason) => match self.counts.refused.get_mut(reason) {
                    Some(count) => *count += 1,
                    None => drop(self.counts.refused.insert(reason.to_vec(), 1)),
                },
            }
        }
        let shown = judged.and_then(|judged| judged.shown.as_deref());
        out.push(kind as u8);
        put_small(out, if row.end == -1 { -1 } else { row.end - row.due });
        for number in [row.parse, row.bind, row.execute, row.place, row.tx, row.xid] {
            put_small(out, number);
        }
        let symbols = &mut self.symbols;
        put_told(out, symbols.of(statement));
        let again = sql_known.map_or(Told::Nothing, |known| known.again);
        let sql_told = if again == Told::Nothing { sql.map_or(Told::Nothing, Told::Text) } else { again };
        put_told(out, shown.map_or(sql_told, Told::Text));
        put_told(out, symbols.again(0, judged.and_then(|judged| judged.fingerprint.as_deref())));
        put_told(out, symbols.of(state));
        put_told(out, symbols.again(1, line.user.of(text)));
        put_told(out, symbols.again(2, line.database.of(text)));
        put_told(out, symbols.again(3, application));
        put_told(out, symbols.of(reason));
        let kept = told.filter(|_| shown.is_none());
        put_varint(out, kept.map_or(0, |_| 1 + self.values.found.len() as u64));
        for value in
            kept.iter().flat_map(|told| self.values.found.iter().map(|part| part.map(|(from, to)| &told[from..to])))
        {
            let Some(value) = value else {
                put_told(out, Told::Nothing);
                continue;
            };
            self.value.clear();
            put_single(&mut self.value, value);
            self.counts.value(&self.value);
            put_told(out, Told::Text(&self.value));
        }
        Ok(())
    }
}

/// The name that a client gave: behind it stands that of its portal, unless the name has a slash itself.
fn statement_name<'a>(label: &'a [u8], session: &Session, out: &'a mut Vec<u8>) -> &'a [u8] {
    const FETCH: &[u8] = b"fetch from ";
    let is_known = || session.names.iter().any(|(name, _)| **name == *label);
    let name = match label.iter().rposition(|byte| *byte == b'/') {
        Some(slash) if !is_known() => &label[..slash],
        _ => label,
    };
    if name == b"<unnamed>" {
        return b"";
    }
    let mut at = 0;
    while let Some(found) = super::text::find(&name[at..], FETCH) {
        out.extend_from_slice(&name[at..at + found]);
        at += found + FETCH.len();
    }
    if at == 0 {
        return name;
    }
    out.extend_from_slice(&name[at..]);
    out
}
