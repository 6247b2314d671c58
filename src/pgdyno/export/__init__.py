"""Turn findings into files that other tools read, each with the file that takes it back. Pure text, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pgdyno.errors import UsageError
from pgdyno.export import (
    alter_system,
    ansible,
    cloudnativepg,
    conf,
    ddl,
    patroni,
    shell_commands,
    sysctl,
    systemd,
    tuned,
    udev,
)
from pgdyno.export.advice import ExportedAdvice, advice_of
from pgdyno.model.finding import Finding
from pgdyno.model.inventory import Inventory

__all__ = ["FORMATS", "emit", "maker"]

FORMATS: Mapping[str, Callable[[ExportedAdvice], dict[str, str]]] = {
    "postgresql.conf": conf.files,
    "alter-system": alter_system.files,
    "sysctl": sysctl.files,
    "systemd": systemd.files,
    "udev": udev.files,
    "commands": shell_commands.files,
    "ddl": ddl.files,
    "patroni": patroni.files,
    "cloudnativepg": cloudnativepg.files,
    "ansible": ansible.files,
    "tuned": tuned.files,
}
"""What can be emitted, by the name that `advise --emit` takes."""

_SHORT = {"conf": "postgresql.conf"}


def maker(format: str) -> Callable[[ExportedAdvice], dict[str, str]]:
    """Return what makes the files of a format. Raises UsageError for one that is not one of FORMATS."""
    make = FORMATS.get(_SHORT.get(format, format))
    if make is None:
        raise UsageError(f'"{format}" is not a format', hint=f"Take one of {', '.join(FORMATS)}.")
    return make


def emit(findings: Sequence[Finding], inventory: Inventory, format: str, *, date: str = "") -> Mapping[str, str]:
    """Return the files of one format, by name: the change and its undo; empty when nothing in it would change.

    `findings` come in the order of preference: of two that set the same knob the first that is written counts. Those
    that were refuted here, knobs of class X and values that this server would refuse are left out, with the reason in a
    comment. `inventory` is of the target. `date` stands in the head; without it, that of the inventory. Raises
    UsageError for a `format` that is not one of FORMATS.
    """
    return maker(format)(advice_of(findings, inventory, date or inventory.taken_at))
