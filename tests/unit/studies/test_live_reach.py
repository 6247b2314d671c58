"""Which part of the load an arm reaches: settings of roles and databases, and plans that were cached."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.probes.statements import StatementKey
from pgdyno.server.role_settings import Override
from pgdyno.stats.body_index import StatementBody, StatementReference
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.studies.live.reach import cached, overridden, untested

KEYS = [StatementKey(1, 10, 1, True), StatementKey(1, 11, 2, True), StatementKey(2, 10, 3, True)]
NAMES = ({1: "shop", 2: "crm"}, {10: "web", 11: "reports"})
REFERENCE = StatementReference(60.0, np.full(3, 100.0), np.array([50.0, 20.0, 30.0]), np.zeros(3))
ARMS = {"work_mem": "4MB"}


def told(*overrides):
    return overridden(ARMS, overrides, REFERENCE, KEYS, NAMES)


def test_what_outranks_a_knob_of_the_arms_is_named_with_its_share_of_the_time_and_no_other():
    assert told(Override("web", None, "jit", "off")) == ()
    (note,) = told(Override("reports", None, "work_mem", "1GB"))
    assert note.startswith("ALTER ROLE reports SET work_mem = 1GB outranks every file: 20 % of the time")
    (note,) = told(Override(None, "crm", "work_mem", "8MB"))
    assert "ALTER DATABASE crm" in note
    assert "30 %" in note
    assert "0 % of the time" in told(Override("reports", "crm", "work_mem", "8MB"))[0]


def test_a_load_that_would_see_neither_arm_is_refused():
    with pytest.raises(EnvironmentUnsuitable, match="80 % of the statements' time") as raised:
        told(Override("web", None, "work_mem", "8MB"))
    assert raised.value.hint
    with pytest.raises(EnvironmentUnsuitable, match="100 %"):
        told(Override(None, None, "work_mem", "8MB"))


def step(plans):
    columns = {name: np.full(3, 100.0) for name in ("calls", "time_ms", "exec_ms", "m2", "rows", "blocks")}
    return StatementDeltas(seconds=5.0, ids=np.arange(3), plans=np.array(plans), **columns)


def test_statements_that_are_called_and_not_planned_run_cached_plans():
    body = StatementBody(np.array([0, 2]), np.array([0.7, 0.3]), np.ones(2), 0.9)
    counted = partial(cached, counts_plans=True)
    assert counted([step([100.0, 100.0, 0.0])], body) == pytest.approx(0.3)
    assert counted([step([0.0, 100.0, 0.0]), step([30.0, 0.0, 200.0])], body) == pytest.approx(0.7)
    assert counted([step([0.0, 0.0, 0.0])], body) == pytest.approx(1.0), "all was planned before"
    assert cached([step([0.0, 100.0, 0.0])], body, counts_plans=False) is None
    assert counted([], StatementBody(np.array([], dtype=np.int64), np.array([]), np.array([]), 0.0)) is None


@pytest.mark.parametrize(
    ("knob", "share", "said"),
    [
        ("random_page_cost", 0.3, True),
        ("enable_tidscan", 0.3, True),
        ("random_page_cost", 0.1, False),
        ("random_page_cost", None, False),
        ("checkpoint_timeout", 0.9, False),
    ],
)
def test_a_planner_s_setting_is_not_tested_where_cached_plans_are_too_much(knob, share, said):
    assert (knob in untested((BASELINE, Configuration.of({knob: "1"})), share)) == said
