"""A fragment of postgresql.conf; the undo is the lines as they were found, or to take a line away."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.model.finding import ChangeKind
from pgdyno.outside.quoting import conf_line

NAME, UNDO = "pgdyno-advice.conf", "pgdyno-advice.undo.conf"
_KINDS = (ChangeKind.POSTGRESQL,)


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the fragment and its undo."""
    items = advice.of(*_KINDS)
    if not items:
        return {}
    text = advice.head("fragment of postgresql.conf, to be included at its end", _KINDS)
    text += comment(advice.restarts())
    undo = advice.head("undo of the fragment of postgresql.conf", _KINDS) + comment(advice.restarts())
    undo += comment([f"Take {NAME} out of the configuration again; what follows are the values as they were found."])
    for item in items:
        name, found = item.change.knob, advice.found(item.change.knob)
        text += advice.marks(name) + conf_line(name, item.change.value) + "\n"
        text += comment(found.outranked(name))
        if found.in_auto_conf:
            undo += comment(found.set_again(name))
        elif found.is_default:
            undo += comment([f"{name} was at its default: its line is removed"])
        elif found.text is None:
            undo += comment([f"{name} is not known as it was found: its line is removed"])
        else:
            undo += conf_line(name, found.text) + "\n"
    return {NAME: text, UNDO: undo}
