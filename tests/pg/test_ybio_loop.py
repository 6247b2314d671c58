"""Sessions in a loop on a real server: one and ten on one table, and a restart in the middle."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from psycopg import sql

from pgdyno.errors import WorkloadError
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import LoadPlan, Outcome, TrialState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.target import Target
from pgdyno.trial.assess import Bounds, assess
from pgdyno.workloads.protocol import RunningLoad, Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.template import APPLICATION_NAME
from server_image import eventually

pytestmark = pytest.mark.pg
SMALL = {"tab_rows": 20_000, "batch_size": 100, "driver": "loop"}
IDLE = {"pause_s": 0.02}
"""For who only waits for calls: without pauses between them two sessions use up a CPU."""
NO_ROWS: list[SampleRow] = []


def ready(target: Target, **parameters: str | int | float) -> tuple[Workload, str]:
    load = make_workload("ybio", {**SMALL, **parameters})
    load.prepare(target, progress=lambda text: None)
    return load, load.reset(target)


@pytest.mark.requirement("R-YBI-06", "R-YBI-08", "R-YBI-10")
@pytest.mark.parametrize(("sessions", "given", "pause_s"), [(1, {}, 0.001), (10, IDLE, 0.02)])
def test_one_session_and_ten_on_the_same_table(
    sandbox18: Sandbox, tmp_path: Path, sessions: int, given: dict[str, float], pause_s: float
) -> None:
    target = sandbox18.target()
    load, dbname = ready(target, shape="procedure", iterations=20, pct_update=20, **given)
    result = load.begin(target, dbname, LoadPlan(sessions, 1, warmup_s=0.0, measure_s=2.0), tmp_path).finish()
    assert (result.reason, result.partial, result.failed, result.malformed_lines) == (None, None, 0, 0)
    assert len(result.log_files) == sessions
    assert result.pause_s == pytest.approx(pause_s), "the loop's own pause counts as one that was asked for"
    assert all(file.stat().st_size for file in result.log_files), "every session did something"
    outcome = Outcome(TrialState.COMPLETE, throughput=result.transactions / 2, steady_from=result.began_at,
                      ended_at=result.ended_at, counters={"window_s": 2.0})  # fmt: skip
    found = load.examine(target, dbname, result, outcome)
    assert found.violation is None
    assert [check.violations for check in found.checks] == [0]
    figures = dict(found.figures)
    assert figures["rows_per_s"] == pytest.approx(100 * result.transactions / 2, rel=0.1)
    (log,) = found.texts
    assert log.name == "runit.log"
    assert {"progress:", "benchruns", "table", "index", "sessions opened"} <= {
        word for word in ("progress:", "benchruns", "table", "index", "sessions opened") if word in log.text
    }
    (plan,) = found.plans
    assert (plan.statement, len(plan.shape)) == ("read", 16)
    load.drop(target, template=True)


def test_sessions_that_are_told_that_their_time_is_over_end_with_their_call(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    load, dbname = ready(target, iterations=20, **IDLE)
    running = load.begin(target, dbname, LoadPlan(2, 1, warmup_s=0.0, measure_s=120.0), tmp_path)
    deadline = time.monotonic() + 50
    while not running.wait(0.2) and time.monotonic() < deadline:
        running.live()
        if (series := running.series()) is not None and series.counts.sum():
            break
    running.let_end()
    while not running.wait(0.2) and time.monotonic() < deadline + 60:
        pass
    result = running.finish()
    assert (result.reason, result.partial, result.failed, result.malformed_lines) == (None, None, 0, 0)
    assert result.exit_code == 0
    assert result.ended_at - result.began_at < 115, "long before its own time was over"
    load.drop(target, template=True)


def until_counted(target: Target, dbname: str) -> None:
    """Wait until both sessions of a load work: when its program is up is the machine's to say."""
    query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = %s AND application_name = %s"
    deadline = time.monotonic() + 60
    while target.postgres.fetch(query, [dbname, APPLICATION_NAME]) != [{"n": 2}]:
        assert time.monotonic() < deadline, "the load opens no sessions"
        time.sleep(0.05)


def has_worked(running: RunningLoad, since: float = 0.0) -> bool:
    """Tell whether a call has ended since then, as the load tells while it runs."""
    running.live()
    if (series := running.series()) is None:
        return False
    begins = series.origin_s + series.bin_s * np.arange(len(series.counts))
    return bool(series.counts[begins > since].sum())


@pytest.mark.requirement("R-YBI-07", "R-TUN-12")
def test_a_restart_in_the_middle_is_survived_and_the_gap_is_counted(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = make_sandbox("restarted")
    sandbox.start()
    target = sandbox.target()
    load, dbname = ready(target, **IDLE)
    plan = LoadPlan(2, 1, warmup_s=0.0, measure_s=240.0)  # for as long as a busy machine needs to stop and to start
    running = load.begin(target, dbname, plan, tmp_path)
    try:
        until_counted(target, dbname)
        eventually(lambda: has_worked(running), "a call has ended")
        sandbox.stop()
        away_from = time.time()
        time.sleep(1.5)
        sandbox.start()
        back_at = time.time()
        until_counted(target, dbname)
        eventually(lambda: has_worked(running, back_at), "the sessions work again")
        running.let_end()
        result = running.finish()
    finally:
        running.terminate()
    assert result.reason is None
    assert result.partial is not None
    assert "away for" in result.partial
    assert "(2 sessions lost, then open again)" in result.partial
    assert {gap.session for gap in result.gaps} == {0, 1}
    for gap in result.gaps:
        assert gap.from_s <= away_from
        assert away_from + 1.0 < gap.to_s <= result.ended_at
    before, after = result.window(0.0, away_from), result.window(back_at, result.ended_at)
    assert before.transactions > 0
    assert after.transactions > 0, "the sessions came again"
    outcome = assess(result, NO_ROWS, plan, Bounds())
    assert outcome.state is TrialState.PARTIAL
    assert outcome.reason == result.partial
    assert outcome.throughput is not None
    figures = dict(load.examine(target, dbname, result, outcome).figures)
    assert figures["away_s"] >= 1.4
    assert figures["sessions_reopened"] == len(result.gaps)


def test_a_statement_that_fails_ends_the_load_with_its_reason(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    load, dbname = ready(target, tab_num=77, shape="procedure")
    target.postgres.execute("DROP PROCEDURE public.runit", dbname=dbname)
    running = load.begin(target, dbname, LoadPlan(1, 1, warmup_s=0.0, measure_s=5.0), tmp_path)
    with pytest.raises(Exception, match="without a single transaction") as caught:
        running.finish()
    assert "runit" in str(getattr(caught.value, "detail", ""))
    load.drop(target, template=True)


def test_a_server_that_refuses_is_not_a_server_that_went_away(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    load, dbname = ready(target, tab_num=78)
    target.postgres.for_load(dbname).execute("ALTER TABLE bench0078 RENAME TO slow")
    target.postgres.for_load(dbname).execute("CREATE VIEW bench0078 AS SELECT slow.* FROM slow, pg_sleep(30)")
    short = sql.SQL("ALTER DATABASE {} SET statement_timeout = '500ms'").format(sql.Identifier(dbname))
    target.postgres.execute(short)
    running = load.begin(target, dbname, LoadPlan(1, 1, warmup_s=0.0, measure_s=5.0), tmp_path)
    with pytest.raises(WorkloadError, match="without a single transaction") as caught:
        running.finish()
    assert "statement timeout" in (caught.value.detail or "")
    load.drop(target, template=True)
