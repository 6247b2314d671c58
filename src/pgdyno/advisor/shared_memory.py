"""The size of the server's shared memory: as the server says it, or computed for settings that are only proposed. Pure.

    now      = shared_memory_size_in_huge_pages x huge page (15+), shared_memory_size (15+), or VmPeak of the postmaster
    proposed = now + shared(proposed settings) - shared(settings in force)
    pages    = ceil(need x 1.02 / huge page)

`shared` is `knobs.memory.shared_bytes`, measured by the project on real servers: shared_buffers x 1.025 and what
connections, WAL buffers and SLRU buffers add. PostgreSQL 15 says 33516 MB for 32GB and 16771 MB for 16GB; it gives
33617 and 16823. VmPeak counts the program too, so that it is a few megabytes above the need; but it counts address
space, and a library may once have reserved any amount of it. Far above what the settings explain it is no measure,
and neither is it below shared_buffers, which lie in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.errors import UsageError
from pgdyno.knobs.current import effective_bytes
from pgdyno.knobs.linux_constraints import POOL_RESERVE
from pgdyno.knobs.memory import shared_bytes
from pgdyno.model.facts import Facts, HostFacts, ServerFacts, Unknown
from pgdyno.units import binary_text

MIB = 1 << 20
SMALL_BUFFERS = 1 << 30
"""Below it huge pages have a small effect: the sources measured at 16 and 32 GB, and it shrinks with the buffers."""
PEAK_SHARE, PEAK_BYTES = 0.25, 1 << 30
"""VmPeak may be above the computed size by a quarter or by 1 GiB, whichever is more: libraries and the program."""
_NOT_PART = Unknown("it has no part in the size of shared memory")


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of shared memory; `source` says where the figure comes from, `doubt` why a measured one was left aside."""

    bytes: float
    exact: bool
    source: str
    doubt: str = ""

    def pages(self, page_bytes: int) -> int:
        """Return the huge pages that hold it, without any reserve."""
        return math.ceil(self.bytes / page_bytes)

    def pool(self, page_bytes: int) -> int:
        """Return the huge pages to set aside: the need and a reserve of 2 %."""
        return math.ceil(self.bytes * (1 + POOL_RESERVE) / page_bytes)


def need_now(case: Case) -> Need:
    """Return what the server takes with the settings in force. Raises Missing when its settings are not known."""
    server = case.server
    page = case.host.memory.huge_page_bytes
    if isinstance(server.huge_pages_needed, int) and isinstance(page, int) and server.huge_pages_needed > 0:
        size = server.huge_pages_needed * page
        whole = server.shared_memory_bytes
        if (
            isinstance(whole, int) and not 0 <= size - whole + MIB < page + MIB
        ):  # it rounds up to MB, and to whole pages
            other = f"Its {server.huge_pages_needed} huge pages are of another size than this host's of "
            doubt = f" {other}{binary_text(page)}: a server with other pages reported them, and they say nothing here."
            source = f"The server says that its shared memory takes {binary_text(whole)}.{doubt}"
            return Need(whole, True, source, doubt)
        text = f"{server.huge_pages_needed} huge pages of {binary_text(page)}"
        return Need(size, True, f"The server says that it takes {text} (shared_memory_size_in_huge_pages).")
    if isinstance(server.shared_memory_bytes, int):
        size = server.shared_memory_bytes
        return Need(size, True, f"The server says that its shared memory takes {binary_text(size)}.")
    computed = _computed(case)
    if not isinstance(server.peak_memory_bytes, int):
        return computed
    peak = server.peak_memory_bytes
    where = f" ({server.peak_memory_file})" if server.peak_memory_file else ""
    told = f"The postmaster's VmPeak is {binary_text(peak)}{where}"
    doubt = ""
    if peak > computed.bytes + max(PEAK_SHARE * computed.bytes, PEAK_BYTES):
        doubt = f" {told}, far above what the settings explain; it counts address space, and says nothing here."
    elif peak < shared_buffers(without_proposals(case)):
        doubt = f" {told}, below shared_buffers as set: it was read of another start or server, and says nothing here."
    if doubt:
        return replace(computed, source=f"{computed.source}{doubt}", doubt=doubt)
    return Need(peak, True, f"{told}.")


def _computed(case: Case) -> Need:
    size = _sized({}, _facts(case))
    buffers = binary_text(case.number("shared_buffers"))
    return Need(size, False, f"Computed from shared_buffers = {buffers}: about {binary_text(size)}.")


def need_proposed(case: Case) -> Need:
    """Return what the server takes with the settings that earlier rules propose; `need_now` when they propose none."""
    now = need_now(case)
    facts = _facts(case)
    proposed = {name: value for name, value in case.earlier.items() if name in facts.settings}
    difference = _sized(proposed, facts) - _sized({}, facts)
    if difference == 0:
        return now
    size = now.bytes + difference
    buffers = binary_text(shared_buffers(case))
    return Need(
        size,
        False,
        f"With shared_buffers = {buffers} as proposed, shared memory takes about {binary_text(size)} "
        f"(computed; `postgres -C shared_memory_size_in_huge_pages` says it exactly from 15 on).{now.doubt}",
        now.doubt,
    )


def shared_buffers(case: Case) -> float:
    """Return shared_buffers in bytes, the proposed one where there is a proposal. Raises Missing."""
    try:
        size = effective_bytes("shared_buffers", case.earlier, _facts(case))
    except UsageError as error:
        raise Missing("shared_buffers", error.message) from None
    if size is None:  # _facts has seen it
        raise Missing("shared_buffers", "this server does not show such a setting")
    if size <= 0:
        raise Missing("shared_buffers", f"its value {size:g} is none that a server takes")
    return size


def chosen_page(case: Case) -> float:
    """Return the bytes of huge_page_size (14+); 0 stands for the host's default."""
    return case.number("huge_page_size") if case.has("huge_page_size") else 0


def without_proposals(case: Case) -> Case:
    """Return the case as it stands, nothing proposed."""
    return replace(case, earlier={})


def _sized(configuration: Mapping[str, str], facts: Facts) -> float:
    """Return the computed size in bytes. Raises Missing on settings that make none, such as 1e400."""
    try:
        size = shared_bytes(configuration, facts)
        buffers = effective_bytes("shared_buffers", configuration, facts)
    except (UsageError, ArithmeticError, ValueError) as error:
        raise Missing("the size of shared memory", str(error)) from None
    if not math.isfinite(size) or buffers is None or buffers <= 0:
        raise Missing("the size of shared memory", "it cannot be computed from the server's settings")
    return size


def _facts(case: Case) -> Facts:
    """Return the facts that `knobs.memory` computes with: settings alone. Raises Missing without shared_buffers."""
    case.row("shared_buffers")
    case.row("max_connections")
    server = known(case.inventory.server, "the server")
    parts = dict.fromkeys(HostFacts.__dataclass_fields__, _NOT_PART)
    return Facts(
        host=HostFacts(**parts),
        server=ServerFacts(server.version, server.version_num, 8192, 0, False, _NOT_PART, _NOT_PART, _NOT_PART, False),
        settings=server.settings,
    )
