"""Judges of the rules on the asynchronous I/O of PostgreSQL 18."""

from __future__ import annotations

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.planned import change_to, proposes, usable_cpus, working_set_of
from pgdyno.model.evidence import WorkingSetClass

DEFAULT_CONCURRENCY = 16
READS_FROM_DISK = (WorkingSetClass.RAM_ONCE, WorkingSetClass.EXCEEDS)


def io_method(case: Case) -> Judgement:
    """Ask for worker where sync is set; offer io_uring as an experiment where this build has it and reads matter."""
    current = case.text("io_method")
    offered = case.row("io_method").enumvals
    words = f"io_method = {current}; this build offers {', '.join(offered)}"
    if current == "sync":
        return _method(case, "worker", f"{words}. With sync each session reads one block after the other.")
    if current == "io_uring" or "io_uring" not in offered:
        return InOrder(f"{words}.")
    work = working_set_of(case)
    if work is None or work.kind not in READS_FROM_DISK:
        return InOrder(
            f"{words}; the working set {'is not known' if work is None else work.kind}, so worker is enough."
        )
    return _method(case, "io_uring", f"{words}. The working set {work.kind}, so reads go to disk.")


def _method(case: Case, value: str, evidence: str) -> Fires:
    return proposes(case, change_to(case, "io_method", value), evidence=(evidence,), needs_test=True)


def io_workers(case: Case) -> Judgement:
    """Offer more I/O workers on machines with many CPUs whose working set is read from disk."""
    method = case.earlier.get("io_method", case.text("io_method"))
    current, cpus = case.number("io_workers"), usable_cpus(case)
    if method != "worker":
        return InOrder(f"io_method is {method}: there are no I/O workers.")
    work = known(case.evidence.working_set, "the working set")
    wanted = cpus // 4
    fact = f"io_workers = {current:g} on {cpus} CPUs, and the working set {work.kind}"
    if work.kind not in READS_FROM_DISK or wanted <= current:
        return InOrder(f"{fact}.")
    return proposes(case, change_to(case, "io_workers", wanted), evidence=(f"{fact}.",), needs_test=True)


def effective_io_concurrency(case: Case) -> Judgement:
    """Ask for 18's default of 16 where a configuration of an older version carries less."""
    current = case.number("effective_io_concurrency")
    if current >= DEFAULT_CONCURRENCY:
        return InOrder(f"effective_io_concurrency = {current:g}.")
    source = case.row("effective_io_concurrency").source
    return proposes(
        case,
        change_to(case, "effective_io_concurrency", DEFAULT_CONCURRENCY),
        evidence=(
            f"effective_io_concurrency = {current:g} (from: {source}); the default of 18 is 16, of 17 it was 1.",
        ),
    )
