"""The kernel's values that a tune or a test can set: read, compared, and put back whatever happened in between.

Read and written with nothing of the product's code, so that a mistake in it cannot hide itself here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_SYSCTLS = ("vm", "kernel/sched_autogroup_enabled", "kernel/shmmax", "kernel/sem")
_NOT_COMPARED = {
    "stat_refresh": "an order, not a value",
    "compact_memory": "an order, not a value",
    "drop_caches": "an order, not a value",
    "min_free_kbytes": "computed anew by the kernel whenever transparent huge pages are switched, from the watermarks "
    "that stand at that moment: the same switch gives another number the next time",
}
"""Files below /proc/sys that are no values of anybody's, with the reason."""
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
_MIGRATION_COST = Path("/sys/kernel/debug/sched/migration_cost_ns")
_PROCESSORS = Path("/sys/devices/system/cpu")
_QUEUE = ("scheduler", "read_ahead_kb", "nr_requests", "rq_affinity")
_PAIRS = {
    "dirty_bytes": "dirty_ratio",
    "dirty_background_bytes": "dirty_background_ratio",
    "overcommit_kbytes": "overcommit_ratio",
}
"""To write one of a pair makes the other 0, so the one that counted is written."""
_ROUNDS = 3
"""What one value allows may hang on another: a scheduler has its own number of requests."""


def kernel_values() -> dict[Path, str]:
    """Return the text of every file; those that this kernel does not have, or does not show, are left out."""
    found = {}
    for path in _files():
        with suppress(OSError):
            found[path] = path.read_text().strip()
    return found


def changes(before: Mapping[Path, str]) -> list[str]:
    """Return a line for each value that is another one now; a disk that came or went is no change."""
    now = kernel_values()
    return [f"{path}: was {text}, is {now[path]}" for path, text in before.items() if now.get(path, text) != text]


def put_back(before: Mapping[Path, str]) -> None:
    """Write what is not as it was. Needs root."""
    for _ in range(_ROUNDS):
        now = kernel_values()
        for path, text in before.items():
            if now.get(path, text) != text and not _follows(path, before):
                chosen = re.search(r"\[([^\]]+)\]", text)
                with suppress(OSError):
                    path.write_text(f"{chosen[1] if chosen else text}\n")


@contextmanager
def kernel_kept() -> Iterator[list[str]]:
    """Put the kernel's values back at the end; the list then has a line for each that was not as before."""
    before, left = kernel_values(), list[str]()
    try:
        yield left
    finally:
        left += changes(before)
        if left:
            put_back(before)
            left += [f"not put back: {line}" for line in changes(before)]


def _files() -> Iterator[Path]:
    for part in _SYSCTLS:
        root = Path("/proc/sys") / part
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.name not in _NOT_COMPARED and path.is_file():
                yield path
    yield from (_HUGE_PAGES / "enabled", _HUGE_PAGES / "defrag", _MIGRATION_COST, _PROCESSORS / "smt" / "control")
    yield from sorted(_PROCESSORS.glob("cpufreq/policy*/scaling_governor"))
    for name in _QUEUE:
        yield from (path for path in sorted(Path("/sys/block").glob(f"*/queue/{name}")) if _is_disk(path.parents[1]))


def _is_disk(block: Path) -> bool:
    """Tell whether there is anything behind a block device: an idle loop device has the values of its last file."""
    try:
        return int((block / "size").read_text()) > 0
    except (OSError, ValueError):
        return False


def _follows(path: Path, before: Mapping[Path, str]) -> bool:
    """Tell whether a value becomes 0 by itself when its counterpart is written."""
    others = {**_PAIRS, **{ratio: amount for amount, ratio in _PAIRS.items()}}
    other = others.get(path.name)
    return other is not None and before[path] == "0" and before.get(path.with_name(other), "0") != "0"
