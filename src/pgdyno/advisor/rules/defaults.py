"""The judge of the rule on a configuration that nobody ever touched."""

from __future__ import annotations

from pgdyno.advisor.case import Case
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.planned import is_set, memory_of, shown
from pgdyno.units import bytes_text, percent_text

KNOBS = (
    "shared_buffers",
    "effective_cache_size",
    "work_mem",
    "maintenance_work_mem",
    "max_wal_size",
    "checkpoint_timeout",
    "random_page_cost",
    "effective_io_concurrency",
)
"""What anybody who tunes a server touches first; one of them set is enough to call it touched."""


def default_configuration(case: Case) -> Judgement:
    """Flag a server whose sizes all stand at what initdb gives."""
    rows = [case.row(name) for name in KNOBS]
    touched = [row.name for row in rows if is_set(row) or row.pending_restart]
    if touched:
        return InOrder(f"The configuration was touched: {', '.join(touched)}.")
    values = ", ".join(f"{name} = {shown(case, name)}" for name in KNOBS[:5])
    memory = memory_of(case)
    buffers = case.number("shared_buffers")
    return Fires(
        current="every size at its default",
        proposed="the sizes that the other rules compute, one at a time",
        evidence=(
            f"{values}: all at their defaults.",
            f"shared_buffers is {percent_text(buffers / memory, 1)} "
            f"of the {bytes_text(memory)} that the server may use.",
        ),
    )
