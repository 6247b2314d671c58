"""Whether the volume of the WAL has room for what the configuration lets it grow to. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused
from pgdyno.units import bytes_text

_KNOBS = ("max_wal_size", "min_wal_size", "wal_keep_size")
_OVERRUN = 1.1
"""max_wal_size is a soft limit: a checkpoint that is under way lets the WAL go beyond it; a tenth is assumed."""
_MARGIN_BYTES = 1 << 30


def wal_disk(plan: StartPlan, wal_bytes: int | Unknown, free_bytes: int | Unknown) -> Result:
    """Compare how far pg_wal may grow (max_wal_size and a tenth, wal_keep_size) with the free space of its volume.

    Refuses when it cannot fit; a note when less than 1 GB would be left. Only where the configuration sets one of
    the three. Archiving that fails and replication slots can keep more than this: guards watch for that.
    """
    check = "WAL volume"
    asked = [name for name in _KNOBS if name in plan.asked]
    if not asked:
        return not_applicable(check, f"the configuration sets none of {', '.join(_KNOBS)}")
    if isinstance(wal_bytes, Unknown) or isinstance(free_bytes, Unknown):
        reason = wal_bytes.reason if isinstance(wal_bytes, Unknown) else str(free_bytes)
        return not_applicable(check, reason)
    sizes = {name: plan.size(name) or 0 for name in _KNOBS}
    most = int(max(sizes["max_wal_size"] * _OVERRUN, sizes["min_wal_size"])) + sizes["wal_keep_size"]
    growth = max(most - wal_bytes, 0)
    figures = {"asked": bytes_text(growth), "there": bytes_text(free_bytes)}
    words = ", ".join(plan.figure(name) for name in asked)
    sentence = (
        f"{words}: the WAL may grow by {figures['asked']} to {bytes_text(most)}, "
        f"and its volume has {figures['there']} free"
    )
    hint = "Choose a smaller max_wal_size, or free space on the volume of pg_wal."
    if growth > free_bytes:
        return refused(check, sentence, **figures, hint=hint)
    if growth + _MARGIN_BYTES > free_bytes:
        return noted(check, sentence, **figures, hint=hint)
    return passed(check, sentence, **figures)
