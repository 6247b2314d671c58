"""A trace and its replays as arrays, in the order of sessions: read by DuckDB, a few columns at a time.

They are joined here, by sorted keys: a hash join of several million rows takes five times as long, and its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.model.replay_comparison import ReplayPause, RowsCompared
from pgdyno.outside.quoting import literal
from pgdyno.owner.temporary import temporary
from pgdyno.stats.replay_fidelity import Schedule
from pgdyno.trace import side_tables
from pgdyno.trace.engine.tally import COMPLETE
from pgdyno.trace.error_causes import Suspect
from pgdyno.trace.outcome_file import FACTS, read_facts
from pgdyno.trace.parquet import connection, outcome_source, parquet_source, trace_source
from pgdyno.trace.refusals import Barred
from pgdyno.trace.summary import locked_unseen
from pgdyno.trace.tape_maker import CANCELLED, LOCKED, MOST_UNSEEN_US

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

_OURS = literal(Barred.OURS)
Column: TypeAlias = NDArray[Any]
AS_CAPTURED, REPRODUCED, UNLIKE, OF_ENVIRONMENT, NOT_SENT = range(5)
"""How an answer of B stands to the captured one; reproduced is an error that the capture has as well."""


@dataclass(frozen=True, slots=True)
class ReplaySide:
    """One side of a comparison: the parts of an outcome, a server's log as a trace, or neither: the capture itself."""

    name: str
    outcome: tuple[Path, ...] = ()
    log: Path | None = None
    speed: float | None = None
    """Of the replay; None where nothing says it."""
    ended: str = COMPLETE
    """How the replay ended; empty where it has not, as far as one can tell."""
    pauses: tuple[ReplayPause, ...] = ()
    """Of the run that it is the outcome of."""

    @property
    def is_capture(self) -> bool:
        """Return True for the captured times themselves."""
        return not self.outcome and self.log is None


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one side in microseconds: from sending to answer, -1 where there is none; and how late it was sent."""

    service: Column
    lag: Column


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """All statements that were to be sent, ordered by session and place in it; arrays of one length."""

    session: Column
    tx: Column
    due: Column
    fingerprint: Column
    is_parse: Column
    differs: Column
    a: Times
    b: Times
    again: Times | None


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a side has of the statements of a trace: `state` is the SQLSTATE as a number, -1 where nothing was found."""

    times: Times
    state: Column
    rows: Column | None


class ReadComparison:
    """An open comparison: asks DuckDB for what is wanted of it. Made by `reading`."""

    def __init__(
        self,
        db: Connection,
        trace: str,
        a: ReplaySide,
        b: ReplaySide,
        again: ReplaySide | None,
        outcomes: Mapping[str, tuple[ReplaySide, str]],
    ) -> None:
        self._db, self._trace, self._outcomes = db, trace, outcomes
        self._places_of = dict[str, tuple[Column, Column | None]]()
        sides = {"a": a, "b": b, "g": again}
        self._own = {name for name, (side, _) in outcomes.items() if side is sides[name]}
        self.has_control = not a.is_capture or (again is not None and not again.is_capture)
        db.execute(side_tables.texts(trace))
        keys = _key(*self._columns("statements", ("session", "seq")))
        self._order = np.argsort(keys)
        self._keys = keys = keys[self._order]
        captured = self._sorted("state_number(sqlstate)")
        have_rows = bool(a.outcome and b.outcome)
        found_b = self._answers("b", keys, have_rows)
        found_a = None if a.is_capture else self._answers("a", keys, have_rows)
        found_again = None if again is None else self._answers("g", keys, False)
        differs = _differs(captured, found_b.state)
        unlike = np.flatnonzero(differs == UNLIKE)
        alike = np.zeros(unlike.size, np.bool_)
        for control in (found_a, found_again):
            if control is not None:
                alike |= control.state[unlike] == found_b.state[unlike]
        differs[unlike[alike]] = OF_ENVIRONMENT
        self._unlike = keys[unlike], alike
        self._answers_of = {"a": found_a, "b": found_b, "g": found_again}
        times_a = Times(
            np.where(captured == 0, self._sorted("coalesce(logged, -1)"), -1), np.zeros(keys.size, np.int32)
        )
        self.rows = ComparedRows(
            session=(keys >> 32).astype(np.int32),
            tx=self._sorted("tx"),
            due=self._sorted("due_us"),
            fingerprint=self._sorted("fp"),
            is_parse=self._sorted("is_parse"),
            differs=differs,
            a=found_a.times if found_a else times_a,
            b=found_b.times,
            again=found_again.times if found_again else None,
        )

    def schedule(self, name: str) -> Schedule | None:
        """Return how the replay of a side (`a`, `b`, or `g` for again) kept its schedule; None of what is no outcome.

        Statements count, as in a replay's own result: connects and disconnects are not among them.
        """
        found = self._answers_of[name]
        if found is None or name not in self._outcomes:
            return None
        side, source = self._outcomes[name]
        names = ("due_us", *(f"short({part}_us)" for part in ("injector", "gate", "server")))
        times = self._columns(f"{source} WHERE {side_tables.ENDED}", names)
        where, at = self._rows_of(name, source)
        due, injector, gate, server = (column[where] for column in times)
        speed = side.speed or _speed(self.rows.due[at], due)
        think = (self._think / speed).astype(np.int64)
        sent = int((found.state >= 0).sum())
        return Schedule(
            due, injector, gate, server, think, int(self._keys.size), sent, self.refused(), self.left_out(), side.pauses
        )

    def _rows_of(self, name: str, source: str) -> tuple[Column, Column]:
        """Return which rows of an outcome are statements of the trace, and which ones they are."""
        if name in self._places_of:
            where, is_there = self._places_of.pop(name)
            at = np.arange(where.size) if is_there is None else np.flatnonzero(is_there)
            return where[at], at
        given = _key(*self._columns(f"{source} WHERE {side_tables.ENDED}", ("session", "seq")))
        place, is_statement = _places(self._keys, given)
        return np.flatnonzero(is_statement), place[is_statement]

    @cached_property
    def _think(self) -> Column:
        """Return captured pauses before statements, in microseconds: those that a tape has (`trace.tape_maker`)."""
        ends = "coalesce(end_us, due_us)"
        due, ended, pauses = self.rows.due, self._sorted(ends), np.zeros(self._keys.size, np.int64)
        follows = np.zeros(self._keys.size, np.bool_)
        follows[1:] = self._keys[1:] == self._keys[:-1] + 1
        after = np.flatnonzero(follows)
        pauses[after] = due[after] - ended[after - 1]
        session, seq, others = self._columns(f"{self._trace} WHERE NOT ({side_tables.SENT})", ("session", "seq", ends))
        keys = _key(session, seq)
        order, rest = np.argsort(keys), np.flatnonzero(~follows)
        place, is_there = _places(keys[order], self._keys[rest] - 1)
        rest = rest[is_there]
        pauses[rest] = due[rest] - others[order[place[is_there]]]
        is_end_alone = self._sorted(f"coalesce(sqlstate = '{CANCELLED}' AND end_us = due_us, false)")
        pauses[is_end_alone] -= np.minimum(pauses[is_end_alone], MOST_UNSEEN_US)
        return pauses[pauses > 0]

    def refused(self) -> int:
        """Return how many statements of the load are never sent, but for those that were left out as asked.

        Those of pgdyno's own sessions are no part of the load.
        """
        return self._count(f"coalesce(refused, '') NOT IN ({_OURS}, '{Barred.WRITES}') AND NOT ({side_tables.SENT})")

    def left_out(self) -> int:
        """Return how many statements a read-only cut left out."""
        return self._count(f"refused = '{Barred.WRITES}'")

    def _count(self, clause: str) -> int:
        query = f"SELECT count(*) FROM {self._trace} WHERE {side_tables.STATEMENT} AND {clause}"
        return int((self._db.execute(query).fetchone() or (0,))[0])

    def suspects(self) -> list[Suspect]:
        """Return what answered unlike the capture, by kinds. Called once."""
        keys, alike = self._unlike
        self._db.register(
            "given", {"session": (keys >> 32).astype(np.int32), "seq": keys.astype(np.int32), "in_control": alike}
        )
        self._db.execute(side_tables.UNLIKE)
        is_racing = (self._db.execute(side_tables.RACING).fetchone() or (0,))[0]
        for query in side_tables.EVIDENCE if is_racing else side_tables.NO_EVIDENCE:
            self._db.execute(query)
        found = self._db.execute(side_tables.SUSPECTS).fetchall()
        return [Suspect(answer, was, came, (first, then), *known) for answer, was, came, first, then, *known in found]

    def unseen_timeouts(self) -> int:
        """Return how many errors are missing that a lock_timeout had raised which no log has. After `suspects`."""
        query = f"SELECT session, seq FROM unlike WHERE captured = '{LOCKED}' AND came IS NULL"
        missing = set(self._db.execute(query).fetchall())
        return sum(one in missing for one in locked_unseen(self._db, self._trace)) if missing else 0

    def rows_compared(self) -> RowsCompared:
        """Return how many statements returned or changed another number of rows."""
        a, b = self._answers_of["a"], self._answers_of["b"]
        assert b is not None, "it is always there"
        if a is None or a.rows is None or b.rows is None:
            return RowsCompared(0, 0, 0, "only a replay's outcome has rows, and not both sides are one")
        known = (a.state == 0) & (b.state == 0) & (a.rows >= 0) & (b.rows >= 0)
        different = known & (a.rows != b.rows)
        naming = [fp for (fp,) in self._db.execute(side_tables.ROW_NAMING).fetchall()]
        by_identity = np.isin(self.rows.fingerprint[different], np.array(naming, np.uint64))
        return RowsCompared(int(known.sum()), int(different.sum()), int(by_identity.sum()))

    def texts(self) -> dict[int, str]:
        """Return one text of each fingerprint, with its values: normalise it before it is shown."""
        return dict(self._db.execute("SELECT fp, sql FROM texts").fetchall())

    def _answers(self, name: str, keys: Column, have_rows: bool) -> _Answers:
        given = _key(*self._columns(f"side_{name}", ("session", "seq")))
        order = np.argsort(given)
        given = given[order]
        if given.size == keys.size and np.array_equal(given, keys):
            where, is_there = order, None
        else:
            place, is_there = _places(given, keys)
            where = order[place] if given.size else np.zeros(keys.size, np.int64)
        del given, order
        if name in self._own:
            self._places_of[name] = where, is_there

        def aligned(column: Column, missing: int) -> Column:
            if not column.size:
                return np.full(keys.size, missing, np.int32)
            found = column[where]
            return found if is_there is None else np.where(is_there, found, missing)

        def read(expression: str, missing: int) -> Column:
            return aligned(self._columns(f"side_{name}", (expression,))[0], missing)

        rows = read("least(coalesce(rows, -1), 2147483647)::INTEGER", -1) if have_rows else None
        times = Times(read("coalesce(service, -1)", -1), read("lag", 0))
        return _Answers(times, read("state_number(sqlstate)", -1), rows)

    def _sorted(self, expression: str) -> Column:
        return np.asarray(self._columns("statements", (expression,))[0][self._order])

    def _columns(self, source: str, expressions: Sequence[str]) -> list[Column]:
        asked = ", ".join(f"{one} AS c{place}" for place, one in enumerate(expressions))
        found = self._db.execute(f"SELECT {asked} FROM {source}").fetchnumpy()
        return [np.asarray(found[f"c{place}"]) for place in range(len(expressions))]


def _key(session: Column, seq: Column) -> NDArray[np.int64]:
    found = session.astype(np.int64)
    found <<= 32
    found |= seq
    return found


def _places(keys: Column, wanted: Column) -> tuple[Column, NDArray[np.bool_]]:
    """Return where in sorted `keys` each of the wanted ones is, and whether it is there."""
    if not keys.size:
        return np.zeros(wanted.size, np.int64), np.zeros(wanted.size, np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return place, keys[place] == wanted


def _speed(captured: Column, due: Column) -> float:
    """Return the speed of a replay of which nothing says it, by when its last statement was due."""
    if not due.size:
        return 1.0
    last = int(due.argmax())
    return float(captured[last] / due[last]) if due[last] > 0 and captured[last] > 0 else 1.0


def _differs(captured: Column, came: Column) -> NDArray[np.uint8]:
    found = np.where(came == captured, np.where(captured > 0, REPRODUCED, AS_CAPTURED), UNLIKE)
    return np.where(came < 0, NOT_SENT, found).astype(np.uint8)


@contextmanager
def reading(
    trace: Path, a: ReplaySide, b: ReplaySide, again: ReplaySide | None = None, kept: ReplaySide | None = None
) -> Iterator[ReadComparison]:
    """Open trace and sides. `kept` is the outcome whose schedule is judged where B is its server's log.

    `trace` is a Parquet file. `a` is what B is held against, a replay or the capture itself, `b` the replay that is
    judged, and `again` a second replay on A's platform, None without one. `kept` None judges the schedule of `b`, if it
    is an outcome. Raises UsageError for files that are not what they should be, EnvironmentUnsuitable without DuckDB.
    """
    with (
        ExitStack() as stack,
        temporary("compare") as folder,
        connection(folder, of="temporary files") as db,
    ):
        for setting in ("SET preserve_insertion_order = true", "SET enable_progress_bar = false", *side_tables.SETUP):
            db.execute(setting)
        source = stack.enter_context(trace_source(trace, db))
        db.execute(side_tables.statements(source))
        outcomes = dict[str, tuple[ReplaySide, str]]()
        for name, side in (("a", a), ("b", b), ("g", again)):
            if side is not None and not side.is_capture and (found := _open(db, stack, name, side)):
                outcomes[name] = side, found
        if kept is not None:
            outcomes["b"] = kept, _outcome(db, stack, kept)
        yield ReadComparison(db, source, a, b, again, outcomes)


def _open(db: Connection, stack: ExitStack, name: str, side: ReplaySide) -> str | None:
    """Make the table or view of a side; return the source of an outcome."""
    if side.log is not None:
        db.execute(side_tables.log_side(name, stack.enter_context(trace_source(side.log, db))))
        return None
    source = _outcome(db, stack, side)
    db.execute(side_tables.outcome_side(name, source))
    return source


def _outcome(db: Connection, stack: ExitStack, side: ReplaySide) -> str:
    parts = [stack.enter_context(outcome_source(path, db)) for path in side.outcome]
    return "(" + " UNION ALL ".join(f"SELECT * FROM {part}" for part in parts) + ")"


def side_of(folder: Path) -> ReplaySide:
    """Return the outcome in a folder. Raises UsageError where it is none, or one of a newer version."""
    parts = tuple(sorted(folder.glob("part-*.parquet")))
    if not parts and (folder / FACTS).exists():
        how = read_facts(folder).ended or "unknown"
        raise UsageError(
            f'outcome "{folder}" holds no answer: its run ended before one came ({how})',
            hint="Replay the trace again.",
        )
    if not parts:
        raise UsageError(
            f'"{folder}" is no outcome: it has no part-*.parquet', hint="Name the folder that pgdyno replay made."
        )
    if not (folder / FACTS).exists():
        return ReplaySide(str(folder), parts)
    facts = read_facts(folder)
    return ReplaySide(str(folder), parts, speed=facts.speed, ended=facts.ended, pauses=facts.pauses)


def is_outcome(path: Path) -> bool:
    """Return True for a Parquet file with the columns of an outcome. Raises UsageError where it is no Parquet file."""
    with parquet_source(path) as source, connection() as db:
        found = db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        return "sent_us" in {str(row[0]) for row in found}
