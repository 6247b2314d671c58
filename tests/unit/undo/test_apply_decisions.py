"""What a session decides between its steps: restart or reload, what is in force, and the way back of what was not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, PgdynoError, RestartError, RollbackError, ServerStopped
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.server.snapshot import SettingState
from pgdyno.undo import apply
from pgdyno.undo.applied import damage_error
from pgdyno.undo.apply import Session

WORK_MEM = Configuration.of({"work_mem": "64MB"})
BUFFERS = Configuration.of({"shared_buffers": "1GB"})


def state(name: str, setting: str, context: str) -> SettingState:
    return SettingState(name, setting, None, None, "string", context, "", "default", None, None, pending_restart=False)


FOUND = {
    "work_mem": state("work_mem", "4MB", "user"),
    "shared_buffers": state("shared_buffers", "128MB", "postmaster"),
}


class Parts:
    """Target, route, locks, kernel and journal of a session in one: what happens is written down in `said`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said, self.broken, self.now = list[str](), dict[str, list[Exception]](), [0.0]
        self.running, self.by_person = True, False
        self.short: list[str] = []
        self.differences: list[Any] = []
        self.control: Any = SimpleNamespace(is_running=lambda: self.running)
        self.target: Any = SimpleNamespace(
            postgres=SimpleNamespace(connect=lambda dbname: contextlib.nullcontext(dbname), label="db1"),
            control=self.control, name="db1", route=None, directory=None,
        )  # fmt: skip
        manifest = SimpleNamespace(local=True, data_directory="/data", target="db1")
        self.bundle: Any = SimpleNamespace(
            id="s1", manifest=manifest, written=lambda: SimpleNamespace(may_have_set=lambda name: name == "ours"),
            alone=lambda *_: contextlib.nullcontext(), is_closed=lambda: False,
        )  # fmt: skip
        patch = monkeypatch.setattr
        patch(apply.activation, "reload", lambda *_, **__: self.happens("reload"))
        patch(apply.stopped, "is_down_by_person", lambda *_: self.by_person)
        patch(apply.snapshot, "read_settings", lambda *_, **__: dict(FOUND))
        patch(apply.snapshot, "fingerprint", lambda *_: "f1")
        patch(apply.in_force, "shortfalls", lambda _, dbname, *__, **___: [f"{one} in {dbname}" for one in self.short])
        patch(apply.effectiveness, "unexpected", lambda found, _: [f"{one.name} differs" for one in found])
        patch(apply.ours, "is_line_only", lambda each: each.name == "line")
        patch(apply.preflight, "check", lambda *_, **given: self.happens(f"check restart={given['restart']}") or ("s",))
        patch(apply.file_check, "refuse_waiting", lambda *_: self.happens("refuse waiting"))
        self.session = session = object.__new__(Session)
        session._target, session.bundle, session._lacking, session._in_force = self.target, self.bundle, (), BASELINE
        session._settings, session._clock, session._watch = FOUND, lambda: self.now[0], None
        session._sleep, session._outage_s, session._standbys, session._born_of_us = (lambda _: None), 0.0, (), False
        session._held = cast(Any, SimpleNamespace(renew=lambda: self.happens("renew")))
        session._linux = cast(
            Any,
            SimpleNamespace(set=lambda one: self.happens(f"linux {len(one)}"), shortfalls=lambda _: list[str]()),
        )
        session._route = cast(
            Any,
            SimpleNamespace(
                stage=lambda one, session: self.happens(f"stage {len(one)}"),
                check=lambda _: self.happens("check route"), source="file", accepted_sources=(),
                differences=lambda *_: self.differences,
            ),
        )  # fmt: skip
        session._journal = cast(Any, SimpleNamespace(append=self._append, records=(), path=Path("/undo/journal")))
        patch(session.__class__, "_restart", self._restart)

    def happens(self, what: str) -> None:
        self.said.append(what)
        if left := self.broken.get(what.split()[0]):
            error = left.pop(0)
            if error is not None:
                raise error

    def _append(self, kind: str, data: object) -> None:
        self.happens(f"note {kind}")

    def _restart(self, control: object) -> None:
        assert control is self.control
        self.now[0] += 2.5
        self.happens("restart")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(monkeypatch)


@pytest.mark.parametrize(
    ("before", "asked", "restart", "wants"),
    [
        (BASELINE, WORK_MEM, "as-needed", False),
        (BASELINE, WORK_MEM, "always", True),
        (BASELINE, WORK_MEM, "never", False),
        (BASELINE, BUFFERS, "as-needed", True),
        (BUFFERS, BUFFERS, "as-needed", False),
        (BUFFERS, BASELINE, "as-needed", True),
    ],
)
def test_a_restart_is_for_what_differs_and_needs_one(
    parts: Parts, before: Configuration, asked: Configuration, restart: Any, wants: bool
) -> None:
    parts.session._in_force = before
    assert parts.session._wants_restart(asked, restart) is wants


def test_a_restart_that_cannot_be_is_refused_with_the_reason(parts: Parts) -> None:
    wants = parts.session._wants_restart
    with pytest.raises(EnvironmentUnsuitable, match=r'"db1" would have to be restarted for shared_buffers$') as raised:
        wants(BUFFERS, "never")
    assert raised.value.detail == "Nothing was changed: the plan was to reload it only."
    parts.target.control = None
    assert not wants(WORK_MEM, "as-needed")
    for asked, restart, end in ((BUFFERS, "as-needed", " for shared_buffers$"), (WORK_MEM, "always", "restarted$")):
        with pytest.raises(EnvironmentUnsuitable, match=end) as raised:
            wants(asked, cast(Any, restart))
        assert raised.value.detail == "pgdyno was not told how to restart it."
    parts.target.control, parts.session._lacking = parts.control, ("no limit",)
    assert not wants(WORK_MEM, "as-needed")
    for asked, restart in ((BUFFERS, "as-needed"), (WORK_MEM, "always")):
        with pytest.raises(EnvironmentUnsuitable) as raised:
            wants(asked, cast(Any, restart))
        assert "no limit" in str(raised.value.detail)


@pytest.mark.parametrize(
    ("may", "control", "running", "restarted"),
    [(True, True, False, True), (True, True, True, False), (False, True, False, False), (True, False, False, False)],
)
def test_a_server_that_went_down_is_started_where_a_restart_is_wanted(
    parts: Parts, may: bool, control: bool, running: bool, restarted: bool
) -> None:
    parts.running = running
    parts.target.control = parts.control if control else None
    parts.session._revive(may)
    assert parts.said == ["restart"] * restarted


def test_an_applied_configuration_is_noted_before_and_after_it(parts: Parts) -> None:
    applied = parts.session.apply(WORK_MEM)
    assert parts.said == [
        "note intent", "linux 1", "stage 1", "check route", "check restart=False", "reload", "renew", "note in force",
    ]  # fmt: skip
    assert (applied.restarted, applied.values, applied.fingerprint) == (False, {"work_mem": "4MB"}, "f1")
    assert (applied.outage_s, applied.seconds) == (None, 0.0)
    assert parts.session._in_force == WORK_MEM
    parts.said.clear()
    applied = parts.session.apply(BUFFERS)
    assert parts.said[3:8] == ["check route", "check restart=True", "refuse waiting", "restart", "renew"]
    assert (applied.restarted, applied.outage_s, applied.seconds) == (True, 2.5, 2.5)


def test_the_way_back_of_a_reload_is_not_judged_first(parts: Parts) -> None:
    parts.session._in_force = WORK_MEM
    parts.session.apply(BASELINE, restart="never")
    assert parts.said == ["note intent", "linux 0", "stage 0", "reload", "renew", "note in force"]
    parts.said.clear()
    parts.session.apply(BASELINE)
    assert "check restart=False" in parts.said
    parts.said.clear()
    parts.target.route = "sql"
    parts.session.apply(WORK_MEM)
    assert "check restart=False" not in parts.said


def test_who_has_shut_the_server_down_keeps_it_down(parts: Parts) -> None:
    parts.by_person = True
    with pytest.raises(ServerStopped):
        parts.session.apply(WORK_MEM)
    assert parts.said == []
    parts.bundle.manifest.local = False
    parts.session.apply(WORK_MEM)


def test_what_is_refused_leaves_the_configuration_before_staged(parts: Parts) -> None:
    parts.session._in_force = BUFFERS
    parts.broken = {"check": [ApplyError("no such value")]}
    with pytest.raises(ApplyError, match="no such value"):
        parts.session.apply(Configuration.of({"shared_buffers": "1GB", "work_mem": "64MB"}))
    assert parts.said[-3:] == ["linux 1", "stage 1", "note refused"]
    assert parts.session._in_force == BUFFERS


@pytest.mark.parametrize(
    ("error", "message", "detail"),
    [
        (RestartError("no", detail="too large"), "did not come up with shared_buffers = 1GB", "too large"),
        (RestartError("no answer"), "did not come up with shared_buffers = 1GB", "no answer"),
        (ApplyError("not in force", detail="x"), "not in force", "x"),
    ],
)
def test_what_does_not_come_up_is_taken_back_by_a_restart(
    parts: Parts, error: PgdynoError, message: str, detail: str
) -> None:
    parts.broken = {"restart": [error]}
    with pytest.raises(ApplyError, match=message) as raised:
        parts.session.apply(BUFFERS)
    assert raised.value.detail == detail
    assert parts.said[-5:] == ["linux 0", "stage 0", "note refused", "restart", "renew"]


@pytest.mark.parametrize(("running", "said"), [(True, ["restart", "reload", "renew"]), (False, ["restart"])])
def test_a_way_back_whose_restart_fails_is_a_reload_where_the_server_runs(
    parts: Parts, running: bool, said: list[str]
) -> None:
    parts.broken = {"restart": [RestartError("no", hint="Look.")]}
    parts.running = running
    with (
        contextlib.nullcontext()
        if running
        else pytest.raises(RollbackError, match="could not be brought back: no") as it
    ):
        parts.session._return_to(BASELINE, with_restart=True)
    if not running:
        assert it is not None
        assert it.value.hint == "Look. If pgdyno rollback --list shows session s1 open, run pgdyno rollback s1."
    assert parts.said == said


def test_a_way_back_by_reload_restarts_a_server_that_has_gone(parts: Parts) -> None:
    parts.running = False
    parts.session._return_to(BASELINE, with_restart=False)
    assert parts.said == ["restart", "renew"]
    parts.said.clear()
    parts.running = True
    parts.session._return_to(BASELINE, with_restart=False)
    assert parts.said == ["reload", "renew"]


def test_values_are_looked_for_in_each_database_and_of_the_baseline_all(parts: Parts) -> None:
    parts.short = ["a", "b"]
    with pytest.raises(ApplyError, match="not in force: a in shop") as raised:
        parts.session._read_back(WORK_MEM, ["shop"])
    assert raised.value.detail == "b in shop"
    parts.short = []
    parts.differences = [SimpleNamespace(name=name) for name in ("line", "theirs", "ours")]
    assert parts.session._read_back(WORK_MEM) == FOUND
    with pytest.raises(ApplyError, match="not in force: theirs differs") as raised:
        parts.session._read_back(BASELINE)
    assert raised.value.detail == "ours differs"
    with pytest.raises(ApplyError, match="not in force: ours differs") as raised:
        parts.session._read_back(BASELINE, to_measure=False)
    assert raised.value.detail is None


def test_leaving_a_session_restores_and_tells_of_damage(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def rollback(_: Session) -> Any:
        left = found.pop(0)
        if isinstance(left, BaseException):
            raise left
        return left

    whole = SimpleNamespace(is_whole=True)
    broken: Any = SimpleNamespace(is_whole=False, damage=("a file",), settings_differences=("work_mem",))
    monkeypatch.setattr(Session, "rollback", rollback)
    for left, raised in (
        ([whole], None), ([broken], RollbackError), ([RollbackError("x")], RollbackError),
        ([KeyboardInterrupt(), whole], KeyboardInterrupt),
    ):  # fmt: skip
        found[:] = left
        with contextlib.nullcontext() if raised is None else pytest.raises(raised), parts.session:
            pass
        assert found == []
    error = damage_error("s1", broken)
    assert error.detail == "a file\nwork_mem"
    assert "pgdyno rollback s1 --forget" in str(error.hint)


@pytest.mark.parametrize(
    ("whole", "closed", "is_over"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_a_session_that_was_put_back_lets_others_have_the_server(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, whole: bool, closed: bool, is_over: bool
) -> None:
    left = list[str]()

    @contextlib.contextmanager
    def down(seconds: float) -> Iterator[None]:
        left.append(f"down for {seconds:.0f} s")
        yield

    restored = SimpleNamespace(is_whole=whole, already_closed=closed, notes=())
    monkeypatch.setattr(apply, "restore", lambda *_, **__: restored)
    parts.bundle.journal = lambda: "journal"
    session = parts.session
    session._in_force = WORK_MEM
    session._held = cast(Any, SimpleNamespace(release=lambda: left.append("lock")))
    session._watch = cast(
        Any, SimpleNamespace(heart=SimpleNamespace(server_may_be_down=down), leave=lambda: left.append("watch"))
    )
    assert cast(object, session.rollback()) is restored
    assert left == [f"down for {apply.RESTART_LEASE_S:.0f} s", *["lock", "watch"] * is_over]
    assert session._in_force == BASELINE


def test_the_time_that_an_apply_took_is_a_difference_of_two_moments(parts: Parts) -> None:
    parts.now[0] = 100.0
    applied = parts.session.apply(BUFFERS)
    assert (applied.seconds, applied.outage_s) == (2.5, 2.5)


@pytest.mark.parametrize("alive", [True, False])
def test_a_process_is_noted_where_it_still_runs(parts: Parts, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    process = SimpleNamespace(start_ticks=5, boot_id="b") if alive else None
    monkeypatch.setattr(apply.ProcessIdentity, "of", lambda _: process)
    parts.session.record_process(7, "pgbench")
    assert parts.said == ["note process"] * alive


def test_a_watchdog_is_told_what_comes_where_there_is_one(parts: Parts) -> None:
    told = list[object]()
    parts.session.expect("nothing", 1.0)
    heart = SimpleNamespace(expect=lambda doing, within_s: told.append((doing, within_s)))
    parts.session._watch = cast(Any, SimpleNamespace(heart=heart))
    parts.session.expect("a load", 60.0)
    assert told == [("a load", 60.0)]
