"""SQL that people run: tablespaces, extensions, indexes; with the warning of locks that comes from the finding."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.model.finding import ChangeKind

NAME, UNDO = "pgdyno-advice-ddl.sql", "pgdyno-advice-ddl.undo.sql"
_KINDS = (ChangeKind.DDL,)


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the statements and their undo in the opposite order; pgdyno never runs them."""
    items = advice.of(*_KINDS)
    if not items:
        return {}
    text = advice.head("DDL for review: it takes locks, and moving a table copies it", _KINDS, mark="--")
    undo = advice.head("undo of the DDL", _KINDS, mark="--")
    for item in items:
        text += comment([item.rule], "--") + "".join(f"{statement}\n" for statement in item.change.commands)
    for item in reversed(items):
        statements = "".join(f"{statement}\n" for statement in item.change.undo)
        undo += comment([item.rule], "--")
        undo += statements or comment(["There is no statement that takes this back."], "--")
    return {NAME: text, UNDO: undo}
