"""Which settings were put in force long ago and are worth another look, and the study that would tell. Pure.

Loads change; whether a setting still pays is known to nobody until it is compared again. Nothing is begun by us.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pgdyno.errors import UsageError
from pgdyno.knobs.values import canonical_text
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.facts import Facts

OLD_S = 90 * 86_400.0
"""A quarter of a year: applications are released more often than that."""
_RELOADED = ("user", "superuser", "sighup")
"""Contexts of settings that a live study can compare."""


def proposals(changes: Iterable[ChangeRecord], target: str, facts: Facts, now: float) -> tuple[str, ...]:
    """Return a sentence for each setting that pgdyno put in force there at least `OLD_S` ago and that is so still."""
    latest = {one.knob: one for one in changes if one.target == target}
    return tuple(
        f"{one.knob} = {one.new} is in force since {datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}"
        f"{f' (study {one.study})' if one.study else ''}. Whether it still pays is told by: "
        f"pgdyno live --b '{one.knob}={one.old}', with the --target of this watch"
        for one in latest.values()
        if one.action is ChangeAction.APPLY and one.at <= now - OLD_S and _is_so_still(one, facts)
    )


def _is_so_still(change: ChangeRecord, facts: Facts) -> bool:
    row = facts.row(change.knob)
    if row is None or row.context not in _RELOADED or change.old is None or change.new is None:
        return False
    try:
        return canonical_text(row, row.setting) == canonical_text(row, change.new) != canonical_text(row, change.old)
    except UsageError:
        return False
