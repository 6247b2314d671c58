"""Which counts of the log rest on which settings, and the messages after which they start again. Pure.

What the log said before a setting got its present value says nothing of that value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.model.evidence import CHECKPOINT_SETTINGS, SPILL_SETTINGS

RESTS_ON: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("too_frequent", "checkpoint_starts"), CHECKPOINT_SETTINGS),
    "temp_files": SPILL_SETTINGS,
    "killed_by_9": ("shared_buffers", "max_connections", *SPILL_SETTINGS),
}
"""Kinds of events, by the names of `LogCounts`, and the settings that they judge."""

MARKS = (b"starting PostgreSQL ", b" reset to default", b" changed to ")
_CHANGED = re.compile(
    r'parameter "([\w.]{1,63})" (?:changed to ".*"|removed from configuration file, reset to default)\s*', re.DOTALL
)


def changed_setting(message: str) -> str | None:
    """Return the setting that a reload changed, by the postmaster's message; None for every other message."""
    match = _CHANGED.fullmatch(message)
    return None if match is None else match[1]


def without_value(name: str) -> str:
    """Return the message of a change without the value, which may be a secret (primary_conninfo)."""
    return f'parameter "{name}" changed to "..."'


def is_start(message: str) -> bool:
    """Tell whether a server starts here (12 and later say so), after which any setting may be another."""
    return message.startswith("starting PostgreSQL ")
