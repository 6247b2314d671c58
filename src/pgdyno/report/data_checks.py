"""The section of a report about a load's own data: new orders per minute, and the conditions that were checked. Pure.

It stands on the page of every kind of study, because a run whose data break their conditions is void in all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pgdyno.model.figure import Table
from pgdyno.model.record import MIX, P90, CheckRecord
from pgdyno.model.trial import LoadPlan, Trial, TrialState
from pgdyno.report.sections import Block, Notice, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.traces import RunTrace
from pgdyno.report.wording import number_text
from pgdyno.units import plural

NOT_TPC_C = (
    "These figures are not TPC-C results and must not be presented as such: the load is like TPROC-C, follows the "
    "rules of TPC-C in part only, and nobody has audited it.",
    "Its NOPM cannot be compared with published NOPM: the procedures are pgdyno's own, do work that other drivers "
    "leave out, and are checked. Compare runs of the same workload fingerprint with each other.",
)
IMPORTED = (
    "These figures were read from another tool's files, not measured here: nothing of the run was sampled or checked.",
    "HammerDB's NOPM and TPM are not TPC-C results, and not comparable with those of pgdyno's own load.",
)
FIGURES = (
    ("nopm", "NOPM"),
    ("tpm", "TPM"),
    ("new_orders", "new orders"),
    ("deadlocks", "deadlocks"),
    ("new_order_dead_tuples", "dead rows in new_order"),
)


def with_checks(report: Report, record: StudyRecord) -> Report:
    """Return the report with the section, before the one on environment and method, and with its short form."""
    full, short = section(record), brief(record)
    if full is None or short is None:
        return report
    place = next((n for n, one in enumerate(report.sections) if one.id == "about"), len(report.sections))
    return replace(
        report,
        sections=(*report.sections[:place], full, *report.sections[place:]),
        digest=(*report.digest[:-1], short, *report.digest[-1:]),
    )


def section(record: StudyRecord) -> Section | None:
    """Return figures and conditions of every run, None where a study has neither."""
    checks = _checks(record)
    counted = [trial for trial in record.trials if _has_orders(trial)]
    if not checks and not counted:
        return None
    blocks: list[Block] = []
    if counted:
        imported = record.study.was_read
        blocks.append(Notice(IMPORTED if imported else NOT_TPC_C))
        blocks.append(TableBlock(_figures(counted), _IMPORTED_CAPTION if imported else _CAPTION))
        blocks += _mixed(counted)
        if users := tuple(filter(None, map(partial(_users, record.study.plan), record.traces))):
            blocks.append(Prose(users))
    if checks:
        blocks.append(Prose((_verdict(checks),)))
        blocks.append(TableBlock(_conditions(checks), "Rows that break a condition, summed over the runs."))
    return Section("checks", "Orders and checks", "What did the load do, and is its data consistent?", tuple(blocks))


def brief(record: StudyRecord) -> Section | None:
    """Return the figures of the last run that is a result and the verdict on the data, in sentences."""
    checks = _checks(record)
    counted = [trial for trial in record.trials if _has_orders(trial)]
    sentences: list[str] = []
    mixed: list[Block] = []
    if results := [trial for trial in counted if trial.state in _RESULTS]:
        last = results[-1]
        assert last.outcome is not None, "a trial with orders has an outcome"
        told = [f"{_cell(last, name)} {label}" for name, label in FIGURES[:2] if name in last.outcome.counters]
        partial = ", which is partial" * (last.state is TrialState.PARTIAL)
        figures = f"{' and '.join(told)} in run {last.id}{partial}"
        mixed = _mixed(results)
        sentences.append(f"{figures}: {_NOT_LIKE[record.study.was_read]}.")
    elif counted:
        sentences.append(f"No NOPM and no TPM: run {counted[-1].id} is {counted[-1].state.value}, and is not a result.")
    if checks:
        sentences.append(_verdict(checks))
    return Section("checks", "Orders and checks", "", (Prose(tuple(sentences)), *mixed)) if sentences else None


_RESULTS = (TrialState.COMPLETE, TrialState.PARTIAL)
_NOT_LIKE = (
    "not TPC-C results, not comparable with published NOPM",
    "as HammerDB prints them, not TPC-C results, not comparable with those of pgdyno's own load",
)
MOST_RUNS = 5
"""More runs than these are counted, not listed."""
ONE_HOLDS = "The one condition that was checked holds"
_CAPTION = (
    "NOPM: New-Orders committed per minute in the measured window. TPM: transactions of the load, rolled back ones "
    "included, in the same window. New orders: growth of d_next_o_id over the whole run, ramp-up included."
)


_IMPORTED_CAPTION = "NOPM and TPM as HammerDB prints them. Its TPM counts the transactions of every database."


def _checks(record: StudyRecord) -> dict[int, tuple[CheckRecord, ...]]:
    found = {
        run: tuple(one for one in records if isinstance(one, CheckRecord)) for run, records in record.records.items()
    }
    return {run: checks for run, checks in found.items() if checks}


def _users(plan: LoadPlan, trace: RunTrace) -> str:
    """Say how many server processes the virtual users were, second by second; nothing where nobody looked."""
    sessions = trace.samples.get("sessions", {})
    seen = [
        int(total)
        for t, total in zip(sessions.get("t", ()), sessions.get("total", ()), strict=True)
        if isinstance(t, float | int) and isinstance(total, int | float) and _inside(float(t), trace)
    ]
    if not seen:
        return ""
    count = str(seen[0]) if min(seen) == max(seen) else f"{min(seen)} to {max(seen)}"
    processes = plural(count, "server process")
    users = plural(plan.connections, "virtual user")
    return f"Run {trace.run}: {users}, {processes} in each of {plural(len(seen), 'second')} sampled."


def _inside(t: float, trace: RunTrace) -> bool:
    """Leave out the first and the last second, in which sessions come and go."""
    return trace.began_at + 1 <= t <= trace.ended_at - 1


def _has_orders(trial: Trial) -> bool:
    return trial.outcome is not None and "nopm" in trial.outcome.counters


def _figures(trials: Sequence[Trial]) -> Table:
    known = {name for trial in trials if trial.outcome for name in trial.outcome.counters}
    shown = [(name, label) for name, label in FIGURES if name in known]
    columns = ("run", "what", *(label for _, label in shown))
    rows = tuple((str(trial.id), _what(trial), *(_cell(trial, name) for name, _ in shown)) for trial in trials)
    return Table(columns, rows, (columns[0], *columns[2:]))


def _mixed(trials: Sequence[Trial]) -> list[Block]:
    """Return share and 90th percentile of each transaction in the last of the runs; nothing where none was counted."""
    last = trials[-1]
    counters = last.outcome.counters if last.outcome else {}
    names = [name[len(MIX) : -len("_pct")] for name in counters if name.startswith(MIX)]
    if not names:
        return []
    rows = tuple(
        (
            name.replace("_", " "),
            number_text(counters[f"{MIX}{name}_pct"]),
            "" if (p90 := counters.get(f"{P90}{name}_ms")) is None else number_text(p90),
        )
        for name in names
    )
    columns = ("transaction", "share %", "p90 ms")
    caption = f"Run {last.id}: shares of the whole run, 90th percentiles of the measured window, without waits."
    return [TableBlock(Table(columns, rows, columns[1:]), caption)]


def _what(trial: Trial) -> str:
    what = " ".join([trial.spec.arm, *(f"{name}={value}" for name, value in trial.spec.factors.items())])
    return what if trial.state is TrialState.COMPLETE else f"{what} ({trial.state.value})"


def _cell(trial: Trial, name: str) -> str:
    value = trial.outcome.counters.get(name) if trial.outcome else None
    return "" if value is None else number_text(value)


def _verdict(checks: dict[int, tuple[CheckRecord, ...]]) -> str:
    broken = sorted({one.condition for found in checks.values() for one in found if one.violations})
    asked = {one.condition for found in checks.values() for one in found if one.violations is not None}
    if broken:
        count = f"{plural(len(broken), 'condition')} of {len(asked)} broken"
        return f"{count}: {', '.join(broken)}; such a run is void.{_unchecked(checks)}"
    if not asked:
        return "No condition was checked."
    every = f"All {len(asked)} conditions that were checked hold" if len(asked) > 1 else ONE_HOLDS
    runs = sum(any(one.violations is not None for one in found) for found in checks.values())
    return f"{every}, in {plural(runs, 'run')}.{_unchecked(checks)}"


def _unchecked(checks: Mapping[int, Sequence[CheckRecord]]) -> str:
    """Name what could not be checked, and in which runs; empty where all of it was."""
    missed: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in sorted({one.condition for found in checks.values() for one in found}):
        runs = tuple(
            run
            for run, found in sorted(checks.items())
            if any(one.condition == name and one.violations is None for one in found)
        )
        if runs:
            missed[runs].append(name)
    told = [f"{', '.join(names)} in {_runs_text(runs)}" for runs, names in missed.items()]
    return f" Not checked: {'; '.join(told)}." if told else ""


def _runs_text(runs: Sequence[int]) -> str:
    if len(runs) > MOST_RUNS:
        return plural(len(runs), "run")
    return f"{'run' if len(runs) == 1 else 'runs'} {', '.join(map(str, runs))}"


def _conditions(checks: dict[int, tuple[CheckRecord, ...]]) -> Table:
    counts: dict[str, list[int | None]] = defaultdict(list)
    meanings: dict[str, dict[int, str]] = defaultdict(dict)
    broken: dict[str, int] = {}
    unchecked: dict[str, int] = {}
    for run, found in checks.items():
        for one in found:
            counts[one.condition].append(one.violations)
            meanings[one.condition][run] = one.meaning
            if one.violations:
                broken.setdefault(one.condition, run)
            if one.violations is None:
                unchecked.setdefault(one.condition, run)
    columns = ("condition", "demanded", "violations")
    shown = {**unchecked, **broken}
    rows = tuple((name, _demand(meanings[name], shown.get(name)), _sum(counts[name])) for name in sorted(counts))
    return Table(columns, rows, columns[2:])


def _demand(meanings: Mapping[int, str], broken: int | None) -> str:
    """Return what a condition demands; where each run tells it with figures of its own, those of one are an example."""
    run = max(meanings) if broken is None else broken
    return meanings[run] if len(set(meanings.values())) == 1 else f"run {run}, one of {len(meanings)}: {meanings[run]}"


def _sum(counts: Sequence[int | None]) -> str:
    known = [count for count in counts if count is not None]
    if not known:
        return "not checked"
    return f"{sum(known):,}" + (f" in {len(known)} of {len(counts)}" if len(known) < len(counts) else "")
