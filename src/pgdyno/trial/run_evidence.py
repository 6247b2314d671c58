"""What the store holds of one run, judged: what limited it, what failed, how even it was, who waited.

The reports and the JSON of every study share it; nothing of it is kept, so that an old run is judged by today's rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.facts import Unknown
from pgdyno.model.record import CheckRecord, ClientRecord, PlanRecord
from pgdyno.model.run_evidence import RunEvidence, Smoothness
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import HistogramRow, SampleRow, SampleValue
from pgdyno.model.shapes import inner
from pgdyno.model.study import Study
from pgdyno.model.trial import LoadPlan, Outcome, Trial
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.counter_scope import devices_hold, scope_notes
from pgdyno.probes.evidence.warm_up import warm_up
from pgdyno.probes.lock_figures import lock_figures
from pgdyno.probes.network_path import OVER_NETWORK, PAUSE_S, ROUND_TRIP_MS, ROUND_TRIPS, link_speeds
from pgdyno.probes.run_figures import LoadShape, read_figures
from pgdyno.probes.server_failures import COUNTER, FAILURES
from pgdyno.store.catalogue import Store
from pgdyno.units import parse_quantity

JUDGED = ("cpu", "disk", "net", "sessions", "waits", "locks", "memory")
"""What the verdict reads."""
FEWEST_SECONDS = 5
"""Of a run that is told how even it was."""


def read_evidence(store: Store, study: Study, trial: Trial) -> RunEvidence:
    """Return the evidence of a run; what limited it is UNKNOWN with the reason for one that was not measured."""
    outcome, failures = trial.outcome, _failures(trial.outcome)
    plans, checks = tuple(store.records(trial.id, PlanRecord)), tuple(store.records(trial.id, CheckRecord))
    if outcome is None or outcome.ended_at <= outcome.began_at or outcome.transactions == 0:
        reason = (outcome.reason if outcome else None) or f"the run is {trial.state.value}"
        unknown = BottleneckVerdict(Resource.UNKNOWN, None, (f"Nothing was measured: {reason}.",))
        return RunEvidence(unknown, failures, outcome.failed if outcome else 0, plans=plans, checks=checks)
    rows = [row for table in JUDGED for row in sample_rows(table, store.samples(trial.id, table))]
    begin = outcome.steady_from if outcome.steady_from is not None else outcome.began_at
    server, host = inner(study.facts, "server"), inner(study.facts, "host")
    own_host = not isinstance(host.get("cores"), Mapping)  # {"unknown": why}
    block = server.get("block_size")
    block_bytes = block if isinstance(block, int) else 8192
    load, speeds = _load_shape(trial, study.plan, outcome), link_speeds(outcome.counters)
    figures = replace(
        read_figures(rows, load, begin, outcome.ended_at, outcome.counters, speeds=speeds),
        block_bytes=block_bytes,
        shared_buffers_bytes=_shared_buffers(trial, study, block_bytes),
        own_host=own_host,
        own_devices=devices_hold(host.get("data_filesystem"), own_host=own_host),
        direct_io="data" in (_setting(trial, study, "debug_io_direct") or ""),
    )
    histograms = store.histograms(trial.id)
    counts = _per_second(histograms, begin, outcome.ended_at)
    return RunEvidence(
        bottleneck=judge_bottleneck(figures),
        failures=failures,
        failed_transactions=outcome.failed,
        smoothness=smoothness(list(counts.values())),
        locks=lock_figures(rows, begin, outcome.ended_at),
        clients=tuple(store.records(trial.id, ClientRecord)),
        filling=_filling(rows, histograms, begin, outcome.ended_at),
        scope=_scope(study),
        plans=plans,
        checks=checks,
    )


def sample_rows(table: str, columns: Mapping[str, Sequence[SampleValue]]) -> list[SampleRow]:
    """Return the rows of a sample table that was read as columns, `t` first."""
    return [SampleRow(table, float(t or 0.0), tuple(values)) for t, *values in zip(*columns.values(), strict=True)]


def _load_shape(trial: Trial, plan: LoadPlan, outcome: Outcome) -> LoadShape:
    """Return how the run was driven: a cell of a matrix says among its factors what differs from the study's plan."""
    factors, counters = trial.spec.factors, outcome.counters
    over_network = None if OVER_NETWORK not in counters else bool(counters[OVER_NETWORK])
    instances = _whole(factors.get("instances"), plan.instances)
    return LoadShape(
        clients=_whole(factors.get("clients"), plan.clients) * instances,
        jobs=_whole(factors.get("jobs"), plan.jobs) * instances,
        rate=_rate(factors.get("rate"), plan.rate),
        throughput=outcome.throughput,
        driver_cpu_s=outcome.driver_cpu_s,
        load_s=outcome.ended_at - outcome.began_at,
        driver_is_here=not over_network,
        over_network=over_network,
        round_trip_ms=counters.get(ROUND_TRIP_MS),
        round_trips=counters.get(ROUND_TRIPS),
        pause_s=counters.get(PAUSE_S, 0.0),
    )


def _failures(outcome: Outcome | None) -> Mapping[str, int] | None:
    counters = {} if outcome is None else outcome.counters
    known = {kind: round(counters[COUNTER + kind]) for kind in FAILURES if COUNTER + kind in counters}
    return known or None


def _per_second(rows: Sequence[HistogramRow], begin: float, end: float) -> dict[int, float]:
    """Return the transactions of each whole second of the window, 0 for one without any."""
    first, last = int(-(-begin // 1)), int(end // 1)
    counts = dict.fromkeys(range(first, last), 0.0)
    for row in rows:
        if row.second in counts:
            counts[row.second] += row.count
    return counts


def _filling(
    rows: Sequence[SampleRow], histograms: Sequence[HistogramRow], begin: float, end: float
) -> tuple[str, ...]:
    """Return the signs that caches filled in the window: memory that grows, answers that take longer for a while."""
    totals: dict[int, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for row in histograms:
        if begin <= row.second and row.second + 1 <= end and row.count:
            micros, count = totals[row.second]
            totals[row.second] = micros + row.total_us, count + row.count
    shared = by_second(rows, "memory", "shared_bytes")
    seconds = [second for second in sorted(totals) if second in shared]
    response = [totals[second][0] / totals[second][1] / 1000 for second in seconds]
    judged = warm_up([shared[second] for second in seconds], response)
    return () if isinstance(judged, Unknown) else judged.phases


def _scope(study: Study) -> tuple[str, ...]:
    host = inner(study.facts, "host")
    container, layer = host.get("container"), host.get("virtualization")
    ram, limit = host.get("ram_bytes"), host.get("memory_limit_bytes")
    is_limited = isinstance(ram, int) and isinstance(limit, int) and limit < ram
    named = container if isinstance(container, str) else None
    return scope_notes(named, layer if isinstance(layer, str) else "", is_limited=is_limited)


def _shared_buffers(trial: Trial, study: Study, block_bytes: int) -> float | None:
    text = _setting(trial, study, "shared_buffers")
    if text is None:
        return None  # the default, which builds choose for themselves
    return parse_quantity(text, "8kB") * (block_bytes if text.isdigit() else 8192)


def _setting(trial: Trial, study: Study, name: str) -> str | None:
    """Return a setting as the run had it, None where it was the built-in default."""
    text = trial.spec.configuration.get(name) or inner(study.facts, "settings").get(name)
    return text if isinstance(text, str) else None


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


def _rate(text: str | None, default: float | None) -> float | None:
    """Return the rate of a run's own schedule; a word that is no number is that of a closed loop."""
    if text is None:
        return default
    return float(text) if text.replace(".", "", 1).isdigit() else None


# Host, server and load on one clock. A histogram row of second s holds what ended in [s, s + 1). A sample row at t is
# of the interval that ends at t, and rows are taken at whole seconds, a little late: one at about s + 1 is about s.
HALF = 0.5
"""A row that is later than this after a whole second is about the next one: nothing is aligned worse than by 1 s."""


def second_of(t: float) -> int:
    """Return the whole second that a sample row at `t` is about."""
    return int((t + HALF) // 1) - 1


def by_second(rows: Iterable[SampleRow], table: str, column: str) -> dict[int, float]:
    """Return a column's numbers by the second they are about; a later row of the same second wins."""
    place = TABLES[table].column_names().index(column) - 1
    found: dict[int, float] = {}
    for row in rows:
        if row.table == table and isinstance(value := row.values[place], int | float):
            found[second_of(row.t)] = float(value)
    return found


def smoothness(per_second: Sequence[float]) -> Smoothness | None:
    """Return it for transactions per whole second, seconds without any included; None for less than five."""
    if len(per_second) < FEWEST_SECONDS or fmean(per_second) <= 0:
        return None
    cv = stdev(per_second) / fmean(per_second)
    return Smoothness(cv, len(per_second), min(per_second), max(per_second), sum(1 for one in per_second if one == 0))
