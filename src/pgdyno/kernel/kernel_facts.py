"""What the Linux knobs stand at on this machine, what the kernel would take, and what stands in the way. Reads only."""

from __future__ import annotations

import os
import shutil

from pgdyno.kernel import kernel, kernel_smt
from pgdyno.kernel.kernel_knobs import Located, locate
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import LIVE, Tree, choices, reason_of
from pgdyno.model import linux
from pgdyno.model.facts import KernelFact, Unknown

_SWAP_PROGRAMS = ("mkswap", "swapon", "swapoff")


def read_kernel(places: KernelPlaces, *, tree: Tree = LIVE) -> dict[str, KernelFact]:
    """Return a fact for every Linux knob, in the order of `model.linux`; never raises.

    Writability is asked by opening each file for writing and writing nothing: the mode bits of /proc and /sys do not
    know of lockdown, of read-only mounts in containers, and of capabilities that root may lack.
    """
    return {name: _fact(name, places, tree) for name in linux.LINUX_KNOBS}


def unknown_kernel(reason: str) -> dict[str, KernelFact]:
    """Return the facts of a kernel that we cannot look at."""
    return {name: KernelFact(name, Unknown(reason), obstacle=reason) for name in linux.LINUX_KNOBS}


def _fact(name: str, places: KernelPlaces, tree: Tree) -> KernelFact:
    value, knob = kernel.read_value(name, places, tree=tree), linux.LINUX[name]
    located = locate(name, places, tree)
    words = () if isinstance(located, Unknown) else _choices(name, located, tree)
    least, most = knob.bounds or (None, None)
    if name == linux.DIRTY_BYTES:
        least = 2 * os.sysconf("SC_PAGE_SIZE")
    return KernelFact(
        name=name,
        value=value,
        vartype="integer" if knob.bounds else "enum",
        unit=knob.unit,
        minimum=least,
        maximum=most,
        choices=words or knob.words,
        obstacle=located.reason if isinstance(located, Unknown) else _obstacle(name, located, tree),
    )


def _choices(name: str, located: Located, tree: Tree) -> tuple[str, ...]:
    """Return the words that every file of a knob offers, in the kernel's order."""
    if name == linux.SMT:
        return kernel_smt.levels(tree)
    lists: list[tuple[str, ...]] = []
    try:
        if name == linux.GOVERNOR:
            lists = [choices(tree.read(_beside(path, "scaling_available_governors"))) for path in located.files]
        elif not linux.LINUX[name].bounds and not linux.LINUX[name].words:
            lists = [choices(tree.read(path)) for path in located.files]
    except OSError:
        return ()
    return tuple(word for word in lists[0] if all(word in other for other in lists)) if lists else ()


def _beside(path: str, name: str) -> str:
    return f"{path.rpartition('/')[0]}/{name}"


def _obstacle(name: str, located: Located, tree: Tree) -> str | None:
    if name == linux.SWAP_AREA:
        return _swap_obstacle()
    for path in located.files or located.beside:
        try:
            tree.read(path)
            tree.try_to_open(path)
        except OSError as error:
            return reason_of(error, path, tree)
    return None


def _swap_obstacle() -> str | None:
    if os.geteuid() != 0:
        return "only root may switch swap on"
    missing = [program for program in _SWAP_PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(missing)} of util-linux is not installed" if missing else None
