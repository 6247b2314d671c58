"""How many threads each core runs: the kernel's own switch, or thread by thread on Power before Linux 6.6.

`/sys/devices/system/cpu/smt/control` says on, off or, on Power from 6.6, a number. Where it is not implemented on
Power, the level is set as `ppc64_cpu --smt=N` does it: the threads 0 to N-1 of each core online, the others offline.
Standard library only.
"""

from __future__ import annotations

import re

from pgdyno.linux.kernel_tree import LIVE, Tree, plain

_CPUS = "/sys/devices/system/cpu"
CONTROL = f"{_CPUS}/smt/control"
_DEVICE_TREE = "/proc/device-tree/cpus"
_WORDS = {
    "notsupported": "the processors run one thread a core (smt/control: notsupported)",
    "notimplemented": "this kernel has no switch for it (smt/control: notimplemented)",
    "forceoff": "it was switched off until the next boot (smt/control: forceoff)",
}


def problem(tree: Tree = LIVE) -> str | None:
    """Return why the level cannot be changed, None when it can."""
    if is_by_thread(tree):
        return None if _threads_per_core(tree) > 1 else "the processors run one thread a core"
    word = _control(tree)
    return f"this kernel has no {CONTROL}" if word is None else _WORDS.get(word)


def is_by_thread(tree: Tree = LIVE) -> bool:
    """Return True on Power without a switch in the kernel."""
    return _threads_per_core(tree) > 0 and _control(tree) in ("notimplemented", "notsupported", None)


def levels(tree: Tree = LIVE) -> tuple[str, ...]:
    """Return the words that can be set: `on` and `off`, or numbers of threads."""
    most = _threads_per_core(tree)
    powers = tuple(str(1 << step) for step in range(most.bit_length()) if 1 << step <= most)
    return powers if is_by_thread(tree) else ("off", *powers[1:-1], "on")


def level(tree: Tree = LIVE) -> str | None:
    """Return how many threads of each core are online, None when the cores differ."""
    counts = {sum(plain(tree.read(path)) == "1" for path in core) for core in _cores(tree)}
    return str(counts.pop()) if len(counts) == 1 else None


def set_level(threads: int, tree: Tree = LIVE) -> None:
    """Bring so many threads of each core online, and then take the others offline. Raises OSError."""
    cores = _cores(tree)
    for wanted, part in (("1", slice(None, threads)), ("0", slice(threads, None))):
        for path in (path for core in cores for path in core[part]):
            if plain(tree.read(path)) != wanted:
                tree.write(path, wanted)


def online_files(tree: Tree = LIVE) -> tuple[str, ...]:
    """Return the file of each processor that can go offline, by number."""
    numbers = sorted(int(name[3:]) for name in tree.names(_CPUS) if re.fullmatch(r"cpu\d+", name))
    return tuple(path for number in numbers if tree.exists(path := f"{_CPUS}/cpu{number}/online"))


def _control(tree: Tree) -> str | None:
    try:
        return plain(tree.read(CONTROL))
    except OSError:
        return None


def _threads_per_core(tree: Tree) -> int:
    """Return the threads that a core of Power has: one number of four bytes each in the device tree; 0 elsewhere."""
    for name in tree.names(_DEVICE_TREE):
        try:
            return len(tree.local(f"{_DEVICE_TREE}/{name}/ibm,ppc-interrupt-server#s").read_bytes()) // 4
        except OSError:
            continue
    return 0


def _cores(tree: Tree) -> list[tuple[str, ...]]:
    files, each = online_files(tree), max(1, _threads_per_core(tree))
    return [files[at : at + each] for at in range(0, len(files), each)]
