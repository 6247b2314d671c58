"""What the machine is: architecture, topology, sharing, page size, limits of a container, and what was not read."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.applicability import generic_remark
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model.evidence import HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Severity
from pgdyno.units import binary_text, percent_text

STEAL_PCT = 5.0
BUFFERS_SHARE = 0.5
"""shared_buffers above this share of a container's limit leave too little for sessions and the page cache."""
NO_LIMIT = 1 << 60
"""Bytes from which on a limit binds no machine; kernels of today have limits near 2^64."""
_MEANING = {
    "s390x": "huge pages of 1 MiB where the processor has edat, IFLs in books and drawers, LPAR or z/VM below",
    "ppc64le": "pages of 64 KiB, SMT up to 8, huge pages of 2 MiB (radix) or 16 MiB (hash)",
    "x86_64": "pages of 4 KiB, Hyper-Threading or SMT-2, huge pages of 2 MiB and 1 GiB",
}


def architecture(case: Case) -> Judgement:
    """Say what the architecture means for advice; a remark where no source covers it."""
    here = known(case.host.processor.architecture, "the architecture")
    layer = case.host.virtualization.layer
    remark = generic_remark(case)
    if remark is None:
        return InOrder(f"{here}: {_MEANING[here]}. The layer below is {layer}.")
    return Fires(
        current=here,
        proposed="measure before and after each change: no figure of the sources was measured on such a machine",
        evidence=(f"{remark[0].upper()}{remark[1:]}.", f"The layer below is {layer}."),
    )


def topology(case: Case) -> Judgement:
    """Say whether the CPUs share one last-level cache or are scattered."""
    processor = case.host.processor
    scattered = known(processor.scattered, "where the CPUs lie")
    places = (
        ("sockets", processor.sockets),
        ("books", processor.books),
        ("drawers", processor.drawers),
        ("NUMA nodes", processor.numa_nodes),
        ("last-level caches", processor.last_level_caches),
    )
    counted = ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in places if _is_count(count))
    if not scattered:
        return InOrder(f"The {processor.cpus} CPUs are not scattered ({counted}).")
    return Fires(
        current=f"{processor.cpus} CPUs over {counted}",
        proposed="test first whatever moves tasks between CPUs",
        evidence=(f"The CPUs are scattered: {counted}.",),
        alternatives=("lscpu --extended shows which CPU lies where.",),
    )


def _is_count(value: int | Unknown) -> bool:
    return isinstance(value, int)


def polarization(case: Case) -> Judgement:
    """Count the entitlement of vertically polarized CPUs: low ones have no share of their own."""
    processor = case.host.processor
    mode = known(processor.polarization, "the polarization")
    if not mode.startswith("vertical"):
        return InOrder(f"The polarization is {mode}: every CPU has the same share.")
    entitlement = known(processor.entitlement, "the entitlement of the CPUs")
    counted = ", ".join(f"{entitlement.get(word, 0)} {word}" for word in ("high", "medium", "low"))
    weak = entitlement.get("medium", 0) + entitlement.get("low", 0)
    if not weak:
        return InOrder(f"The polarization is vertical, and all CPUs have high entitlement ({counted}).")
    return Fires(
        current=f"vertical polarization: {counted}",
        proposed="figures per core with the entitlement beside them",
        evidence=(f"CPUs by entitlement: {counted}. {weak} are not backed by a processor of their own.",),
    )


def shared_processors(case: Case) -> Judgement:
    """Say whether other guests share the processors, and how much time they took."""
    host = case.evidence.host
    steal = host.steal_pct if isinstance(host, HostActivity) else Unknown("no window was measured")
    shared = case.host.processor.shared
    if isinstance(shared, Unknown) and isinstance(steal, Unknown):
        raise Missing("whether the processors are shared", shared.reason)
    taken = "" if isinstance(steal, Unknown) else f"{steal:.3g} % of the time was taken by others (steal)"
    if not isinstance(steal, Unknown) and steal >= STEAL_PCT:
        return Fires(
            current=taken,
            proposed="dedicated processors, or figures that count the steal time",
            evidence=(f"{taken}; the processors are {'shared' if shared is True else 'not known to be shared'}.",),
            severity=Severity.WARNING,
        )
    if shared is True:
        return Fires(
            current="shared processors",
            proposed="repeat the measurement at another time of day before you trust it",
            evidence=(f"The hypervisor shares the processors with other guests{'; ' + taken if taken else ''}.",),
            severity=Severity.NOTE,
        )
    word = "dedicated" if shared is False else "hardly shared"
    return InOrder(f"The processors are {word}{'; ' + taken if taken else ''}.", of_load=shared is not False)


def page_size(case: Case) -> Judgement:
    """Say what pages larger than 4 KiB change."""
    memory, processor = case.host.memory, case.host.processor
    page = known(memory.page_size, "the page size")
    if page == 4096:
        return InOrder("The kernel's pages have 4 KiB, which all tables of the sources assume.")
    evidence = [f"The kernel's pages have {binary_text(page)}."]
    sysctls = case.host.kernel.sysctls
    if not isinstance(sysctls, Unknown) and sysctls.get("kernel.shmall", "").isdigit():
        pages = int(sysctls["kernel.shmall"])
        size = binary_text(pages * page) if pages * page < NO_LIMIT else "no limit at all"
        evidence.append(f"kernel.shmall = {pages} counts pages of {binary_text(page)}: {size}.")
    evidence.append(f"Transparent huge pages: [{memory.thp_enabled}].")
    if isinstance(memory.huge_page_bytes, int):
        small = memory.huge_page_bytes // page
        evidence.append(f"A huge page of {binary_text(memory.huge_page_bytes)} replaces {small} pages, not 512.")
    evidence.append(f"SMT: {processor.threads_per_core} of {processor.max_threads} threads per core.")
    return Fires(
        current=f"pages of {binary_text(page)}",
        proposed="figures in pages divided by 16 where a source means 4 KiB" if page == 65536 else "bytes, not pages",
        evidence=tuple(evidence),
    )


def container_limits(case: Case) -> Judgement:
    """Say which limits of a container count, and whether shared_buffers fits them."""
    memory, processor = case.host.memory, case.host.processor
    limit = known(memory.limit_bytes, "the memory limit")
    ram = known(memory.ram_bytes, "RAM")
    evidence = []
    if limit < ram:
        evidence.append(
            f"{memory.limited_by} allows {binary_text(limit)} of {binary_text(ram)}: quarters and other shares are "
            "taken of the limit."
        )
    if isinstance(processor.usable, int) and isinstance(processor.cpus, int) and processor.usable < processor.cpus:
        evidence.append(f"The server may use {processor.usable} of {processor.cpus} CPUs.")
    if not evidence:
        return DoesNotApply(f"no limit is below what the host has ({binary_text(ram)})")
    share = case.number("shared_buffers") / limit if case.has("shared_buffers") else 0.0
    if share > BUFFERS_SHARE:
        evidence.append(
            f"shared_buffers is {percent_text(share)} of the limit: the rest holds neither sessions nor page cache."
        )
    return Fires(
        current=f"limit {binary_text(limit)}"
        + (f", {processor.usable} CPUs" if isinstance(processor.usable, int) else ""),
        proposed=f"shared_buffers of a quarter: {binary_text(limit / 4)}",
        evidence=tuple(evidence),
        severity=Severity.WARNING if share > BUFFERS_SHARE else None,
    )


def unread(case: Case) -> Judgement:
    """List what could not be read, with the reasons: no rule makes up a value for it."""
    found = list(_unread(case))
    if not found:
        return InOrder("All requested facts could be read.")
    return Fires(
        current="1 fact is unknown" if len(found) == 1 else f"{len(found)} facts are unknown",
        proposed="more rights, or a capture made on the host",
        evidence=tuple(found),
    )


def _unread(case: Case) -> Iterator[str]:
    kernel = case.host.kernel
    if isinstance(kernel.migration_cost_ns, Unknown) and not any(
        "migration" in name for name in case.inventory.missing
    ):
        yield f"migration_cost: unknown ({kernel.migration_cost_ns.reason})."
    for name, reason in case.inventory.missing.items():
        yield f"{name}: unknown ({reason})."
