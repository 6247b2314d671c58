"""Variables for Ansible: parameters by name, sysctls by name, and in the undo the names to be taken away again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pgdyno.model.finding import Change, ChangeKind
from pgdyno.report.export.advice import Advice, comment
from pgdyno.report.export.linux_items import is_sysctl, pool_notes, sysctls_of
from pgdyno.report.export.quoting import yaml_key, yaml_scalar

NAME, UNDO = "pgdyno-advice.ansible.yaml", "pgdyno-advice.ansible.undo.yaml"
_KINDS = (ChangeKind.POSTGRESQL, ChangeKind.LINUX)


def files(advice: Advice) -> dict[str, str]:
    """Return the variables and their undo, for `-e @FILE` or a vars_files entry."""
    items, sysctls = advice.of(ChangeKind.POSTGRESQL), sysctls_of(advice)
    if not items and not sysctls.written:
        return {}
    now = {item.change.knob: item.change.value for item in items}
    found = {name: advice.found(name) for name in now}
    before = {name: value.text for name, value in found.items() if not value.is_default and value.text is not None}
    gone = [name for name in now if name not in before]
    known = {name: value for name, value in sysctls.undo.items() if value is not None}
    notes = comment([*advice.restarts(), *pool_notes(sysctls)])
    text = advice.head("variables of Ansible", _KINDS, about=_is_here) + notes
    undo = advice.head("undo of the variables of Ansible", _KINDS, about=_is_here) + notes
    return {
        NAME: text + _variables(now, [], sysctls.written),
        UNDO: undo + _variables(before, gone, known),
    }


def _is_here(change: Change) -> bool:
    return change.kind is ChangeKind.POSTGRESQL or is_sysctl(change)


def _variables(parameters: Mapping[str, str], absent: list[str], sysctls: Mapping[str, str]) -> str:
    return (
        _mapping("pgdyno_postgresql_parameters", parameters)
        + f"pgdyno_postgresql_parameters_absent: {json.dumps(absent)}\n"
        + _mapping("pgdyno_sysctls", sysctls)
    )


def _mapping(name: str, values: Mapping[str, str]) -> str:
    if not values:
        return f"{name}: {{}}\n"
    return f"{name}:\n" + "".join(f"  {yaml_key(key)}: {yaml_scalar(value)}\n" for key, value in values.items())
