"""What a session and its watchdog must be sure of before and after, by servers that are made up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_apply_bundle import make

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.process_image import ProcessImage, capture
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.target import Target
from pgdyno.undo import baseline, opening, server_process, watch_proof
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.server_process import STARTED, Before, Kept

NOBODY = cast("Postgres", None)
HERE, EARLIER = ProcessIdentity.own(), ProcessIdentity(1, 1, "boot")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("18\n")
    (folder / "postgresql.conf").write_text("port = 5432\n")
    return folder


def of_earlier() -> ProcessImage:
    """Return this process as if it were another one, with another environment."""
    found = capture(os.getpid())
    return replace(found, identity=EARLIER, environment={**found.environment, "PGDYNO_TEST_WAS": "1"})


@pytest.mark.parametrize(
    ("kind", "theirs", "started", "is_damage"),
    [
        ("pg_ctl", False, HERE, True),
        ("pg_ctlcluster", False, HERE, True),
        ("systemd", False, HERE, False),
        (None, False, HERE, False),
        ("pg_ctl", True, HERE, False),
        ("pg_ctl", False, EARLIER, False),
    ],
)
def test_only_what_a_start_of_ours_changed_of_the_process_is_damage(
    tmp_path: Path,
    server: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str | None,
    theirs: bool,
    started: ProcessIdentity,
    is_damage: bool,
) -> None:
    made = make(tmp_path / "undo", server)
    bundle = UndoBundle(made.directory, replace(made.manifest, control=None if kind is None else {"kind": kind}))
    journal = bundle.journal()
    journal.append(STARTED, {**asdict(started), "theirs": theirs})
    monkeypatch.setattr(server_process, "_postmaster", lambda _: HERE)
    damage = Before(bundle, of_earlier(), theirs=theirs).damage(journal, restarted=False)
    assert bool(damage) is is_damage
    assert all(text.startswith("the server's process came back with ") for text in damage)


def test_a_process_that_is_the_one_of_before_or_gone_has_no_damage(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = make(tmp_path / "undo", server)
    before = Before(bundle, of_earlier())
    for now in (None, EARLIER):
        monkeypatch.setattr(server_process, "_postmaster", lambda _, now=now: now)
        assert before.damage(bundle.journal(), restarted=True) == ()


@pytest.mark.parametrize(
    ("starts", "now", "is_theirs"),
    [
        ((HERE, EARLIER), HERE, False),
        ((EARLIER,), HERE, True),
        ((), HERE, True),
        ((), None, False),
        ((), of_earlier().identity, False),
    ],
)
def test_a_server_is_of_others_where_neither_it_nor_a_start_of_ours_is_known(
    tmp_path: Path,
    server: Path,
    monkeypatch: pytest.MonkeyPatch,
    starts: tuple[ProcessIdentity, ...],
    now: ProcessIdentity | None,
    is_theirs: bool,
) -> None:
    bundle = make(tmp_path / "undo", server)
    journal = bundle.journal()
    for started in starts:
        journal.append(STARTED, {**asdict(started), "theirs": False})
    monkeypatch.setattr(UndoBundle, "process_image", lambda _: of_earlier())
    monkeypatch.setattr(server_process, "_postmaster", lambda _: now)
    assert Before.look(bundle, journal).theirs is is_theirs


def waiting(name: str, *, is_waiting: bool) -> SettingState:
    return SettingState(name, "1", "1", None, "integer", "postmaster", "x", "file", "/f", 1, is_waiting)


def test_a_session_is_refused_by_five_of_what_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "read_files", lambda _: SimpleNamespace(unread=lambda: ["a line is not read"]))
    target = cast("Target", SimpleNamespace(postgres=SimpleNamespace(label="x")))
    settings = {f"knob_{number}": waiting(f"knob_{number}", is_waiting=number != 1) for number in range(8)}
    with pytest.raises(EnvironmentUnsuitable, match="not in force") as caught:
        baseline._check_read(target, settings)
    assert caught.value.detail == "\n".join(f"knob_{number} waits for a restart" for number in (0, 2, 3, 4, 5))
    with pytest.raises(EnvironmentUnsuitable) as caught:
        baseline._check_read(target, {})
    assert caught.value.detail == "a line is not read"
    monkeypatch.setattr(baseline, "read_files", lambda _: SimpleNamespace(unread=list))
    baseline._check_read(target, {"knob_1": settings["knob_1"]})


@pytest.fixture
def obstacle(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str | None]:
    """Return what keeps a watchdog from putting files back, where it may write or not and may signal or not."""
    bundle = make(tmp_path / "undo", server)

    def ask(*, writes: bool = True, signals: bool = True, tells: bool = False) -> str | None:
        def require_right(_: Path) -> None:
            if not signals:
                raise PermissionError("not permitted")

        monkeypatch.setattr(UndoBundle, "hands", lambda _: SimpleNamespace(may_write=lambda _: writes))
        monkeypatch.setattr(watch_proof.sighup, "require_right", require_right)
        monkeypatch.setattr(watch_proof, "_tells", lambda _: tells)
        try:
            watch_proof._prove_files(bundle, None)
        except EnvironmentUnsuitable as error:
            return error.message
        return None

    return ask


def test_a_watchdog_must_write_where_each_file_is_and_have_the_files_read(
    obstacle: Callable[..., str | None], server: Path
) -> None:
    assert obstacle() is None
    assert obstacle(signals=False, tells=True) is None
    refused = obstacle(writes=False)
    assert refused is not None
    assert re.search(f'could not be put back: "{re.escape(str(server))}" cannot be written', refused)
    assert "takes no signal of this user" in str(obstacle(signals=False))


def test_the_process_of_a_server_is_kept_where_it_runs(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that somebody else starts, as it was found: it is asked for nothing."""
    target = cast("Target", SimpleNamespace(control=None))
    assert server_process.take(target, server) == Kept()
    monkeypatch.setattr(server_process.postmaster_lock, "postmaster_pid", lambda _: os.getpid())
    assert server_process.take(target, server) == Kept(capture(os.getpid()))


@pytest.mark.parametrize(
    ("other", "is_refused"),
    [
        ({}, True),
        ({"data_directory": "/elsewhere"}, False),
        ({"local": False, "target": "postgres@db:5432/app"}, True),
        ({"local": False, "target": "postgres@db:5433/app"}, False),
    ],
)
def test_a_second_session_is_refused_on_the_same_server_alone(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], is_refused: bool
) -> None:
    made = make(tmp_path / "undo", server)
    monkeypatch.setattr(UndoBundle, "open", lambda folder: UndoBundle(folder, replace(made.manifest, **other)))
    found = cast("baseline.Baseline", SimpleNamespace(dropin=object(), data_directory=server))
    target = cast("Target", SimpleNamespace(postgres=SimpleNamespace(label="postgres@db:5432/app")))
    if not is_refused:
        opening._refuse_second(tmp_path / "undo", target, found)
        return
    with pytest.raises(EnvironmentUnsuitable, match=f"session {made.id} on .* is still open") as caught:
        opening._refuse_second(tmp_path / "undo", target, found)
    assert caught.value.hint == f"Run pgdyno rollback {made.id} first."


@pytest.mark.parametrize(
    ("code", "said", "printed", "lacking"),
    [
        (0, "x", '["nice 5", "no limit"]', ("It would come back with nice 5.", "It would come back with no limit.")),
        (0, "", "[]", ()),
        (3, " no such user \n", "", ("no such user",)),
        (3, " \n", "", ("the rehearsal ended with exit status 3",)),
    ],
)
def test_a_rehearsal_tells_what_would_be_lacking(
    monkeypatch: pytest.MonkeyPatch, code: int, said: str, printed: str, lacking: tuple[str, ...]
) -> None:
    done = SimpleNamespace(returncode=code, stderr=said, stdout=printed)
    monkeypatch.setattr(server_process.launch, "instructions", lambda _: "")
    runner: Any = SimpleNamespace(run=lambda *_, **__: done)
    assert server_process.rehearse(cast(ProcessImage, None), runner) == lacking


@pytest.mark.parametrize(
    ("starts_it", "sandbox", "unknown", "rehearsed", "lacking"),
    [
        (True, False, {}, (), ()),
        (True, False, {}, ("nice",), ("nice",)),
        (True, False, {"limit": "why"}, ("nice",), ("limit of the server's process cannot be read: why",)),
        (True, False, {"other": "why"}, (), ()),
        (True, True, {}, (), ()),
        (True, True, {}, ("nice",), None),  # a sandbox is started in another way then
        (False, False, {"limit": "why"}, ("nice",), ()),  # who starts it, sees to that
    ],
)
def test_what_is_kept_of_a_process_and_what_it_would_lack(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    starts_it: bool,
    sandbox: bool,
    unknown: dict[str, str],
    rehearsed: tuple[str, ...],
    lacking: tuple[str, ...] | None,
) -> None:
    class Starter:
        pass

    image: Any = SimpleNamespace(uid=tmp_path.stat().st_uid, unknown=unknown)
    target: Any = SimpleNamespace(control=Starter() if starts_it else None, disposable=sandbox, runner=None)
    target.postgres = SimpleNamespace(label="x")
    monkeypatch.setattr(server_process, "PgCtl", Starter)
    monkeypatch.setattr(server_process, "PgCtlCluster", Starter)
    monkeypatch.setattr(server_process.postmaster_lock, "postmaster_pid", lambda _: 7)
    monkeypatch.setattr(server_process, "capture", lambda _: image)
    monkeypatch.setattr(server_process, "rehearse", lambda *_: rehearsed)
    assert server_process.take(target, tmp_path) == (Kept() if lacking is None else Kept(image, lacking))
    image.uid += 1
    if starts_it and not sandbox:
        with pytest.raises(EnvironmentUnsuitable) as caught:
            server_process.take(target, tmp_path)
        assert caught.value.detail == "process 7 does not belong to the owner of the data directory"
    else:
        assert server_process.take(target, tmp_path) == Kept()


@pytest.mark.parametrize("theirs", [False, True])
@pytest.mark.parametrize("is_same_account", [True, False])
def test_a_start_of_ours_is_like_the_process_of_the_others_where_they_started_it(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch, theirs: bool, is_same_account: bool
) -> None:
    bundle = make(tmp_path / "undo", server)
    journal = bundle.journal()
    journal.append(STARTED, {**asdict(HERE), "theirs": theirs})
    original, now = of_earlier(), capture(os.getpid())
    now = now if is_same_account else replace(now, uid=now.uid + 1)
    monkeypatch.setattr(UndoBundle, "process_image", lambda _: original)
    monkeypatch.setattr(server_process, "_postmaster", lambda _: HERE)
    monkeypatch.setattr(server_process, "capture", lambda _: now)
    before = Before.look(bundle, journal)
    assert before.image == (now if theirs and is_same_account else original)
    monkeypatch.setattr(server_process, "_postmaster", lambda _: None)
    assert Before.look(bundle, journal).image == original, "of a server that is down nothing is looked at"
