"""What the dashboard shows of a replay that runs: due against sent, lag, answers by class, times and the captured."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgdyno.model.live import LivePoint, LiveReplay
from pgdyno.model.replay_comparison import Lateness
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.studies.replay.words import UNLIKE, pause_text
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.outcome import Records, classes, ended_statements, read_records
from pgdyno.trace.parquet import connection, trace_source
from pgdyno.trace.schema import AnswerClass, Row
from pgdyno.trial.live_row import LiveRow

_DUE = """
SELECT due_us // 100000, count(*), coalesce(sum(end_us - due_us), 0), count(end_us) FROM {source}
WHERE kind NOT IN (?, ?) AND refused IS NULL GROUP BY 1 ORDER BY 1
"""
_PARTS = ("injector", "gate", "server")
SENDING, PAUSED = "sending", "paused"


class ReplayProgress:
    """Tells a row how a replay goes; `due` are statements by the tenth of a second in the trace.

    `latest` reads what the engines have put on file since it was asked last.
    """

    def __init__(
        self,
        row: LiveRow,
        due: Mapping[int, DueTenth],
        *,
        speed: float,
        seconds: float,
        latest: LatestAnswers | None = None,
    ) -> None:
        self._row, self._speed, self._seconds = row, speed, seconds
        self._latest = LatestAnswers(()) if latest is None else latest
        self._moments, self._due = list(due), list(accumulate(one.statements for one in due.values()))
        self._took = list(accumulate(one.took_us for one in due.values()))
        self._timed = list(accumulate(one.timed for one in due.values()))
        self._last: tuple[float, int] | None = None
        self._over = 0
        """Tenths whose captured times were told."""
        self._times: tuple[float | None, float | None] = None, None
        """How long the last answers took, and those of the capture that were due in that time."""

    def tell(self, tally: RunTally, now: float) -> None:
        """Put on the board what the engines said last; `now` is seconds since the epoch."""
        elapsed_s = max(0.0, tally.schedule_us / 1e6)
        if self._row.is_due(now):
            before_s, done = self._last or (elapsed_s, 0)
            passed_s, answers = elapsed_s - before_s, self._latest.take()
            p99_ms = float(np.quantile(answers, 0.99)) / 1000 if answers.size else None
            self._row.add(LivePoint(now, tps=(tally.done - done) / passed_s if passed_s > 0 else None, p99_ms=p99_ms))
            self._last = (elapsed_s, tally.done)
            self._compare(tally, answers)
        state = self.state(tally)
        self._row.ends_at = now + max(0.0, self._seconds - elapsed_s)
        self._row.put(replay=state, phase=PAUSED if tally.is_paused else SENDING)
        self._row.progress(elapsed_s, self._seconds, words_of(state))

    def state(self, tally: RunTally) -> LiveReplay:
        """Return how far the run is."""
        over, response_ms, captured_ms = self._over_at(tally), *self._times
        paused_s, busy = tally.resting
        return LiveReplay(
            statements=self._due[-1] if self._due else 0,
            due=self._due[over - 1] if over else 0,
            sent=tally.sent,
            answered=self._latest.ended,
            unlike=tally.errors,
            late_ms=tally.late_us / 1000,
            answers=dict(self._latest.answers),
            lateness=self._latest.lateness,
            response_ms=response_ms,
            captured_ms=captured_ms,
            paused_s=paused_s,
            busy=busy,
        )

    def _over_at(self, tally: RunTally) -> int:
        return bisect_right(self._moments, tally.schedule_us / 1e5 * self._speed - 1)

    def _compare(self, tally: RunTally, answers: NDArray[np.int64]) -> None:
        """Keep how long the last answers took, and those of the capture that were due in that time."""
        over, before = self._over_at(tally), self._over
        if not answers.size:
            return
        self._over = max(over, before)
        timed, took = _between(self._timed, before, over), _between(self._took, before, over)
        self._times = float(answers.mean()) / 1000, took / timed / 1000 if timed else None


def words_of(state: LiveReplay) -> str:
    """Return how many statements are due, sent, unlike, and how late the injector was at most, in one line."""
    kinds = ", ".join(f"{count:,} {name}" for name in UNLIKE if (count := state.answers.get(name, 0)))
    paused, times = pause_text(state.paused_s, state.busy), ""
    if state.response_ms is not None:
        captured = "unknown" if state.captured_ms is None else f"{state.captured_ms:,.1f} ms"
        times = f"; the last answers took {state.response_ms:,.1f} ms from their due moments, captured {captured}"
    return (
        f"{paused}{'; ' if paused else ''}{state.sent:,} of {state.statements:,} statements sent, "
        f"{state.due:,} due; {state.unlike:,} answered differently{f' (on file: {kinds})' if kinds else ''}; "
        f"the injector at most {state.late_ms:,.1f} ms late{times}"
    )


@dataclass(frozen=True, slots=True)
class DueTenth:
    """Statements that are due in a tenth of a second; how long those of them took, in us, whose end is known."""

    statements: int
    took_us: int = 0
    timed: int = 0


class LatestAnswers:
    """What engines put on file, each record once: the times of the last ones, and counts and lateness of all so far."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._taken = dict.fromkeys(files, 0)
        self.answers = {one.value: 0 for one in AnswerClass}
        """Records by class; connects and disconnects are counted with the statements."""
        self.ended = 0
        """Statements that have been answered, or whose session ended."""
        self.lateness: tuple[Lateness, ...] = ()
        """Of statements that have ended, by who caused it; none while there are none."""
        self._late = {part: _Late() for part in _PARTS}

    def take(self) -> NDArray[np.int64]:
        """Return response times since the last time, from the due moments in us; an error has none.

        Connects and disconnects are not among them.
        """
        found = [np.empty(0, np.int64)]
        for file, taken in self._taken.items():
            records = read_records(file, taken)
            self._taken[file] = taken + len(records)
            self._count(records)
            is_ended = ended_statements(records)
            self.ended += int(is_ended.sum())
            for part, late in self._late.items():
                late.add(records[f"{part}_us"][is_ended])
            is_timed = is_ended & (records["sqlstate"] == b"")
            found.append(np.asarray((records["done_us"] - records["due_us"])[is_timed]))
        self.lateness = tuple(late.told(part) for part, late in self._late.items() if late)
        return np.concatenate(found)

    def _count(self, records: Records) -> None:
        is_plain = (records["sqlstate"] == b"") & (records["expected"] == b"") & (records["skip"] == 0)
        others = records[~is_plain]  # few: their classes are texts
        self.answers[AnswerClass.SUCCESS] += len(records) - len(others)
        for name, count in zip(*np.unique(classes(others), return_counts=True), strict=True):
            self.answers[str(name)] += int(count)


class _Late:
    """Lateness by one cause so far."""

    def __init__(self) -> None:
        self._all, self._largest = LatencyHistogram(), 0

    def __bool__(self) -> bool:
        return len(self._all) > 0

    def add(self, micros: NDArray[np.int64]) -> None:
        if micros.size:
            self._all.record(micros)
            self._largest = max(self._largest, int(micros.max()))

    def told(self, part: str) -> Lateness:
        return Lateness(part, self._all.quantile_ms(0.5), self._all.quantile_ms(0.99), self._largest / 1000)


def _between(sums: Sequence[int], before: int, over: int) -> int:
    """Return what is between two places of running sums."""
    return (sums[over - 1] if over else 0) - (sums[before - 1] if before else 0)


def due_by_tenth(trace: Path) -> dict[int, DueTenth]:
    """Return what is due in each tenth of a second of a trace, in order."""
    with connection() as db, trace_source(trace, db) as source:
        rows = db.execute(_DUE.format(source=source), [Row.CONNECT, Row.DISCONNECT]).fetchall()
    return {int(tenth): DueTenth(int(count), int(took), int(timed)) for tenth, count, took, timed in rows}
