"""A merge patch for a Cluster of CloudNativePG, for `kubectl patch cluster NAME --type merge --patch-file FILE`.

Parameters are strings there. Libraries to preload have a list of their own (spec.postgresql.shared_preload_libraries).
"""

from __future__ import annotations

import json

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.quoting import yaml_key, yaml_scalar
from pgdyno.model.finding import ChangeKind
from pgdyno.routes.auto_conf import list_words

NAME, UNDO = "pgdyno-advice.cnpg.yaml", "pgdyno-advice.cnpg.undo.yaml"
_KINDS = (ChangeKind.POSTGRESQL,)
_LIBRARIES = "shared_preload_libraries"


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the patch and its undo."""
    items = advice.of(*_KINDS)
    if not items:
        return {}
    now: dict[str, str | None] = {item.change.knob: item.change.value for item in items}
    found = {name: advice.found(name) for name in now}
    before = {name: value.line for name, value in found.items()}
    note = comment([f"{line}; the operator restarts the instances by itself" for line in advice.restarts()])
    text = advice.head("CloudNativePG: kubectl patch cluster NAME --type merge --patch-file FILE", _KINDS) + note
    undo = advice.head("undo of the patch for CloudNativePG", _KINDS) + note
    text += comment(said for name, value in found.items() for said in value.outranked(name))
    undo += comment(said for name, value in found.items() for said in value.set_again(name))
    return {NAME: text + _patch(now), UNDO: undo + _patch(before)}


def _patch(values: dict[str, str | None]) -> str:
    text = "spec:\n  postgresql:\n"
    if _LIBRARIES in values:
        words = list_words(_LIBRARIES, values[_LIBRARIES] or "")
        text += f"    {_LIBRARIES}: {json.dumps([word for word in words if word])}\n"
    parameters = {name: value for name, value in values.items() if name != _LIBRARIES}
    if parameters:
        text += "    parameters:\n"
        text += "".join(f"      {yaml_key(name)}: {yaml_scalar(value)}\n" for name, value in parameters.items())
    return text
