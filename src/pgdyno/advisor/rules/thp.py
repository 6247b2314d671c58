"""Transparent huge pages: off for databases, whatever is done with the pool of huge pages."""

from __future__ import annotations

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model import linux
from pgdyno.model.finding import Change, ChangeKind, Severity


def transparent(case: Case) -> Judgement:
    """Judge the mode of transparent huge pages."""
    memory = case.host.memory
    if memory.huge_pages_supported is False:
        return DoesNotApply("this machine has no huge pages, and so no transparent ones")
    mode = known(memory.thp_enabled, "the mode of transparent huge pages")
    if mode == "never":
        return InOrder("Transparent huge pages are off.")
    evidence = [f"The mode is [{mode}]."]
    if isinstance(memory.page_size, int) and memory.page_size > 4096:
        evidence.append(f"The kernel's pages have {memory.page_size // 1024} KiB.")
    if mode != "always":
        evidence.append("PostgreSQL does not ask for them by madvise, so that its processes get none in this mode.")
        return Fires(
            current=f"{linux.THP_ENABLED} = {mode}",
            proposed="nothing to do; never excludes other programs too",
            evidence=tuple(evidence),
            severity=Severity.NOTE,
        )
    return Fires(
        changes=(Change(ChangeKind.LINUX, linux.THP_ENABLED, "never", mode),),
        evidence=tuple(evidence),
    )
