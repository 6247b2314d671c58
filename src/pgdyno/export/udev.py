"""udev rules for read-ahead and scheduler of block devices; the undo is the same rules with the values as found."""

from __future__ import annotations

from pgdyno.export.advice import ExportedAdvice, comment
from pgdyno.export.linux_items import BlockChange, block_changes, is_block
from pgdyno.kernel.persist import block_rule
from pgdyno.model.finding import ChangeKind
from pgdyno.model.inventory import HostInventory

NAME, UNDO = "90-pgdyno-advice.rules", "90-pgdyno-advice.undo.rules"
_KINDS = (ChangeKind.BLOCK, ChangeKind.LINUX)
_MAPPED = ("lvm", "crypt", "mpath", "dm")
_LOAD = "udevadm control --reload; udevadm trigger --subsystem-match=block --action=change"


def files(advice: ExportedAdvice) -> dict[str, str]:
    """Return the rules and their undo."""
    changes = block_changes(advice)
    if not changes:
        return {}
    host = advice.inventory.host
    text = advice.head(f"/etc/udev/rules.d/{NAME}", _KINDS, about=is_block) + comment([f"Load it: {_LOAD}"])
    if any(_match(change, host).startswith("KERNEL") for change in changes):
        text += comment(
            ["The kernel may name a disk otherwise after a reboot: match ENV{ID_SERIAL} to keep to a disk."]
        )
    undo = advice.head(f"undo of /etc/udev/rules.d/{NAME}", _KINDS, about=is_block)
    undo += comment([f"Put it in the place of {NAME}, load it ({_LOAD}), then remove it."])
    # A scheduler brings its own read-ahead nowhere, but resets other tunables of the queue: it comes first.
    for change in sorted(changes, key=lambda change: change.attribute != "scheduler"):
        text += block_rule(_match(change, host), change.attribute, change.value)
        if change.found is None:
            undo += comment([f"{change.attribute} of {change.device} is not known as it was found"])
        else:
            undo += block_rule(_match(change, host), change.attribute, change.found)
    return {NAME: text, UNDO: undo}


def _match(change: BlockChange, host: HostInventory) -> str:
    """Tell a mapping by its name, which lasts; others by the kernel's name, which may differ after a reboot."""
    name = change.device.removeprefix("mapper/")
    known = host.device(change.device)
    if known is not None and known.kind in _MAPPED and not name.startswith("dm-"):
        return f'ATTR{{dm/name}}=="{name}"'
    return f'KERNEL=="{name}"'
