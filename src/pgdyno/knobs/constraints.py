"""Joint constraints: configurations that are impossible or senseless as a whole, refused before they cost a trial.

Pure arithmetic over a configuration and the facts; values that the configuration does not name come from the
server. What demands no more than the baseline is never refused for memory or disk, because the server runs with that
already; a fact that is unknown refuses every raise that it would have to judge. Formulas of memory: `memory.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.current import effective_bytes, effective_number, effective_text
from pgdyno.knobs.linux_constraints import Refusal, linux_refusals
from pgdyno.knobs.memory import MEMORY_KNOBS, demand, reserve_bytes, shared_bytes
from pgdyno.knobs.policy import load_policy
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.linux import NR_HUGEPAGES
from pgdyno.units import bytes_text

ORDERED = (
    ("min_wal_size", "max_wal_size", "log kept for reuse cannot be more than checkpoints leave"),
    ("seq_page_cost", "random_page_cost", "a page out of order is never cheaper than one in order"),
    ("max_parallel_workers", "max_worker_processes", "parallel workers are taken from the pool of worker processes"),
    ("max_parallel_workers_per_gather", "max_parallel_workers", "one query cannot get more workers than all together"),
    ("io_combine_limit", "io_max_combine_limit", "the server silently takes the smaller one"),
    ("autovacuum_max_workers", "autovacuum_worker_slots", "the server silently takes the smaller one"),
)
"""Pairs of which the first must not exceed the second, and why."""

SHARED_BUFFERS_SHARE = 0.5
"""Never more than half of memory: above, the kernel's copy of each page no longer fits beside the server's."""
_OF_ROLE = frozenset({"database", "user", "database user", "client", "session"})
"""Sources of pg_settings that are of our role, database or connection, and not of the server."""
AS_FOUND: Mapping[str, str] = {}
"""The settings of the baseline; a plain mapping answers ten times as fast as a configuration that lacks a name."""
DISK_SHARE = 0.5
"""How much of the free disk the log may grow into."""


def check(configuration: Configuration, facts: Facts, *, connections: int) -> Refusal | None:
    """Return the first constraint that a configuration breaks on this server, None when it may be tried.

    `connections` is the number of sessions that may be active at one time.
    """
    return next(refusals(configuration, facts, connections=connections), None)


def check_for_all(configuration: Configuration, facts: Facts, *, measured: int) -> tuple[int, Refusal] | None:
    """Return how many sessions the server admits, where they are more than `measured`, and why that is too much.

    None where the configuration does for all of them, and where nobody can tell: `facts` are as our role has them, and
    memory that it has a value of its own of is not what other sessions have.
    """
    row = facts.row("max_connections")
    if row is None or int(row.setting) <= measured:
        return None
    rows = (facts.row(name) for name in MEMORY_KNOBS if name not in configuration)
    if any(one is not None and one.source in _OF_ROLE for one in rows):
        return None
    refusal = check(configuration, facts, connections=int(row.setting))
    return None if refusal is None else (int(row.setting), refusal)


def refusals(configuration: Configuration, facts: Facts, *, connections: int) -> Iterator[Refusal]:
    """Return every constraint that a configuration breaks; values are canonical, as `policy.check_settings` gives."""
    settings = dict(configuration.settings)  # each of them is asked for a dozen times
    changed = frozenset(
        name for name in settings if _text_or_word(name, settings, facts) != _text_or_word(name, AS_FOUND, facts)
    )
    yield from _order(settings, facts, changed)
    yield from _segments(settings, facts, changed)
    yield from _connections(settings, facts, changed, connections)
    yield from _standbys(facts, changed)
    yield from _huge_pages(settings, facts)
    yield from _shared_buffers(settings, facts, changed)
    yield from _memory(settings, facts, changed, connections)
    yield from _disk(settings, facts, changed)
    yield from linux_refusals(settings, facts, connections=connections)


def require(configuration: Configuration, facts: Facts, *, connections: int, what: str) -> None:
    """Raise EnvironmentUnsuitable, naming `what`, where a configuration breaks a constraint on this server.

    For configurations that people give: they are told before data are loaded and a server is restarted. `facts` are
    those of the server; `connections` is the number of sessions that may be active at one time.
    """
    refusal = check(configuration, facts, connections=connections)
    if refusal is not None:
        raise EnvironmentUnsuitable(
            f"{what} cannot be measured here: {refusal.reason}",
            detail="Nothing was changed.",
            hint=f"Choose another value of {' or '.join(refusal.knobs)}.",
        )


def _text_or_word(name: str, settings: Mapping[str, str], facts: Facts) -> str:
    fact = facts.row(name)
    if fact is None or fact.vartype not in ("integer", "real"):
        return settings.get(name, fact.setting if fact else "")
    return effective_text(name, settings, facts)


def _order(settings: Mapping[str, str], facts: Facts, changed: frozenset[str]) -> Iterator[Refusal]:
    for small, large, why in ORDERED:
        if not changed & {small, large}:
            continue
        less, more = (effective_number(name, settings, facts) for name in (small, large))
        if less is not None and more is not None and less > more:
            texts = [f"{name} = {effective_text(name, settings, facts)}" for name in (small, large)]
            yield Refusal(f"{texts[0]} exceeds {texts[1]}: {why}", (small, large))


def _segments(settings: Mapping[str, str], facts: Facts, changed: frozenset[str]) -> Iterator[Refusal]:
    for name in ("min_wal_size", "max_wal_size"):
        if name not in changed:
            continue
        segment = effective_bytes("wal_segment_size", AS_FOUND, facts)
        size = effective_bytes(name, settings, facts)
        if segment is not None and size is not None and size < 2 * segment:
            text = effective_text(name, settings, facts)
            yield Refusal(
                f"{name} = {text} is less than two segments of {bytes_text(segment)}: the server would not start",
                (name,),
            )


def _connections(
    settings: Mapping[str, str], facts: Facts, changed: frozenset[str], connections: int
) -> Iterator[Refusal]:
    names = ("max_connections", "reserved_connections", "superuser_reserved_connections")
    if not changed & set(names):
        return
    slots, *reserved = (effective_number(name, settings, facts) or 0 for name in names)
    if sum(reserved) >= slots:
        yield Refusal(f"max_connections = {slots:g} leaves none beside {sum(reserved):g} reserved ones", names)
    elif connections > slots - sum(reserved):
        yield Refusal(
            f"max_connections = {slots:g} less {sum(reserved):g} reserved is too few for {connections}", names
        )


def _standbys(facts: Facts, changed: frozenset[str]) -> Iterator[Refusal]:
    ordered = sorted(changed & load_policy().standby_ordered)
    if ordered and (facts.server.in_recovery or facts.server.standbys != 0):
        count = "this server is one" if facts.server.in_recovery else f"their number is {facts.server.standbys}"
        yield Refusal(f"{', '.join(ordered)} must be raised on standbys first, and {count}", tuple(ordered))


def _huge_pages(settings: Mapping[str, str], facts: Facts) -> Iterator[Refusal]:
    if settings.get("huge_pages") != "on":
        return
    total = int(settings[NR_HUGEPAGES]) if NR_HUGEPAGES in settings else facts.host.huge_pages_total
    if isinstance(total, Unknown) or total == 0:
        pool = "is " + str(total) if isinstance(total, Unknown) else "is empty"
        yield Refusal(f"huge_pages = on, and the kernel's pool {pool}: the server would not start", ("huge_pages",))
        return
    page = _huge_page_bytes(facts)
    needed = shared_bytes(settings, facts)
    if page is not None and needed > total * page:
        yield Refusal(
            f"huge_pages = on needs {bytes_text(needed)}, and the kernel's pool holds {total} pages of "
            f"{bytes_text(page)}: the server would not start",
            ("huge_pages", "shared_buffers"),
        )


def _huge_page_bytes(facts: Facts) -> float | None:
    """Return the size of a huge page, from the two settings of 15 and later that give the same memory both ways."""
    size = effective_bytes("shared_memory_size", AS_FOUND, facts)
    pages = effective_number("shared_memory_size_in_huge_pages", AS_FOUND, facts)
    if not size or pages is None or pages <= 0:
        return None
    return float(2 ** round(math.log2(size / pages)))


def _shared_buffers(settings: Mapping[str, str], facts: Facts, changed: frozenset[str]) -> Iterator[Refusal]:
    limit = facts.host.memory_limit_bytes
    if "shared_buffers" not in changed or isinstance(limit, Unknown):
        return
    size, now = (effective_bytes("shared_buffers", one, facts) for one in (settings, AS_FOUND))
    if size is None or now is None or size <= now:
        return
    if size > SHARED_BUFFERS_SHARE * limit:
        text = f"shared_buffers = {settings['shared_buffers']}"
        yield Refusal(f"{text} is more than half of the memory of {bytes_text(limit)}", ("shared_buffers",))


def _memory(settings: Mapping[str, str], facts: Facts, changed: frozenset[str], connections: int) -> Iterator[Refusal]:
    knobs = tuple(name for name in MEMORY_KNOBS if name in changed)
    if not knobs:
        return
    wanted, limit = demand(settings, facts, connections=connections), facts.host.memory_limit_bytes
    reserve = 0.0 if isinstance(limit, Unknown) else reserve_bytes(limit)
    if not isinstance(limit, Unknown) and wanted.total <= limit - reserve:
        return  # first: a search asks this of thousands, and what the baseline demands costs as much again
    if wanted.total <= demand(AS_FOUND, facts, connections=connections).total:
        return
    if isinstance(limit, Unknown):
        yield Refusal(f"raises memory to {bytes_text(wanted.total)} at worst, and the memory is {limit}", knobs)
        return
    yield Refusal(
        f"can demand {bytes_text(wanted.total)} of memory ({wanted.sentence()}), more than {bytes_text(limit)} "
        f"less {bytes_text(reserve)} for kernel and page cache",
        knobs,
    )


def _disk(settings: Mapping[str, str], facts: Facts, changed: frozenset[str]) -> Iterator[Refusal]:
    for name in ("max_wal_size", "min_wal_size"):
        if name not in changed:
            continue
        size, now = (effective_bytes(name, one, facts) for one in (settings, AS_FOUND))
        if size is None or now is None or size <= now:
            continue
        free = facts.host.data_disk_free_bytes
        text = f"{name} = {settings[name]}"
        if isinstance(free, Unknown):
            yield Refusal(f"{text} lets the log grow, and the free disk is {free}", (name,))
        elif size - now > DISK_SHARE * free:
            yield Refusal(
                f"{text} lets the log grow by {bytes_text(size - now)}, and {bytes_text(free)} are free", (name,)
            )
