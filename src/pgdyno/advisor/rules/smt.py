"""Threads of a core: the level in force, and how to compare levels."""

from __future__ import annotations

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, Judgement
from pgdyno.advisor.smt_plan import commands, comparison, levels_below
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Severity

NAMES = {"s390x": "SMT of IFLs", "x86_64": "Hyper-Threading or SMT", "ppc64le": "SMT"}


def smt_level(case: Case) -> Judgement:
    """Report the level, propose the most where less is in force, and print the plan of a comparison."""
    processor = case.host.processor
    level = known(processor.threads_per_core, "the number of threads a core")
    most = known(processor.max_threads, "the most threads of a core")
    if most == 1:
        return DoesNotApply("a core runs one thread here")
    architecture = known(processor.architecture, "the architecture")
    evidence = [f"{NAMES.get(architecture, 'SMT')}: {level} of {most} threads a core are in force, {_cores(case)}."]
    plan = _plan(case, architecture, most)
    if level >= most:
        return Fires(
            current=f"SMT{level}",
            proposed="the level as it is; compare levels before changing it",
            evidence=tuple(evidence),
            alternatives=plan,
            severity=Severity.NOTE,
            needs_test=True,
        )
    value = str(most) if architecture == "ppc64le" else "on"
    now = str(level) if architecture == "ppc64le" else "off"
    return Fires(
        changes=(Change(ChangeKind.LINUX, linux.SMT, value, now),),
        current=f"SMT{level}",
        proposed=f"SMT{most}",
        evidence=tuple(evidence),
        alternatives=plan,
        needs_test=True,
    )


def _plan(case: Case, architecture: str, most: int) -> tuple[str, ...]:
    cores = case.host.processor.cores
    if isinstance(cores, Unknown):
        return ()
    levels = levels_below(most)
    cells = comparison(levels, (2 * cores, 4 * cores, cores * most * 2))
    runs = "; ".join(
        f"SMT{level} with {', '.join(str(cell.clients) for cell in cells if cell.level == level and not cell.skipped)}"
        for level in levels
    )
    skipped = [cell.skipped for cell in cells if cell.skipped]
    return (f"Compare clients at each level: {runs}.", *commands(architecture, levels), *skipped)


def _cores(case: Case) -> str:
    cores, cpus = case.host.processor.cores, case.host.processor.cpus
    return f"{cores} cores and {cpus} CPUs"
