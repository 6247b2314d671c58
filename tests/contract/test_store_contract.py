"""What every store must do, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import cast
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fix_postgres import NIGHT
from pgdyno.errors import StoreError, UsageError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.record import CheckRecord, InstanceRecord, PlanRecord, Record, TextRecord
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import Column, Event, HistogramRow, SampleRow, SampleValue
from pgdyno.model.shapes import shaped
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from result_example import made

WORKLOAD = WorkloadSpec("ybio", {"rows": 1000, "update_pct": 0.5, "hot": True, "s": "x"}, "f00d", "reads", False)
OLD_PLAN = ["clients", "jobs", "warmup_s", "measure_s", "protocol", "rate", "connect_each", "reset", "seed"]
PLAN = LoadPlan(clients=4, jobs=2, warmup_s=10.0, measure_s=20.0, rate=12.5, seed=3)
RESULT = made(StudyKind.TUNE, {"verdict": {"word": "better", "ratio": 3.1, "ci": [2.9, None]}, "warnings": ["ü"]})
OUTCOME = Outcome(
    TrialState.COMPLETE,
    began_at=100.25,
    steady_from=105.0,
    ended_at=130.5,
    throughput=1234.5,
    latency_ms=LatencySummary(0.1, 0.2, 0.3, 0.4, 5.0, 0.15),
    transactions=2**40,
    server_cpu_s=1.5,
    counters={"blks_hit": 12.0},
    warnings=("one", "two"),
)


def study(study_id: str = "20260101-000000-tune", created_at: float = 1.0) -> Study:
    facts: dict[str, object] = {"host": {"cores": 2, "swap": {"unknown": "no permission"}}}
    kind, state = StudyKind.TUNE, StudyState.RUNNING
    return Study(study_id, kind, "n", state, created_at, "t", "e", facts, WORKLOAD, PLAN, {"seed": 1})


def spec(slot: int = 0, **values: str) -> TrialSpec:
    return TrialSpec(Configuration.of(values), Role.SEARCH, "search", 1, slot)


def sample_value(column: Column, second: int) -> SampleValue:
    return {"float": second + 0.5, "int": second, "text": f"{column.name} {second}"}[column.kind]


@pytest.fixture
def url(new_store: Callable[[], str]) -> str:
    return new_store()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


def test_a_study_comes_back_as_it_was(store: Store, url: str) -> None:
    store.add_study(replace(study(), options={"seed": 2}))
    store.update_study(study().id, state=StudyState.COMPLETE, result=RESULT)
    expected = replace(study(), state=StudyState.COMPLETE, result=RESULT, options={"seed": 2})
    assert store.study(study().id) == expected
    with Store.open(url) as again:
        assert again.study(study().id) == expected


def test_what_ended_a_study_goes_with_its_state(store: Store) -> None:
    store.add_study(replace(study(), options={"seed": 2}))
    store.update_study(study().id, state=StudyState.FAILED, ended="the budget of 40 s ran out")
    assert (store.study(study().id).ended, store.study(study().id).options["seed"]) == ("the budget of 40 s ran out", 2)
    store.update_study(study().id, result=RESULT)
    assert store.study(study().id).ended == "the budget of 40 s ran out"
    store.update_study(study().id, state=StudyState.RUNNING)
    assert store.study(study().id).ended == ""
    assert store.study(study().id).options == {"seed": 2}


def test_studies_are_found_by_id_prefix_and_last(store: Store) -> None:
    older, newer, longer = study("20260101-a", 1.0), study("20260102-b", 2.0), study("20260101-a-2", 0.5)
    for one in (newer, older, longer):
        store.add_study(one)
    assert store.study("last") == newer
    assert store.study("20260102") == newer
    assert store.study("20260101-a") == older
    assert [one.id for one in store.studies()] == [newer.id, older.id, longer.id]
    with pytest.raises(UsageError, match="several studies"):
        store.study("20260101")


def test_studies_of_one_target_are_found_however_many_others_came_later(store: Store) -> None:
    ours = [replace(study(f"ours-{at}", float(at)), target="db1") for at in (1, 2)]
    for one in (*ours, study("other", 9.0)):
        store.add_study(one)
    assert store.studies(target="db1") == [ours[1], ours[0]]
    assert store.listed_studies(target="db1", most=1)[0] == [ours[1]]
    assert store.studies(target="db2") == []


@pytest.mark.parametrize("name", ["nothing", "%", "_", "LAST", "2026' OR '1'='1"])
def test_a_study_that_is_not_there_is_a_usage_error_with_a_hint(store: Store, name: str) -> None:
    store.add_study(study())
    with pytest.raises(UsageError, match="is not in the store") as caught:
        store.study(name)
    assert "pgdyno store list" in (caught.value.hint or "")


def test_last_of_an_empty_store_is_a_usage_error(store: Store) -> None:
    with pytest.raises(UsageError, match="holds no study") as caught:
        store.study("last")
    assert caught.value.hint


def test_an_id_is_taken_once(store: Store) -> None:
    store.add_study(study())
    with pytest.raises(StoreError, match="in the store already"):
        store.add_study(study())


def test_what_is_not_there_cannot_be_changed(store: Store) -> None:
    with pytest.raises(UsageError):
        store.update_study("x", state=StudyState.FAILED)
    with pytest.raises(UsageError):
        store.begin_trial("x", spec())
    with pytest.raises(UsageError):
        store.finish_trial(99, OUTCOME)
    with pytest.raises(UsageError):
        store.add_events(99, [Event(1.0, "x", "y")])
    with pytest.raises(UsageError):
        store.trial(99)


def test_a_trial_runs_and_finishes(store: Store) -> None:
    store.add_study(study())
    first = store.begin_trial(study().id, spec(0, work_mem="64MB", shared_buffers="4GB"))
    second = store.begin_trial(study().id, spec(1))
    assert first < second
    assert (store.trial(first).state, store.trial(first).outcome) == (TrialState.RUNNING, None)
    store.finish_trial(first, OUTCOME)
    assert store.trial(first).outcome == OUTCOME
    assert store.trial(first).spec == spec(0, work_mem="64MB", shared_buffers="4GB")
    assert [trial.id for trial in store.trials(study().id)] == [first, second]
    assert store.trial(second).spec.configuration == BASELINE
    assert store.trial_counts() == {study().id: {TrialState.COMPLETE: 1, TrialState.RUNNING: 1}}


def test_a_finished_trial_never_changes(store: Store) -> None:
    store.add_study(study())
    run = store.begin_trial(study().id, spec())
    store.add_events(run, [Event(1.0, "checkpoint", "timed")])
    store.finish_trial(run, OUTCOME)
    for attempt in (
        lambda: store.finish_trial(run, replace(OUTCOME, throughput=9e9)),
        lambda: store.add_events(run, [Event(2.0, "x", "y")]),
        lambda: store.add_samples(run, []),
        lambda: store.add_histograms(run, []),
    ):
        with pytest.raises(StoreError, match="never changes"):
            attempt()
    with pytest.raises(StoreError, match="finished trial"), store.write() as connection:
        connection.exec_driver_sql("UPDATE trial SET throughput = 1")
    assert store.abandon_running(study().id) == 0
    assert store.trial(run).outcome == OUTCOME
    assert len(store.events(run)) == 1


def test_a_trial_cannot_finish_as_running(store: Store) -> None:
    store.add_study(study())
    run = store.begin_trial(study().id, spec())
    with pytest.raises(StoreError, match="cannot finish"):
        store.finish_trial(run, Outcome(TrialState.RUNNING))


def test_running_trials_are_abandoned_with_a_reason(store: Store) -> None:
    store.add_study(study())
    store.add_study(study("other"))
    mine = [store.begin_trial(study().id, spec(slot)) for slot in range(2)]
    theirs = store.begin_trial("other", spec())
    assert store.abandon_running(study().id) == 2
    for run in mine:
        outcome = store.trial(run).outcome
        assert outcome is not None
        assert (outcome.state, bool(outcome.reason)) == (TrialState.ABANDONED, True)
    assert store.trial(theirs).state is TrialState.RUNNING


@pytest.mark.parametrize("table", TABLES)
def test_every_sample_table_holds_what_it_was_given(store: Store, table: str) -> None:
    store.add_study(study())
    run, other = store.begin_trial(study().id, spec()), store.begin_trial(study().id, spec(1))
    columns = TABLES[table].columns
    rows = [SampleRow(table, float(s), tuple(sample_value(c, s) for c in columns)) for s in (3, 1, 2)]
    rows.append(SampleRow(table, 4.0, (None,) * len(columns)))
    assert store.add_samples(run, iter(rows)) == 4
    read = store.samples(run, table)
    assert list(read) == ["t", *(column.name for column in columns)]
    assert read["t"] == [1.0, 2.0, 3.0, 4.0]
    for column in columns:
        assert read[column.name] == [*(sample_value(column, second) for second in (1, 2, 3)), None]
    assert set(map(len, store.samples(other, table).values())) == {0}


def test_samples_of_a_study_are_those_of_its_runs(store: Store) -> None:
    columns = TABLES["cpu"].columns
    for name in ("one", "two"):
        store.add_study(study(name))
        for slot in range(3):
            run = store.begin_trial(name, spec(slot))
            rows = [SampleRow("cpu", float(s), tuple(sample_value(c, s + run) for c in columns)) for s in (3, 1, 2)]
            store.add_samples(run, rows if slot != 1 else [])
    runs = [trial.id for trial in store.trials("two")]
    expected = {run: store.samples(run, "cpu") for run in (runs[0], runs[2])}
    assert dict(store.study_samples("two", "cpu")) == expected
    assert [run for run, _ in store.study_samples("two", "cpu")] == [runs[0], runs[2]]
    with pytest.raises(UsageError, match="no sample table"):
        next(store.study_samples("two", "study"))


def test_samples_of_the_wrong_shape_are_refused_and_nothing_is_kept(store: Store) -> None:
    store.add_study(study())
    run = store.begin_trial(study().id, spec())
    good = SampleRow("pressure", 1.0, (None,) * 6)
    with pytest.raises(UsageError, match='no sample table "nothing"'):
        store.add_samples(run, [good, SampleRow("nothing", 1.0, ())])
    with pytest.raises(UsageError, match="5 values for 6 columns"):
        store.add_samples(run, [good, SampleRow("pressure", 1.0, (None,) * 5)])
    with pytest.raises(UsageError, match="no sample table"):
        store.samples(run, "study")
    assert store.samples(run, "pressure")["t"] == []


def test_histograms_and_events_come_back_in_the_order_of_time(store: Store) -> None:
    store.add_study(study())
    run = store.begin_trial(study().id, spec())
    rows = [HistogramRow(2, 0, "b", 5, 2**40, 1, 2, 3, b"\x00\xff"), HistogramRow(1, 0, "a", 0, 0, 0, 0, 0, b"")]
    events = [Event(2.5, "reload", "it was reloaded"), Event(1.0, "checkpoint", "'; DROP TABLE trial; --")]
    assert (store.add_histograms(run, rows), store.add_events(run, events)) == (2, 2)
    assert store.histograms(run) == rows[::-1]
    assert store.events(run) == events[::-1]


def test_a_store_can_be_used_after_it_was_closed(store: Store) -> None:
    store.add_study(study())
    store.close()
    assert store.study("last") == study()


def test_ten_thousand_trials_are_listed_in_under_a_second(store: Store) -> None:
    from sqlalchemy import insert

    from pgdyno.store import codec
    from pgdyno.store.schema import TRIAL, TRIAL_SETTING

    store.add_study(study())
    settings_ = {f"knob_{n}": "1GB" for n in range(2)}
    row = codec.spec_to_row(study().id, spec(**settings_)) | codec.outcome_to_row(OUTCOME)
    with store.write() as connection:
        connection.execute(insert(TRIAL), [row | {"id": n} for n in range(1, 10_001)])
        pairs = [{"trial_id": n, "knob": k, "value": v} for n in range(1, 10_001) for k, v in settings_.items()]
        connection.execute(insert(TRIAL_SETTING), pairs)
    began = time.process_time()
    assert store.trial_counts() == {study().id: {TrialState.COMPLETE: 10_000}}
    assert time.process_time() - began < 0.5
    began = time.process_time()
    trials = store.trials(study().id)
    assert time.process_time() - began < 3  # CPU time, generous for a machine under load: it takes about 0.3 s
    assert len(trials) == 10_000
    assert dict(trials[-1].spec.configuration) == settings_


class FinishOnce(RuleBasedStateMachine):
    """Trials begin, record, finish and are abandoned in any order; the store must agree with a dictionary."""

    where = ""

    @initialize()
    def open(self) -> None:
        self.store = Store.open(self.where)
        self.id = uuid4().hex
        self.store.add_study(study(self.id))
        self.states: dict[int, Outcome | None] = {}
        self.events: dict[int, int] = {}

    @rule()
    def begin(self) -> None:
        run = self.store.begin_trial(self.id, spec(len(self.states)))
        assert run not in self.states
        self.states[run] = None
        self.events[run] = 0

    @rule(data=st.data(), value=st.floats(0, 1e6), state=st.sampled_from([TrialState.COMPLETE, TrialState.VOID]))
    def finish(self, data: st.DataObject, value: float, state: TrialState) -> None:
        if self.states:
            run = data.draw(st.sampled_from(sorted(self.states)))
            outcome = Outcome(state, throughput=value)
            with suppress(StoreError):
                self.store.finish_trial(run, outcome)
                assert self.states[run] is None
                self.states[run] = outcome

    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        if self.states:
            run = data.draw(st.sampled_from(sorted(self.states)))
            with suppress(StoreError):
                self.store.add_events(run, [Event(1.0, "x", "y")])
                assert self.states[run] is None
                self.events[run] += 1

    @rule()
    def abandon(self) -> None:
        running = [run for run, outcome in self.states.items() if outcome is None]
        assert self.store.abandon_running(self.id) == len(running)
        for run in running:
            self.states[run] = self.store.trial(run).outcome

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.where)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "store"):
            assert {trial.id: trial.outcome for trial in self.store.trials(self.id)} == self.states
            assert {run: len(self.store.events(run)) for run in self.states} == self.events

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


def test_any_order_of_calls_keeps_finished_trials_as_they_are(url: str) -> None:
    machine = cast(type[FinishOnce], type("OnThisStore", (FinishOnce,), {"where": url}))
    quick = settings(
        max_examples=15 if NIGHT else 6,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=quick)


RECORDS: tuple[Record, ...] = (
    InstanceRecord(0, 4, 1.0, 9.0, 800, 0, 100.0, 40.0, 0.5),
    InstanceRecord(1, 4, 1.0, 5.0, 300, 2, None, None, None, "killed"),
    CheckRecord("C1", 0, "sums agree"),
    CheckRecord("C12", None, "not checked: no such column"),
    PlanRecord("read", "abcd", "Index Scan"),
    TextRecord("pgbench.stderr", "pgbench: ü"),
)


def test_records_and_factors_come_back_as_they_were(store: Store) -> None:
    store.add_study(study())
    run = store.begin_trial(study().id, replace(spec(), factors={"clients": "8", "SMT": "2"}))
    plain = store.begin_trial(study().id, spec(1))
    assert store.add_records(run, RECORDS) == len(RECORDS)
    for kind in (InstanceRecord, CheckRecord, PlanRecord, TextRecord):
        found: list[Record] = [*store.records(run, kind)]
        assert found == sorted((one for one in RECORDS if isinstance(one, kind)), key=str)
        assert store.records(plain, kind) == []
    assert [trial.spec.factors for trial in store.trials(study().id)] == [{"clients": "8", "SMT": "2"}, {}]
    store.finish_trial(run, OUTCOME)
    with pytest.raises(StoreError, match="finished"):
        store.add_records(run, RECORDS[:1])


def test_a_plan_of_a_matrix_comes_back_and_one_of_an_older_pgdyno_has_one_instance(store: Store) -> None:
    wide = replace(PLAN, instances=4, cpus="0-1", instance_memory_bytes=2**31, host="127.0.0.1")
    store.add_study(replace(study(), plan=wide))
    assert store.study("last").plan == wide
    older = {name: value for name, value in asdict(PLAN).items() if name in OLD_PLAN}
    assert shaped(LoadPlan, older, strict=False) == PLAN
