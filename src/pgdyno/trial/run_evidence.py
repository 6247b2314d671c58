"""What the store holds of one run, judged: what held it back. The reports and the JSON of every study share it."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.bottleneck import HeldBack, Resource
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.model.study import Study
from pgdyno.model.trial import LoadPlan, Trial
from pgdyno.probes.held_back import held_back
from pgdyno.probes.run_figures import LoadShape, read_figures
from pgdyno.store.catalogue import Store
from pgdyno.units import parse_quantity

TABLES = ("cpu", "disk", "net", "sessions", "waits")
"""What the verdict reads."""


def read_held_back(store: Store, study: Study, trial: Trial) -> HeldBack:
    """Return what held a run back; UNKNOWN with the reason for one that was not measured."""
    outcome = trial.outcome
    if outcome is None or outcome.ended_at <= outcome.began_at or outcome.transactions == 0:
        reason = (outcome.reason if outcome else None) or f"the run is {trial.state.value}"
        return HeldBack(Resource.UNKNOWN, None, (f"nothing was measured: {reason}",))
    rows = [row for table in TABLES for row in sample_rows(table, store.samples(trial.id, table))]
    begin = outcome.steady_from if outcome.steady_from is not None else outcome.began_at
    server = _child(study.facts, "server")
    block = server.get("block_size")
    block_bytes = block if isinstance(block, int) else 8192
    figures = read_figures(
        rows,
        LoadShape(
            clients=_clients(trial, study.plan),
            jobs=_whole(trial.spec.factors.get("jobs"), study.plan.jobs) * study.plan.instances,
            rate=study.plan.rate,
            throughput=outcome.throughput,
            driver_cpu_s=outcome.driver_cpu_s,
            load_s=outcome.ended_at - outcome.began_at,
        ),
        begin,
        outcome.ended_at,
        outcome.counters,
        block_bytes=block_bytes,
        shared_buffers_bytes=_shared_buffers(trial, study, block_bytes),
    )
    return held_back(figures)


def sample_rows(table: str, columns: Mapping[str, list[SampleValue]]) -> list[SampleRow]:
    """Return the rows of a sample table that was read as columns, `t` first."""
    return [SampleRow(table, float(t or 0.0), tuple(values)) for t, *values in zip(*columns.values(), strict=True)]


def _shared_buffers(trial: Trial, study: Study, block_bytes: int) -> float | None:
    text = trial.spec.configuration.get("shared_buffers") or _child(study.facts, "settings").get("shared_buffers")
    if not isinstance(text, str):
        return None  # the default, which builds choose for themselves
    return parse_quantity(text, "8kB") * (block_bytes if text.isdigit() else 8192)


def _clients(trial: Trial, plan: LoadPlan) -> int:
    return _whole(trial.spec.factors.get("clients"), plan.clients) * plan.instances


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


def _child(facts: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = facts.get(name)
    return value if isinstance(value, Mapping) else {}
