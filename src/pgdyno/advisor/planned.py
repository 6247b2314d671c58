"""What a setting will be once the earlier proposals are in force, and changes written in the server's own spelling."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import Fires
from pgdyno.errors import UsageError
from pgdyno.knobs.expressions import Quantity
from pgdyno.knobs.policy import Durability, class_of
from pgdyno.knobs.values import bounds, number_of, setting_text
from pgdyno.model.evidence import SPILL_SETTINGS, Concurrency, LogEvidence, Statistics, WorkingSet, WorkloadClass
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.finding import Change, ChangeKind, Cost, Resolution, Severity
from pgdyno.units import BYTES, MICROSECONDS, moment_text, parse_quantity, split_unit


def planned(case: Case, name: str) -> float:
    """Return a numeric setting as it will be: bytes, seconds or bare. Raises Missing when the server lacks it."""
    text = case.earlier.get(name)
    if text is None:
        return case.number(name)
    fact = case.row(name)
    number = parse_quantity(text, fact.unit)
    if number < 0:
        return number
    quantity = Quantity.of_setting(number, fact.unit)
    return quantity.value / 1e6 if quantity.kind == "time" else quantity.value


def number_or(case: Case, name: str, otherwise: float) -> float:
    """Return a setting as it will be, or what holds for a version that does not have it yet."""
    return planned(case, name) if case.has(name) else otherwise


def shown(case: Case, name: str) -> str:
    """Return a setting as people write it. Raises Missing."""
    fact = case.row(name)
    if fact.vartype not in ("integer", "real"):
        return fact.setting
    case.number(name)
    return setting_text(fact, number_of(fact))


def written(case: Case, name: str, value: float) -> str:
    """Write bytes, seconds or a bare number as the setting's text, inside of the server's own range. Raises Missing."""
    fact = case.row(name)
    low, high = bounds(fact)
    number = value / _base(fact)
    number = round(number) if fact.vartype == "integer" else number
    return setting_text(fact, min(max(number, low), high))


def change_to(case: Case, name: str, value: float | str) -> Change:
    """Return the change of a setting, a number in bytes, seconds or bare. Raises Missing, and UsageError on class X."""
    if class_of(name) is Durability.X:
        raise UsageError(f'knob "{name}" can lose committed data and is never proposed')
    text = value if isinstance(value, str) else written(case, name, value)
    return Change(ChangeKind.POSTGRESQL, name, text, shown(case, name))


def cost_of(case: Case, name: str) -> Cost:
    """Return what it costs to put a setting in force on this very version: its context says it. Raises Missing."""
    return Cost.RESTART if case.row(name).context == "postmaster" else Cost.RELOAD


def proposes(
    case: Case,
    *changes: Change,
    evidence: tuple[str, ...],
    values: Mapping[str, str] | None = None,
    doubts: tuple[str, ...] = (),
    alternatives: tuple[str, ...] = (),
    resolutions: tuple[Resolution, ...] = (),
    severity: Severity | None = None,
    needs_test: bool = False,
    effects_from: tuple[str, ...] | None = None,
) -> Fires:
    """Return what a rule says that proposes these changes of settings, one or more; the rest as in `Fires`.

    It costs what the dearest of them costs on the server of `case`. `values` fill the places of the rule's texts by
    name; `{proposed}` is the first change's value unless they have another. `evidence` are sentences with this target's
    figures, each of the `doubts` lowers the confidence by a step, `alternatives` follow the rule's own, and
    `resolutions` are the contradictions that were decided. `severity` None is the rule's; `needs_test` asks for a test
    also where the rule does not. `effects_from` are the documents whose figures are for this proposal: None for all,
    empty for none. Raises Missing.
    """
    return Fires(
        changes=changes,
        values={"proposed": changes[0].value, **(values or {})},
        evidence=evidence,
        doubts=doubts,
        alternatives=alternatives,
        resolutions=resolutions,
        severity=severity,
        cost=max((cost_of(case, change.knob) for change in changes), key=lambda cost: cost.rank),
        needs_test=needs_test,
        effects_from=effects_from,
    )


def is_set(fact: SettingFact) -> bool:
    """Return True when somebody gave the setting a value other than the built-in one.

    initdb writes some values into the configuration file itself; those count as built in (128MB of shared_buffers is
    what initdb writes, though 13 and 14 have a smaller built-in value).
    """
    if fact.source in ("default", "override"):
        return False
    if fact.name == "shared_buffers":
        return fact.setting != "16384"
    return fact.setting != fact.boot_val


def log_of(case: Case) -> LogEvidence:
    """Return what the log says. Raises Missing."""
    return known(case.evidence.log, "the server's log")


def concurrency_of(case: Case) -> Concurrency:
    """Return how many sessions were at work. Raises Missing."""
    return known(case.evidence.concurrency, "concurrency")


def has_direct_io(case: Case) -> bool:
    """Return whether the server reads and writes its data files around the page cache."""
    return case.has("debug_io_direct") and "data" in case.text("debug_io_direct")


def statistics_of(case: Case) -> Statistics:
    """Return the window's statistics. Raises Missing."""
    return known(case.evidence.statistics, "the statistics window")


def counted(case: Case, *settings: str) -> Statistics:
    """Return the window's statistics, all of it counted with the present values of these settings.

    Raises Missing where a counter began before one of them may last have changed: it would judge the value of then.
    """
    found = statistics_of(case)
    if not found.window.is_mean_of_all:
        return found
    what, settled = "what was counted with the present settings", case.evidence.settled
    if isinstance(settled, Unknown):
        raise Missing(what, f"{settled.reason}; {WATCH}")
    for name in settings:
        if not case.has(name):
            continue
        since = settled.since(name, by_restart=case.row(name).context == "postmaster")
        if began_of(found) < since:
            began = moment_text(began_of(found)) if found.window.began else "a time that is not known"
            raise Missing(
                what,
                f"the counters began at {began}, and {name} may have had another value until {moment_text(since)}; "
                f"{WATCH}",
            )
    return found


WATCH = "--window SECONDS counts with the present one"
MEAN_OF_ALL = "the statistics since their reset have idle times in them; --window watches it"
"""Why a rate at load is unknown where nothing but counters since their reset is there."""


def began_of(found: Statistics) -> float:
    """Return when a window began, in seconds since the epoch; 0 when it does not say."""
    try:
        return datetime.fromisoformat(found.window.began).timestamp()
    except ValueError:
        return 0.0


MEMORY_SETTINGS = ("shared_buffers", "max_connections", *SPILL_SETTINGS)
"""Settings that decide how much memory the server may take."""


def kills_in_group(case: Case) -> tuple[int, str]:
    """Return the kills in the server's cgroup that count against its present settings, and those of before in words.

    The kernel counts for as long as the cgroup lives, a container's over every restart of the server. A log that goes
    back to a restart or a change of the settings, and names no kill since, shows that they were before.
    """
    count, log = case.host.memory.group_oom_kills, case.evidence.log
    if isinstance(count, Unknown) or count == 0:
        return 0, ""
    since = None if isinstance(log, Unknown) or log.killed_by_9 else log.anew(*MEMORY_SETTINGS)
    if since is None:
        return count, ""
    return 0, f"{count} in the server's cgroup were before {since}: the log names none since"


def working_set_of(case: Case) -> WorkingSet | None:
    """Return the working set, None when it is not known."""
    found = case.evidence.working_set
    return None if isinstance(found, Unknown) else found


def active_sessions(case: Case) -> float:
    """Return the sessions that work at a time. Raises Missing, also where none did: an idle server shows no load."""
    active = known(concurrency_of(case).active_mean, "the number of active sessions")
    if active <= 0:
        raise Missing("how sessions share the CPUs", "none was active while the server was watched")
    return active


def usable_cpus(case: Case) -> int:
    """Return the CPUs that the server may run on. Raises Missing."""
    usable = case.host.processor.usable
    return known(case.host.processor.cpus if isinstance(usable, Unknown) else usable, "the number of CPUs")


def memory_of(case: Case) -> int:
    """Return the bytes of memory that the server may use, a cgroup's limit included. Raises Missing."""
    memory = case.host.memory
    limit = memory.ram_bytes if isinstance(memory.limit_bytes, Unknown) else memory.limit_bytes
    found = known(limit, "memory")
    if found <= 0:
        raise Missing("memory", "it was read as 0")
    return found


def writes(case: Case) -> bool:
    """Return True when the load writes as a matter of course. Raises Missing when its class is unknown."""
    workload = known(case.evidence.workload, "the workload's class")
    return workload not in (WorkloadClass.READ_ONLY, WorkloadClass.MOSTLY_READ)


def _base(fact: SettingFact) -> float:
    if fact.unit is None:
        return 1.0
    multiplier, name = split_unit(fact.unit)
    return multiplier * (BYTES[name] if name in BYTES else MICROSECONDS[name] / 1e6)
