"""From the runs of a matrix to its rows. Pure but for what it is given: outcomes, samples, checks.

Over repetitions nothing is averaged that may not be: throughput is all transactions of the measured windows over
their seconds, latency their mean over all these transactions; locks and CPU are means over all samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.model.matrix import LOCK_MODES, Cell, MatrixRow
from pgdyno.model.record import CheckRecord
from pgdyno.model.samples import SampleValue
from pgdyno.model.trial import Outcome, Role, Trial, TrialState
from pgdyno.probes.network_path import OVER_NETWORK
from pgdyno.studies.matrix.cell_workload import HISTORY
from pgdyno.workloads.sized import AFTER, BEFORE, counted

Columns = Mapping[str, Sequence[SampleValue]]
REPEATED = (TrialState.DISTURBED, TrialState.UNSTEADY)
"""What is repeated at its place; a run that was repeated does not speak for its cell."""


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a cell with what was sampled under it."""

    trial: Trial
    locks: Columns = field(default_factory=dict)
    sessions: Columns = field(default_factory=dict)
    cpu: Columns = field(default_factory=dict)
    checks: tuple[CheckRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a row says of the system beside its figures."""

    smt: str = ""
    system: str = ""
    cores: int | None = None
    vcpus: int | None = None
    durability: Mapping[str, str] = field(default_factory=dict)
    """The worst class of each configuration."""


def build_row(cell: Cell, runs: Sequence[CellRun], around: Surroundings) -> MatrixRow:
    """Return the row of a cell. One run that lacked a load generator makes the row partial, whatever the others say."""
    standing = [run for run in runs if run.trial.state not in REPEATED or not _was_repeated(run.trial, runs)]
    complete = [run for run in standing if run.trial.state is TrialState.COMPLETE and run.trial.outcome is not None]
    lost = next((run.trial for run in standing if run.trial.state is TrialState.PARTIAL), None) or next(
        (run.trial for run in standing if run.trial.state is not TrialState.COMPLETE), None
    )
    # Without one complete run the figures of a partial one are shown, and its state says what they are.
    shown = complete or [run for run in standing if run.trial.state is TrialState.PARTIAL and _measured(run)]
    outcomes = [run.trial.outcome for run in shown if run.trial.outcome is not None]
    seconds = sum(outcome.counters["window_s"] for outcome in outcomes)
    transactions = sum(outcome.counters["window_transactions"] for outcome in outcomes)
    latency = sum(
        outcome.latency_ms.mean * outcome.counters["window_transactions"] for outcome in outcomes if outcome.latency_ms
    )
    edges = [outcome.counters.get("window_edges_s") for outcome in outcomes]
    locks, most = held_locks(shown)
    histories = [outcome.counters.get("rows_after.history") for outcome in outcomes]
    last = outcomes[-1] if outcomes else None
    return MatrixRow(
        cell=cell,
        state="complete" if lost is None and complete else ("not measured" if lost is None else lost.state.value),
        reason=None if lost is None else (lost.outcome.reason if lost.outcome else "not finished"),
        tps=transactions / seconds if seconds else None,
        latency_ms=latency / transactions if transactions else None,
        cpu_pct=_weighted([(host_cpu(run), _window_s(run)) for run in shown]),
        smt=cell.smt or around.smt,
        locks=locks,
        locks_max=most,
        runs={run.trial.spec.block: tps for run in complete if (tps := _throughput(run)) is not None},
        durability=around.durability.get(cell.configuration, ""),
        system=around.system,
        cores=around.cores,
        vcpus=around.vcpus,
        server_cpu_pct=_weighted([(_share(o, o.server_cpu_s), o.counters["window_s"]) for o in outcomes]),
        driver_cpu_pct=_weighted([(_driver_share(run), _window_s(run)) for run in shown]),
        p99_ms=max((o.latency_ms.p99 for o in outcomes if o.latency_ms), default=None),
        edges=None if not seconds or None in edges else sum(value or 0.0 for value in edges) / seconds,
        transactions=sum(outcome.transactions for outcome in outcomes),
        history_rows=None if not outcomes or None in histories else int(sum(value or 0.0 for value in histories)),
        bytes_before={} if last is None else counted(last.counters, BEFORE),
        bytes_after={} if last is None else counted(last.counters, AFTER),
        checks=_broken(standing),
        warnings=() if last is None else last.warnings,
        trials=tuple(run.trial.id for run in runs),
    )


def group_runs(runs: Sequence[CellRun]) -> dict[Cell, list[CellRun]]:
    """Return the runs of role CELL by their cell, in the order in which they were made, without abandoned ones."""
    found: dict[Cell, list[CellRun]] = defaultdict(list)
    for run in runs:
        if run.trial.spec.role is Role.CELL and run.trial.state is not TrialState.ABANDONED:
            found[Cell.of_factors(run.trial.spec.factors)].append(run)
    return found


def _was_repeated(trial: Trial, runs: Sequence[CellRun]) -> bool:
    return any(run.trial.spec.repeats == trial.id for run in runs)


def _measured(run: CellRun) -> bool:
    return run.trial.outcome is not None and "window_s" in run.trial.outcome.counters


def _throughput(run: CellRun) -> float | None:
    return run.trial.outcome.throughput if run.trial.outcome else None


def _window_s(run: CellRun) -> float:
    return run.trial.outcome.counters["window_s"] if run.trial.outcome else 0.0


def _moments(run: CellRun, columns: Columns) -> list[int]:
    """Return the places of the samples that lie in the measured window."""
    outcome = run.trial.outcome
    if outcome is None or outcome.steady_from is None:
        return []
    return [
        place for place, t in enumerate(columns.get("t", ())) if outcome.steady_from < _number(t) <= outcome.ended_at
    ]


def held_locks(runs: Sequence[CellRun]) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and largest number of granted locks by column; a moment without a row of a mode had none."""
    moments = 0
    held: dict[str, dict[tuple[int, float], float]] = {name: defaultdict(float) for name in LOCK_MODES}
    names = {mode: name for name, mode in LOCK_MODES.items()}
    for number, run in enumerate(runs):
        moments += len(_moments(run, run.sessions))
        for place in _moments(run, run.locks):
            name = names.get(str(run.locks["mode"][place]))
            if name is not None:
                held[name][number, _number(run.locks["t"][place])] += _number(run.locks["granted"][place])
    if not moments:
        return {}, {}
    mean = {name: sum(values.values()) / moments for name, values in held.items()}
    return mean, {name: max(values.values(), default=0.0) for name, values in held.items()}


def host_cpu(run: CellRun) -> float | None:
    """Return the CPU of the server's host in the window, in percent of all its CPUs."""
    busy = seconds = 0.0
    for place in _moments(run, run.cpu):
        if run.cpu["usr_pct"][place] is None or run.cpu["interval_s"][place] is None:
            continue
        interval = _number(run.cpu["interval_s"][place])
        busy += interval * sum(_number(run.cpu[name][place]) for name in ("usr_pct", "sys_pct", "irq_pct"))
        seconds += interval
    return busy / seconds if seconds else None


def _driver_share(run: CellRun) -> float | None:
    """Return the driver's part of the CPUs of the server's host, in per cent; None where it ran on another one."""
    if run.trial.outcome is not None and run.trial.outcome.counters.get(OVER_NETWORK):
        return None
    used = capacity = 0.0
    for place in _moments(run, run.cpu):
        values = [run.cpu[name][place] for name in ("driver_cpu_s", "cpus", "interval_s")]
        if None not in values:
            used += _number(values[0])
            capacity += _number(values[1]) * _number(values[2])
    return 100 * used / capacity if capacity else None


def _share(outcome: Outcome, seconds: float | None) -> float | None:
    capacity = outcome.counters.get("cpu_capacity_s")
    return None if seconds is None or not capacity else 100 * seconds / capacity


def _weighted(values: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


def _broken(runs: Sequence[CellRun]) -> tuple[str, ...]:
    return tuple(
        f"run {run.trial.id}: {check.meaning}"
        for run in runs
        for check in run.checks
        if check.condition == HISTORY and (check.violations or check.violations is None)
    )


def _number(value: SampleValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
