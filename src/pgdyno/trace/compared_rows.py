"""A trace and its replays as arrays, in the order of sessions: read by DuckDB, a few columns at a time.

They are joined here, by sorted keys: a hash join of several million rows takes five times as long, and its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.replay_comparison import ReplayPause, RowsCompared
from pgdyno.owner.temporary import temporary
from pgdyno.trace import side_tables
from pgdyno.trace.error_causes import Suspect
from pgdyno.trace.parquet import connection, outcome_source, parquet_source, trace_source
from pgdyno.trace.refusals import OURS

if TYPE_CHECKING:
    from pgdyno.trace.parquet import Connection

Column: TypeAlias = NDArray[Any]
AS_CAPTURED, REPRODUCED, UNLIKE, OF_ENVIRONMENT, NOT_SENT = range(5)
"""How an answer of B stands to the captured one; reproduced is an error that the capture has as well."""


@dataclass(frozen=True, slots=True)
class ReplaySide:
    """One side of a comparison: the parts of an outcome, a server's log as a trace, or neither: the capture itself."""

    name: str
    outcome: tuple[Path, ...] = ()
    log: Path | None = None
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
class Sent:
    """How B's schedule was kept, in microseconds; `think` are captured pauses at the speed of the replay."""

    due: Column
    injector: Column
    gate: Column
    server: Column
    think: Column


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a side has of the statements of a trace: `state` is the SQLSTATE as a number, -1 where nothing was found."""

    times: Times
    state: Column
    rows: Column | None


class ReadComparison:
    """An open comparison: asks DuckDB for what is wanted of it. Made by `reading`."""

    def __init__(
        self, db: Connection, trace: str, a: ReplaySide, b: ReplaySide, again: ReplaySide | None, outcome: str | None
    ) -> None:
        self._db, self._trace, self._outcome = db, trace, outcome
        self.has_control = not a.is_capture or (again is not None and not again.is_capture)
        db.execute(side_tables.texts(trace))
        session, seq = self._columns("statements", ("session", "seq"))
        keys = _key(session, seq)
        self._order = np.argsort(keys)
        keys = keys[self._order]
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
        self._answers_of = found_a, found_b
        times_a = Times(
            np.where(captured == 0, self._sorted("coalesce(logged, -1)"), -1), np.zeros(keys.size, np.int32)
        )
        self.rows = ComparedRows(
            session=session[self._order],
            tx=self._sorted("tx"),
            due=self._sorted("due_us"),
            fingerprint=self._sorted("fp"),
            is_parse=self._sorted("is_parse"),
            differs=differs,
            a=found_a.times if found_a else times_a,
            b=found_b.times,
            again=found_again.times if found_again else None,
        )

    def sent(self, paused_s: float) -> Sent | None:
        """Return how B kept its schedule, without `paused_s` of pauses; None where only its server's log is there."""
        if self._outcome is None:
            return None
        names = ("due_us", *(f"short({part}_us)" for part in ("injector", "gate", "server")))
        due, injector, gate, server = self._columns(f"{self._outcome} WHERE sent_us IS NOT NULL", names)
        rows, ended = self.rows, self._sorted("coalesce(end_us, -1)")
        pause = rows.due[1:] - ended[:-1]
        think = pause[(rows.session[1:] == rows.session[:-1]) & (ended[:-1] >= 0) & (pause > 0)]
        span = int(rows.due.max()) if rows.due.size else 0
        speed = (int(due.max()) - 1e6 * paused_s) / span if due.size and span > 0 else 1.0
        return Sent(due, injector, gate, server, think * speed)

    def refused(self) -> int:
        """Return how many statements of the load are never sent; those of pgdyno's own sessions are no part of it."""
        found = self._db.execute(f"SELECT count(*) FROM {self._trace} WHERE refused <> ? AND sql IS NOT NULL", [OURS])
        return int((found.fetchone() or (0,))[0])

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

    def rows_compared(self) -> RowsCompared:
        """Return how many statements returned or changed another number of rows."""
        a, b = self._answers_of
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
        session, seq, service = self._columns(f"side_{name}", ("session", "seq", "coalesce(service, -1)"))
        lag, state = self._columns(f"side_{name}", ("lag", "state_number(sqlstate)"))
        given = _key(session, seq)
        order = np.argsort(given)
        given = given[order]
        if given.size == keys.size and np.array_equal(given, keys):
            where, is_there = order, None
        else:
            place = np.minimum(np.searchsorted(given, keys), max(given.size - 1, 0))
            is_there = given[place] == keys if given.size else np.zeros(keys.size, np.bool_)
            where = order[place] if given.size else np.zeros(keys.size, np.int64)

        def aligned(column: Column, missing: int) -> Column:
            if not column.size:
                return np.full(keys.size, missing, np.int32)
            found = column[where]
            return found if is_there is None else np.where(is_there, found, missing)

        rows = None
        if have_rows:
            (counted,) = self._columns(f"side_{name}", ("least(coalesce(rows, -1), 2147483647)::INTEGER",))
            rows = aligned(counted, -1)
        return _Answers(Times(aligned(service, -1), aligned(lag, 0)), aligned(state, -1), rows)

    def _sorted(self, expression: str) -> Column:
        return np.asarray(self._columns("statements", (expression,))[0][self._order])

    def _columns(self, source: str, expressions: Sequence[str]) -> list[Column]:
        asked = ", ".join(f"{one} AS c{place}" for place, one in enumerate(expressions))
        found = self._db.execute(f"SELECT {asked} FROM {source}").fetchnumpy()
        return [np.asarray(found[f"c{place}"]) for place in range(len(expressions))]


def _key(session: Column, seq: Column) -> NDArray[np.int64]:
    return (session.astype(np.int64) << 32) | seq.astype(np.int64)


def _differs(captured: Column, came: Column) -> NDArray[np.uint8]:
    found = np.where(came == captured, np.where(captured > 0, REPRODUCED, AS_CAPTURED), UNLIKE)
    return np.where(came < 0, NOT_SENT, found).astype(np.uint8)


@contextmanager
def reading(
    trace: Path, a: ReplaySide, b: ReplaySide, again: ReplaySide | None = None, kept: ReplaySide | None = None
) -> Iterator[ReadComparison]:
    """Open trace and sides. `kept` is the outcome whose schedule is judged where B is its server's log.

    Raises UsageError for files that are not what they should be, EnvironmentUnsuitable without DuckDB.
    """
    with (
        ExitStack() as stack,
        temporary("compare") as folder,
        connection(folder) as db,
    ):
        for setting in ("SET preserve_insertion_order = true", "SET enable_progress_bar = false", *side_tables.SETUP):
            db.execute(setting)
        source = stack.enter_context(trace_source(trace, db))
        db.execute(side_tables.statements(source))
        outcome = None
        for name, side in (("a", a), ("b", b), ("g", again)):
            if side is not None and not side.is_capture:
                found = _open(db, stack, name, side)
                outcome = found if name == "b" else outcome
        if kept is not None:
            outcome = _outcome(db, stack, kept)
        yield ReadComparison(db, source, a, b, again, outcome)


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


def is_outcome(path: Path) -> bool:
    """Return True for a Parquet file with the columns of an outcome. Raises UsageError where it is no Parquet file."""
    with parquet_source(path) as source, connection() as db:
        found = db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        return "sent_us" in {str(row[0]) for row in found}
