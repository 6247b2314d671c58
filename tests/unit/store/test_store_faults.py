"""Bad places for a store end in one clear error each, and a kill loses no finished trial."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.samples import Event, SampleRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.store.engine import parse_url
from pgdyno.store.schema import METADATA, REVISION
from warm_program import RunningText

WORKLOAD = WorkloadSpec("select-only", {"scale": 1}, "f00", "reads", True)
STUDY = Study("s1", StudyKind.AB, "n", StudyState.RUNNING, 1.0, "t", "e", {}, WORKLOAD, LoadPlan(1, 1, 1.0, 1.0))
SPEC = TrialSpec(BASELINE, Role.ARM, "a", 0, 0)


def test_a_path_is_a_sqlite_file_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (REVISION,)
    connection.close()


@pytest.mark.parametrize("where", ["mysql://x/y", "oracle://x"])
def test_another_kind_of_database_is_a_usage_error(where: str) -> None:
    with pytest.raises(UsageError, match="a store cannot be kept in") as caught:
        Store.open(where)
    assert caught.value.hint


def test_an_unreadable_url_does_not_show_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        Store.open("postgresql://me:secret@host:port/db")
    assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_a_plain_postgresql_url_uses_psycopg() -> None:
    assert parse_url("postgresql://host/db").drivername == "postgresql+psycopg"


def test_a_server_that_is_down_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        Store.open(f"postgresql://me:secret@/db?host={tmp_path}")
    assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_the_migrations_build_exactly_the_schema_of_the_code(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    Store.open(tmp_path / "x.db").close()
    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_opening_a_store_that_is_up_to_date_does_not_load_alembic(tmp_path: Path) -> None:
    Store.open(tmp_path / "x.db").close()
    code = (
        "import sys; from pgdyno.store.catalogue import Store; "
        f"Store.open({str(tmp_path / 'x.db')!r}).close(); assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=child_environment())


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path / "x.db").close()
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match="schema 9999") as caught:
        Store.open(tmp_path / "x.db")
    assert "Upgrade pgdyno" in (caught.value.hint or "")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("CREATE TABLE study (x)")
    connection.close()
    with pytest.raises(StoreError, match="not ours"):
        Store.open(tmp_path / "x.db")


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0x"])
def test_a_damaged_file_is_named_with_a_way_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged, or not a store") as caught:
        Store.open(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made") as caught:
        Store.open(tmp_path / "file" / "x.db")
    assert "--store" in (caught.value.hint or "")


def test_a_folder_in_place_of_the_file_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path)


def test_a_store_that_may_only_be_read_says_so(tmp_path: Path) -> None:
    Store.open(tmp_path / "x.db").close()
    store = Store.open(f"sqlite:///file:{tmp_path / 'x.db'}?mode=ro&uri=true")
    assert store.studies() == []
    with pytest.raises(StoreError, match="cannot be written") as caught:
        store.add_study(STUDY)
    assert caught.value.hint
    store.close()


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        store.add_study(STUDY)
        run = store.begin_trial("s1", SPEC)
        with store.write() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        with store.read() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="no room left") as caught:
            store.add_events(run, [Event(float(i), "kind", "x" * 1000) for i in range(1000)])
        assert caught.value.hint
        assert store.events(run) == []
        assert store.trial(run).state is TrialState.RUNNING


def test_a_writer_waits_for_another_and_then_gives_up(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db", busy_timeout_s=0.1) as store, Store.open(tmp_path / "x.db") as other:
        with other.write(), pytest.raises(StoreError, match="locked by another program") as caught:
            store.add_study(STUDY)
        assert caught.value.hint
        store.add_study(STUDY)
        assert other.study("s1") == STUDY


def test_two_processes_may_build_the_same_store(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from pgdyno.store.catalogue import Store; Store.open({str(tmp_path / 'x.db')!r}).close()",
            ],
            env=child_environment(),
        )
        for _ in range(4)
    ]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    with Store.open(tmp_path / "x.db") as store:
        assert store.studies() == []


WRITER = """
import sys
from pgdyno.model.configuration import Configuration
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import Outcome, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
store = Store.open(sys.argv[1])
for slot in range(100_000):
    run = store.begin_trial("s1", TrialSpec(Configuration.of({"work_mem": f"{slot}MB"}), Role.SEARCH, "s", 0, slot))
    store.add_samples(run, [SampleRow("pressure", float(second), (1.0,) * 6) for second in range(30)])
    store.finish_trial(run, Outcome(TrialState.COMPLETE, throughput=float(slot)))
    print(run, flush=True)
"""


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize("after", [1, 5, 17])
def test_a_kill_loses_at_most_the_running_trial(tmp_path: Path, after: int) -> None:
    path = tmp_path / "x.db"
    with Store.open(path) as store:
        store.add_study(STUDY)
    with RunningText(WRITER, str(path)) as child:
        finished = [int(child.stdout.readline()) for _ in range(after)]
        child.send_signal(signal.SIGKILL)
        finished += [int(line) for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        states = {trial.id: trial for trial in store.trials("s1")}
        for run in finished:
            outcome = states[run].outcome
            assert outcome is not None
            assert outcome.throughput == states[run].spec.slot
            assert dict(states[run].spec.configuration) == {"work_mem": f"{states[run].spec.slot}MB"}
            assert len(store.samples(run, "pressure")["t"]) == 30
        running = [run for run, trial in states.items() if trial.state is TrialState.RUNNING]
        assert len(running) <= 1
        assert len(states) <= len(finished) + 2
        assert store.abandon_running("s1") == len(running)
        assert store.abandon_running("s1") == 0
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_another_program_cannot_change_a_finished_trial_either(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        store.add_study(STUDY)
        run = store.begin_trial("s1", SPEC)
        store.add_samples(run, [SampleRow("pressure", 1.0, (None,) * 6)])
        store.finish_trial(run, Outcome(TrialState.COMPLETE))
    with (
        closing(sqlite3.connect(tmp_path / "x.db")) as connection,
        pytest.raises(sqlite3.IntegrityError, match="never changes"),
    ):
        connection.execute("UPDATE trial SET throughput = 1e9")


def test_the_pool_of_sessions_prints_no_traceback_of_its_own() -> None:
    said = "import logging, pgdyno.store.engine; logging.getLogger('sqlalchemy.pool.impl').error('a traceback')"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stderr == ""
