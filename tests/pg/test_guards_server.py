"""Guards that watch the server: each is breached for real, ends the load and brings the baseline back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from fix_postgres import public_dir
from guarded_study import CANDIDATE, Guarded, assert_answered, guarded, work_mem
from pgdyno.errors import EnvironmentUnsuitable, GuardTripped
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.live import Colour
from pgdyno.model.trial import TrialState, WorkloadSpec
from pgdyno.owner.runner import LocalRunner
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.target import Target
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.template import APPLICATION_NAME
from server_image import PATIENCE_S, eventually

pytestmark = [pytest.mark.pg, pytest.mark.slow]
SPILL = """
WITH wide AS MATERIALIZED (SELECT repeat('x', 131072) AS text, pg_sleep(0.01) FROM generate_series(1, 3000))
SELECT count(text) FROM wide
"""
"""Half a minute in which a temporary file grows, by some MB a second: a large sort takes a CPU, and this sleeps."""


@pytest.fixture
def target(sandbox18: Sandbox) -> Target:
    return sandbox18.target()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def scripted(folder: Path, text: str) -> Workload:
    """Return a workload of one script on pgbench's tables."""
    script = folder / "script.sql"
    script.write_text(text)
    return make_workload("custom", {"scripts": str(script), "scale": 1})


def load_database(study: Guarded) -> str:
    """Return the name of the database that the load runs in."""
    query = "SELECT DISTINCT datname FROM pg_stat_activity WHERE application_name = %s"
    found: list[dict[str, object]] = []

    def is_there() -> bool:
        found[:] = study.target.postgres.fetch(query, [APPLICATION_NAME])
        return len(found) == 1

    eventually(is_there, "the load has its sessions")
    return str(found[0]["datname"])


def in_background(work: Callable[[], object]) -> None:
    def attempt() -> None:
        with suppress(psycopg.Error, EnvironmentUnsuitable):
            work()

    threading.Thread(target=attempt, daemon=True).start()


def client_sessions(target: Target) -> int:
    """Return how many clients have a session."""
    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    return len(target.postgres.fetch(query))


def use_up_connections(target: Target, stack: ExitStack) -> None:
    """Open more sessions than the guard allows, of the hundred that there are; a superuser's reserve stays free.

    The server ends them after who closed them goes on: the next test's guards would count them, and so the stack waits.
    """
    before = client_sessions(target)
    stack.callback(eventually, lambda: client_sessions(target) <= before, "the sessions are gone")
    with suppress(EnvironmentUnsuitable):
        for _ in range(92):
            stack.enter_context(target.postgres.connect())


def test_a_study_goes_on_after_a_configuration_was_rejected(target: Target, tmp_path: Path) -> None:
    """And the limit of rejections ends it."""
    bad = scripted(tmp_path, "BEGIN;\nSELECT 1;\nROLLBACK;\n")
    with guarded(target, tmp_path, trips=2, workload=bad) as study:
        assert study.run().state is TrialState.FAILED
        assert_answered(study, "errors", breach_at=time.time())
        with pytest.raises(GuardTripped, match="guard errors") as caught:
            study.run()
        assert "--guard errors=" in (caught.value.hint or "")
        assert "--guard-trips" in (caught.value.detail or "")
        assert work_mem(target) != CANDIDATE["work_mem"]


def test_at_the_baseline_a_breach_ends_the_study(target: Target, tmp_path: Path) -> None:
    bad = scripted(tmp_path, "BEGIN;\nSELECT 1;\nROLLBACK;\n")
    with guarded(target, tmp_path, workload=bad) as study:
        with pytest.raises(GuardTripped, match="guard errors"):
            study.run(BASELINE)
        assert_answered(study, "errors", breach_at=time.time())


def test_deadlocks(target: Target, tmp_path: Path) -> None:
    text = "\n".join(
        [
            "\\set a random(1, 2)",
            "BEGIN;",
            "UPDATE pgbench_accounts SET abalance = 1 WHERE aid = :a;",
            "UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 3 - :a;",
            "COMMIT;",
        ]
    )
    configuration = Configuration.of({**CANDIDATE, "deadlock_timeout": "10ms"})
    limits = "deadlocks=2", "errors=off"
    with guarded(target, tmp_path, *limits, workload=scripted(tmp_path, text), clients=4, rate=None) as study:
        study.run(configuration)
        assert_answered(study, "deadlocks", breach_at=time.time())
        (told,) = {notice for notice in study.watched.notices if "SWITCHED OFF by --guard: " in notice}
        assert "errors" in told


def test_temporary_files(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    def spill() -> None:
        connection = stack.enter_context(target.postgres.for_load(load_database(study)).connect())
        stack.callback(connection.cancel_safe)
        in_background(lambda: connection.execute(SPILL))

    with guarded(target, tmp_path, "temp=1MB/s", harm=spill) as study:
        assert study.run().state is TrialState.FAILED
        assert_answered(study, "temp")


def test_connections_used_up(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    with guarded(target, tmp_path, harm=lambda: use_up_connections(target, stack)) as study:
        with pytest.raises(GuardTripped, match="guard connections") as caught:
            study.run()
        assert "No configuration is to blame" in (caught.value.detail or "")
        stack.close()
        assert_answered(study, "connections")


def test_a_slot_that_keeps_wal(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    target.postgres.fetch("SELECT pg_create_physical_replication_slot('kept', true)")
    stack.callback(target.postgres.fetch, "SELECT pg_drop_replication_slot('kept')")
    with guarded(target, tmp_path, "slots=1MB") as study:
        with pytest.raises(GuardTripped, match="slot kept"):
            study.run()
        assert_answered(study, "slots", breach_at=time.time())


def test_a_load_that_stands_still(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    def lock() -> None:
        connection = stack.enter_context(target.postgres.for_load(load_database(study)).connect())
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE pgbench_accounts IN ACCESS EXCLUSIVE MODE")

    with guarded(target, tmp_path, measure_s=20.0) as study:
        study.run_baseline()
        study.watched.harm, study.watched.after_s = lock, 6.0
        study.run()
        stack.close()
        # pgbench reports it after a second, and it must last five.
        assert_answered(study, "throughput", breach_at=study.watched.harmed_at + 6)


def test_a_load_whose_slowest_take_far_too_long(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    """A table that is locked for two thirds of the time: a third of the throughput is left, and the p99 is not."""
    over = threading.Event()
    stack.callback(over.set)

    def stutter() -> None:
        connection = stack.enter_context(target.postgres.for_load(load_database(study)).connect())
        connection.autocommit = False

        def lock() -> None:
            while not over.is_set():
                connection.execute("LOCK TABLE pgbench_accounts IN ACCESS EXCLUSIVE MODE")
                time.sleep(1.0)  # far above twenty times what a busy machine makes of 10 ms
                connection.rollback()
                time.sleep(0.5)

        in_background(lock)

    update = (
        "\\set a random(1, 100000)\nUPDATE pgbench_accounts SET abalance = 1 WHERE aid = :a;\nSELECT pg_sleep(0.01);\n"
    )
    with guarded(target, tmp_path, measure_s=26.0, workload=scripted(tmp_path, update)) as study:
        study.run_baseline()
        study.watched.harm, study.watched.after_s = stutter, 6.0
        study.run()
        stack.close()
        # It is the p99 of five seconds, and it must last five.
        window_s = hold_s = 5.0
        late_s = assert_answered(study, "p99", breach_at=study.watched.harmed_at + window_s + hold_s)
        assert -window_s <= late_s
        throughput = next(indicator for indicator in study.watched.indicators if indicator.name == "throughput")
        assert throughput.colour is not Colour.RED, throughput


def test_a_server_that_does_not_answer(target: Target, tmp_path: Path) -> None:
    """Guards fail closed: the session of the guards freezes, and the trial ends though nothing else is wrong."""

    frozen: list[int] = []

    def freeze() -> None:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgdyno_observer'"
        for row in target.postgres.fetch(query):
            frozen.append(int(str(row["pid"])))
            os.kill(frozen[-1], signal.SIGSTOP)
        thawing.start()

    def thaw() -> None:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def thaw_when_restored() -> None:
        """Nothing before that may wait for the frozen sessions, and what comes after it does."""
        is_there = "the baseline was in force again"
        while not over.wait(0.1) and not any(notice.startswith(is_there) for notice in study.watched.notices):
            pass
        thaw()

    over, thawing = threading.Event(), threading.Thread(target=thaw_when_restored, daemon=True)
    limit = threading.Timer(PATIENCE_S, over.set)
    limit.start()
    try:
        with guarded(target, tmp_path, harm=freeze) as study:
            study.run()
            assert_answered(study, "readings")
    finally:
        limit.cancel()
        over.set()
        thaw()


def test_a_breach_interrupts_the_cloning_of_the_data(target: Target, tmp_path: Path, stack: ExitStack) -> None:
    crowding = threading.Timer(1.0, use_up_connections, (target, stack))
    with guarded(target, tmp_path) as study:
        prompt = study.laboratory._workload

        class Slow:
            def spec(self) -> WorkloadSpec:
                return prompt.spec()

            def reset(self, target: Target, *, policy: str) -> str:
                crowding.start()
                target.postgres.fetch("SELECT pg_sleep(60)")
                raise AssertionError("it was not interrupted")

        study.laboratory._workload = Slow()  # type: ignore[assignment]  # it comes no further than reset
        with pytest.raises(GuardTripped, match="guard connections"):
            study.run()
        crowding.join()
        stack.close()
        assert_answered(study, "connections", breach_at=time.time())


def test_a_breach_before_the_first_change_refuses_the_session(target: Target, tmp_path: Path) -> None:
    with guarded(target, tmp_path, "memory=100%") as study:
        with pytest.raises(EnvironmentUnsuitable, match=r"guard memory.*before anything was changed") as caught:
            study.run()
        assert "--guard memory=" in (caught.value.hint or "")
        assert study.store.trials(study.laboratory.study.id) == []
    words = r"guard connections.*90 of them for the load"
    with guarded(target, tmp_path / "second", clients=90) as study, pytest.raises(EnvironmentUnsuitable, match=words):
        study.run()


def test_every_version_answers_the_guards_query(any_postgres: Sandbox, tmp_path: Path) -> None:
    with guarded(any_postgres.target(), tmp_path, measure_s=3.0) as study:
        trial = study.run()
    assert trial.state in (TrialState.COMPLETE, TrialState.UNSTEADY), trial.outcome
    colours = {indicator.name: indicator.colour for indicator in study.watched.indicators}
    watching = ("memory", "oom", "disk", "connections", "errors", "deadlocks", "xid-age")
    # Amber is the machine's: the kernel killed somebody else's process, or its memory runs low.
    assert {colours[name] for name in watching} <= {Colour.GREEN, Colour.AMBER}
    assert colours["replication-lag"] is colours["slots"] is Colour.OFF


@contextmanager
def standby_of(sandbox: Sandbox) -> Iterator[Callable[[], None]]:
    """Run a physical standby and yield what freezes it; it is ended with the block."""
    folder = public_dir()
    target, runner = sandbox.target(), LocalRunner()
    data = folder / "standby"
    data.mkdir(mode=0o700)
    if target.os_user is not None:
        runner.run(["chown", f"{target.os_user}:", str(data)])
    backup = [str(target.program("pg_basebackup")), "-D", str(data), "-R", "--checkpoint=fast", "--no-sync"]
    runner.run(backup, env=target.postgres.environment(), user=target.os_user)
    with (data / "postgresql.auto.conf").open("a") as conf:
        conf.write(f"unix_socket_directories = '{data}'\nlisten_addresses = ''\nport = 54555\n")
    postgres = [str(target.program("postgres")), "-D", str(data)]
    server = runner.start(postgres, user=target.os_user, stdout=folder / "out", stderr=folder / "err")
    frozen: list[int] = []

    def freeze() -> None:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        for pid in (server.pid, *map(int, children)):
            with suppress(ProcessLookupError):  # a child that has ended since
                os.kill(pid, signal.SIGSTOP)
                frozen.append(pid)

    try:
        deadline = time.monotonic() + 60
        while not target.postgres.fetch("SELECT 1 AS one FROM pg_stat_replication WHERE state = 'streaming'"):
            assert time.monotonic() < deadline, (folder / "err").read_text()
            time.sleep(0.1)
        yield freeze
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        os.kill(server.pid, signal.SIGQUIT)
        server.wait(30)
        runner.run(["rm", "-rf", str(folder)])


@pytest.mark.parametrize(("limit", "name", "after_s"), [("lag=3s", "lag", 3.0), ("bytes=8MB", "bytes", 0.0)])
def test_a_standby_that_stands_still(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, limit: str, name: str, after_s: float
) -> None:
    sandbox = make_sandbox(f"primary-{name}")
    sandbox.start()
    words = rf"guard replication-{name}.*standby"
    burst = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 16 << 20))"  # what a healthy standby never lags

    def harm() -> None:
        freeze()
        sandbox.target().postgres.fetch(burst)

    with (
        standby_of(sandbox) as freeze,
        guarded(sandbox.target(), tmp_path, f"replication-{limit}", harm=harm) as study,
    ):
        with pytest.raises(GuardTripped, match=words):
            study.run()
        assert_answered(study, f"replication-{name}", breach_at=study.watched.harmed_at + after_s)
