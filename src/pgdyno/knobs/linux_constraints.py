"""Joint constraints with Linux knobs: thresholds that the kernel would bend, and pools of huge pages that fit nothing.

Pure. Part of `constraints.refusals`; values that the configuration does not name are those of the facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.knobs.current import effective_number
from pgdyno.knobs.memory import demand, reserve_bytes, shared_bytes
from pgdyno.model import linux
from pgdyno.model.facts import Facts, Unknown
from pgdyno.units import bytes_text

POOL_RESERVE = 0.02
"""A pool is made this share larger than the shared memory, which is computed and not asked of the server."""


def linux_refusals(configuration: Mapping[str, str], facts: Facts, *, connections: int) -> Iterator[Refusal]:
    """Return every constraint that the Linux knobs of a configuration break."""
    yield from _counterparts(configuration)
    yield from _thresholds(configuration, facts)
    if linux.NR_HUGEPAGES in configuration:
        yield from _pool(configuration, facts, connections)


def pages_needed(configuration: Mapping[str, str], facts: Facts) -> int | Unknown:
    """Return the huge pages that PostgreSQL's shared memory takes under a configuration, with a small reserve."""
    page = facts.host.huge_page_bytes
    if isinstance(page, Unknown):
        return page
    return math.ceil(shared_bytes(configuration, facts) * (1 + POOL_RESERVE) / page)


def _counterparts(configuration: Mapping[str, str]) -> Iterator[Refusal]:
    """Return a refusal for each pair of which both are set: the kernel makes one 0 when the other is written."""
    for one, other in linux.COUNTERPARTS.items():
        if one < other and one in configuration and other in configuration:
            yield Refusal(f"{one} and {other} are both set, and the kernel keeps the last one only", (one, other))


def _thresholds(configuration: Mapping[str, str], facts: Facts) -> Iterator[Refusal]:
    for background, foreground in (
        (linux.BACKGROUND_BYTES, linux.DIRTY_BYTES),
        (linux.BACKGROUND_RATIO, linux.DIRTY_RATIO),
    ):
        if background not in configuration and foreground not in configuration:
            continue
        if {linux.COUNTERPARTS[background], linux.COUNTERPARTS[foreground]} & set(configuration):
            continue  # one threshold goes over to the other spelling, where the two cannot be compared
        less, more = (effective_number(name, configuration, facts) for name in (background, foreground))
        if less and more and less >= more:  # 0 means that the counterpart counts
            yield Refusal(
                f"{background} = {less:.0f} is not below {foreground} = {more:.0f}: the kernel would take half of it",
                (background, foreground),
            )


def _pool(configuration: Mapping[str, str], facts: Facts, connections: int) -> Iterator[Refusal]:
    pages = int(configuration[linux.NR_HUGEPAGES])
    page, needed = facts.host.huge_page_bytes, pages_needed(configuration, facts)
    if pages == 0:
        return
    if isinstance(page, Unknown) or isinstance(needed, Unknown):
        yield Refusal(f"{linux.NR_HUGEPAGES} = {pages}, and the size of a huge page is {page}", (linux.NR_HUGEPAGES,))
        return
    # The reserve covers what is computed; a pool that was sized by the server's own figure may do without it.
    if pages * page < shared_bytes(configuration, facts):
        yield Refusal(
            f"{linux.NR_HUGEPAGES} = {pages} of {bytes_text(page)} is too few for PostgreSQL's shared memory, which "
            f"takes {needed}: the pool would be useless",
            (linux.NR_HUGEPAGES, "shared_buffers"),
        )
    yield from _pool_memory(configuration, facts, pages * page, connections)


def _pool_memory(configuration: Mapping[str, str], facts: Facts, pool: float, connections: int) -> Iterator[Refusal]:
    limit = facts.host.ram_bytes
    if isinstance(limit, Unknown):
        yield Refusal(f"reserves {bytes_text(pool)} of huge pages, and the memory is {limit}", (linux.NR_HUGEPAGES,))
        return
    # Shared memory moves into the pool; the rest of the pool is lost to everyone else.
    rest = demand(configuration, facts, connections=connections).total - shared_bytes(configuration, facts)
    if pool + rest > limit - reserve_bytes(limit):
        yield Refusal(
            f"reserves {bytes_text(pool)} of huge pages, and with {bytes_text(rest)} that PostgreSQL can demand beside "
            f"them that is more than {bytes_text(limit)} less {bytes_text(reserve_bytes(limit))}",
            (linux.NR_HUGEPAGES,),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a configuration is not tried, with the numbers, and the knobs that it is about."""

    reason: str
    knobs: tuple[str, ...]
