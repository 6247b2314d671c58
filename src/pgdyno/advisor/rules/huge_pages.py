"""Huge pages: the pool that PostgreSQL's shared memory needs, in pages of this machine, and pools that fit nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.shared_memory import (
    SMALL_BUFFERS,
    Need,
    chosen_page,
    need_now,
    need_proposed,
    shared_buffers,
    without_proposals,
)
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Cost, Resolution, Severity
from pgdyno.units import binary_text, percent_text

GIB = 1 << 30
WASTE = 1.1
"""A pool above this multiple of the need loses memory worth a word; from 1.5 on it is a warning."""
BIG_WASTE = 1.5
MOST_OF_MEMORY = 0.6
"""A needless pool above this share leaves the host too little to live on."""
COPIED = {38912: "the guide of 2023", 17408: "the guide of 2017"}
"""Pool sizes of the guides, in pages of 1 MiB; on a machine with other pages they mean something else."""
MIB = 1 << 20


def huge_pages(case: Case) -> Judgement:
    """Propose a pool where there is none."""
    reason = _not_available(case)
    if reason is not None:
        return DoesNotApply(reason)
    page, total = _page(case), known(case.host.memory.huge_pages_total, "the number of huge pages")
    if isinstance(page, CannotTell):
        return page
    if total > 0:
        return InOrder(f"A pool of {total} huge pages is there; the rule huge-page-pool judges it.")
    wish = case.text("huge_pages")
    buffers = shared_buffers(case)
    if buffers < SMALL_BUFFERS and wish != "on":
        return DoesNotApply(
            f"with shared_buffers = {binary_text(buffers)} huge pages have a small effect, and their memory is lost to "
            "the page cache"
        )
    need = need_proposed(case)
    pages = need.pool(page)
    changes = [_pool_change(case, pages, total)]
    if wish == "off":
        changes.append(Change(ChangeKind.POSTGRESQL, "huge_pages", "try", wish))
    return Fires(
        changes=tuple(changes),
        current=f"no huge pages are set aside; huge_pages = {wish}",
        proposed=_proposed(pages, page),
        evidence=(need.source, *_costs(case, pages * page, buffers)),
        doubts=_budget(case, pages * page),
        alternatives=_other_sizes(case),
        severity=Severity.CRITICAL if wish == "on" else None,
    )


def huge_page_pool(case: Case) -> Judgement:
    """Judge a pool that is there: too small for anyone, larger than needed, or not used."""
    total = known(case.host.memory.huge_pages_total, "the number of huge pages")
    if total == 0 and chosen_page(case) in (0, case.host.memory.huge_page_bytes):
        return DoesNotApply("no huge pages are set aside")
    page = _page(case)
    if isinstance(page, CannotTell):
        return page
    size = total * page
    wish = case.text("huge_pages")
    now, then = need_now(without_proposals(case)), need_proposed(case)
    largest = max(now.bytes, then.bytes)
    copied = COPIED.get(total) if page != MIB else None
    if wish == "off":
        return _unused(case, total, page, then, "huge_pages is off")
    if size < min(now.bytes, then.bytes):
        return _too_small(case, total, page, then, wish)
    if size > WASTE * largest and total > max(now.pool(page), then.pool(page)):
        return _too_large(case, total, page, then, copied)
    if size < then.bytes:
        return _too_small(case, total, page, then, "later, on" if wish == "on" else "later")
    if case.server.huge_pages_in_use is False:
        return _unused(case, total, page, then, f"the server runs without them although huge_pages is {wish}")
    return InOrder(
        f"The pool of {total} x {binary_text(page)} = {binary_text(size)} holds the shared memory of "
        f"{binary_text(then.bytes)}."
    )


def _too_small(case: Case, total: int, page: int, need: Need, wish: str) -> Fires:
    equal = abs(total * page - shared_buffers(case)) < page
    consequence = {
        "on": "with huge_pages = on the server does not start",
        "later": "the server would no longer fit into it with the proposed settings",
        "later, on": "with huge_pages = on the server would no longer start with the proposed settings",
    }.get(wish, "the server starts without huge pages, and the pool is wasted")
    severity = {"on": Severity.CRITICAL, "later, on": Severity.CRITICAL, "later": Severity.ADVICE}.get(
        wish, Severity.WARNING
    )
    equal_text = ("The pool is just shared_buffers, which leaves no room for the other shared data.",) if equal else ()
    return _verdict(
        case,
        total,
        page,
        need,
        problem=f"{binary_text(total * page)}, {need.pages(page) - total} pages too few",
        evidence=(f"It holds {binary_text(total * page)}: {consequence}.", *equal_text),
        severity=severity,
    )


def _too_large(case: Case, total: int, page: int, need: Need, copied: str | None) -> Fires:
    size, memory = total * page, known(case.host.memory.limit_bytes, "the memory limit")
    waste = size - need.bytes
    severity = Severity.WARNING if size >= BIG_WASTE * need.bytes else Severity.ADVICE
    if size >= BIG_WASTE * need.bytes and (size > MOST_OF_MEMORY * memory or copied):
        severity = Severity.CRITICAL
    evidence = [
        f"It reserves {binary_text(size)} of {binary_text(memory)}; {binary_text(waste)} of that are lost "
        "to the page cache and to everyone."
    ]
    if copied:
        evidence.append(
            f"{total} is the number of {copied}, where a page has 1 MiB; here a page has {binary_text(page)}."
        )
    return _verdict(
        case,
        total,
        page,
        need,
        problem=f"reserves {binary_text(size)}, {binary_text(waste)} more than needed",
        evidence=tuple(evidence),
        severity=severity,
    )


def _unused(case: Case, total: int, page: int, need: Need, why: str) -> Fires:
    free = case.host.memory.huge_pages_free
    evidence = [f"A pool of {binary_text(total * page)} is there and {why}."]
    if isinstance(free, int) and need.pages(page) > free:
        evidence.append(f"{free} pages of it are free, and the server needs {need.pages(page)}.")
    return _verdict(
        case,
        total,
        page,
        need,
        problem=f"{binary_text(total * page)} that are not in use",
        evidence=tuple(evidence),
        severity=Severity.WARNING,
        wish="off" if case.text("huge_pages") == "off" else "",
    )


def _verdict(
    case: Case,
    total: int,
    page: int,
    need: Need,
    *,
    problem: str,
    evidence: tuple[str, ...],
    severity: Severity,
    wish: str = "",
) -> Fires:
    pages = need.pool(page)
    fits = need.pages(page) <= total <= max(pages, WASTE * need.pages(page))
    changes = [] if fits else [_pool_change(case, pages, total)]
    if wish == "off":
        changes.append(Change(ChangeKind.POSTGRESQL, "huge_pages", "try", wish))
    alternatives = _other_sizes(case)
    if not changes:
        alternatives = ("Restart the server: it takes huge pages at its start only.", *alternatives)
    return Fires(
        changes=tuple(changes),
        current=f"{linux.NR_HUGEPAGES} = {total} of {binary_text(page)}: {problem}",
        proposed="the pool as it is, and a server that takes it" if fits else _proposed(pages, page),
        evidence=(*evidence, need.source),
        doubts=_budget(case, pages * page),
        alternatives=alternatives,
        severity=severity,
        cost=Cost.RESTART,
    )


def _not_available(case: Case) -> str | None:
    if case.has("shared_memory_type") and case.text("shared_memory_type") != "mmap":
        return "PostgreSQL uses huge pages with shared_memory_type = mmap only"
    if known(case.host.memory.huge_pages_supported, "whether this machine has huge pages"):
        return None
    if case.host.processor.architecture == "s390x":
        return "huge pages are not available here: the processor does not show the feature edat (enhanced DAT)"
    return "huge pages are not available here: this kernel or processor has none"


def _page(case: Case) -> int | CannotTell:
    """Return the size of the pages that vm.nr_hugepages counts; the server must use the same."""
    page = known(case.host.memory.huge_page_bytes, "the size of a huge page")
    chosen = chosen_page(case)
    if chosen not in (0, page):
        return CannotTell(
            f"huge_page_size is {binary_text(chosen)}, and {linux.NR_HUGEPAGES} counts pages of {binary_text(page)}: "
            "the pool of the other size is in /sys/kernel/mm/hugepages, which was not judged"
        )
    return page


def _pool_change(case: Case, pages: int, total: int) -> Change:
    return Change(ChangeKind.LINUX, linux.NR_HUGEPAGES, str(pages), str(total))


def _proposed(pages: int, page: int) -> str:
    return f"{linux.NR_HUGEPAGES} = {pages} of {binary_text(page)}, {binary_text(pages * page)}"


def _costs(case: Case, pool: float, buffers: float) -> tuple[str, ...]:
    memory = known(case.host.memory.limit_bytes, "the memory limit")
    return (
        f"shared_buffers is {percent_text(buffers / memory)} of the memory of {binary_text(memory)}; "
        "the source measured 5.7 % at a quarter and 11 % at a half.",
        f"A pool of {binary_text(pool)} is locked: {binary_text(max(0.0, memory - pool))} remain for the page cache "
        "and all else.",
    )


def _budget(case: Case, pool: float) -> tuple[str, ...]:
    memory = case.host.memory.limit_bytes
    doubts = []
    if not isinstance(memory, Unknown) and pool > 0.75 * memory:
        share = f"{percent_text(pool / memory)} of the memory of {binary_text(memory)}"
        doubts.append(f"a pool of {binary_text(pool)} takes {share}; check the rest first")
    if isinstance(case.host.virtualization.container, str):
        doubts.append("the pool belongs to the host, and the container must be allowed its share (hugetlb limits)")
    return tuple(doubts)


def _other_sizes(case: Case) -> tuple[str, ...]:
    """Mention pages of 1 or 2 GiB where the machine has them; z/VM guests do not."""
    sizes, layer = case.host.memory.huge_page_sizes, case.host.virtualization.layer
    if isinstance(sizes, Unknown) or layer == "z/VM" or not case.has("huge_page_size"):
        return ()
    return tuple(
        f"Pages of {binary_text(size)} are offered too; huge_page_size chooses them, and boot sets them aside."
        for size in sizes
        if size >= GIB
    )


def pool_sides(case: Case) -> Iterator[Resolution]:
    """Decide CON-16 by the size of a huge page, and CON-17 by what the server needs; a pool need not be there."""
    page = known(case.host.memory.huge_page_bytes, "the size of a huge page")
    same = "38912 or 17408 is for other buffers" if page == MIB else "38912 and 17408 are pages of 1 MiB"
    need = need_proposed(case)
    pages = need.pool(page)
    yield Resolution(
        "CON-16",
        f"A huge page has {binary_text(page)} here, and {same}: the bytes count, {pages} pages are "
        f"{binary_text(pages * page)}.",
    )
    yield Resolution(
        "CON-17",
        f"The need is {binary_text(need.bytes)} ({'as the server says' if need.exact else 'computed'}); a reserve "
        "of 2 % is added, and not 1 or 6 GiB.",
    )
