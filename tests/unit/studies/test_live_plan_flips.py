"""Plan flips of a live study: which statements are asked for, what is set, and what becomes of those that change."""

from __future__ import annotations

import numpy as np
import pytest

from facts_from_params import make_facts
from pgdyno.errors import ConnectError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.record import PlanRecord
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.body_index import StatementReference
from pgdyno.stats.sequential import Design
from pgdyno.studies.live import plan_flips as module
from pgdyno.studies.live.plan_flips import flips_text, plan_flips
from pgdyno.studies.live.search_duels import SearchDuels
from pgdyno.studies.live.search_recording import SearchRecording
from pgdyno.workloads.plan_shape import shape_of
from simulated_live_world import World

FACTS = make_facts(18)
KEYS = [StatementKey(5, 6, queryid, True) for queryid in (11, -22, 33, 44)]
TEXTS = {11: "SELECT a FROM t", -22: "UPDATE t SET a = $1", 33: "BEGIN"}
SEQ, INDEX = "Seq Scan on t", "Index Scan using i on t"


class Reader:
    def texts(self, queryids):
        return {one: TEXTS[one] for one in queryids if one in TEXTS}


@pytest.fixture
def asked(monkeypatch):
    calls = []

    def plans(_postgres, database, texts, settings, roles):
        assert roles == dict.fromkeys(roles, 6)
        assert {*texts} <= {*roles}
        calls.append((database, dict(texts), settings))
        plan = INDEX if settings.get("random_page_cost") == "1.1" else SEQ
        return [
            PlanRecord(name, shape_of(plan if name == "11" else SEQ), plan if name == "11" else SEQ) for name in texts
        ]

    monkeypatch.setattr(module, "others_plans", plans)
    return calls


def flips(reader=None, times=(1.0, 9.0, 5.0, 2.0)):
    reference = StatementReference(60.0, np.ones(4), np.array(times), np.ones(4))
    return plan_flips(None, FACTS, reader or Reader(), reference, KEYS, {5: "shop"})


@pytest.mark.requirement("R-TUN-18")
def test_a_statement_with_another_plan_is_named_with_both_and_becomes_critical(asked):
    found = flips()
    plans = found.between(BASELINE, Configuration.of({"random_page_cost": "1.1"}))
    assert [(one.statement, one.word) for one in plans] == [("11", "changed"), ("-22", "same")]
    assert (plans[0].before, plans[0].after) == ((SEQ,), (INDEX,))
    assert found.critical(plans) == (0,)
    [said] = flips_text(plans)
    assert "Statement 11 would get another plan under B (Seq Scan on t became Index Scan using i on t)" in said
    assert asked[0][:2] == ("shop", {"-22": TEXTS[-22], "11": TEXTS[11]}), "dearest first, and what has a plan"
    found.between(BASELINE, Configuration.of({"random_page_cost": "2"}))
    assert [settings for _, _, settings in asked] == [{}, {"random_page_cost": "1.1"}, {"random_page_cost": "2"}]


def test_what_no_session_may_set_and_no_planner_sees_is_never_asked_for(asked):
    for settings in ({"checkpoint_timeout": "9min"}, {"search_path": "evil"}, {"session_preload_libraries": "x"}):
        assert flips().between({}, settings) == ()
    assert flips(times=(0.0, 0.0, 0.0, 0.0)).between({}, {"work_mem": "8MB"}) == ()
    assert asked == []


def test_texts_that_cannot_be_read_cost_no_more_than_the_plans(asked):
    class Refused:
        def texts(self, queryids):
            raise ConnectError("gone")

    assert flips(Refused()).between({}, {"work_mem": "8MB"}) == ()
    assert asked == []


def test_a_search_keeps_the_plans_of_a_comparison_and_asks_for_none_after_a_kill(asked, tmp_path):
    def duels(world):
        recording = SearchRecording(tmp_path)
        recording.load()
        world.arms, world.ends_at, world.waited_s = {}, 0.0, 0.0
        return SearchDuels(
            recording, world.reference, 30.0, 3, 0.0, lambda: world, lambda _text: None, clock=lambda: 0.0,
            flips=flips(),
        )  # fmt: skip

    settings, design = Configuration.of({"random_page_cost": "1.1"}), Design(max_pairs=3)
    first = duels(World(0.8, seed=3)).compare(BASELINE, settings, design, 9999.0)
    assert [one.word for one in first.plans] == ["changed", "same"]
    assert bool(first.veto.critical[first.veto.ids == 0].all())
    asked.clear()
    again = duels(World(0.8, seed=3)).compare(BASELINE, settings, design, 9999.0)
    assert (again.plans, again.vetoed) == (first.plans, first.vetoed)
    assert asked == []
