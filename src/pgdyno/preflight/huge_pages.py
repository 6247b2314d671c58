"""Whether the huge pages that the next start wants are there. Pure."""

from __future__ import annotations

from pgdyno.model.facts import Unknown
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import POOLS, HugePool, SharedSegment, StartHost
from pgdyno.preflight.result import Result, not_applicable, noted, passed, refused
from pgdyno.units import bytes_text

_CHECK = "huge pages"
FREE_SHARE = 0.9
"""Of the memory that is free, this much at most becomes a pool by our advice."""


def page_bytes(plan: StartPlan, host: StartHost) -> int | Unknown:
    """Return the size of the huge pages that the server will ask for: huge_page_size (14), else the kernel's."""
    wanted = plan.size("huge_page_size")
    if wanted:
        return wanted
    return host.memory.get("Hugepagesize", Unknown("the kernel has no huge pages"))


def pages_needed(shared_memory: int | Unknown, size: int | Unknown) -> int | Unknown:
    """Return the pages for so much shared memory, rounded up; for 13 and 14, which do not tell."""
    if isinstance(shared_memory, Unknown):
        return shared_memory
    return size if isinstance(size, Unknown) else -(-shared_memory // size)


def huge_pages(plan: StartPlan, need: int | Unknown, host: StartHost) -> Result:
    """Compare the pages that the next start wants with the pool and what the running server gives back to it.

    The pages of a server that stops are free again at once, whether it had touched them or only reserved them.
    `huge_pages = on` with too few keeps the server from starting; `try` falls back to ordinary pages in silence.
    """
    mode = (plan.text("huge_pages") or "off").lower()
    if not plan.restart:
        return not_applicable(_CHECK, "a reload maps none")
    if mode not in ("on", "try", "true", "yes", "1"):
        return not_applicable(_CHECK, f"{plan.figure('huge_pages')}")
    must = mode != "try"
    if plan.text("shared_memory_type") not in ("mmap", None):
        return _short(must, f"{plan.figure('huge_pages')} needs shared_memory_type = mmap", None, None)
    size = page_bytes(plan, host)
    pool = host.pools.get(size) if isinstance(size, int) else None
    if pool is None:
        sizes = ", ".join(bytes_text(known) for known in host.pools) or "none"
        asked = f"pages of {bytes_text(size)}" if isinstance(size, int) else "huge pages"
        return _short(must, f"the kernel has no {asked}; it has {sizes}", asked, sizes)
    if isinstance(need, Unknown):
        return not_applicable(_CHECK, need.reason)
    return _compare(plan, need, pool, host, must=must)


def _compare(plan: StartPlan, need: int, pool: HugePool, host: StartHost, *, must: bool) -> Result:
    released = _released(host, pool)
    there = pool.obtainable + released
    asked, found = f"{need} pages of {bytes_text(pool.page_bytes)}", f"{there} pages"
    if pool.cgroup_bytes is not None and need * pool.page_bytes > pool.cgroup_bytes:
        limit = bytes_text(pool.cgroup_bytes)
        return _short(must, f"{asked} are needed, and a cgroup allows {limit} of huge pages", asked, limit)
    if need > there:
        sentence = (
            f"{plan.figure('huge_pages')} needs {asked}, and {there} can be had: {pool.free} free of {pool.total}, "
            f"{pool.reserved} promised, {released} held by the running server"
        )
        return _short(must, sentence, asked, found, _hint(need - there, pool, host))
    return passed(_CHECK, f"{plan.figure('huge_pages')} finds its pages", asked=asked, there=found)


def _hint(missing: int, pool: HugePool, host: StartHost) -> str:
    """Return how so many more pages are made; never more than fit into the memory that is free now.

    The kernel takes a pool out of free memory at once: a number that does not fit starves the host, or is cut short.
    """
    free = host.memory.get("MemAvailable", 0)
    limit = host.memory_limit
    total = pool.total + missing
    fits = missing * pool.page_bytes <= free * FREE_SHARE
    if not fits or isinstance(limit, Unknown) or total * pool.page_bytes >= limit:
        most = max(0, int(free * FREE_SHARE)) // pool.page_bytes
        return (
            f"Choose smaller shared_buffers, or huge_pages = off: of the {missing} pages that are missing, memory has "
            f"room for {most} at the moment."
        )
    if pool.page_bytes != host.memory.get("Hugepagesize"):  # the sysctl means the kernel's default size alone
        place = POOLS / f"hugepages-{pool.page_bytes >> 10}kB" / "nr_hugepages"
        return f"Write {total} to {place}, or choose huge_pages = off."
    return f"Run sysctl vm.nr_hugepages={total}, or choose huge_pages = off."


def _released(host: StartHost, pool: HugePool) -> int:
    """Return the pages of this pool that the running server holds."""
    segment = host.segment
    if isinstance(segment, SharedSegment) and segment.huge_page_bytes == pool.page_bytes:
        return segment.size_bytes // pool.page_bytes
    return 0


def _short(must: bool, sentence: str, asked: str | None, there: str | None, hint: str | None = None) -> Result:
    if must:
        return refused(_CHECK, sentence, asked=asked, there=there, hint=hint or "Choose huge_pages = try or off.")
    words = f"{sentence}; huge_pages = try would be ineffective"
    return noted(_CHECK, words, asked=asked, there=there, hint=hint)
