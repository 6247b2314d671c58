"""The judge of the rule on huge_pages: whether the pool is there, and whether it is really used."""

from __future__ import annotations

import math

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.memory_size import BUFFER_OVERHEAD
from pgdyno.advisor.planned import planned
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Severity
from pgdyno.units import bytes_text

SMALL_BUFFERS = 1 << 30
"""Below this size of shared_buffers huge pages have little effect."""


def huge_page_use(case: Case) -> Judgement:
    """Flag `on` with a pool that is too small, and `try` that fell back to small pages."""
    mode = case.text("huge_pages")
    if mode == "off":
        return InOrder("huge_pages is off.")
    facts = case.host.memory
    size = known(facts.huge_page_bytes, "the huge page size")
    total = known(facts.huge_pages_total, "the pool of huge pages")
    needed = _needed(case, size)
    pool = f"the pool has {total} pages of {bytes_text(size)}, and shared memory needs about {needed}"
    if mode == "on" and total < needed:
        return Fires(
            current="huge_pages = on",
            proposed="a pool that holds it before the next start (huge-pages, huge-page-pool)",
            values={"state": "on, but the pool is too small, and the server will not start"},
            evidence=(f"huge_pages = on, {pool}.", 'It would fail with "could not map anonymous shared memory".'),
            severity=Severity.CRITICAL,
        )
    used = known(case.server.huge_pages_in_use, "whether huge pages are in use")
    if used:
        return InOrder(f"huge_pages = {mode}, and they are in use; {pool}.")
    return Fires(
        current=f"huge_pages = {mode}, not in use",
        proposed="a pool that holds it, then a restart (huge-pages, huge-page-pool)",
        values={"state": f"configured {mode}, and not in use"},
        evidence=(f"The server runs on small pages: {pool}.",),
        severity=Severity.NOTE if planned(case, "shared_buffers") < SMALL_BUFFERS else None,
    )


def _needed(case: Case, size: int) -> int:
    """Return the pages that shared memory needs with shared_buffers as it will be."""
    told = case.server.huge_pages_needed
    estimate = math.ceil(planned(case, "shared_buffers") * (1 + BUFFER_OVERHEAD) / size)
    return estimate if isinstance(told, Unknown) or "shared_buffers" in case.earlier else told
