"""Which study has a winner that may be applied, and on which server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, PolicyError, UsageError
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import ChangeKind, Cost, ProofState
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice import accept
from pgdyno.studies.advice.accept import prepare
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.studies.winner import check_server, offered_by, request_of, study_of, winner_of
from result_example import made
from study_example import make_study

BETTER = {"word": "better", "ratio": 1.4, "ci": [1.2, None], "metric": "throughput", "pairs": 6}


def facts(**server):
    made = make_facts(18)
    return replace(made, server=replace(made.server, system_identifier="7", **server))


def tune(**fields):
    result = {"keep": False, "verdict": BETTER, "winner": {"settings": {"work_mem": "8MB", "vm.swappiness": "1"}}}
    values = {"state": StudyState.COMPLETE, "result": made(StudyKind.TUNE, result), "facts": facts_image(facts())}
    return replace(make_study(), **{**values, **fields})


def result(word, **more):
    told = {"keep": word != "better", "verdict": {**BETTER, "word": word}, "winner": {"settings": {}}, **more}
    return made(StudyKind.TUNE, told)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": StudyKind.BENCH}, "of kind bench: only a tune and a live study have a winner"),
        ({"state": StudyState.INTERRUPTED, "result": None}, "is interrupted and has no verdict"),
        ({"result": result("not resolved")}, "no confirmed winner: its verdict is not resolved"),
        ({"result": result("equivalent")}, "its verdict is equivalent"),
        ({"result": result("worse", keep=False)}, "its verdict is worse"),
        (
            {"result": made(StudyKind.TUNE, {"keep": True, "verdict": None})},
            "no configuration but the baseline was tried",
        ),
        (
            {"result": result("none", verdict=None, search={"trials": 7, "best": {"work_mem": "8MB"}})},
            "winner: none of the 7 configurations that were tried was proved",
        ),
        (
            {
                "result": made(
                    StudyKind.TUNE, {"keep": True, "verdict": BETTER, "winner": {"settings": {"work_mem": "8MB"}}}
                )
            },
            "no confirmed winner: what proved better is not offered",
        ),
    ],
)
def test_only_a_confirmed_winner_is_taken(fields, said):
    with pytest.raises(UsageError, match=said) as refused:
        offered_by(tune(**fields))
    assert refused.value.hint


def test_a_winner_is_a_tested_finding_of_both_kinds():
    found = winner_of(tune(), facts())
    assert found.state is ProofState.TESTED
    assert {change.knob: change.kind for change in found.changes} == {
        "work_mem": ChangeKind.POSTGRESQL,
        "vm.swappiness": ChangeKind.LINUX,
    }
    assert found.proof.hi is None
    assert next(change.current for change in found.changes if change.knob == "work_mem") == "4MB"


def test_a_winner_s_metric_is_called_as_on_every_page():
    told = {"keep": False, "verdict": {**BETTER, "metric": "latency_p99"}, "winner": {"settings": {"work_mem": "8MB"}}}
    title = winner_of(tune(result=made(StudyKind.TUNE, told)), facts()).title
    assert title.endswith(", p99 latency 1.4 times that of the baseline")


@pytest.mark.parametrize(
    ("settings", "cost"),
    [
        ({"work_mem": "8MB", "vm.swappiness": "1"}, Cost.RELOAD),
        ({"shared_buffers": "1GB"}, Cost.RESTART),
        ({"vm.nr_hugepages": "1000"}, Cost.RESTART),
    ],
)
def test_a_winner_costs_a_restart_only_where_a_setting_of_it_needs_one(settings, cost):
    won = made(StudyKind.TUNE, {"keep": False, "verdict": BETTER, "winner": {"settings": settings}})
    assert winner_of(tune(result=won), facts()).cost is cost


def test_what_can_lose_data_is_refused_whatever_a_store_says(monkeypatch):
    monkeypatch.setattr(accept, "read_facts", lambda _: facts())
    forged = tune(
        result=made(StudyKind.TUNE, {"keep": False, "verdict": BETTER, "winner": {"settings": {"fsync": "off"}}})
    )
    with pytest.raises(PolicyError, match="class X"):
        prepare(object(), [winner_of(forged, facts())], force=True)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"system_identifier": "8"}, "system_identifier was 7, is 8"),
        ({"data_directory": "/elsewhere"}, "data_directory was /data, is /elsewhere"),
    ],
)
def test_another_server_is_named(there, said):
    made = make_facts(18)
    now = replace(made, server=replace(made.server, **{"system_identifier": "7", **there}))
    with pytest.raises(EnvironmentUnsuitable, match="another server") as refused:
        check_server(tune(), now)
    assert said in refused.value.detail


def test_the_same_server_passes_and_another_machine_does_not():
    check_server(tune(), facts())
    small = facts()
    with pytest.raises(EnvironmentUnsuitable) as refused:
        check_server(tune(), replace(small, host=replace(small.host, cores=1, ram_bytes=small.host.ram_bytes // 2)))
    assert "cores was" in refused.value.detail
    assert "ram_bytes was" in refused.value.detail
    check_server(tune(), replace(small, host=replace(small.host, ram_bytes=small.host.ram_bytes - 4096)))


def test_a_study_from_before_identifiers_is_told_by_its_data_directory_and_no_sign_is_no_match():
    old = facts_image(facts())
    old["server"] = {name: value for name, value in old["server"].items() if name != "system_identifier"}
    check_server(tune(facts=old), facts())
    hidden = Unknown("not shown")
    with pytest.raises(EnvironmentUnsuitable, match="does not say on which server"):
        check_server(tune(facts=old), facts(data_directory=hidden))


def test_the_server_comes_from_the_study_and_its_programs_do_not():
    asked = TargetRequest(dsn="host=db1", restart_command=("/bin/evil",), sandbox="s")
    again = request_of(tune(options={"target": asked.to_json()}))
    assert (again.dsn, again.restart_command, again.sandbox_bin) == ("host=db1", None, None)
    for options in ({"target": asked.to_json(), IMPORTED: {}}, {}):
        with pytest.raises(UsageError, match="was not made here"):
            request_of(tune(options=options))


def test_last_is_the_newest_study_that_may_have_a_winner(tmp_path):
    with Store.open(tmp_path / "s.db") as store:
        with pytest.raises(UsageError, match="holds no study with a winner"):
            study_of(store, "last")
        store.add_study(tune())
        store.add_study(replace(make_study(StudyKind.BENCH, "bench-1"), created_at=make_study().created_at + 9))
        assert study_of(store, "last").id == make_study().id
        assert study_of(store, "bench-1").kind is StudyKind.BENCH
