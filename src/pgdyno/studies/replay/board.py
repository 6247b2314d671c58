"""What the dashboard shows of a replay that runs: due against sent, unlike answers, lag, times beside the captured."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.live import LivePoint
from pgdyno.studies.replay.words import UNLIKE, pause_text
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.outcome import classes, ended_statements, read_records
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.trace.schema import Row
from pgdyno.trial.live_row import LiveRow

_DUE = """
SELECT due_us // 100000, count(*), coalesce(sum(end_us - due_us), 0), count(end_us) FROM {source}
WHERE kind NOT IN (?, ?) AND refused IS NULL GROUP BY 1 ORDER BY 1
"""


class ReplayProgress:
    """Tells a row how a replay goes; `due` are statements by the tenth of a second in the trace.

    `answers` gives the response times, from the due moments in us, that came since it was asked last; `unlike` is what
    that has counted by class of answer.
    """

    def __init__(
        self,
        row: LiveRow,
        due: Mapping[int, DueTenth],
        *,
        speed: float,
        seconds: float,
        answers: Callable[[], NDArray[np.int64]] = lambda: np.empty(0, np.int64),
        unlike: Mapping[str, int] | None = None,
    ) -> None:
        self._row, self._speed, self._seconds, self._answers = row, speed, seconds, answers
        self._unlike: Mapping[str, int] = {} if unlike is None else unlike
        self._moments, self._due = list(due), list(accumulate(one.statements for one in due.values()))
        self._took = list(accumulate(one.took_us for one in due.values()))
        self._timed = list(accumulate(one.timed for one in due.values()))
        self._last: tuple[float, int] | None = None
        self._over = 0
        """Tenths whose captured times were told."""
        self._times = ""

    def tell(self, tally: RunTally, now: float) -> None:
        """Put on the board what the engines said last; `now` is seconds since the epoch."""
        elapsed_s = max(0.0, tally.schedule_us / 1e6)
        self._row.progress(elapsed_s, self._seconds, self.words(tally))
        if not self._row.is_due(now):
            return
        before_s, done = self._last or (elapsed_s, 0)
        passed_s, answers = elapsed_s - before_s, self._answers()
        p99_ms = float(np.quantile(answers, 0.99)) / 1000 if answers.size else None
        self._row.add(LivePoint(now, tps=(tally.done - done) / passed_s if passed_s > 0 else None, p99_ms=p99_ms))
        self._last = (elapsed_s, tally.done)
        self._times = self._beside(tally, answers)

    def words(self, tally: RunTally) -> str:
        """Return how many statements are due, sent, unlike, and how late the injector was at most."""
        over = self._over_at(tally)
        due, whole = (self._due[over - 1] if over else 0), (self._due[-1] if self._due else 0)
        kinds = ", ".join(f"{count:,} {name}" for name, count in self._unlike.items() if count)
        return (
            f"{pause_text(tally)}{tally.sent:,} of {whole:,} statements sent, {due:,} due; "
            f"{tally.errors:,} answered differently{f' (on file: {kinds})' if kinds else ''}; "
            f"the injector at most {tally.late_us / 1000:,.1f} ms late{self._times}"
        )

    def _over_at(self, tally: RunTally) -> int:
        return bisect_right(self._moments, tally.schedule_us / 1e5 * self._speed - 1)

    def _beside(self, tally: RunTally, answers: NDArray[np.int64]) -> str:
        """Say how long the last answers took, and those of the capture that were due in that time."""
        over, before = self._over_at(tally), self._over
        if not answers.size:
            return self._times
        self._over = max(over, before)
        captured = "unknown"
        if timed := _between(self._timed, before, over):
            captured = f"{_between(self._took, before, over) / timed / 1000:,.1f} ms"
        last = float(answers.mean()) / 1000
        return f"; the last answers took {last:,.1f} ms from their due moments, captured {captured}"


@dataclass(frozen=True, slots=True)
class DueTenth:
    """Statements that are due in a tenth of a second; how long those of them took, in us, whose end is known."""

    statements: int
    took_us: int = 0
    timed: int = 0


class LatestAnswers:
    """Response times of what engines put on file, each once; an error has none, and is counted in `unlike`."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._taken = dict.fromkeys(files, 0)
        self.unlike = {one.value: 0 for one in UNLIKE}

    def take(self) -> NDArray[np.int64]:
        """Return those since the last time, from the due moments in us; connects and disconnects are not among them."""
        found = [np.empty(0, np.int64)]
        for file, taken in self._taken.items():
            records = read_records(file, taken)
            self._taken[file] = taken + len(records)
            failed = records[records["sqlstate"] != records["expected"]]
            for name, count in zip(*np.unique(classes(failed), return_counts=True), strict=True):
                if name in self.unlike:
                    self.unlike[str(name)] += int(count)
            is_timed = ended_statements(records) & (records["sqlstate"] == b"")
            found.append(np.asarray((records["done_us"] - records["due_us"])[is_timed]))
        return np.concatenate(found)


def _between(sums: Sequence[int], before: int, over: int) -> int:
    """Return what is between two places of running sums."""
    return (sums[over - 1] if over else 0) - (sums[before - 1] if before else 0)


def due_by_tenth(trace: Path) -> dict[int, DueTenth]:
    """Return what is due in each tenth of a second of a trace, in order."""
    with connection() as db, trace_source(trace, db) as source:
        rows = db.execute(_DUE.format(source=source), [Row.CONNECT, Row.DISCONNECT]).fetchall()
    return {int(tenth): DueTenth(int(count), int(took), int(timed)) for tenth, count, took, timed in rows}
