"""The plan of a scalability study: read strictly, with the line of each slip, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.scale import command
from pgdyno.errors import UsageError
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.verdict import Metric
from pgdyno.studies.scale.file import parse_plan
from pgdyno.studies.scale.plan import ScalePlan, bounds_of
from pgdyno.studies.scale.words import plan_lines
from scale_example import PLAN, planned


@pytest.mark.requirement("R-SCA-01")
def test_every_level_has_its_share_of_load_and_hardware() -> None:
    plan = planned()
    assert [(one.percent, one.cpus) for one in plan.levels] == [(60, 0.3), (100, 0.5), (125, 0.625), (150, 0.75)]
    assert [plan.rate_of(one) for one in plan.levels] == [240, 400, 500, 600]
    assert len({round((one.cpus or 0) / one.percent, 6) for one in plan.levels}) == 1
    assert plan.reference == 100
    assert plan.criterion.metric is Metric.LATENCY_P95
    assert bounds_of(plan) == ("server.cpus",)
    assert plan.runs == 6 * (4 + 6)
    assert shaped(ScalePlan, plain(plan)) == plan


def test_the_order_of_the_runs_is_drawn_anew_each_time_and_again_the_same_for_a_resume() -> None:
    plan = planned()
    orders = [[spec.arm for spec in plan.specs(repetition)] for repetition in range(1, 7)]
    assert orders == [[spec.arm for spec in planned().specs(repetition)] for repetition in range(1, 7)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == sorted(orders[0]) for order in orders)


def test_the_dry_run_prints_levels_criterion_order_undo_outage_and_bounds() -> None:
    text = "\n".join(plan_lines(planned(), "sandbox default", 600.0, Path("/stop")))
    for words in (
        "level 150 %: 600 transactions/s on 0.75 CPUs",
        "level 100 %: 400 transactions/s on 0.5 CPUs, the reference",
        "client curve: 1, 2, 4, 8, 16, 32 connections",
        "path length within 5 %",
        "repetition 6:",
        "undo:   the limits on the server's CPUs",
        "outage: none, no restart",
        "ends:   after 10:00 min at the latest, or when /stop exists",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1", "version = 2", "line 1: version 2 is not 1"),
        ("version = 1", "version = true", "line 1: version True is not 1"),
        ("repetitions = 6", "repetition = 6", 'line 5: scale: unknown key "repetition"'),
        ("repetitions = 6", "repetitions = 3", "line 5: scale: repetitions 3 is not from 4 to 100"),
        ("repetitions = 6", "reference = 90", "line 5: scale: reference 90 is not a level"),
        ('measure = "20s"', 'measure = "20"', 'line 12: load: measure "20" is not a time with a unit'),
        ('measure = "20s"', 'measure = "20MB"', "line 12: load: measure:"),
        ('workload = "select-only"', 'workload = "selectonly"', 'line 8: load: workload "selectonly" is not known'),
        ("rate = 400", "rate = -4", "line 9: load: rate -4 is not a number of transactions"),
        ("rate = 400", "rate = 1e-320", "line 9: load: rate 9.99989e-321 is not a number of transactions"),
        ("rate = 400", "rate = 1e8", "line 9: load: rate 1e+08 is not a number of transactions per second from 0.001"),
        ('success = "1 %"', 'success = "1"', 'line 16: criterion: success "1" is not a tolerance'),
        ('path_length = "5 %"', "", 'line 15: criterion: "path_length" is missing'),
        ("latency_p95", "latency_p42", 'line 19: criterion: response_time "latency_p42" is not one of'),
        ("percent = 125", "percent = 100", "line 30: level 3: level 100 appears twice"),
        ("cpus = 0.75", "cpus = 0.5", "line 21: cpus and load are not in proportion"),
        ("cpus = 0.75", "", "line 21: some levels have a limit on cpus and others have none"),
        ("cpus = 0.3\n", 'cpus = 0.3\nmemory = "12"\n', 'line 24: level 1: memory "12" is not an amount'),
        ("[1, 2, 4, 8, 16, 32]", "[2, 2]", "line 38: clients: connections is empty, or names one twice"),
        ("[clients]", "[client]", 'line 37: the file: unknown key "client"'),
        ("rate = 400", "rate = 400\nspeed = 2.0", "line 10: load: speed is for a captured load"),
    ],
)
def test_a_bad_plan_is_refused_with_its_line_and_a_hint(old: str, new: str, said: str) -> None:
    assert old in PLAN
    with pytest.raises(UsageError) as caught:
        planned(PLAN.replace(old, new, 1))
    assert said in str(caught.value)
    assert caught.value.hint


def test_levels_out_of_proportion_are_taken_where_the_plan_says_so() -> None:
    text = PLAN.replace("cpus = 0.75", "cpus = 0.5").replace("repetitions = 6", "proportion = false")
    assert parse_plan(text).levels[-1].cpus == 0.5


def test_a_bad_plan_ends_with_2_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "plan.toml").write_text(PLAN.replace("percent = 150", "percent = 0"))
    ran = CliRunner().invoke(command, [str(tmp_path / "plan.toml"), "--apply"])
    assert isinstance(ran.exception, UsageError)
    assert ran.exception.exit_code == 2
    assert "line 34: level 4: percent 0 is not from 1 to 10000" in str(ran.exception)
    (tmp_path / "plan.toml").write_text(PLAN)
    ran = CliRunner().invoke(command, [str(tmp_path / "plan.toml"), "--max-clients", "8"])
    assert "the plan has 32 connections, and --max-clients is 8" in str(ran.exception or ran.output)
    ran = CliRunner().invoke(command, [str(tmp_path / "plan.toml")], standalone_mode=False)
    assert (ran.exception, ran.return_value) == (None, 0)
    assert "nothing was run; add --apply to run it" in ran.output
    assert not (tmp_path / "home").exists()
