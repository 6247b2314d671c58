"""The names of the Linux knobs. A configuration holds them beside PostgreSQL's parameters, in one mapping.

Sysctls have the kernel's own names. The others are files below /sys, named for what they set; `swap.area` is a swap
file that pgdyno makes. The values are the kernel's own text: bare numbers, or one word of its list.
"""

from __future__ import annotations

DIRTY_BYTES, DIRTY_RATIO = "vm.dirty_bytes", "vm.dirty_ratio"
BACKGROUND_BYTES, BACKGROUND_RATIO = "vm.dirty_background_bytes", "vm.dirty_background_ratio"
NR_HUGEPAGES, SWAPPINESS = "vm.nr_hugepages", "vm.swappiness"
OVERCOMMIT_MEMORY, OVERCOMMIT_RATIO = "vm.overcommit_memory", "vm.overcommit_ratio"
MIGRATION_COST, AUTOGROUP = "kernel.sched_migration_cost_ns", "kernel.sched_autogroup_enabled"
THP_ENABLED, THP_DEFRAG = "transparent_hugepage.enabled", "transparent_hugepage.defrag"
READ_AHEAD, SCHEDULER = "block.read_ahead_kb", "block.scheduler"
GOVERNOR, SMT = "cpu.governor", "cpu.smt"
SWAP_AREA = "swap.area"

LINUX_KNOBS = (
    DIRTY_BYTES,
    DIRTY_RATIO,
    BACKGROUND_BYTES,
    BACKGROUND_RATIO,
    NR_HUGEPAGES,
    SWAPPINESS,
    OVERCOMMIT_MEMORY,
    OVERCOMMIT_RATIO,
    MIGRATION_COST,
    AUTOGROUP,
    THP_ENABLED,
    THP_DEFRAG,
    READ_AHEAD,
    SCHEDULER,
    GOVERNOR,
    SMT,
    SWAP_AREA,
)
COUNTERPARTS = {
    DIRTY_BYTES: DIRTY_RATIO,
    DIRTY_RATIO: DIRTY_BYTES,
    BACKGROUND_BYTES: BACKGROUND_RATIO,
    BACKGROUND_RATIO: BACKGROUND_BYTES,
}
"""Two spellings of one threshold: writing one makes the other 0 (kernel documentation, admin-guide/sysctl/vm)."""
SEEN_AT_START = frozenset({NR_HUGEPAGES})
"""What PostgreSQL sees only when it starts, however soon the kernel has it; the catalogue says the same."""


def is_linux_knob(name: str) -> bool:
    """Return True for a Linux knob; every other name of a configuration is a parameter of PostgreSQL."""
    return name in LINUX_KNOBS
