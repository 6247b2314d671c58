"""Which differences of settings are ours to repair, and which are what somebody else set meanwhile: pure judgements.

After our lines are gone and the server has read its files, a setting that differs is ours only if the session can
have touched it, and a restart is for such a setting alone: nobody's server goes down for what somebody else changed.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from pgdyno.model.linux import SEEN_AT_START
from pgdyno.routes.route_names import may_hold_secret
from pgdyno.routes.written import Written
from pgdyno.server.snapshot import SettingDifference, SettingState

_FILE = "configuration file"
_UNPLACED = frozenset({"default", "override"})


def wants_restart(difference: SettingDifference, written: Written, waiting: Set[str] = frozenset()) -> bool:
    """Return True when the session has touched a setting and only a start makes it as it was.

    That is what waits for a restart since our line is gone, and what a start computes: `wal_buffers = -1` in a file
    makes the server set the size itself, of source override; without the line the source stays that until the next
    start. `waiting` names settings that wait because a line of somebody else in the files gives them a new value.
    """
    before, after = difference.before, difference.after
    if before is None or after is None:
        return False  # of a library that was loaded or is not any more: where that was ours, its own setting waits
    if after.context == "internal":
        return not written.is_known or bool(SEEN_AT_START & written.names)
    if not written.may_have_set(difference.name):
        return False
    if after.pending_restart:
        return after.setting != before.setting or difference.name not in waiting
    return after.context == "postmaster" and after.source != _FILE and _value(before) != _value(after)


def is_ours(difference: SettingDifference, written: Written, as_found: Set[str], waiting: Set[str]) -> bool:
    """Return True for a difference that nobody else can have made, so that it is damage.

    `difference` has a setting before the session and now, `written` is what the session can have set. `as_found` are
    the files, as the server spells them, that are what they were: a setting that the session touched, and that neither
    came nor comes from any other place, is not as it was for a reason that nobody knows. `waiting` names settings that
    wait for a restart because of a line of somebody else.
    """
    before, after = difference.before, difference.after
    if is_line_only(difference) or before is None or after is None or not written.may_have_set(difference.name):
        return False
    if after.pending_restart:
        return after.setting != before.setting or difference.name not in waiting
    return all(_is_known(state, as_found) for state in (before, after))


def told(difference: SettingDifference) -> str:
    """Return a sentence on a setting that somebody else changed; a value that may be a secret is left out."""
    if may_hold_secret(difference.name):
        return f"{difference.name} was changed by somebody else (values not shown)"
    return f"{difference}; somebody else changed that"


def is_line_only(difference: SettingDifference) -> bool:
    """Return True when only the number of the line differs: somebody added or took out lines above it."""
    before, after = difference.before, difference.after
    if before is None or after is None:
        return False
    return replace(after, sourceline=before.sourceline).identity() == before.identity()


def is_computed(difference: SettingDifference) -> bool:
    """Return True for a setting that no place sets, before or now: the server has computed it from another one."""
    return all(state is not None and state.source in _UNPLACED for state in (difference.before, difference.after))


def _value(state: SettingState) -> tuple[str | None, str]:
    return state.setting, state.source


def _is_known(state: SettingState, as_found: Set[str]) -> bool:
    return state.source in _UNPLACED or state.sourcefile in as_found
