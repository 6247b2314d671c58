"""The rows of all PostgreSQL tables that two readings of the server make. Pure."""

from __future__ import annotations

from pgdyno.model.samples import SampleRow
from pgdyno.probes.observer import ViewsReading
from pgdyno.probes.views import delta_rows, gauge_rows, session_rows, top_statements

_COUNTER_VIEWS = ("database", "checkpointer", "wal", "io")
_GAUGE_VIEWS = ("locks", "replication")


def server_rows(before: ViewsReading | None, after: ViewsReading) -> list[SampleRow]:
    """Return the rows of `after`; tables of counters have none when there is no earlier reading of the view."""
    found: list[SampleRow] = []
    for view in _GAUGE_VIEWS:
        found += gauge_rows(view, after.t, after.views.get(view, ()))
    if "activity" in after.views:
        found += session_rows(after.t, after.views["activity"])
    for view in _COUNTER_VIEWS:
        found += _deltas(view, before, after)
    return found


def statement_rows(before: ViewsReading, after: ViewsReading) -> list[SampleRow]:
    """Return the statements that ran between two readings of `statements`, those that took longest first."""
    return top_statements(_deltas("statements", before, after))


def _deltas(view: str, before: ViewsReading | None, after: ViewsReading) -> list[SampleRow]:
    if before is None or view not in before.views or view not in after.views or after.t <= before.t:
        return []
    return delta_rows(view, after.t, after.t - before.t, before.views[view], after.views[view])
