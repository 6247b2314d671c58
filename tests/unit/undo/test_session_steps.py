"""Steps of a session and of its way back that a real server seldom shows: what is waited for, what is damage."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from test_apply_bundle import make

from pgdyno.control import sighup
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RollbackError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.routes.route import Route
from pgdyno.server.health import Health
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.undo import apply, comeback, hung, kernel_route, one_session, restore, stopped, watchdog
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import CLOSED, DAMAGED_JOURNAL, UndoBundle
from pgdyno.undo.comeback import Comeback
from pgdyno.undo.server_process import Before
from pgdyno.undo.watch_record import LOCK

NOBODY = cast("Postgres", None)


@pytest.fixture
def bundle(tmp_path: Path) -> UndoBundle:
    server = tmp_path / "server"
    server.mkdir()
    (server / "PG_VERSION").write_text("18\n")
    (server / "postgresql.conf").write_text("port = 5432\n")
    return make(tmp_path / "undo", server)


def test_a_session_that_cannot_begin_gives_back_all_that_it_took(
    bundle: UndoBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve of each one would stay on the disk for good: a session that is closed is not put back any more."""
    given_back: list[str] = []

    def full(_: UndoBundle) -> None:
        raise EnvironmentUnsuitable("the lock cannot be written")

    held = SimpleNamespace(sign=full, release=lambda: given_back.append("lock"))
    opening = SimpleNamespace(bundle=bundle, held=held, secrets={}, lacking=())
    monkeypatch.setattr(apply, "Opening", SimpleNamespace(make=lambda *_, **__: opening))
    assert (bundle.directory / "reserve").exists()
    with pytest.raises(EnvironmentUnsuitable, match="cannot be written"):
        Session.begin(None, study="x", undo_root=tmp_path)  # type: ignore[arg-type]  # the opening has it
    assert given_back == ["lock"]
    assert bundle.is_closed()
    assert not (bundle.directory / "reserve").exists()


def test_values_are_read_back_in_the_databases_of_the_load_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged before is what was set then; a value may be overridden where the load runs since."""
    asked: list[str | None] = []

    @contextmanager
    def connect(dbname: str | None) -> Iterator[str | None]:
        asked.append(dbname)
        yield dbname

    def shortfalls(_target: object, connection: str | None, *_: object, **__: object) -> list[str]:
        return ["work_mem is 6MB"] if connection == "overriding" else []

    monkeypatch.setattr(apply.snapshot, "read_settings", lambda connection, **_: {})
    monkeypatch.setattr(apply.in_force, "shortfalls", shortfalls)
    session = Session.__new__(Session)
    session._target = cast("Target", SimpleNamespace(postgres=SimpleNamespace(connect=connect, label="x")))
    session._route = cast("Route", SimpleNamespace(source="", accepted_sources=()))
    session._linux = kernel_route.KernelRoute()
    wanted = Configuration.of({"work_mem": "9MB"})
    session._read_back(wanted, ["load"])
    assert asked == ["load", None], "and last by a session that has no database of its own"
    with pytest.raises(ApplyError, match="not in force: work_mem is 6MB"):
        session._read_back(wanted, ["load", "overriding"])


def test_a_pg_ctl_that_outlived_the_session_is_waited_for(bundle: UndoBundle) -> None:
    """It may be about to start the server with the files of the trial."""
    directory = bundle.manifest.data_directory
    words = ["pg_ctl", "-c", "echo; read line", directory]
    with subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pg_ctl:
        assert pg_ctl.stdin is not None
        assert pg_ctl.stdout is not None
        assert pg_ctl.stdout.readline() == b"\n", "from here on its command line is that of pg_ctl"
        standing_by = pg_ctl.stdin

        def sleep(_: float) -> None:
            standing_by.close()
            pg_ctl.wait()

        try:
            assert restore._end_leftovers(bundle, bundle.journal(), sleep) == ()
            assert pg_ctl.returncode is not None, "it was gone before anything else was done"
        finally:
            pg_ctl.kill()


@pytest.fixture
def put_back(bundle: UndoBundle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., restore.Restored]]:
    """Return a restore of a server whose files and settings come back; given is what the kernel says, twice."""
    route = SimpleNamespace(put_back=tuple, leftovers=list)
    monkeypatch.setattr(one_session, "restoring", lambda *_: nullcontext())
    monkeypatch.setattr(hung, "revive_or_end", lambda *_, **__: None)
    monkeypatch.setattr(restore, "end_orphans", lambda *_, **__: None)
    monkeypatch.setattr(comeback, "bring_back", lambda *_, **__: Comeback(restarted=False))
    monkeypatch.setattr(Before, "look", lambda *_: SimpleNamespace(like=lambda it: it, damage=lambda *_: ()))

    def run(*said: tuple[list[str], list[str]]) -> restore.Restored:
        answers = iter(said)
        monkeypatch.setattr(kernel_route, "put_back", lambda _: next(answers))
        return restore.restore(bundle, postgres=NOBODY, control=None, route=cast("Route", route))

    return run


def test_a_kernel_value_that_is_not_back_at_the_end_is_damage(
    bundle: UndoBundle, put_back: Callable[..., restore.Restored]
) -> None:
    restored = put_back(([], []), ([], ["vm.nr_hugepages is not what it was"]))
    assert restored.damage == ("vm.nr_hugepages is not what it was",)
    assert not restored.is_whole
    assert not bundle.is_closed()


def test_a_kernel_value_that_a_start_of_the_server_gave_back_is_none(
    bundle: UndoBundle, put_back: Callable[..., restore.Restored]
) -> None:
    """A pool of huge pages is held until the server has ended."""
    restored = put_back((["vm.nr_hugepages"], ["vm.nr_hugepages is not what it was"]), (["vm.nr_hugepages"], []))
    assert (restored.files, restored.damage) == (("vm.nr_hugepages",), ())
    assert bundle.is_closed()


def test_without_a_session_what_a_damaged_journal_no_longer_tells_is_a_reason_to_restart(
    bundle: UndoBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sighup, "postmaster", lambda _: ProcessIdentity.own())
    server = comeback._Server(bundle, bundle.journal(), NOBODY, None, cast("Route", None), lambda _: None)
    unseen = comeback._Look(not_compared="no password supplied")
    assert not server.needs_restart(unseen, ()), "the journal is whole, and names nothing that only a start ends"
    (bundle.directory / DAMAGED_JOURNAL).write_text("not this\n")
    assert server.needs_restart(unseen, ())


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_start_is_waited_for_until_sessions_are_taken_or_the_server_is_gone(
    bundle: UndoBundle, monkeypatch: pytest.MonkeyPatch, *, comes_up: bool
) -> None:
    """A server that recovers has a process long before it takes a session, and may end before it does."""
    slept: list[float] = []
    monkeypatch.setattr(sighup, "postmaster", lambda _: ProcessIdentity.own() if comes_up or len(slept) < 3 else None)
    monkeypatch.setattr(sighup, "is_ready", lambda _: comes_up and len(slept) >= 3)
    server = comeback._Server(bundle, bundle.journal(), NOBODY, None, cast("Route", None), slept.append)
    assert server._gets_ready() is comes_up
    assert len(slept) == 3


def test_a_server_is_unhealthy_from_the_first_of_its_bad_answers_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from the last one, no server would ever be down for long enough; no answer is not a bad one."""
    no_file = EnvironmentUnsuitable("it cannot be asked", detail="Too many open files")
    answers = [Health.ALIVE, Health.ABSENT, Health.SILENT, Health.ABSENT, Health.ALIVE, Health.SILENT, no_file, no_file,
               Health.SILENT]  # fmt: skip
    at, said, told = iter(range(100, 200)), iter(answers), list[str]()

    def ask(_: object) -> Health:
        answer = next(said)
        if isinstance(answer, EnvironmentUnsuitable):
            raise answer
        return answer

    monkeypatch.setattr(watchdog, "_say", told.append)
    monkeypatch.setattr(watchdog.heartbeat, "now", lambda: float(next(at)))
    monkeypatch.setattr(watchdog.health, "ask", ask)
    manifest = SimpleNamespace(owner=ProcessIdentity.own(), address=("localhost", 5432))
    bundle = cast("UndoBundle", SimpleNamespace(directory=tmp_path, manifest=manifest))
    with (tmp_path / LOCK).open("a") as lock:
        dog = watchdog._Watchdog(bundle, NOBODY, lock.fileno())
        since = [dog._look().unhealthy_since for _ in answers]
    assert since == [None, 102.0, 102.0, 102.0, None, 106.0, None, None, 109.0]
    assert told == ["it cannot be asked: Too many open files"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_a_change_that_was_kept_is_put_back_where_it_is_meant(
    bundle: UndoBundle, monkeypatch: pytest.MonkeyPatch, asked: bool, kept: bool
) -> None:
    """Who only wants what was left open back finds nothing to do, and so does a second one."""
    bundle.journal().append(CLOSED, {"kept": kept})

    def refuse(*_: object) -> None:
        raise RollbackError("a newer one goes first")

    monkeypatch.setattr(one_session, "restoring", lambda *_: nullcontext())
    monkeypatch.setattr(restore.kept_change, "refuse_stale", refuse)
    route = cast("Route", None)
    with pytest.raises(RollbackError, match="a newer one") if asked and kept else nullcontext():
        restored = restore.restore(bundle, postgres=NOBODY, control=None, route=route, kept=asked)
        assert restored.already_closed


def test_a_server_that_is_left_down_is_told_and_its_process_is_not_looked_at(
    bundle: UndoBundle, put_back: Callable[..., restore.Restored], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        comeback, "bring_back", lambda *_, **__: Comeback(restarted=False, left_down=True, notes=("n",))
    )
    monkeypatch.setattr(Before, "look", lambda *_: SimpleNamespace(like=lambda it: it))
    restored = put_back(([], []), ([], []))
    assert (restored.left_down, restored.restarted) == (True, False)
    assert restored.notes == (stopped.LEFT_DOWN, "n")
    (done,) = (one.data for one in bundle.reading().records if one.kind == CLOSED)
    assert done["by"] == f"session; {stopped.LEFT_DOWN}"


def test_a_restore_takes_the_time_between_two_moments(
    bundle: UndoBundle, put_back: Callable[..., restore.Restored], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(([], []), ([], ["it is not what it was"]))
    moments = iter([100.0, 102.5])
    monkeypatch.setattr(kernel_route, "put_back", lambda _: ([], []))
    route = cast("Route", SimpleNamespace(put_back=tuple, leftovers=list))
    restored = restore.restore(bundle, postgres=NOBODY, control=None, route=route, clock=lambda: next(moments))
    assert restored.seconds == 2.5
