"""Swap: a small area against spikes, and a host or hypervisor that swaps."""

from __future__ import annotations

from pgdyno.advisor.amounts import SWAPPED_BYTES
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Severity
from pgdyno.units import binary_text, bytes_rate_text, bytes_text, percent_text

MIB = 1 << 20
LEAST, MOST = 512 * MIB, 2048 * MIB
HEAVY = MIB
"""Bytes swapped in per second from which on it is heavy: each is a page that somebody waits for."""


def swap_area(case: Case) -> Judgement:
    """Propose a small swap area where there is none."""
    areas = known(case.host.memory.swap, "swap")
    total = sum(area.bytes for area in areas)
    if total > 0:
        kinds = ", ".join(f"{area.name} ({area.kind}, {binary_text(area.bytes)})" for area in areas)
        return InOrder(f"Swap is there: {kinds}.")
    memory = known(case.host.memory.limit_bytes, "the memory limit")
    size = min(MOST, max(LEAST, memory // 64 // MIB * MIB))
    evidence = f"/proc/swaps lists none, with {binary_text(memory)} of memory."
    if isinstance(case.host.virtualization.container, str):
        return Fires(
            current="no swap on the host of this container",
            proposed="a small swap area on the host, and a cgroup that may use it (memory.swap.max)",
            evidence=(evidence, "The server runs in a container: swap is a matter of its host and of its limits."),
            severity=Severity.NOTE,
        )
    return Fires(
        changes=(Change(ChangeKind.LINUX, linux.SWAP_AREA, str(size), "0"),),
        current="no swap",
        proposed=f"a swap area of {binary_text(size)}",
        values={"size": binary_text(size)},
        evidence=(evidence,),
    )


def swapping(case: Case) -> Judgement:
    """Say whether the host swaps, from the pages per second."""
    host = known(case.evidence.host, "the host's activity")
    rate = known(host.swap_in_bytes_s, "the rate of pages swapped in")
    out = "" if isinstance(host.swap_out_bytes_s, Unknown) else f", {bytes_rate_text(host.swap_out_bytes_s)} out"
    figures = f"{bytes_rate_text(rate)} a second were swapped in{out}."
    if rate == 0:
        return InOrder(f"Nothing was swapped in over {host.window.seconds:.0f} s.", of_load=True)
    if (read := rate * host.window.seconds) < SWAPPED_BYTES:
        return InOrder(f"Only {bytes_text(read)} were swapped in over {host.window.seconds:.0f} s.", of_load=True)
    evidence = [figures]
    try:
        buffers, memory = case.number("shared_buffers"), known(case.host.memory.limit_bytes, "the memory limit")
        evidence.append(f"shared_buffers is {percent_text(buffers / memory)} of the memory of {binary_text(memory)}.")
    except Missing:
        pass
    alternatives = ["vm.swappiness of 1 to 10 keeps the memory of processes longer than cached file pages."]
    if case.host.virtualization.layer == "z/VM":
        alternatives.append("Under z/VM look at the paging of the hypervisor too: this figure is the guest's own.")
    return Fires(
        current=figures,
        proposed="less memory in shared_buffers, work_mem and connections, or more memory",
        evidence=tuple(evidence),
        alternatives=tuple(alternatives),
        severity=Severity.WARNING if rate >= HEAVY else Severity.NOTE,
    )


def zvm_paging(case: Case) -> Judgement:
    """Remind of the paging space below a guest of z/VM, which the guest cannot see."""
    memory = known(case.host.memory.ram_bytes, "RAM")
    return Fires(
        current=f"a guest of z/VM with {binary_text(memory)}",
        proposed="real memory for the database's caches",
        evidence=("The layer below is z/VM, which may page out what the guest counts as memory.",),
    )
