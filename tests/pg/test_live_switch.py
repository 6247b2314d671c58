"""`pgdyno live --b` on real servers, under a load whose response to work_mem is planted."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg import sql

from fix_postgres import BUILDS, NIGHT, ONE_BUILD, find_build, one_build
from live_driver import LONG_S, looking, resumed_study, short_study
from live_load import ROLE, planted_load
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, OutOfTime, PolicyError, UsageError
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import StudyState
from pgdyno.model.verdict import Word
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.live.kept import mark_killed
from pgdyno.studies.live.person.questions import WAITS
from pgdyno.studies.live.run import SwitchPlan
from pgdyno.studies.reports import build_report
from server_image import eventually, files_of, settings_of
from warm_program import RunningText, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine repeats studies
DRIVER = Path(__file__).parents[1] / "live_driver.py"
B = {"work_mem": "64MB"}
ROOM = 1000
"""Of pg_stat_statements, in statements."""
KILLS = [(build, number) for build in BUILDS for number in (signal.SIGKILL, signal.SIGTERM)]
if not NIGHT:  # how we end and go on is the same on every version; what SIGTERM does a stop file does, too
    KILLS = [("npm-13", signal.SIGKILL)]


@contextmanager
def as_found(sandbox: Sandbox) -> Iterator[None]:
    """See that settings and files are what they were."""
    folder = sandbox.target().directory
    assert folder is not None
    before = settings_of(sandbox), files_of(folder)
    yield
    assert (settings_of(sandbox), files_of(folder)) == before


def work_mem(sandbox: Sandbox) -> object:
    return sandbox.target().postgres.fetch("SELECT current_setting('work_mem') AS value")[0]["value"]


def bundles() -> list[Path]:
    folder = places.state_dir() / "undo"
    return [path for path in folder.glob("*") if path.is_dir()] if folder.is_dir() else []


@pytest.mark.parametrize("any_postgres", one_build("npm-13"), indirect=True)
def test_a_planted_gain_is_found_and_the_server_is_as_it_was(any_postgres: Sandbox, pgdyno_home: Path) -> None:
    server = any_postgres.target().postgres
    with as_found(any_postgres), planted_load(server, {"64MB": 0.4}), looking(server, "work_mem") as seen:
        told = short_study(any_postgres.target(), B, resolved=True)
    assert told.switch is not None
    assert told.switch.verdict is not None
    assert told.switch.verdict.word is Word.BETTER
    assert told.switch.verdict.interval.lo < 0.5
    assert told.exit_code is ExitCode.OK, told.switch.against
    assert "64MB" in seen
    assert len(told.switch.plans) == 3, "the load's statements were asked for"
    assert not any("may run code" in text for one in told.switch.plans for text in one.before)
    assert {one.role for one in told.switch.statements if one.state == "watched"} == {ROLE}
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        study = store.study(told.study)
        assert (study.state, study.result) == (StudyState.COMPLETE, told)
        assert "Statement by statement" in [one.title for one in build_report(store, study.id).sections]


@pytest.mark.parametrize("counts", ["on", "off"])
def test_a_planner_s_setting_under_cached_plans_is_not_tested_where_plans_are_counted(
    sandbox18: Sandbox, pgdyno_home: Path, counts: str
) -> None:
    """Sessions that have prepared their statements once see no reload; where plans are not counted, that is unknown."""
    postgres = sandbox18.target().postgres
    postgres.execute(f"ALTER SYSTEM SET pg_stat_statements.track_planning = {counts}")
    postgres.execute("SELECT pg_reload_conf()")
    try:
        with as_found(sandbox18), planted_load(postgres, {"1.5": 1.0}, knob="random_page_cost", prepared=True):
            told = short_study(sandbox18.target(), {"random_page_cost": "1.5"}, max_pairs=4)
    finally:
        postgres.execute("ALTER SYSTEM RESET pg_stat_statements.track_planning")
        postgres.execute("SELECT pg_reload_conf()")
    assert told.switch is not None
    assert told.switch.not_tested.startswith("100 % of the body runs cached plans") is (counts == "on")
    assert any("Planning is not counted" in note for note in told.notes) is (counts == "off")
    assert told.word != Word.EQUIVALENT.value or counts == "off"


@pytest.mark.requirement("R-TUN-11")
@pytest.mark.parametrize("any_postgres", one_build("embedded-18"), indirect=True)
def test_a_change_that_cripples_the_load_is_taken_back_by_a_guard(any_postgres: Sandbox, pgdyno_home: Path) -> None:
    with as_found(any_postgres), planted_load(any_postgres.target().postgres, {"64MB": 25.0}):
        told = short_study(any_postgres.target(), B, period_s=LONG_S)
    assert told.switch is not None
    assert told.switch.pairs == ()
    assert [one.guard for one in told.switch.breaches] == ["statement-time"]
    assert {"B", "guard", "baseline"} <= {one.lane for one in told.moments}
    assert told.exit_code is ExitCode.RESTORED
    assert told.title.startswith("No verdict: guard statement-time")


@pytest.mark.requirement("R-SAF-02")
@pytest.mark.parametrize(("any_postgres", "number"), KILLS, indirect=["any_postgres"])
def test_a_killed_study_leaves_the_server_as_it_was_and_goes_on_from_its_pairs(
    any_postgres: Sandbox, pgdyno_home: Path, number: signal.Signals
) -> None:
    target = any_postgres.target()
    with as_found(any_postgres), planted_load(target.postgres, {"64MB": 0.4}):
        with RunningText(DRIVER.read_text(), target.postgres.conninfo, "work_mem=64MB") as process:
            try:
                said = []
                for line in process.stdout:
                    said.append(line)
                    if "after 1 pair" in line:
                        break
                assert process.poll() is None, said
                with pytest.raises(EnvironmentUnsuitable, match="session"):
                    short_study(target, B)
                with target.postgres.connect() as session:  # one for all looks: B is gone again after a while
                    shown = "SELECT current_setting('work_mem') AS value"
                    b = {"value": "64MB"}
                    eventually(lambda: session.execute(shown).fetchone() == b, "arm B in force", step_s=0.05)
                process.send_signal(number)
                process.wait(60)
            finally:
                process.kill()
        eventually(lambda: work_mem(any_postgres) == "4MB", "the baseline in force")
        if number == signal.SIGKILL:
            eventually(lambda: all("closed" in _journal(path) for path in bundles()), "the watchdog's end")
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            study, *unequal = store.studies()
            assert all(one.state is StudyState.COMPLETE for one in unequal), "run again with longer periods"
            before = study.told(LiveResult)
            assert before is not None, "the pairs of before are kept"
            mark_killed(store)
            assert store.study(study.id).state is StudyState.INTERRUPTED
        told = resumed_study(target, study.id)
    assert told.switch is not None
    assert before.switch is not None
    assert told.study == study.id
    assert told.switch.pairs[: len(before.switch.pairs)] == before.switch.pairs
    assert len(told.switch.pairs) > len(before.switch.pairs)
    assert told.exit_code is ExitCode.OK, told.switch.against


def _journal(bundle: Path) -> str:
    return "".join(path.read_text() for path in bundle.glob("journal*"))


@pytest.mark.parametrize(
    ("knob", "value", "reloads"),
    [("random_page_cost", "3.3", True), ("random_page_cost", "3.3", False), ("work_mem", "99MB", True)],
)
def test_what_a_colleague_sets_in_mid_pair_stays_and_ends_the_study(
    sandbox18: Sandbox, pgdyno_home: Path, knob: str, value: str, reloads: bool
) -> None:
    postgres = sandbox18.target().postgres
    name, wanted = sql.Identifier(knob), sql.Literal(value)

    def colleague(text: str) -> None:
        if text.startswith("after 1 pair"):
            postgres.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(name, wanted))
            if reloads:
                postgres.execute("SELECT pg_reload_conf()")

    try:
        with planted_load(postgres, {"64MB": 0.9}):
            told = short_study(sandbox18.target(), B, announce=colleague)
        assert told.switch is not None
        assert knob in told.switch.stopped
        assert told.exit_code is ExitCode.RESTORED
        row = postgres.fetch("SELECT current_setting(%s) AS value", [knob])[0]
        assert row["value"] == value
        assert knob == "work_mem" or work_mem(sandbox18) == "4MB"
    finally:
        postgres.execute(sql.SQL("ALTER SYSTEM RESET {}").format(name))
        postgres.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("place", ["role", "database"])
def test_what_outranks_the_files_for_the_load_s_own_sessions_ends_it_in_mid_pair(
    sandbox18: Sandbox, pgdyno_home: Path, place: str
) -> None:
    """Sessions that begin after it see neither arm: the rest of the pairs would say that B does nothing."""
    postgres = sandbox18.target().postgres
    whose = sql.SQL("ROLE {}").format(sql.Identifier(ROLE)) if place == "role" else sql.SQL("DATABASE postgres")

    def colleague(text: str) -> None:
        if text.startswith("after 1 pair"):
            postgres.execute(sql.SQL("ALTER {} SET work_mem = '5MB'").format(whose))

    try:
        with as_found(sandbox18), planted_load(postgres, {"64MB": 0.9}):
            told = short_study(sandbox18.target(), B, announce=colleague)
            postgres.execute(sql.SQL("ALTER {} RESET work_mem").format(whose))
    finally:
        postgres.execute("ALTER DATABASE postgres RESET work_mem")
    assert told.switch is not None
    named = f"ROLE {ROLE}" if place == "role" else "DATABASE postgres"
    assert told.switch.stopped.endswith(f"work_mem, by ALTER {named}")
    assert told.exit_code is ExitCode.RESTORED


def test_what_a_colleague_sets_while_a_person_is_asked_is_not_measured_under_what_was_approved(
    sandbox18: Sandbox, pgdyno_home: Path
) -> None:
    postgres = sandbox18.target().postgres

    def approve(_plan: SwitchPlan) -> bool:
        postgres.execute("ALTER SYSTEM SET random_page_cost = 3.3")
        postgres.execute("SELECT pg_reload_conf()")
        eventually(
            lambda: postgres.fetch("SELECT current_setting('random_page_cost') AS value")[0]["value"] == "3.3",
            "the colleague's value",
        )
        return True

    try:
        with planted_load(postgres, {"64MB": 0.9}), pytest.raises(EnvironmentUnsuitable, match="random_page_cost"):
            short_study(sandbox18.target(), B, approve=approve)
        assert bundles() == []
        assert work_mem(sandbox18) == "4MB"
    finally:
        postgres.execute("ALTER SYSTEM RESET random_page_cost")
        postgres.execute("SELECT pg_reload_conf()")


@pytest.mark.requirement("R-TUN-12")
@pytest.mark.parametrize("build", ONE_BUILD)
def test_a_colleague_s_restart_in_mid_pair_costs_that_pair_at_most_and_leaves_the_server_as_it_was(
    build: str, make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    """One that takes longer than the guards' patience ends the study, in the settings of before."""
    server = make_sandbox(f"restarted-{build}", bin_dir=find_build(build))
    server.start()
    control, said = server.target().control, list[str]()
    assert control is not None

    def colleague(text: str) -> None:
        said.append(text)
        if text.startswith("after 1 pair"):
            threading.Timer(4.0, control.restart).start()

    with as_found(server), planted_load(server.target().postgres, {"64MB": 0.4}):
        told = short_study(server.target(), B, period_s=6.0, announce=colleague)
    assert server.is_running()
    assert told.switch is not None
    lost, stopped = "the server was started anew" in told.switch.lost, bool(told.switch.breaches or told.switch.stopped)
    assert lost or stopped, said
    assert stopped or (told.switch.verdict is not None and told.switch.verdict.word is Word.BETTER), said
    assert all("closed" in _journal(path) for path in bundles())


@pytest.mark.night("unit/stats/test_statement_deltas.py::test_what_was_lost_in_between_voids_the_period")
@pytest.mark.parametrize("build", BUILDS)
def test_statements_that_push_others_out_in_mid_pair_cost_that_pair_alone(
    build: str, make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    """13 does not tell of it: a counter that fell or an entry that went shows it, if it is one of the load's."""
    server = make_sandbox(f"pushed-{build}", bin_dir=find_build(build))
    server.start()
    postgres, storms = server.target().postgres, list[threading.Thread]()
    postgres.execute(f"ALTER SYSTEM SET pg_stat_statements.max = {ROOM}")
    server.stop()
    server.start()

    def others(text: str) -> None:
        if text.startswith("after 1 pair"):
            storms.append(threading.Thread(target=storm))
            storms[-1].start()

    def storm() -> None:
        time.sleep(3.0)
        with postgres.connect("postgres") as session:
            session.execute("SET ROLE pg_monitor")
            for signs in itertools.islice(itertools.product("+-", repeat=11), 2 * ROOM):
                session.execute("SELECT 1" + "1".join(("", *signs, "")))

    with as_found(server), planted_load(postgres, {"64MB": 0.4}):
        told = short_study(server.target(), B, period_s=6.0, announce=others, resolved=True)
    for one in storms:
        one.join()
    assert told.switch is not None
    assert build == "npm-13" or [one for one in told.switch.lost if "pg_stat_statements" in one], told.switch.lost
    assert told.switch.verdict is not None
    assert told.switch.verdict.word is Word.BETTER
    assert told.switch.verdict.interval.lo < 0.5
    assert told.exit_code is ExitCode.OK, told.switch.against


@pytest.mark.requirement("R-SAF-12")
def test_a_stop_file_ends_it_with_the_pairs_that_there_are(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    plans: list[SwitchPlan] = []

    def stop(text: str) -> None:
        if text.startswith("after 2 pairs"):
            Path(plans[-1].stop_file).touch()

    with as_found(sandbox18), planted_load(sandbox18.target().postgres, {"64MB": 0.9}):
        told = short_study(sandbox18.target(), B, announce=stop, approve=lambda plan: plans.append(plan) is None)
    assert told.switch is not None
    assert len(told.switch.pairs) == 2
    assert "stop file" in told.switch.stopped
    assert told.exit_code is ExitCode.NOT_RESOLVED


@pytest.mark.requirement("R-SAF-12")
def test_a_stop_file_at_the_question_ends_it_and_is_nobody_s_rejection(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    def stop(plan: SwitchPlan) -> bool:
        Path(plan.stop_file).touch()
        return False  # as of who was asked, and has not answered

    ended = pytest.raises(OutOfTime, match=r"stop file .* was found, before anything was changed")
    with as_found(sandbox18), planted_load(sandbox18.target().postgres, {"64MB": 0.9}), ended:
        short_study(sandbox18.target(), B, approve=stop)
    with Store.open(places.data_dir() / "pgdyno.db") as store:
        (study,) = store.studies()
        assert study.state is StudyState.INTERRUPTED
    assert bundles() == []


@pytest.mark.requirement("R-SAF-01")
def test_a_rejected_plan_changes_nothing_and_names_what_outranks_the_arm(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    postgres, plans = sandbox18.target().postgres, []

    def reject(plan: SwitchPlan) -> bool:
        plans.append(plan)
        with Store.open(places.data_dir() / "pgdyno.db") as store:
            board = LiveBoard(store)
            eventually(lambda: board.running()[0].phase == WAITS, "the dashboard says that it waits", step_s=0.2)
        return False

    with as_found(sandbox18), planted_load(postgres, {"64MB": 0.9}):
        postgres.execute("CREATE ROLE live_reports")
        postgres.execute("ALTER ROLE live_reports SET work_mem = '5MB'")
        try:
            told = short_study(sandbox18.target(), B, approve=reject)
        finally:
            postgres.execute("DROP ROLE live_reports")
    assert told.exit_code is ExitCode.NOT_RESOLVED
    assert told.word == "rejected"
    assert bundles() == []
    assert plans[0].arms.before == {"work_mem": "4MB"}
    assert any("ALTER ROLE live_reports SET work_mem = 5MB" in note for note in plans[0].notes)


def test_a_load_whose_role_sets_the_knob_itself_is_not_switched(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    postgres = sandbox18.target().postgres
    with as_found(sandbox18), planted_load(postgres, {"64MB": 0.9}):
        postgres.execute(f"ALTER ROLE {ROLE} SET work_mem = '5MB'")
        with pytest.raises(EnvironmentUnsuitable, match="neither arm"):
            short_study(sandbox18.target(), B)
    assert bundles() == []


def test_what_no_reload_brings_into_force_is_refused_at_once(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    sandbox18.target().postgres.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
    for settings, error in (
        ({"shared_buffers": "256MB"}, UsageError),
        ({"vm.swappiness": "1"}, UsageError),
        ({"fsync": "off"}, PolicyError),
        ({"work_memm": "1MB"}, UsageError),
        ({"work_mem": "many"}, UsageError),
    ):
        with as_found(sandbox18), pytest.raises(error) as raised:
            short_study(sandbox18.target(), settings)
        assert raised.value.hint
    assert bundles() == []


@pytest.mark.requirement("R-SAF-01")
def test_without_a_terminal_and_without_approval_nothing_is_changed(sandbox18: Sandbox, pgdyno_home: Path) -> None:
    words = ("live", "--b", "work_mem=64MB", "--target", sandbox18.target().postgres.conninfo)
    with as_found(sandbox18):
        done = run_pgdyno(*words)
    assert done.returncode == ExitCode.USAGE
    assert "--approve auto" in done.stderr
    assert bundles() == []
