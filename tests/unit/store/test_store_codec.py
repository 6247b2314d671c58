"""Every dataclass that the store keeps comes back as it was."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import StoreError
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store import codec

NUMBER = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(min_value=0, max_value=2**62)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
MAYBE = st.none() | NUMBER
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(min_value=-(2**53), max_value=2**53) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FREE = st.dictionaries(TEXT, JSON, max_size=4)

WORKLOADS = st.builds(
    WorkloadSpec,
    name=TEXT,
    parameters=st.dictionaries(TEXT, TEXT | NUMBER | COUNT | st.booleans(), max_size=4),
    fingerprint=TEXT,
    description=TEXT,
    read_only=st.booleans(),
    unit=TEXT,
    rows_per_transaction=MAYBE,
)
PLANS = st.builds(
    LoadPlan,
    clients=COUNT,
    jobs=COUNT,
    warmup_s=NUMBER,
    measure_s=NUMBER,
    protocol=TEXT,
    rate=MAYBE,
    connect_each=st.booleans(),
    reset=TEXT,
    seed=st.none() | COUNT,
)
STUDIES = st.builds(
    Study,
    id=TEXT,
    kind=st.sampled_from(StudyKind),
    name=TEXT,
    state=st.sampled_from(StudyState),
    created_at=NUMBER,
    target=TEXT,
    environment=TEXT,
    facts=FREE,
    workload=WORKLOADS,
    plan=PLANS,
    options=FREE,
    result=st.none(),
)
SPECS = st.builds(
    TrialSpec,
    configuration=st.builds(Configuration.of, st.dictionaries(TEXT, TEXT, max_size=4)),
    role=st.sampled_from(Role),
    arm=TEXT,
    block=COUNT,
    slot=COUNT,
    repeats=st.none() | COUNT,
)
OUTCOMES = st.builds(
    Outcome,
    state=st.sampled_from([state for state in TrialState if state is not TrialState.RUNNING]),
    reason=st.none() | TEXT,
    began_at=NUMBER,
    elapsed_s=NUMBER,
    steady_from=MAYBE,
    ended_at=NUMBER,
    throughput=MAYBE,
    latency_ms=st.none() | st.builds(LatencySummary, *[NUMBER] * 6),
    transactions=COUNT,
    failed=COUNT,
    retried=COUNT,
    skipped=COUNT,
    driver_cpu_s=MAYBE,
    server_cpu_s=MAYBE,
    server_cpu_ms_per_tx=MAYBE,
    foreign_cpu_pct=MAYBE,
    steal_pct=MAYBE,
    settings_fingerprint=st.none() | TEXT,
    counters=st.dictionaries(TEXT, NUMBER, max_size=4),
    warnings=st.lists(TEXT, max_size=3).map(tuple),
)


def through_json(row: dict[str, object], *names: str) -> dict[str, object]:
    return row | {name: json.loads(json.dumps(row[name], allow_nan=False)) for name in names}


@given(STUDIES)
def test_a_study_survives_the_round_trip(study: Study) -> None:
    row = through_json(codec.study_to_row(study), "facts", "workload", "plan", "options", "result")
    assert codec.study_from_row(row) == study


@given(SPECS, OUTCOMES)
def test_a_finished_trial_survives_the_round_trip(spec: TrialSpec, outcome: Outcome) -> None:
    row = {"id": 7, **codec.spec_to_row("s", spec), **codec.outcome_to_row(outcome)}
    row = through_json(row, "counters", "warnings")
    trial = codec.trial_from_row(row, spec.configuration.items())
    assert trial == Trial(7, "s", spec, outcome.state, outcome)


@given(SPECS)
def test_a_running_trial_has_no_outcome(spec: TrialSpec) -> None:
    trial = codec.trial_from_row({"id": 7, **codec.spec_to_row("s", spec)}, spec.configuration.items())
    assert (trial.state, trial.outcome, trial.spec) == (TrialState.RUNNING, None, spec)


@given(JSON)
def test_plain_json_is_left_as_it_is(value: object) -> None:
    assert codec.to_json(value) == value


def test_json_of_what_the_model_is_made_of() -> None:
    value = {"word": Role.BASELINE, "pair": (1, 2.5), "why": Unknown("no permission"), "hi": math.inf, "lo": math.nan}
    assert codec.to_json(value) == {
        "word": "baseline",
        "pair": [1, 2.5],
        "why": {"unknown": "no permission"},
        "hi": None,
        "lo": None,
    }


def test_what_has_no_json_form_is_refused_by_name() -> None:
    with pytest.raises(StoreError, match="a complex cannot be kept as JSON"):
        codec.to_json({"x": 1j})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_typed_column_refuses_a_number_that_is_not_finite(value: float) -> None:
    with pytest.raises(StoreError, match='outcome "throughput" is'):
        codec.outcome_to_row(Outcome(TrialState.COMPLETE, throughput=value))


def test_a_row_of_another_program_is_named() -> None:
    row = codec.spec_to_row("s", TrialSpec(Configuration(), Role.ARM, "a", 0, 0)) | {"id": 1, "block": "first"}
    with pytest.raises(StoreError, match="trial 1 of study s cannot be read") as caught:
        codec.trial_from_row(row, ())
    assert "block is 'first', which it cannot be" in (caught.value.detail or "")


@pytest.mark.parametrize("field", ["warmup_s", "measure_s", "rate", "instance_vcpus"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_plan_that_could_not_be_read_back_is_not_kept(field: str, number: float) -> None:
    plan = replace(LoadPlan(1, 1, 1.0, 1.0), **{field: number})
    workload = WorkloadSpec("select-only", {"scale": 1}, "f00", "reads", True)
    study = Study("s1", StudyKind.BENCH, "n", StudyState.RUNNING, 1.0, "t", "e", {}, workload, plan)
    with pytest.raises(StoreError, match=field) as caught:
        codec.study_to_row(study)
    assert caught.value.hint
