"""Whether strict overcommit would leave the host without memory to promise: refused before it is written.

In mode 2 the kernel refuses every allocation beyond CommitLimit = overcommit_ratio % of (RAM - huge pages) + swap
(kernel documentation, mm/overcommit-accounting). A host that has promised more already could not even start a shell.
"""

from __future__ import annotations

import re

from pgdyno.linux.kernel_tree import LIVE, Tree, plain
from pgdyno.model.linux import OVERCOMMIT_MEMORY, OVERCOMMIT_RATIO

_ROOM = 1.1
"""The limit must exceed what is promised now by a tenth, or the next process fails."""


def refusal(name: str, value: str, tree: Tree = LIVE) -> str | None:
    """Return why this value of an overcommit knob would starve the host, None when it would not."""
    if name not in (OVERCOMMIT_MEMORY, OVERCOMMIT_RATIO):
        return None
    mode = value if name == OVERCOMMIT_MEMORY else plain(tree.read("/proc/sys/vm/overcommit_memory"))
    if mode != "2":
        return None
    memory = dict(re.findall(r"^(\w+):\s+(\d+)", tree.read("/proc/meminfo"), re.MULTILINE))
    pool = int(memory.get("HugePages_Total", 0)) * int(memory.get("Hugepagesize", 0))
    ratio = int(value if name == OVERCOMMIT_RATIO else plain(tree.read("/proc/sys/vm/overcommit_ratio")))
    limit_kb = (int(memory["MemTotal"]) - pool) * ratio // 100 + int(memory["SwapTotal"])
    if name == OVERCOMMIT_MEMORY and ratio == 0:
        limit_kb = int(plain(tree.read("/proc/sys/vm/overcommit_kbytes"))) + int(memory["SwapTotal"])
    promised_kb = int(memory["Committed_AS"])
    if limit_kb >= _ROOM * promised_kb:
        return None
    return (
        f"the host has promised {promised_kb} kB to its processes already, and the limit would be {limit_kb} kB: "
        "the next allocations of any process would fail"
    )
