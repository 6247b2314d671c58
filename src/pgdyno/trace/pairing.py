"""Make statements of log lines: which lines belong together, when each began, and where a transaction does. Pure.

A line that matters has a kind, one letter:

    S, X   the start of a simple statement, of an execute (log_statement = all)
    P, N   the parse of an unnamed, of a named statement, with its duration
    B      a bind, with its duration
    T, U   a simple statement, an execute, whole, with its duration
    D      a duration alone: it ends the start before it
    E      an error: it ends what was begun, or is all that tells of its statement
    F      a fast-path function call
    L      the session was not let in after its connect
    C, Q   the session begins, ends
    A, R   a line in another language, one of a server that starts: of these the number alone counts

Lines of one statement stand together in their session; P B X D is the longest group. What has not ended is carried into
the next segment. Arrays instead of objects, because a log has millions of lines; texts stay in DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from pgdyno.stats.arrays import Bools, Ints

S, X, P, N, B, T, U, D, E, F, C, Q, L, A, R = (ord(letter) for letter in "SXPNBTUDEFCQLAR")
OTHER = ord(".")
"""A line that is no part of a statement, which is known for its number alone."""
NONE = -1
"""In place of NULL: a duration that was not logged, a transaction that a prefix does not tell."""
BEGIN, END = 1, 2
"""What a text does to a transaction."""


@dataclass(frozen=True, slots=True)
class Events:
    """Lines of a segment, in the order of the file."""

    rid: Ints
    """Row of the line in DuckDB's table."""
    sid: Ints
    """Session: the hexadecimal digits of %c, eight of the seconds of its start and those of its process."""
    n: Ints
    t: Ints
    """Microseconds since 1970."""
    kind: Ints
    dur: Ints  # of an error 0 where its statement failed before it was begun
    vx: Ints
    """Local transaction: 0 for none, NONE where the log does not say."""
    xid: Ints
    ctl: Ints
    h: Ints
    """Hash of the text of S, X, P, B and E, 0 for none."""

    def take(self, chosen: Ints | Bools) -> Events:
        """Return the chosen lines."""
        return Events(*(getattr(self, one.name)[chosen] for one in fields(Events)))


@dataclass(frozen=True, slots=True)
class Rows:
    """Statements and ends of sessions, sorted by session and place; one element a row of the trace."""

    rid: Ints
    """The line that has text, name and parameters."""
    error: Ints
    """The line of the error, or NONE."""
    sid: Ints
    seq: Ints
    due: Ints
    end: Ints
    parse: Ints
    bind: Ints
    execute: Ints
    tx: Ints
    xid: Ints
    place: Ints
    """Of its last line in the whole log; NONE where that was never written."""
    code: Ints
    """C, Q, S (simple), X (extended), N (parse), F, or E where the text has to tell."""


@dataclass(slots=True)
class SeenSession:
    """What is known of a session between two segments."""

    sid: int
    first_t: int
    last_n: int
    is_older: bool = False
    """It began before the log did: lines of it are missing, or its start is earlier, which is known to the second."""
    seq: int = 0
    tx: int = NONE
    vx: int = 0
    ctl: int = 0
    xid: int = NONE
    end: int = 0
    first_due: int = NONE
    last_kind: int = 0
    connected: bool = False
    ended: bool = False
    joined: bool = False
    begun_before: bool = False  # joined: it began before the log, and begins no transaction here before it ends one

    @property
    def begins_within_tx(self) -> bool:
        """Return whether its first transaction here began before the log; one that does not end has several rows."""
        return self.begun_before or (self.joined and self.tx == 0 and self.seq - self.ended > 1)

    @property
    def start_us(self) -> int:
        """Return when the session began, to the second, in microseconds since 1970."""
        return int(f"{self.sid:x}"[:8], 16) * 1_000_000


@dataclass(frozen=True, slots=True)
class Paired:
    """What a segment came to."""

    rows: Rows
    carried: Ints
    """rids of the lines that have to come again, before those of the next segment."""
    late: list[tuple[int, int, int]]
    """(sid, seq, rid) of errors that came after their statement, such as by a deferred constraint."""


@dataclass(slots=True)
class Pairing:
    """Pairs segment after segment; counts what cannot be paired."""

    sessions: dict[int, SeenSession] = field(default_factory=dict)
    gaps: int = 0
    twice: int = 0
    """Lines whose number was there before: a file given twice, or files out of order."""
    orphans: int = 0  # ends whose begin was not logged
    cut: int = 0  # statements that the begin or the end of the log cuts
    refused_logins: int = 0  # sessions that were not let in after their connect
    unworded: int = 0  # errors without the text of their statement
    read: int = 0  # lines of earlier segments
    begins: int = 0  # when the first line of all was written

    def pair(self, lines: Events, *, again: int = 0, is_last: bool = False) -> Paired:
        """Pair the lines of a segment; rids below `again` are lines that were carried into it."""
        first_place = self.read - again
        self.read += max(int(lines.rid.max()) + 1 - again, 0) if len(lines.rid) else 0
        if not self.begins and len(lines.t):
            self.begins = int(lines.t[0])
        order = _by_session(lines.sid, lines.n)
        new = order[lines.rid[order] >= again]
        self._number(lines.sid[new], lines.n[new], lines.t[new])
        events = lines.take(order[~_are(lines.kind[order], OTHER, A, R)])
        if not len(events.sid):
            return Paired(Rows(*(_NOTHING,) * len(fields(Rows))), _NOTHING, [])
        size, kind = len(events.kind), events.kind
        same = np.zeros(size + 1, np.bool_)  # same[i]: line i - 1 is of the same session
        same[1:size] = events.sid[1:] == events.sid[:-1]
        fresh = ~same  # fresh[i]: line i begins a group
        fresh[1:size] |= _begins(kind[:-1], kind[1:], events.h[:-1], events.h[1:], events.dur[1:])
        unended = _are(kind, S, X, P, B) & fresh[1:]
        is_open = np.zeros(size, np.bool_) if is_last else unended & ~same[1:]
        carried = is_open.copy()
        for _ in range(2):
            carried[:-1] |= carried[1:] & ~fresh[1:size]
        places, started = self._places(events, fresh, unended & ~is_open)
        self.cut += is_last * int((unended & _are(kind, S, X)).sum())  # others have no duration
        base = np.where(started, places - 1, places)
        bind = _before(base, B, kind, fresh)
        parse = _before(np.where(bind >= 0, bind, base), P, kind, fresh)
        rows = self._rows(events, places, base, bind, parse, first_place)
        told_late = ((kind == E) & (events.h == 0) & fresh[:size]) | (kind == L)
        late = self._late(events, np.flatnonzero(told_late), same, places, rows)
        self._keep(events, places, rows)
        return Paired(rows, events.rid[carried], late)

    def _number(self, sids: Ints, numbers: Ints, times: Ints) -> None:
        """Count the lines that are missing in sessions."""
        firsts, lasts = _ends(sids)
        steps = np.diff(numbers)
        inner = np.ones(len(steps), np.bool_)
        inner[lasts[:-1]] = False
        self.gaps += int(np.maximum(steps[inner] - 1, 0).sum())
        self.twice += int((steps[inner] <= 0).sum())
        for sid, first, last in zip(sids[firsts].tolist(), firsts.tolist(), lasts.tolist(), strict=True):
            number, end = int(numbers[first]), int(numbers[last])
            known = self.sessions.get(sid)
            if known is None:
                known = self.sessions[sid] = SeenSession(sid, int(times[first]), end)
                known.is_older = number > 1 or known.start_us + 1_000_000 <= self.begins
            else:
                self.twice += number <= known.last_n
                self.gaps += max(0, number - known.last_n - 1)
                known.last_n = end

    def _places(self, events: Events, fresh: Bools, unended: Bools) -> tuple[Ints, Bools]:
        """Return the lines at which rows stand, and whether a start stands right before each."""
        kind, size = events.kind, len(events.kind)
        before = np.zeros(size, np.int64)
        before[1:] = kind[:-1]
        started = ~fresh[:size] & _are(kind, D, E) & _are(before, S, X)
        orphans = np.flatnonzero((kind == D) & ~started)
        for place in orphans.tolist():
            session = self.sessions[int(events.sid[place])]
            is_first = not session.last_kind and (place == 0 or bool(events.sid[place - 1] != events.sid[place]))
            self.cut += is_first
            self.orphans += not is_first
        worded = (kind == E) & ((events.h != 0) | ~fresh[:size])
        whole = _are(kind, T, U, N, C, Q, F) | ((kind == D) & started) | worded
        places = np.flatnonzero(whole | (unended & (kind != B)))
        return places, started[places]

    def _rows(self, events: Events, places: Ints, base: Ints, bind: Ints, parse: Ints, first_place: int) -> Rows:
        kind = events.kind[places]
        sid = events.sid[places]
        firsts, lasts = _ends(sid)
        lengths = lasts - firsts + 1
        states = [self.sessions[one] for one in sid[firsts].tolist()]

        failed, ended = kind == E, _are(kind, T, U, D)
        is_parse = _are(kind, N, P)
        bind_us = np.where(bind >= 0, events.dur[bind], NONE)
        parse_us = np.where(parse >= 0, events.dur[parse], NONE)
        parse_us = np.where(is_parse, events.dur[places], parse_us)
        execute_us = np.where(ended, events.dur[places], NONE)
        waited = np.where(failed & (base != places), events.t[places] - events.t[base], 0)
        spent = np.maximum(bind_us, 0) + np.maximum(parse_us, 0) + np.maximum(execute_us, 0) + np.maximum(waited, 0)
        end = _after_another(events.t[places], spent, firsts, lengths, np.array([one.end for one in states], np.int64))
        unknown = _are(kind, S, X)  # a start whose end was never logged

        tx, xid = _transactions(events, places, base, firsts, lengths, states)
        numbers = (
            np.arange(len(places))
            - np.repeat(firsts, lengths)
            + np.repeat(np.array([one.seq for one in states], np.int64), lengths)
        )
        # a failed statement has its text and its values where it was bound or parsed, if it was
        source = np.where(
            failed & (base == places), np.where(bind >= 0, bind, np.where(parse >= 0, parse, places)), base
        )
        told = events.kind[source]
        told = np.where(_are(told, T, S), S, np.where(_are(told, U, X, B) | (failed & (told == P)), X, told))
        return Rows(
            rid=events.rid[source],
            error=np.where(failed, events.rid[places], NONE),
            sid=sid,
            seq=numbers,
            due=end - spent,
            end=np.where(unknown, NONE, end),
            parse=parse_us,
            bind=bind_us,
            execute=execute_us,
            place=np.where(_are(kind, S, X, P, B), NONE, first_place + events.rid[places]),
            tx=tx,
            xid=xid,
            code=np.where(told == P, N, told),
        )

    def _late(self, events: Events, errors: Ints, same: Bools, places: Ints, rows: Rows) -> list[tuple[int, int, int]]:
        """Return the errors without a text that belong to the execute or connect before them; count the others."""
        found = list[tuple[int, int, int]]()
        for place in errors.tolist():
            sid = int(events.sid[place])
            session = self.sessions[sid]
            kind, seq = session.last_kind, session.seq - 1
            if same[place]:
                at = int(np.searchsorted(places, place)) - 1
                is_row = at >= 0 and places[at] == place - 1  # an end without a begin is none
                kind, seq = (int(events.kind[place - 1]), int(rows.seq[at])) if is_row else (OTHER, 0)
            is_login = bool(events.kind[place] == L)
            if kind in ((C,) if is_login else (U, D)):
                self.refused_logins += is_login
                found.append((sid, seq, int(events.rid[place])))
            elif not is_login:
                self.unworded += 1
        return found

    def _keep(self, events: Events, places: Ints, rows: Rows) -> None:
        """Put down how each session stands at the end of the segment."""
        firsts, lasts = _ends(rows.sid)
        kinds = events.kind[places]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            session = self.sessions[int(rows.sid[last])]
            if session.seq == 0:
                session.first_due = int(rows.due[first])
                session.connected = bool(kinds[first] == C)
            session.seq = int(rows.seq[last]) + 1
            session.ended = bool(kinds[last] == Q)
            begun = rows.due[last] + max(rows.parse[last], 0) + max(rows.bind[last], 0)
            session.end = int(max(rows.end[last], begun))
        is_place = np.zeros(len(events.sid), np.bool_)
        is_place[places] = True
        firsts, lasts = _ends(events.sid)
        for last in lasts.tolist():
            kind = int(events.kind[last])
            is_row = kind != D or bool(is_place[last])
            self.sessions[int(events.sid[last])].last_kind = kind if is_row else OTHER


_NOTHING = np.zeros(0, np.int64)


def _by_session(sids: Ints, numbers: Ints) -> Ints:
    """Return the order by session and number. In a log that nobody put together, lines of a session are in theirs."""
    order = np.arange(len(sids))
    for shift in (0, 16, 32, 48):  # NumPy sorts 16 bits by counting
        digits = (sids >> shift).astype(np.uint16)
        if (digits != digits[:1]).any():
            order = order[np.argsort(digits[order], kind="stable")]
    sids, numbers = sids[order], numbers[order]
    is_sorted = (numbers[1:] >= numbers[:-1]) | (sids[1:] != sids[:-1])
    return order if is_sorted.all() else order[np.lexsort((numbers, sids))]


def _are(kinds: Ints, *wanted: int) -> Bools:
    """Tell which lines are of one of the kinds; `isin` is slow for so few."""
    table = np.zeros(128, np.bool_)
    table[list(wanted)] = True
    return table[kinds]


def _begins(first: Ints, then: Ints, first_hash: Ints, then_hash: Ints, then_dur: Ints) -> Bools:
    """Tell for neighbours whether the second begins a new group."""
    fails = (then == E) & ((then_hash == 0) | (then_hash == first_hash))
    joins = _are(first, S, X) & ((then == D) | (fails & (then_dur == NONE)))
    joins |= (first == P) & (_are(then, B, X, U) | fails)
    joins |= (first == B) & (_are(then, X, U) | fails)
    return np.asarray(~joins, np.bool_)


def _before(places: Ints, wanted: int, kind: Ints, fresh: Bools) -> Ints:
    """Return where the line before is, where it is of this kind and of the same group; else NONE."""
    fits = (places > 0) & ~fresh[places] & (kind[places - 1] == wanted)
    return np.where(fits, places - 1, NONE)


def _ends(keys: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last place of each run of equal keys."""
    if not len(keys):
        return _NOTHING, _NOTHING
    breaks = np.flatnonzero(keys[1:] != keys[:-1])
    return np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(keys) - 1]))


def _after_another(t: Ints, spent: Ints, firsts: Ints, lengths: Ints, ends: Ints) -> Ints:
    """Return ends to the microsecond of statements that are logged to the millisecond and do not overlap.

    The end of one is its logged time, or what it took after the end of the one before: the later of the two.
    """
    if not len(t):
        return _NOTHING
    run = np.cumsum(spent)
    run -= np.repeat(run[firsts] - spent[firsts], lengths)
    slack = t - run
    slack[firsts] = np.maximum(slack[firsts], ends)
    least = int(slack.min())
    apart = int(slack.max()) - least + 1
    lifts = np.repeat(np.arange(len(firsts)) * apart, lengths)
    return np.asarray(np.maximum.accumulate(slack - least + lifts) - lifts + least + run, np.int64)


def _transactions(
    events: Events, places: Ints, base: Ints, firsts: Ints, lengths: Ints, states: list[SeenSession]
) -> tuple[Ints, Ints]:
    """Return the ordinal of each row's transaction in its session, and the transaction id.

    The line of a COMMIT is written after it, and no longer names the transaction. Writes down where sessions stand.
    """
    size = len(places)
    if not size:
        return _NOTHING, _NOTHING
    is_edge = _are(events.kind[places], C, Q)
    vx = np.where(is_edge, 0, events.vx[places])
    ctl = np.where(is_edge, 0, events.ctl[base])
    xid = np.where(is_edge, NONE, events.xid[places])
    vx_before, xid_before = np.roll(vx, 1), np.roll(xid, 1)
    vx_before[firsts] = [one.vx for one in states]
    xid_before[firsts] = [one.xid for one in states]
    closes = (ctl == END) & (vx == 0) & (vx_before > 0)
    continues = ((vx > 0) & (vx == vx_before)) | closes
    # without virtual transactions in the log, texts have to tell
    told = np.maximum.accumulate(np.where(ctl > 0, np.arange(size), NONE))
    before = np.roll(told, 1)
    before[0] = NONE
    begins = np.repeat(firsts, lengths)
    carried = np.repeat(np.array([one.ctl for one in states], np.int64), lengths)
    last_told = np.where(before >= begins, ctl[np.maximum(before, 0)], carried)
    continues = np.where(vx == NONE, last_told == BEGIN, continues)
    run = np.cumsum(~continues & ~is_edge)
    run -= np.repeat(run[firsts] - (~continues & ~is_edge)[firsts], lengths)
    tx = run + np.repeat(np.array([one.tx for one in states], np.int64), lengths)
    xid = np.where(closes & (xid == NONE), xid_before, xid)
    for session, first, last in zip(states, firsts.tolist(), (firsts + lengths - 1).tolist(), strict=True):
        if not session.seq and session.is_older:
            session.joined = bool(events.kind[places[first]] != C and ctl[first] != BEGIN)
        if session.joined and session.tx <= 0:
            session.begun_before |= bool((tx[first : last + 1][ctl[first : last + 1] == END] == 0).any())
        session.tx, session.vx, session.xid = int(tx[last]), int(vx[last]), int(xid[last])
        session.ctl = int(ctl[told[last]]) if told[last] >= begins[last] else session.ctl
    return np.where(is_edge, NONE, tx), xid
