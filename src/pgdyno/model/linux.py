"""The Linux knobs: their names, files and bounds. A configuration holds them beside PostgreSQL's parameters.

Sysctls have the kernel's own names. The others are files below /sys, named for what they set; `swap.area` is a swap
file that pgdyno makes. The values are the kernel's own text: bare numbers, or one word of its list. Each is an entry of
linux.toml; only those that a rule or the kernel treats in a way of their own have a name here.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DIRTY_BYTES, DIRTY_RATIO = "vm.dirty_bytes", "vm.dirty_ratio"
BACKGROUND_BYTES, BACKGROUND_RATIO = "vm.dirty_background_bytes", "vm.dirty_background_ratio"
NR_HUGEPAGES, SWAPPINESS = "vm.nr_hugepages", "vm.swappiness"
OVERCOMMIT_MEMORY, OVERCOMMIT_RATIO = "vm.overcommit_memory", "vm.overcommit_ratio"
MIGRATION_COST, AUTOGROUP = "kernel.sched_migration_cost_ns", "kernel.sched_autogroup_enabled"
THP_ENABLED, THP_DEFRAG = "transparent_hugepage.enabled", "transparent_hugepage.defrag"
READ_AHEAD, SCHEDULER = "block.read_ahead_kb", "block.scheduler"
GOVERNOR, SMT = "cpu.governor", "cpu.smt"
SWAP_AREA = "swap.area"
SERVER_CPUS, SERVER_MEMORY = "server.cpus", "server.memory"
SERVER_BOUNDS = (SERVER_CPUS, SERVER_MEMORY)
"""Bounds around one server that only a study sets, as a level of hardware: CPUs, and bytes. No knobs: nothing that is
searched, advised or kept has them."""


@dataclass(frozen=True, slots=True)
class LinuxKnob:
    """Where a knob lives and what the kernel takes; `bounds` in `unit`, a word without them. See linux.toml."""

    path: str = ""
    bounds: tuple[int, int] | tuple[()] = ()
    unit: str | None = None
    words: tuple[str, ...] = ()
    counterpart: str = ""
    beside: tuple[str, ...] = ()

    @property
    def is_sysctl(self) -> bool:
        """Tell whether sysctl knows it."""
        return self.path.startswith("/proc/sys/")

    @property
    def is_early(self) -> bool:
        """Tell whether it is a file below /sys that is there early at boot."""
        return self.path.startswith("/sys/")


def linux_document() -> str:
    """Return the text of linux.toml, out of a zip too."""
    data = pkgutil.get_data("pgdyno.model", "linux.toml")
    assert data is not None, "it is part of the package"
    return data.decode()


def _knob(fields: Mapping[str, Any]) -> LinuxKnob:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return LinuxKnob(**values)


_ENTRIES = tomllib.loads(linux_document())
LINUX: Mapping[str, LinuxKnob] = {name: _knob(entry.get("kernel", {})) for name, entry in _ENTRIES.items()}
LINUX_KNOBS = tuple(LINUX)
COUNTERPARTS = {name: knob.counterpart for name, knob in LINUX.items() if knob.counterpart}
"""Two spellings of one threshold: writing one makes the other 0 (kernel documentation, admin-guide/sysctl/vm)."""
SEEN_AT_START = frozenset(name for name, entry in _ENTRIES.items() if entry["takes_effect"] == "restart")
"""What PostgreSQL sees only when it starts, however soon the kernel has it."""


def is_linux_knob(name: str) -> bool:
    """Return True for a Linux knob; other names of a configuration are parameters of PostgreSQL, or bounds."""
    return name in LINUX


def is_of_host(name: str) -> bool:
    """Return True for what is set on the host and not on the server: Linux knobs, and bounds around the server."""
    return name in LINUX or name in SERVER_BOUNDS
