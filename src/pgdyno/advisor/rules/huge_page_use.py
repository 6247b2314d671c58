"""The judge of the rule on huge_pages: whether the pool is there, and whether it is really used."""

from __future__ import annotations

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.planned import planned
from pgdyno.advisor.shared_memory import SMALL_BUFFERS, chosen_page, need_now, need_proposed
from pgdyno.model.finding import Severity
from pgdyno.units import binary_text, bytes_text


def huge_page_use(case: Case) -> Judgement:
    """Flag `try` that fell back to small pages, and `on` where the rules of the pool have nothing to say."""
    mode = case.text("huge_pages")
    if mode == "off":
        return InOrder("huge_pages is off.")
    facts = case.host.memory
    size = known(facts.huge_page_bytes, "the huge page size")
    total = known(facts.huge_pages_total, "the pool of huge pages")
    need, chosen = need_proposed(case), chosen_page(case)
    needed, now = need.pages(size), need_now(case).pages(size)
    later = "" if needed == now else f" with the settings as proposed, {now} as they are"
    pool = f"the pool has {total} pages of {bytes_text(size)}, and shared memory needs about {needed}{later}"
    is_counted = chosen in (0, size)
    if not is_counted:  # HugePages_Total is of the host's default size alone
        pool = f"it takes pages of {binary_text(chosen)} (huge_page_size), whose pool was not read"
    if mode == "on" and is_counted and total < needed:
        if total or facts.huge_pages_supported is True:
            rule = "huge-page-pool" if total else "huge-pages"
            return DoesNotApply(f"{pool}: the rule {rule} says what that means with huge_pages = on, and how to fix it")
        return Fires(
            current="huge_pages = on",
            proposed="huge_pages = try: this machine shows no huge pages",
            values={"state": "on, but there is no pool, and the server will not start"},
            evidence=(f"huge_pages = on, {pool}.", 'It would fail with "could not map anonymous shared memory".'),
            severity=Severity.CRITICAL,
        )
    used = known(case.server.huge_pages_in_use, "whether huge pages are in use")
    if used:
        return InOrder(f"huge_pages = {mode}, and they are in use; {pool}.")
    return Fires(
        current=f"huge_pages = {mode}, not in use",
        proposed="a pool that holds it, then a restart (huge-pages, huge-page-pool)"
        if is_counted
        else f"a pool of pages of {binary_text(chosen)} that holds it, then a restart",
        values={"state": f"configured {mode}, and not in use"},
        evidence=(f"The server runs on small pages: {pool}.",),
        severity=Severity.NOTE if planned(case, "shared_buffers") < SMALL_BUFFERS else None,
    )
