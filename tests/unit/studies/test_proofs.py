"""Verdicts flow back to the rules that asked for them, on the same target in the same environment only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host, make_server
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import parse_rules
from pgdyno.model.environment import Environment
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.finding import ProofState
from pgdyno.model.inventory import Inventory
from pgdyno.model.results.live import LiveSwitch
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.store import codec
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import OPTION, proofs_of, rule_option, studies_on
from result_example import made
from simulated_live_world import WATCHED

HOST = {"architecture": "x86_64", "kernel": "6.1.0", "page_size": 4096, "ram_bytes": 128 * GB}
SERVER = {"version_num": 180000, "data_directory": "/data"}


def here(**changed):
    place = SettingFact("data_directory", "/data", None, "string", "postmaster", "override")
    server = make_server(extra={"data_directory": place})
    host = make_host(sysctls={"vm.swappiness": "60", "vm.dirty_bytes": "0"}, **changed)
    return Inventory(host, server)


def study(
    name="s1", *, word="better", at=1.0, host=(), server=(), kernel=(), rules=("a-rule",), settings=None, **fields
):
    facts = {"host": {**HOST, **dict(host)}, "server": {**SERVER, **dict(server)}, "kernel": dict(kernel)}
    verdict = {"word": word, "ratio": 1.2, "ci": [1.1, 1.3], "metric": "throughput"}
    values = {
        "kind": StudyKind.AB,
        "state": StudyState.COMPLETE,
        "options": {OPTION: rule_option(rules, settings or {"work_mem": "8MB"})},
        "result": made(StudyKind.AB, {"verdict": verdict}),
    }
    spec = WorkloadSpec("ybio", {}, "f", "reads", False)
    plan = LoadPlan(clients=1, jobs=1, warmup_s=1, measure_s=2)
    known = {"id": name, "name": "n", "created_at": at, "target": "t", "environment": "e"}
    return Study(**known, facts=facts, workload=spec, plan=plan, **{**values, **fields})


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def proofs(store, *studies, inventory=None):
    for one in studies:
        store.add_study(one)
        if one.result is not None:
            store.update_study(one.id, state=one.state, result=one.result)
    return dict(proofs_of(store, inventory or here()))


def test_a_study_of_the_same_name_is_of_the_same_environment(store):
    environment = Environment({"kernel": "6.1.0"}, {"version": "18.0"}, {})
    inventory = replace(here(), environment=environment)
    unread = {"page_size": {"unknown": "not read"}}
    named, other = study("a", host=unread), study("b", host=unread, rules=("b-rule",))
    found = proofs(store, replace(named, environment=environment.name), other, inventory=inventory)
    assert found.keys() == {"a-rule"}, "of another name, and what tells its pages is unknown"


@pytest.mark.requirement("R-ADV-04")
def test_the_newest_verdict_counts_for_each_rule_of_the_study(store):
    found = proofs(store, study("old", word="worse", at=1), study("new", at=2, rules=("a-rule", "b-rule")))
    assert found.keys() == {"a-rule", "b-rule"}
    assert found["a-rule"].study == "new"
    assert (found["a-rule"].verdict, found["a-rule"].ratio, found["a-rule"].lo) == ("better", 1.2, 1.1)


@pytest.mark.parametrize(
    "other",
    [
        {"host": {"architecture": "s390x"}},
        {"host": {"kernel": "6.2.0"}},
        {"host": {"ram_bytes": 64 * GB}},
        {"host": {"page_size": {"unknown": "no right"}}},
        {"host": {"cores": 2}},
        {"host": {"cpu_model": "another processor"}},
        {"server": {"version_num": 170000}},
        {"server": {"data_directory": "/other"}},
        {"kernel": {"vm.swappiness": "10"}},
        {"state": StudyState.INTERRUPTED},
        {"kind_is": "bench"},
        {"options": {}},
    ],
    ids=str,
)
def test_elsewhere_and_unfinished_is_no_proof(store, other):
    one = replace(study(), kind=StudyKind.BENCH) if "kind_is" in other else study(**other)
    assert proofs(store, one) == {}


@pytest.mark.parametrize(
    "host",
    [
        {"cores": 8, "cpu_model": "a processor"},
        {"cores": {"unknown": "elsewhere"}, "cpu_model": {"unknown": "elsewhere"}},
    ],
    ids=str,
)
def test_the_same_processors_or_unknown_ones_are_no_other_machine(store, host):
    assert "a-rule" in proofs(store, study(host=host))


@pytest.mark.parametrize(("cores", "count"), [(8, 1), (4, 1), (2, 0)])
def test_a_quota_on_the_server_makes_no_other_machine(store, cores, count):
    inventory = here()
    limited = replace(inventory.host.processor, usable=4)
    inventory = replace(inventory, host=replace(inventory.host, processor=limited))
    assert len(proofs(store, study(host={"cores": cores}), inventory=inventory)) == count


def test_a_linux_value_that_the_study_changed_itself_may_differ(store):
    one = study(kernel={"vm.dirty_bytes": "536870912"}, settings={"vm.dirty_bytes": "536870912"})
    assert "a-rule" in proofs(store, one)


def test_an_unknown_server_has_no_proofs(store):
    inventory = replace(here(), server=Unknown("not asked"))
    assert proofs(store, study(), inventory=inventory) == {}


RULE = """
[[rule]]
id = "a-rule"
group = "general"
depth = "basic"
severity = "advice"
title = "work_mem is small"
why = "Sorts that do not fit into work_mem are written to temporary files."
mechanism = "A sort in memory is faster than one that merges runs from files."
when = 'not contains(text("shared_preload_libraries"), "x")'
in_order = "It is large."
change = [{ knob = "work_mem", value = "8MB" }]
risk = "Each sort of each session may take so much memory."
risk_level = 1
cost = "reload"
verify = "SHOW work_mem;"
source = [{ document = "dbtune-ybio", section = "Preparation" }]
requirements = ["R-PG-36"]
"""


@pytest.mark.parametrize(
    ("word", "settings", "state"),
    [
        ("better", {"work_mem": "8MB"}, ProofState.TESTED),
        ("better", {"work_mem": "8400kB"}, ProofState.TESTED),
        ("worse", {"work_mem": "8MB"}, ProofState.REFUTED),
        ("equivalent", {"work_mem": "8MB"}, ProofState.REFUTED),
        ("not resolved", {"work_mem": "8MB"}, ProofState.PROPOSED),
        ("worse", {"work_mem": "64MB"}, ProofState.PROPOSED),
    ],
)
def test_the_engine_shows_what_was_measured_of_what_is_proposed(store, word, settings, state):
    found = proofs(store, study(word=word, settings=settings))
    rules = parse_rules(RULE, "rules.toml", shipped=False)
    finding = advise(here(), Evidence(), rules, found)[0]
    assert finding.state is state
    assert (finding.proof is None) == (settings["work_mem"] == "64MB")


def live(*, against=(), **fields):
    verdict = Verdict(Word.BETTER, Interval(0.9, 0.85, 0.95, 0.95), 8, Metric.STATEMENT_TIME, 0.02)
    switch = LiveSwitch(a={}, b={"work_mem": "8MB"}, before={"work_mem": "4MB"}, ending="decided", period_s=30.0,
                        wash_s=5.0, seed=1, verdict=verdict, against=against, session="x")  # fmt: skip
    options = {"live": {OPTION: rule_option(("a-rule",), {"work_mem": "8MB"})}}
    return study(kind=StudyKind.LIVE, options=options, result=replace(WATCHED, switch=switch), **fields)


def test_a_comparison_on_the_live_load_proves_the_rule_unless_something_speaks_against_it(store):
    found = proofs(store, live())
    assert (found["a-rule"].verdict, found["a-rule"].metric) == ("better", "statement_time")


def test_better_with_something_against_it_proves_nothing(store):
    assert proofs(store, live(against=("a statement is vetoed",))) == {}


def test_studies_of_other_servers_are_not_read_and_a_damaged_one_hides_none(store, monkeypatch):
    """A store of many servers must not make the advice on one of them slow."""
    store.add_study(study("here"))
    store.add_study(study("elsewhere", server={"data_directory": "/other"}))
    read, shaped = [], codec.study_from_row
    monkeypatch.setattr(codec, "study_from_row", lambda row: (read.append(row["id"]), shaped(row))[1])
    assert [one.id for one in studies_on(store, here())] == ["here"]
    assert read == ["here"]
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE study SET facts = '{' WHERE id = 'elsewhere'")
    assert [one.id for one in studies_on(store, here())] == ["here"]
