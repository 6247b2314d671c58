"""When a watchdog acts."""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.server.health import Health
from pgdyno.undo import heartbeat, watch_record, watchdog
from pgdyno.undo import watch as watch_module
from pgdyno.undo.heartbeat import Beat, Heart
from pgdyno.undo.watch import Watch
from pgdyno.undo.watch_judge import Turn, WatchdogView, reason_to_act
from pgdyno.undo.watch_record import Deadlines, Entry, WatchdogRole

if TYPE_CHECKING:
    from pgdyno.server.postgres import Postgres
    from pgdyno.undo.bundle import UndoBundle

LIMITS = Deadlines(heartbeat_s=10, health_s=30, grace_s=5)
WELL = WatchdogView(
    now=1000.0,
    awake_since=0.0,
    owner=42,
    owner_is_alive=True,
    beat=Beat(999.5),
    health=Health.ALIVE,
    unhealthy_since=None,
)
seconds = st.floats(0, 1e6)


def test_all_is_well() -> None:
    assert reason_to_act(WELL, LIMITS) is None


def test_a_dead_tuner_is_enough() -> None:
    assert reason_to_act(replace(WELL, owner_is_alive=False), LIMITS) == "process 42 is gone"


@pytest.mark.parametrize(("age_s", "acts"), [(9.0, False), (11.0, True)])
def test_an_old_beat(age_s: float, acts: bool) -> None:
    found = reason_to_act(replace(WELL, beat=Beat(WELL.now - age_s)), LIMITS)
    assert (found is not None) is acts
    assert found is None or "no heartbeat for 11 s" in found


def test_a_missing_beat_counts_from_the_watchdogs_own_start() -> None:
    assert reason_to_act(replace(WELL, beat=None, awake_since=995.0), LIMITS) is None
    assert reason_to_act(replace(WELL, beat=None, awake_since=980.0), LIMITS) is not None


def test_a_broken_promise_names_what_was_promised() -> None:
    late = Beat(999.5, until=980.0, doing="load of trial 7")
    assert reason_to_act(replace(WELL, beat=late), LIMITS) == "process 42 is 20 s late with: load of trial 7"
    assert reason_to_act(replace(WELL, beat=replace(late, until=995.0)), LIMITS) is None


def test_a_restart_is_forgiven_and_not_for_ever() -> None:
    down = replace(WELL, health=Health.ABSENT, unhealthy_since=950.0)
    assert reason_to_act(down, LIMITS) == "the server has been absent for 50 s"
    assert reason_to_act(replace(down, beat=Beat(999.5, down_until=990.0)), LIMITS) is None
    assert reason_to_act(replace(down, beat=Beat(999.5, down_until=970.0)), LIMITS) is None, "just within its time"
    assert reason_to_act(replace(down, beat=Beat(999.5, down_until=960.0)), LIMITS) is not None


@given(now=seconds, beat=seconds, until=seconds, sick=seconds)
def test_a_watchdog_that_just_woke_up_judges_nobody_alive(now: float, beat: float, until: float, sick: float) -> None:
    """A host that was paused makes everybody late at once."""
    view = replace(
        WELL, now=now, awake_since=now, beat=Beat(beat, until), health=Health.SILENT, unhealthy_since=min(sick, now)
    )
    assert reason_to_act(view, LIMITS) is None


@given(at=seconds, until=st.one_of(seconds, st.just(math.inf)), down=seconds, doing=st.text())
def test_a_beat_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, at: float, until: float, down: float, doing: str
) -> None:
    folder = tmp_path_factory.mktemp("beat")
    heartbeat.write(folder, Beat(at, until, down, doing))
    first = (folder / heartbeat.NAME).stat().st_size
    found = heartbeat.read(folder)
    assert found is not None
    assert (found.at, found.until, found.down_until) == (at, until, down)
    heartbeat.write(folder, Beat(at, doing="x"))
    assert (folder / heartbeat.NAME).stat().st_size == first


def test_no_beat_and_a_torn_one(tmp_path: Path) -> None:
    assert heartbeat.read(tmp_path) is None
    (tmp_path / heartbeat.NAME).write_text('{"at": 1')
    assert heartbeat.read(tmp_path) is None


def test_a_heart_beats_by_itself_and_keeps_its_promises(tmp_path: Path) -> None:
    side = threading.Event()
    heart = Heart(tmp_path, period_s=0.01)
    heart.start(each=side.set)
    heart.expect("a load", 100.0)
    with heart.server_may_be_down(50.0):
        inside = heartbeat.read(tmp_path)
    assert side.wait(30)
    first = heartbeat.read(tmp_path)
    deadline = time.monotonic() + 30
    while heartbeat.read(tmp_path) == first and time.monotonic() < deadline:
        time.sleep(0.01)
    heart.stop()
    heart.stop()
    last = heartbeat.read(tmp_path)
    assert inside is not None
    assert first is not None
    assert last is not None
    assert last.at > first.at
    assert inside.down_until > inside.at
    assert last.down_until == 0.0
    assert (last.until, last.doing) == (first.until, "a load")
    assert inside.at < last.until < inside.at + 200.0
    heart.expect("whatever comes")
    promised = heartbeat.read(tmp_path)
    assert promised is not None
    assert promised.until == math.inf


def test_a_side_task_that_fails_does_not_stop_the_heart(tmp_path: Path) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise OSError("no process can be started")

    heart = Heart(tmp_path, period_s=0.01)
    heart.start(each=fail)
    deadline = time.monotonic() + 30
    while len(calls) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    heart.stop()
    assert len(calls) >= 3


def test_who_watches_is_known_and_the_files_are_private(tmp_path: Path) -> None:
    assert watch_record.identity(tmp_path, WatchdogRole.FIRST) is None
    watch_record.sign_in(tmp_path, WatchdogRole.FIRST, ProcessIdentity.own())
    assert watch_record.identity(tmp_path, WatchdogRole.FIRST) == ProcessIdentity.own()
    assert watch_record.identity(tmp_path, WatchdogRole.SECOND) is None
    watch_record.write_deadlines(tmp_path, LIMITS)
    assert watch_record.read_deadlines(tmp_path) == LIMITS
    assert watch_record.read_oom_score(tmp_path) == Path("/proc/self/oom_score_adj").read_text().strip()
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_watchdog_without_its_file_uses_the_defaults(tmp_path: Path) -> None:
    assert watch_record.read_deadlines(tmp_path) == Deadlines() == Deadlines(10, 30, 10), "what docs/ tell people"
    assert watch_record.read_oom_score(tmp_path) == "0"
    assert watch_record.last_words(tmp_path) is None


@pytest.mark.parametrize("value", [0.0, 0.5, 3601.0, math.nan, math.inf])
def test_deadlines_have_bounds(value: float) -> None:
    with pytest.raises(UsageError, match="health_s"):
        Deadlines(health_s=value)


def test_a_watchdog_gives_up_only_where_trying_makes_no_sense(tmp_path: Path) -> None:
    manifest = SimpleNamespace(local=True, data_directory=str(tmp_path / "away"))
    bundle = SimpleNamespace(directory=tmp_path / "undo" / "bundle", manifest=manifest)
    given_up, deleted = watchdog.GIVE_UP_S + 1, watchdog.DELETED_S + 1

    def why_never(tried_s: float, missing_s: float, *, unlinked: bool = False) -> str | None:
        return watchdog._why_never(bundle, tried_s, missing_s, unlinked=unlinked)

    assert why_never(given_up - 2, given_up - 2) is None  # the whole folder is away: a disk
    assert why_never(61, 61, unlinked=True) == "the undo bundle was deleted"
    assert why_never(61, 59, unlinked=True) is None  # somebody may copy it back from a backup
    bundle.directory.parent.mkdir()
    assert why_never(deleted, deleted - 2) is None
    assert why_never(deleted, deleted) == "the undo bundle was deleted"
    bundle.directory.mkdir()
    assert why_never(0, 0) is None
    assert why_never(given_up, 0) == "not restored within 24 h"


def test_the_pause_before_a_turn_grows_with_the_short_ones_before_it() -> None:
    turn, pauses = Turn(100.0), [0.0]
    for _ in range(2000):
        turn = turn.followed(turn.began + turn.pause_s + 0.07)
        pauses.append(turn.pause_s)
    assert pauses[:10] == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert set(pauses[10:]) == {30.0}, "the first of several that are killed act at once, and a day has 2,880 lines"
    assert turn.followed(turn.began + 59.9).short == turn.short + 1
    assert turn.followed(turn.began + 60.0) == Turn(turn.began + 60.0)


def test_who_takes_over_knows_the_turn_before_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[Turn] = []
    monkeypatch.setattr(watchdog.heartbeat, "now", lambda: 1000.0)
    monkeypatch.setattr(watchdog._Watchdog, "stay", lambda dog, _: turns.append(dog._turn))
    manifest = SimpleNamespace(owner=ProcessIdentity.own())
    bundle = cast("UndoBundle", SimpleNamespace(directory=tmp_path, id="x", manifest=manifest, is_closed=lambda: False))
    for before in (None, Turn(999.0, 3), Turn(900.0, 3)):
        watchdog._take_turn(bundle, cast("Postgres", None), None, before)
    assert turns == [Turn(1000.0), Turn(1000.0, 4), Turn(1000.0)]


def test_who_takes_over_on_a_disk_that_fails_has_not_been_told_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_record.leave_to_person(tmp_path)
    assert watch_record.is_left_to_person(tmp_path)

    def fails(_: Path) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "exists", fails)
    assert not watch_record.is_left_to_person(tmp_path)


def test_a_second_watchdog_ends_where_the_bundle_was_deleted_and_not_where_it_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot read there that the session was closed, and would try to restore it for a day."""
    monkeypatch.setattr(watchdog._Watchdog, "watch", lambda _: 77)
    manifest = SimpleNamespace(owner=ProcessIdentity.own())
    place = tmp_path / "undo" / "bundle"
    for away, code in ((shutil.rmtree, 5), (lambda folder: folder.rename(tmp_path / "mounted elsewhere"), 77)):
        place.mkdir(parents=True)
        bundle = SimpleNamespace(directory=place, id="bundle", manifest=manifest, is_closed=lambda: False)
        with (place / watch_record.LOCK).open("a") as first, ThreadPoolExecutor(1) as second:
            fcntl.flock(first, fcntl.LOCK_EX)
            taken = second.submit(watchdog._take_turn, bundle, None, None)
            deadline = time.monotonic() + 60
            while watch_record.identity(place, WatchdogRole.SECOND) is None and time.monotonic() < deadline:
                time.sleep(0.01)
            away(place.parent)
            first.close()
            assert taken.result(60) == code


def test_sigterm_ends_a_watchdog_that_tries_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that had it act does not: only what comes while it tries."""

    def in_vain(*_: object, **__: object) -> None:
        raise EnvironmentUnsuitable("the disk is away")

    tries = iter([lambda dog: None, lambda dog: None, lambda dog: dog._ask_to_end(15, None)])
    monkeypatch.setattr(watchdog.rollback, "rollback", in_vain)
    monkeypatch.setattr(watchdog._Watchdog, "_see_to_the_second", lambda dog: next(tries)(dog))
    monkeypatch.setattr(watchdog, "wait_until", lambda *_, **__: True)
    monkeypatch.setattr(watchdog, "_set_oom_score", lambda _: None)
    gone = SimpleNamespace(pid=1, is_alive=lambda: False)
    bundle = SimpleNamespace(
        directory=tmp_path, id="x", release_reserve=lambda: None, manifest=SimpleNamespace(owner=gone)
    )
    with (tmp_path / watch_record.LOCK).open("a") as lock:
        dog = watchdog._Watchdog(cast("UndoBundle", bundle), cast("Postgres", None), lock.fileno())
        dog._ask_to_end(15, None)
        assert dog._act("SIGTERM") == 5
    assert list(tries) == []
    assert watch_record.is_left_to_person(tmp_path)


def test_what_would_keep_a_watchdog_from_restoring_is_signed_too(tmp_path: Path) -> None:
    own = ProcessIdentity.own()
    watch_record.sign_in(tmp_path, WatchdogRole.FIRST, own)
    watch_record.sign_in(tmp_path, WatchdogRole.SECOND, own, EnvironmentUnsuitable("no way in", hint="Fix it."))
    assert watch_record.entry(tmp_path, WatchdogRole.FIRST) == Entry(own)
    assert watch_record.entry(tmp_path, WatchdogRole.SECOND) == Entry(own, ("no way in", None, "Fix it."))
    watch = Watch(cast("UndoBundle", SimpleNamespace(directory=tmp_path)), cast("Heart", None), [], {"password": "s3"})
    assert not watch.stands()  # one process in both roles is not two
    assert "s3" not in repr(watch)
    with pytest.raises(EnvironmentUnsuitable, match=r"could not restore the server.*no way in") as caught:
        watch.require_proof()
    assert caught.value.hint == "Nothing was changed. Fix it."


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"obstacle": null}', '{"process": 1, "obstacle": [1]}'])
def test_a_role_that_cannot_be_read_is_nobodys(tmp_path: Path, text: str) -> None:
    (tmp_path / "watchdog.first").write_text(text)
    assert watch_record.entry(tmp_path, WatchdogRole.FIRST) is None
    assert watch_record.identity(tmp_path, WatchdogRole.FIRST) is None


_CHILD = """
import json, os, sys
from pgdyno.undo.watch import take_secrets
given = take_secrets()
print(json.dumps({"given": given, "variables": dict(os.environ), "stdin": os.readlink("/proc/self/fd/0")}))
"""


def test_secrets_go_by_a_pipe_and_by_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{_CHILD}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("PGPASSWORD", "of the shell")
    monkeypatch.setenv("PGAPPNAME", "kept")
    with watch_module.spawn(tmp_path, {"password": "s3'\\"}) as child:
        assert child.wait(30) == 0, watch_record.last_words(tmp_path)
    said = json.loads(watch_record.last_words(tmp_path) or "")
    assert said["given"] == {"password": "s3'\\"}
    assert said["stdin"] == "/dev/null"
    assert "PGPASSWORD" not in said["variables"]
    assert said["variables"]["PGAPPNAME"] == "kept"


@pytest.mark.parametrize(
    ("given", "expected"), [(b"", None), (b'{"pass', None), (b"{}\n", {}), (b'{"a": 1}\n', {"a": "1"})]
)
def test_a_way_that_was_cut_is_told_from_one_without_secrets(given: bytes, expected: object) -> None:
    code = "from pgdyno.undo.watch import take_secrets; print(take_secrets())"
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(expected)


def test_each_deadline_is_kept_until_it_is_over() -> None:
    """Ten seconds without a beat or late with a promise, and thirty without a server, are just within their time."""
    down = replace(WELL, health=Health.ABSENT, unhealthy_since=970.0)
    for view, over in (
        (replace(WELL, beat=Beat(990.0)), replace(WELL, beat=Beat(989.99))),
        (replace(WELL, beat=Beat(999.5, until=990.0)), replace(WELL, beat=Beat(999.5, until=989.99))),
        (down, replace(down, unhealthy_since=969.99)),
        (replace(down, awake_since=970.0, unhealthy_since=0.0), replace(down, awake_since=969.0, unhealthy_since=0.0)),
    ):
        assert reason_to_act(view, LIMITS) is None
        assert reason_to_act(over, LIMITS) is not None


@pytest.mark.parametrize("value", [1.0, 3600.0])
def test_a_deadline_may_be_a_second_and_an_hour(value: float) -> None:
    assert Deadlines(value, value, value) == Deadlines(heartbeat_s=value, health_s=value, grace_s=value)


def test_a_beat_is_256_bytes_with_60_characters_of_what_is_done(tmp_path: Path) -> None:
    heartbeat.write(tmp_path, Beat(1.0, doing="x" * 61))
    found = heartbeat.read(tmp_path)
    assert found is not None
    assert found.doing == "x" * 60
    assert (tmp_path / heartbeat.NAME).stat().st_size == 256
    assert heartbeat.PERIOD_S == 1.0
