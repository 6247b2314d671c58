"""A file of sysctl.d; the undo is a file with the values as found. Only names that this kernel has are written."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.linux_items import is_sysctl, pool_notes, sysctls_of
from pgdyno.model.finding import ChangeKind

NAME, UNDO = "90-pgdyno-advice.conf", "90-pgdyno-advice.undo.conf"
_KINDS = (ChangeKind.LINUX,)


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the file and its undo; comments alone where every name is gone from this kernel."""
    chosen = sysctls_of(advice)
    if not chosen.written and not chosen.listed:
        return {}
    text = advice.head(f"/etc/sysctl.d/{NAME}", _KINDS, about=is_sysctl)
    text += comment([f"Load it: sysctl -p /etc/sysctl.d/{NAME} (or reboot). /etc/sysctl.conf is not read everywhere."])
    text += comment(pool_notes(chosen))
    text += comment([f"not written: {name}: {reason}" for name, reason in chosen.listed.items()])
    text += "".join(f"{advice.marks(name)}{name} = {value}\n" for name, value in chosen.written.items())
    undo = advice.head(f"undo of /etc/sysctl.d/{NAME}", _KINDS, about=is_sysctl)
    undo += comment([f"Remove /etc/sysctl.d/{NAME}, then: sysctl -p {UNDO}"])
    for name, value in chosen.undo.items():
        undo += comment([f"{name} is not known as it was found"]) if value is None else f"{name} = {value}\n"
    return {NAME: text, UNDO: undo}
