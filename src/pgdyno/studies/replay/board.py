"""What the dashboard shows of a replay that runs: due against sent, answers unlike the captured ones, and lag."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

from pgdyno.model.live import LivePoint
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.parquet import connection, parquet_source
from pgdyno.trace.schema import Row
from pgdyno.trial.live_row import LiveRow

_DUE = """
SELECT due_us // 100000, count(*) FROM {source}
WHERE kind NOT IN (?, ?) AND refused IS NULL GROUP BY 1 ORDER BY 1
"""


class ReplayProgress:
    """Tells a row how a replay goes; `due` are statements by the tenth of a second in the trace."""

    def __init__(self, row: LiveRow, due: dict[int, int], *, speed: float, seconds: float) -> None:
        self._row, self._speed, self._seconds = row, speed, seconds
        self._moments, self._due = list(due), list(accumulate(due.values()))
        self._last: tuple[float, int] | None = None

    def tell(self, tally: RunTally, now: float) -> None:
        """Put on the board what the engines said last; `now` is seconds since the epoch."""
        elapsed_s = max(0.0, tally.at_us / 1e6)
        self._row.progress(elapsed_s, self._seconds, self.words(tally))
        if not self._row.is_due(now):
            return
        before_s, done = self._last or (elapsed_s, 0)
        passed_s = elapsed_s - before_s
        self._row.add(LivePoint(now, tps=(tally.done - done) / passed_s if passed_s > 0 else None))
        self._last = (elapsed_s, tally.done)

    def words(self, tally: RunTally) -> str:
        """Return how many statements are due, sent, unlike, and how late the injector was at most."""
        over = bisect_right(self._moments, tally.at_us / 1e5 * self._speed - 1)
        due, whole = (self._due[over - 1] if over else 0), (self._due[-1] if self._due else 0)
        return (
            f"{tally.sent:,} of {whole:,} statements sent, {due:,} due; {tally.errors:,} answered otherwise; "
            f"the injector at most {tally.late_us / 1000:.1f} ms late"
        )


def due_by_tenth(trace: Path) -> dict[int, int]:
    """Return how many statements are due in each tenth of a second of a trace, in order."""
    with parquet_source(trace) as source, connection() as db:
        rows = db.execute(_DUE.format(source=source), [Row.CONNECT, Row.DISCONNECT]).fetchall()
    return {int(tenth): int(count) for tenth, count in rows}
