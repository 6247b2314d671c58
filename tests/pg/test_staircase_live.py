"""A staircase of a good, a harmful and a neutral step on a real sandbox, with the tool killed in the middle of it.

A short range by its index against the whole table, and each transaction sleeps, longer without the index: a factor of
two on every machine, which leaves the CPUs to other tests. Relations, no speed.
"""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("staircase-live"), pytest.mark.slow, pytest.mark.timeout(900)]

PLAN = """version = 2
[plan]
baseline = { enable_indexscan = "off", enable_indexonlyscan = "off", enable_bitmapscan = "off" }
[[step]]
name = "good"
rules = ["good"]
settings = { enable_indexscan = "on" }
[[step]]
name = "harmful"
settings = { enable_indexscan = "off" }
[[step]]
name = "neutral"
settings = { temp_file_limit = "2GB" }
[[step]]
name = "by-hand"
commands = ["blockdev --setra 0 /dev/sda"]
"""
SCRIPT = """SELECT sum(abalance), pg_sleep(CASE current_setting('enable_indexscan') WHEN 'on' THEN 0.04 ELSE 0.16 END)
 FROM pgbench_accounts WHERE aid <= 200;
"""
QUICK = ["--warmup", "1", "--measure", "2", "--foreign-cpu", "1000", "--steal", "100"]
LOOSE = ["--guard", "throughput=off", "--guard", "oom=99", "--guard", "p99=off"]


def pgdyno(home, *words):
    return run_pgdyno(*words, timeout_s=900, PGDYNO_HOME=str(home))


def rows(home, query, *values):
    with closing(sqlite3.connect(home / "data" / "pgdyno.db")) as connection, connection:
        return connection.execute(query, values).fetchall()


@pytest.mark.requirement(
    "R-EXP-02", "R-EXP-04", "R-EXP-08", "R-EXP-15", "R-EXP-16", "R-EXP-17", "R-EXP-21", "R-EXP-22", "R-EXP-23",
    "R-EXP-24",
)  # fmt: skip
def test_a_staircase_is_killed_resumed_and_told(pgdyno_home, tmp_path):
    plan, script, page = tmp_path / "plan.toml", tmp_path / "range.sql", tmp_path / "stairs.html"
    plan.write_text(PLAN)
    script.write_text(SCRIPT)
    words = [
        "experiment", "--plan", str(plan), "-w", "custom", "--script", str(script), "-D", "scale=1", "-c", "1", *QUICK,
        *LOOSE, "--pairs", "3", "4", "--confidence", "0.95", "--noise-runs", "2", "--baseline-runs", "0",
        "--restarts", "none", "--seed", "3", "--json",
    ]  # fmt: skip
    with RunningPgdyno(*words, PGDYNO_HOME=str(pgdyno_home)) as tool:
        seen = [line for line in iter(tool.stderr.readline, "") if not is_kill(line, tool)]
    assert any("step 1/4 good" in line and "left" in line for line in seen), "".join(seen)
    before = json.loads(pgdyno(pgdyno_home, "store", "show", "last", "--json").stdout)
    finished = {t["id"]: t["state"] for t in before["trials"] if t["state"] not in ("running", "abandoned")}
    assert len(finished) >= 4
    resumed = pgdyno(pgdyno_home, "experiment", "--resume", "last", "--report", str(page), "--json")
    assert resumed.returncode == 0, resumed.stderr
    result = json.loads(resumed.stdout.splitlines()[-1])

    steps = {step["step"]: step for step in result["steps"]}
    outcomes = {name: step["outcome"] for name, step in steps.items()}
    assert outcomes["good"] == "keep"
    assert outcomes["harmful"] == "drop"
    neutral = steps["neutral"]["verdict"]
    # At this confidence one study in twenty may claim a difference where there is none, but no large one.
    assert neutral["word"] in ("equivalent", "not resolved") or 0.8 < neutral["ratio"] < 1.25
    assert outcomes["by-hand"] == "skipped"
    assert steps["good"]["verdict"]["ratio"] > 1 > steps["harmful"]["verdict"]["ratio"]
    assert result["verdict"]["word"] == "better"
    assert result["interaction"]["ratio"] == pytest.approx(result["verdict"]["ratio"] / result["product"]["ratio"])
    # What the resumed study did again are the runs that were not finished, and no other.
    after = json.loads(pgdyno(pgdyno_home, "store", "show", "last", "--json").stdout)
    states = {t["id"]: t["state"] for t in after["trials"]}
    assert {number: states[number] for number in finished} == finished
    assert "running" not in states.values()
    kept_runs = "SELECT role, arm, block, slot, count(*) FROM trial WHERE state = 'complete' GROUP BY 1, 2, 3, 4"
    assert all(count == 1 for *_, count in rows(pgdyno_home, kept_runs)), "no duplicate trial"

    check_record(pgdyno_home, steps, result)
    assert page.read_text().startswith("<!DOCTYPE html>")
    report = json.loads(pgdyno(pgdyno_home, "report", result["study"], "--format", "json").stdout)
    check_before_and_after(report)
    check_plans(steps, result, report)
    assert pgdyno(pgdyno_home, "rollback", "--last").returncode == 0
    assert "complete" in pgdyno(pgdyno_home, "experiment", "--resume", result["study"]).stderr


def is_kill(line, tool):
    """Kill the tool in the middle of the first step's second pair."""
    if "step 1/4 good: pair 2" in line or ("run 6 " in line and "arm" in line):
        time.sleep(1.0)
        tool.kill()
    return False


def check_record(home, steps, result):
    """Check what the store and the result hold of the runs: settings in force, samples, phases, qualified runs."""
    good = steps["good"]
    assert good["same"]["before"] == good["same"]["after"]
    assert good["same"]["differs"] == ["enable_indexscan"]
    before, after = good["in_force"]["before"], good["in_force"]["after"]
    assert len(before) == len(after) == 1
    assert before != after, "the read-back of the two arms differs"
    assert [phase["phase"] for phase in good["phases"]] == ["prepare", "run and monitor", "analyse", "adjust"]
    for arm in good["runs"].values():
        assert arm["qualified"] in arm["all"]
    # One query joins runs, what they had set, and what was sampled in them.
    joined = rows(
        home,
        "SELECT t.id, s.value, count(DISTINCT d.t) FROM trial t "
        "JOIN trial_setting s ON s.trial_id = t.id AND s.knob = 'enable_indexscan' "
        "JOIN database d ON d.run_id = t.id WHERE t.study_id = ? GROUP BY 1, 2",
        result["study"],
    )
    values = {run: value for run, value, samples in joined if samples >= 1}
    for arm, value in (("before", "off"), ("after", "on")):
        assert {values[run] for run in good["runs"][arm]["all"]} == {value}
    assert result["start"]["out_of_the_box"] is False
    assert result["start"]["differs"] == {}, "the sandbox as it is made has the built-in values"
    assert set(result["start"]["settings"]) == {"enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"}


def check_before_and_after(report):
    """Check that throughput of baseline and kept configuration, one qualified run of each, has the same axes."""
    (recorder,) = (section for section in report["sections"] if section["id"] == "recorder")
    strips = next(block["rows"] for block in recorder["blocks"] if "rows" in block and "columns" in block)
    before, after = strips[0]
    assert before["id"] != after["id"]
    assert before["y"]["label"] == "Transactions per second"
    assert (before["x"], before["y"]) == (after["x"], after["y"])


def check_plans(steps, result, report):
    """Check that each step says whose plan it changed, and the report what held the recorded runs back."""
    words = {name: [plan["word"] for plan in steps[name]["plans"]] for name in ("good", "harmful", "neutral")}
    assert words == {"good": ["changed"], "harmful": ["changed"], "neutral": ["same"]}
    (found,) = steps["good"]["plans"]
    assert ("Index" in found["before"][0], "Index" in found["after"][0]) == (False, True)
    assert found["shapes"][0] != found["shapes"][1]
    assert [plan["word"] for plan in result["plans"]] == ["changed"]
    sections = {section["id"]: section for section in report["sections"]}
    assert [row[:2] for row in sections["plans"]["blocks"][-1]["table"]["rows"]] == [
        ["step good", "changed"], ["step harmful", "changed"], ["all kept against the baseline", "changed"],
    ]  # fmt: skip
    assert {"bottleneck", "inside"} <= sections.keys()
