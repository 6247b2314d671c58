"""`pgdyno live --allow-restart` on real servers: a bundle that needs restarts, in windows, and never one too many."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import file_window
from file_window import now_open
from fix_postgres import find_build, one_build
from live_driver import WINDOW_PAIRS, resumed_study, short_study
from live_load import planted_load
from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.model.results.live import LiveResult
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.stats.statement_deltas import VoidCause
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.run import SwitchPlan
from pgdyno.studies.night.window import NightWindow
from pgdyno.studies.reports import build_report
from server_image import eventually, files_of, settings_of
from warm_program import RunningText

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine repeats studies
DRIVER = Path(__file__).parents[1] / "live_driver.py"
B = {"shared_buffers": "160MB", "work_mem": "64MB"}
THEIR_RESTART = "unit/studies/test_live_server_world.py::test_a_restart_in_the_wash_out_voids_the_period_that_follows"
CLOSED = "pg/test_live_restarts.py::test_a_window_that_closes_under_b_leaves_the_server_as_found_until_the_next_one"
PERIOD_S, WASH_S = 6.0, 2.0
ONE = one_build("npm-13")
STARTED = "SELECT pg_postmaster_start_time() AS at, current_setting('shared_buffers') AS value"


@contextmanager
def starts(sandbox: Sandbox) -> Iterator[dict[object, str]]:
    """Note from when on the server ran, each time, and its shared_buffers: by a session that waits until it is ended.

    A session for each look, ten times a second, cost as much as the study.
    """
    seen: dict[object, str] = {}
    over, postgres = threading.Event(), sandbox.target().postgres

    def look() -> None:
        while not over.wait(0.1):
            with suppress(PgdynoError, psycopg.Error), postgres.connect() as session:
                (row,) = session.execute(STARTED).fetchall()
                seen[row["at"]] = str(row["value"])
                while not over.is_set() and not select.select([session.fileno()], [], [], 0.2)[0]:
                    pass

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join(30)


def shared_buffers(sandbox: Sandbox) -> object:
    with suppress(PgdynoError):
        return sandbox.target().postgres.fetch("SELECT current_setting('shared_buffers') AS value")[0]["value"]
    return None


@pytest.mark.requirement("R-TUN-06")
@pytest.mark.parametrize("any_postgres", ONE, indirect=True)
def test_a_bundle_that_needs_restarts_is_proved_in_its_window(any_postgres: Sandbox, pgdyno_home: Path) -> None:
    target = any_postgres.target()
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    plans: list[SwitchPlan] = []

    def approve(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return True

    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(any_postgres) as began:
        told = short_study(
            target, B, period_s=PERIOD_S, wash_s=WASH_S, max_pairs=WINDOW_PAIRS, approve=approve, windows=(now_open(),)
        )
        made, _ = restarted(told)
        eventually(lambda: len(began) - 1 >= made, "as many starts as were counted")
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    (plan,) = plans
    assert plan.restarts is not None
    assert plan.restarts.planned == WINDOW_PAIRS, "A B, B A, A B, B A, and so on"
    assert told.switch is not None
    assert told.switch.restarts == len(began) - 1
    assert told.switch.restarts <= plan.restarts.most == told.switch.restarts_most
    assert told.switch.verdict is not None, (
        told.switch.ending,
        told.switch.stopped,
        told.switch.breaches,
        told.switch.lost,
    )
    assert told.switch.verdict.word is Word.BETTER
    assert told.switch.verdict.interval.lo < 0.5
    assert told.exit_code is ExitCode.OK, told.switch.against
    assert [one.first for one in told.switch.pairs][:2] == ["A", "B"]
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        assert "Restarts" in [one.title for one in build_report(store, told.study).sections]


def restarted(told: LiveResult) -> tuple[int, int]:
    """Return how often the server was restarted, by the study's own count, and how often at most."""
    assert told.switch is not None
    assert told.switch.restarts is not None
    assert told.switch.restarts_most is not None
    return told.switch.restarts, told.switch.restarts_most


@pytest.mark.requirement("R-SAF-02", "R-TUN-06")
@pytest.mark.parametrize("any_postgres", one_build("debian-15"), indirect=True)
def test_a_study_that_was_killed_under_b_goes_on_and_counts_every_restart(
    any_postgres: Sandbox, pgdyno_home: Path
) -> None:
    target, found = any_postgres.target(), shared_buffers(any_postgres)
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(any_postgres) as began:
        with RunningText(DRIVER.read_text(), target.postgres.conninfo, "shared_buffers=160MB", now_open()) as process:
            try:
                said = next((line for line in process.stdout if "the undo bundle is on disk" in line), "")
                assert said, "it ended before it changed anything"
                eventually(lambda: "160MB" in began.values(), "B in force", step_s=0.05)
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
        eventually(lambda: [*began.values()][-1] == found, "the baseline, by a restart of the watchdog", step_s=0.05)
        eventually(lambda: files_of(target.directory or Path()) == before[1], "the files as found")
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            (study,) = store.studies()
        told = resumed_study(target, study.id)
        made, most = restarted(told)
        eventually(lambda: len(began) - 1 == made, "as many starts as were counted")
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    assert made <= most
    assert told.switch is not None
    assert told.switch.verdict is not None, (told.switch.ending, told.switch.stopped, told.switch.lost)
    assert told.switch.verdict.word is Word.BETTER


@pytest.mark.requirement("R-SAF-07")
@pytest.mark.parametrize("any_postgres", ONE, indirect=True)
def test_a_b_that_does_not_come_up_is_taken_back_and_no_verdict(any_postgres: Sandbox, pgdyno_home: Path) -> None:
    """More memory than there is: 13 tells at a real start alone."""
    target = any_postgres.target()
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    b = {**B, "max_locks_per_transaction": "8000000"}
    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"):
        told = short_study(target, b, period_s=PERIOD_S, wash_s=WASH_S, max_pairs=4, windows=(now_open(),))
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    assert told.switch is not None
    assert told.switch.verdict is None
    assert told.exit_code is ExitCode.RESTORED
    assert "did not come up" in told.switch.stopped, told.switch
    made, most = restarted(told)
    assert made == 2 <= most, "the one that failed, and the way back"


@pytest.mark.requirement("R-TUN-12")
@pytest.mark.parametrize("does", [pytest.param("restart", marks=pytest.mark.night(THEIR_RESTART)), "alter"])
@pytest.mark.parametrize("build", one_build("npm-13"))
def test_a_colleague_in_a_window_costs_pairs_or_the_study_and_keeps_what_is_theirs(
    build: str, does: str, make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    """Under B: a restart of theirs is none of ours, and a setting of theirs survives the way back."""
    server = make_sandbox(f"windows-{does}", bin_dir=find_build(build))
    server.start()
    control, postgres = server.target().control, server.target().postgres
    assert control is not None

    def colleague() -> None:
        eventually(lambda: "160MB" in began.values(), "B in force", step_s=0.05)
        if does == "restart":
            control.restart()
            return
        postgres.execute("ALTER SYSTEM SET random_page_cost = 3.3")
        postgres.execute("SELECT pg_reload_conf()")

    with planted_load(postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(server) as began:
        theirs = threading.Thread(target=colleague)
        theirs.start()
        told = short_study(server.target(), B, period_s=PERIOD_S, wash_s=WASH_S, max_pairs=4, windows=(now_open(),))
        theirs.join(60)
        made, most = restarted(told)
    assert 1 <= made <= most
    assert shared_buffers(server) == "128MB"
    assert told.switch is not None
    if does == "alter":
        assert "random_page_cost" in told.switch.stopped
        assert told.exit_code is ExitCode.RESTORED
        assert postgres.fetch("SELECT current_setting('random_page_cost') AS value")[0]["value"] == "3.3"
    else:  # it may fall between two periods, and cost nothing, or meet a switch, and end it
        lost, stopped = told.switch.lost, bool(told.switch.breaches or told.switch.stopped)
        assert "the server was started anew" in lost or stopped or told.word == Word.BETTER.value, told.switch
        assert told.switch.stopped == "" or told.exit_code is ExitCode.RESTORED, told.switch


@pytest.fixture
def window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A window for restarts that is open while this file exists, and is open now."""
    monkeypatch.setattr(NightWindow, "parse", file_window.parse)
    path = tmp_path / "open"
    path.touch()
    return path


@pytest.mark.requirement("R-TUN-06", "R-SAF-12")
@pytest.mark.parametrize("any_postgres", one_build("embedded-18"), indirect=True)
def test_a_window_that_closes_under_b_leaves_the_server_as_found_until_the_next_one(
    any_postgres: Sandbox, pgdyno_home: Path, window: Path
) -> None:
    """Between the windows nothing is restarted; a stop file ends the study in the second one."""
    target, found = any_postgres.target(), shared_buffers(any_postgres)
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    plans: list[SwitchPlan] = []
    between: list[object] = []

    def approve(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return True

    def watchman() -> None:
        eventually(lambda: "160MB" in began.values(), "B in force", step_s=0.05)
        window.unlink()
        eventually(lambda: any("waits in its baseline" in one for one in said), "the study waits", step_s=0.05)
        eventually(lambda: len(began) >= 3, "the start of the way back was seen, too", step_s=0.05)
        between.extend([shared_buffers(any_postgres), files_of(target.directory or Path()) == before[1], len(began)])
        time.sleep(1.5)
        between.append(len(began))
        window.touch()

    def announce(text: str) -> None:
        said.append(text)
        if text.startswith("after 1 pair"):
            Path(plans[0].stop_file).touch()

    said: list[str] = []
    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(any_postgres) as began:
        theirs = threading.Thread(target=watchman)
        theirs.start()
        told = short_study(
            target, B, period_s=PERIOD_S, wash_s=WASH_S, max_pairs=4, windows=(str(window),), approve=approve,
            announce=announce,
        )  # fmt: skip
        theirs.join(60)
        made, most = restarted(told)
        eventually(lambda: len(began) - 1 == made, "as many starts as were counted")
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    shown, as_found, first, last = between
    assert (shown, as_found) == (found, True)
    assert first == last == 3, "to B and back, and nothing after that"
    assert told.switch is not None
    assert told.switch.lost == {VoidCause.CLOSED.value: 1}, said
    assert len(told.switch.pairs) == 1
    assert "stop file" in told.switch.stopped
    assert told.exit_code is ExitCode.NOT_RESOLVED
    assert made <= most


@pytest.mark.requirement("R-SAF-02", "R-SAF-12")
@pytest.mark.parametrize("any_postgres", ONE, indirect=True)
@pytest.mark.parametrize(
    ("where", "made_by_then"),
    [
        ("in A", 0),
        pytest.param("between windows", 2, marks=pytest.mark.night(CLOSED)),
    ],
)
def test_a_study_that_was_killed_in_its_baseline_goes_on_in_the_next_window(
    any_postgres: Sandbox, pgdyno_home: Path, window: Path, where: str, made_by_then: int
) -> None:
    """It costs no restart; what was judged before is kept, and a stop file ends what goes on."""
    target, sign = any_postgres.target(), "the undo bundle is on disk" if where == "in A" else "waits in its baseline"
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)
    plans: list[SwitchPlan] = []

    def approve(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return True

    def announce(text: str) -> None:
        if text.startswith("after "):
            Path(plans[0].stop_file).touch()

    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(any_postgres) as began:
        with RunningText(DRIVER.read_text(), target.postgres.conninfo, "shared_buffers=160MB", str(window)) as process:
            try:
                for line in process.stdout:
                    if line.startswith("after 1 pair"):
                        window.unlink()  # in the period that has just begun
                    if sign in line:
                        break
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
        eventually(lambda: files_of(target.directory or Path()) == before[1], "the files as found")
        eventually(lambda: len(began) - 1 == made_by_then, "none but its own restarts")
        window.touch()
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            (study,) = store.studies()
            kept = study.told(LiveResult)
        told = resumed_study(target, study.id, approve=approve, announce=announce)
        made, most = restarted(told)
        eventually(lambda: len(began) - 1 == made, "as many starts as were counted")
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    assert told.switch is not None
    assert kept is not None
    judged = () if kept.switch is None else kept.switch.pairs
    assert len(judged) == made_by_then / 2
    assert told.switch.pairs[: len(judged)] == judged
    assert len(told.switch.pairs) == len(judged) + 1
    assert plans[0].restarts is not None
    assert most == plans[0].restarts.most == WINDOW_PAIRS + 2 >= made, "as was approved at first"
    assert plans[0].is_approved
    assert told.exit_code is ExitCode.NOT_RESOLVED


@pytest.mark.requirement("R-SAF-01")
@pytest.mark.parametrize("any_postgres", one_build("embedded-18"), indirect=True)
def test_a_plan_of_restarts_that_is_rejected_restarts_and_changes_nothing(
    any_postgres: Sandbox, pgdyno_home: Path
) -> None:
    """What it would have cost was said, and no undo session was begun."""
    target, plans = any_postgres.target(), list[SwitchPlan]()
    assert target.directory is not None
    before = settings_of(any_postgres), files_of(target.directory)

    def reject(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return False

    with planted_load(target.postgres, {"160MB": 0.4}, knob="shared_buffers"), starts(any_postgres) as began:
        told = short_study(
            target, B, period_s=PERIOD_S, wash_s=WASH_S, max_pairs=4, windows=(now_open(),), approve=reject
        )
    assert len(began) == 1
    assert (settings_of(any_postgres), files_of(target.directory)) == before
    assert not list((places.state_dir() / "undo").glob("*/journal.jsonl"))
    assert plans[0].outage.startswith("4 restarts for 4 pairs, never more than 6, in 1 window")
    assert (told.word, told.exit_code) == ("rejected", ExitCode.NOT_RESOLVED)
