"""Threads of a core: the level in force, and how to compare levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, Judgement
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Severity

NAMES = {"s390x": "SMT of IFLs", "x86_64": "Hyper-Threading or SMT", "ppc64le": "SMT"}


def smt_level(case: Case) -> Judgement:
    """Report the level, propose the most where less is in force, and print the plan of a comparison."""
    processor = case.host.processor
    level = known(processor.threads_per_core, "the number of threads per core")
    most = known(processor.max_threads, "the most threads of a core")
    if most == 1:
        return DoesNotApply("a core runs one thread here")
    architecture = known(processor.architecture, "the architecture")
    evidence = [f"{NAMES.get(architecture, 'SMT')}: {level} of {most} threads per core are in force, {_cores(case)}."]
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


@dataclass(frozen=True, slots=True)
class SmtRun:
    """One run of the comparison; `skipped` is the reason why it is not made, empty when it is."""

    level: int
    clients: int
    skipped: str = ""


def levels_below(most: int) -> tuple[int, ...]:
    """Return the levels to compare: the most threads of a core, halved down to 2, and 1 where 2 is the most."""
    levels = []
    level = most
    while level >= 2:
        levels.append(level)
        level //= 2
    return (*levels, 1) if most == 2 else tuple(levels)


def comparison(levels: Sequence[int], clients: Sequence[int]) -> tuple[SmtRun, ...]:
    """Return every cell. With fewer CPUs than the most the highest client count is left out, as the source did it."""
    most, highest = max(levels), max(clients)
    return tuple(
        SmtRun(level, count, _reason(level, most, count) if count == highest and len(clients) > 1 else "")
        for level in levels
        for count in clients
    )


def commands(architecture: str, levels: Sequence[int]) -> tuple[str, ...]:
    """Return the command that sets each level, on this architecture."""
    if architecture == "ppc64le":
        return tuple(f"ppc64_cpu --smt={level}" for level in levels)
    file = "/sys/devices/system/cpu/smt/control"
    return tuple(f"echo {'off' if level == 1 else 'on'} > {file}" for level in levels)


def _reason(level: int, most: int, clients: int) -> str:
    if level == most:
        return ""
    return f"{clients} clients are not run at SMT{level}: it has 1/{most // level} of the CPUs of SMT{most}"
