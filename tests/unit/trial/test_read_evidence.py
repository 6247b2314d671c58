"""What of a run's samples, records and facts its evidence is read from, with a store made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.configuration import Configuration
from pgdyno.model.record import CheckRecord, PlanRecord
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import HistogramRow
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.probes.run_figures import RunFigures
from pgdyno.trial import run_evidence
from pgdyno.trial.run_evidence import read_evidence
from simulated_laboratory import simulated_study

RUN = Outcome(
    TrialState.COMPLETE, began_at=100.0, ended_at=110.0, transactions=500, failed=3, throughput=50.0,
    counters={"failures_crash": 2.0, "failures_oom": 0.0},
)  # fmt: skip
RECORDS = {PlanRecord: [PlanRecord("s", "a", "Result")], CheckRecord: [CheckRecord("C1", 0, "sums agree")]}


def trial(outcome: Outcome | None, **settings: str) -> Trial:
    spec = TrialSpec(Configuration.of(settings), Role.ARM, "A", 0, 0)
    return Trial(7, "s1", spec, TrialState.ABANDONED if outcome is None else outcome.state, outcome)


def store(active: Mapping[float, int] | None = None) -> Any:
    """Return a store with active sessions by time, and ten transactions in each second from 95 to 114."""
    names = TABLES["sessions"].column_names()

    def samples(run: int, table: str) -> dict[str, list[object]]:
        assert (run, table in run_evidence.JUDGED) == (7, True)
        times = sorted(active or {}) if table == "sessions" else []
        columns: dict[str, list[object]] = {name: [0 for _ in times] for name in names}
        return {**columns, "t": list(times), "active": [(active or {})[t] for t in times]}

    rows = [HistogramRow(second, 0, "s", 10 + second % 2, 1000, 0, 0, 0, b"") for second in range(95, 115)]
    return SimpleNamespace(
        samples=samples, histograms=lambda run: rows, records=lambda run, kind: RECORDS.get(kind, [])
    )  # fmt: skip


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[RunFigures]:
    figures: list[RunFigures] = []
    verdict = BottleneckVerdict(Resource.UNKNOWN, None, ("seen",))
    monkeypatch.setattr(run_evidence, "judge_bottleneck", lambda found: figures.append(found) or verdict)
    return figures


@pytest.mark.parametrize(
    ("outcome", "failed", "why"),
    [
        (None, 0, "the run is abandoned"),
        (replace(RUN, state=TrialState.FAILED, reason="no", transactions=0), 3, "no"),
        (replace(RUN, ended_at=100.0), 3, "the run is complete"),
        (replace(RUN, began_at=111.0), 3, "the run is complete"),
    ],
)
def test_of_a_run_that_was_not_measured_the_reason_is_told(outcome: Outcome | None, failed: int, why: str) -> None:
    found = read_evidence(store(), simulated_study(), trial(outcome))
    assert found.bottleneck == BottleneckVerdict(Resource.UNKNOWN, None, (f"Nothing was measured: {why}.",))
    assert (found.failed_transactions, found.smoothness) == (failed, None)
    assert found.failures == (None if outcome is None else {"crash": 2, "oom": 0})
    assert (list(found.plans), list(found.checks)) == (RECORDS[PlanRecord], RECORDS[CheckRecord])


def test_a_run_of_one_transaction_in_a_moment_was_measured(judged: list[RunFigures]) -> None:
    found = read_evidence(store(), simulated_study(), trial(replace(RUN, transactions=1, ended_at=100.5)))
    assert found.bottleneck.evidence == ("seen",)
    assert judged[0].seconds == 0.5


@pytest.mark.parametrize(
    ("steady_from", "seconds", "active"), [(None, 10.0, 7.0), (104.0, 6.0, 9.0), (0.0, 110.0, 7.0)]
)
def test_what_is_judged_is_the_window_and_of_no_window_the_whole_load(
    judged: list[RunFigures], steady_from: float | None, seconds: float, active: float
) -> None:
    samples = {103.0: 3, 108.0: 9, 109.0: 9, 115.0: 50}
    found = read_evidence(store(samples), simulated_study(), trial(replace(RUN, steady_from=steady_from)))
    assert (judged[0].seconds, judged[0].active) == (seconds, active)
    assert found.failed_transactions == 3
    assert found.smoothness is not None
    assert (found.smoothness.most, found.smoothness.seconds) == (11, seconds)
    assert (list(found.plans), list(found.checks)) == (RECORDS[PlanRecord], RECORDS[CheckRecord])


@pytest.mark.parametrize(
    ("facts", "seen"),
    [
        ({}, (8192, True, True)),
        ({"server": {"block_size": 32768}}, (32768, True, True)),
        ({"server": {"block_size": {"unknown": "no"}}}, (8192, True, True)),
        ({"host": {"cores": 4, "data_filesystem": "ext4"}}, (8192, True, True)),
        ({"host": {"cores": 4, "data_filesystem": "nfs4"}}, (8192, True, False)),
        ({"host": {"cores": {"unknown": "elsewhere"}}}, (8192, False, False)),
    ],
)
def test_which_machine_was_watched_and_in_which_blocks_its_server_reads(
    judged: list[RunFigures], facts: Mapping[str, object], seen: tuple[int, bool, bool]
) -> None:
    read_evidence(store(), replace(simulated_study(), facts=facts), trial(RUN))
    (figures,) = judged
    assert (figures.block_bytes, figures.own_host, figures.own_devices) == seen


@pytest.mark.parametrize(("word", "is_direct"), [(None, False), ("data", True), ("data,wal", True), ("wal", False)])
def test_data_are_read_past_the_cache_where_the_run_was_set_so(
    judged: list[RunFigures], word: str | None, is_direct: bool
) -> None:
    settings = {} if word is None else {"debug_io_direct": word}
    read_evidence(store(), replace(simulated_study(), facts={}), trial(RUN, **settings))
    read_evidence(store(), replace(simulated_study(), facts={"settings": settings}), trial(RUN))
    assert [figures.direct_io for figures in judged] == [is_direct] * 2
