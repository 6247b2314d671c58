"""ALTER SYSTEM statements; the undo sets what stood in postgresql.auto.conf again and resets what did not."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.quoting import alter_system_reset, alter_system_set
from pgdyno.model.finding import ChangeKind

NAME, UNDO = "pgdyno-advice.sql", "pgdyno-advice.undo.sql"
_KINDS = (ChangeKind.POSTGRESQL,)
_RELOAD = "SELECT pg_reload_conf();\n"


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the statements and their undo, for psql as a superuser; each reloads at its end."""
    items = advice.of(*_KINDS)
    if not items:
        return {}
    text = advice.head("ALTER SYSTEM", _KINDS, mark="--")
    undo = advice.head("undo of ALTER SYSTEM", _KINDS, mark="--")
    for item in items:
        text += alter_system_set(item.change.knob, item.change.value) + "\n"
        undo += _undo(advice, item.change.knob)
    note = comment(advice.restarts(), "--")
    return {NAME: text + note + _RELOAD, UNDO: undo + note + _RELOAD}


def _undo(advice: ExportedAdvice, name: str) -> str:
    found = advice.found(name)
    if found.in_auto_conf is None and not found.is_default and found.text is not None and not found.overridden_by:
        # Its file is not shown: setting it again is right for either file, resetting only for one of them.
        note = comment([f"{name}: which file set it was not shown, so it is set and not reset"], "--")
        return note + alter_system_set(name, found.text) + "\n"
    if found.in_auto_conf and found.text is not None:
        return alter_system_set(name, found.text) + "\n"
    return alter_system_reset(name) + "\n"
