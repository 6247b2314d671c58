"""Options survive the store, secrets do not."""

import json
from dataclasses import asdict, replace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.facts import Obstacle
from pgdyno.model.shapes import shaped
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.model.verdict import Metric
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.space import reach_sentences, search_space


def test_tune_options_round_trip_through_json():
    options = TuneOptions(
        metric=Metric.LATENCY_P99,
        trials=7,
        budget_s=60.0,
        include=("jit",),
        exclude=("work_mem",),
        rivals={"mine": {"shared_buffers": "4GB"}},
    )
    assert shaped(TuneOptions, json.loads(json.dumps(asdict(options))), "the options", strict=False) == options


def test_options_of_an_earlier_version_with_pruning_are_read():
    kept = {**asdict(TuneOptions(trials=7)), "prune_pairs": 8}
    assert shaped(TuneOptions, json.loads(json.dumps(kept)), "the options", strict=False) == TuneOptions(trials=7)


def test_a_target_round_trips_through_json():
    request = TargetRequest(dsn="host=/run/postgresql dbname=app", restart_command=("systemctl", "restart", "pg"))
    assert TargetRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@pytest.mark.parametrize("dsn", ["postgresql://app:hunter2@db1/app", "host=db1 password=hunter2"])
def test_a_password_is_not_kept_and_asked_for_again(dsn):
    kept = json.dumps(TargetRequest(dsn=dsn).to_json())
    assert "hunter2" not in kept
    with pytest.raises(UsageError, match="password"):
        TargetRequest.from_json(json.loads(kept))
    assert TargetRequest.from_json(json.loads(kept), dsn).dsn == dsn


def test_a_distant_host_is_asked_for_again_on_resume() -> None:
    request = TargetRequest(dsn="dbname=app", host="ssh://dba@db1:2222", sudo_user="postgres")
    assert TargetRequest.from_json(json.loads(json.dumps(request.to_json()))) == request
    before = {name: value for name, value in request.to_json().items() if name not in ("host", "sudo_user")}
    assert TargetRequest.from_json(before).host is None


@pytest.mark.parametrize("other", [{"patroni": ("http://db1:8008",)}, {"sql_only": True}])
def test_a_host_and_a_way_without_one_exclude_each_other(other: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="--host"):
        TargetRequest(dsn="", host="ssh://db1", **other)  # type: ignore[arg-type]  # a test's kwargs


def test_when_nothing_is_left_to_search_only_knobs_that_were_asked_for_say_why():
    options = TuneOptions(only=("shared_buffers",), reload_only=True)
    workload = WorkloadSpec("select-only", {"scale": 1}, "f00", "reads", True)
    with pytest.raises(EnvironmentUnsuitable, match="no knob to search") as caught:
        search_space(make_facts(18), workload, LoadPlan(1, 1, 1.0, 2.0), options)
    assert caught.value.detail is not None
    assert [part.partition(":")[0] for part in caught.value.detail.split("; ")] == ["shared_buffers"]


def test_when_all_that_was_asked_for_is_overridden_the_hint_says_what_takes_that_away():
    facts = replace(
        make_facts(18), obstacles={"work_mem": Obstacle("is set by ALTER ROLE", "Take it away with RESET.")}
    )
    workload = WorkloadSpec("select-only", {"scale": 1}, "f00", "reads", True)
    with pytest.raises(EnvironmentUnsuitable, match="no knob to search") as caught:
        search_space(facts, workload, LoadPlan(1, 1, 1.0, 30.0), TuneOptions(only=("work_mem",)))
    assert caught.value.hint == "Take it away with RESET."


def test_the_plan_says_why_a_knob_that_was_asked_for_is_left_out():
    facts = replace(make_facts(18), obstacles={"jit": Obstacle("is set by ALTER ROLE", "RESET it.")})
    options = TuneOptions(only=("work_mem", "shared_buffers", "jit"), reload_only=True)
    workload = WorkloadSpec("select-only", {"scale": 1}, "f00", "reads", True)
    space = search_space(facts, workload, LoadPlan(1, 1, 1.0, 30.0), options)
    said = reach_sentences(space, facts, options)
    assert {words.split()[2] for words in said if words.startswith("left out: ")} == {"jit", "shared_buffers"}
