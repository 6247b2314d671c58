"""A patch of Patroni's dynamic configuration, for `patronictl edit-config --apply FILE`; null takes a value away."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.quoting import yaml_key, yaml_scalar
from pgdyno.model.finding import ChangeKind

NAME, UNDO = "pgdyno-advice.patroni.yaml", "pgdyno-advice.patroni.undo.yaml"
_KINDS = (ChangeKind.POSTGRESQL,)
_BEGIN = "postgresql:\n  parameters:\n"


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the patch and its undo."""
    items = advice.of(*_KINDS)
    if not items:
        return {}
    begin = comment([f"{line}; patronictl restart does it" for line in advice.restarts()]) + _BEGIN
    text = advice.head("Patroni: patronictl edit-config --apply FILE", _KINDS) + begin
    undo = advice.head("undo of the patch for Patroni", _KINDS) + begin
    for item in items:
        name, found = item.change.knob, advice.found(item.change.knob)
        text += comment(found.outranked(name)) + f"    {yaml_key(name)}: {yaml_scalar(item.change.value)}\n"
        undo += comment(found.set_again(name)) + f"    {yaml_key(name)}: {yaml_scalar(found.line)}\n"
    return {NAME: text, UNDO: undo}
