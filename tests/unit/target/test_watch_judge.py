"""When a watchdog acts."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.target import heartbeat, watch_record, watchdog
from pgdyno.target.health import Health
from pgdyno.target.heartbeat import Beat, Heart
from pgdyno.target.identity import ProcessIdentity
from pgdyno.target.watch_judge import Sight, reason_to_act
from pgdyno.target.watch_record import Deadlines, Role

LIMITS = Deadlines(heartbeat_s=10, health_s=30, grace_s=5)
WELL = Sight(
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
    assert found is None or "no sign of life for 11 s" in found


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
    assert reason_to_act(replace(down, beat=Beat(999.5, down_until=960.0)), LIMITS) is not None


@given(now=seconds, beat=seconds, until=seconds, sick=seconds)
def test_a_watchdog_that_just_woke_up_judges_nobody_alive(now: float, beat: float, until: float, sick: float) -> None:
    """A host that was paused makes everybody late at once."""
    sight = replace(
        WELL, now=now, awake_since=now, beat=Beat(beat, until), health=Health.SILENT, unhealthy_since=min(sick, now)
    )
    assert reason_to_act(sight, LIMITS) is None


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
    assert watch_record.identity(tmp_path, Role.FIRST) is None
    watch_record.sign_in(tmp_path, Role.FIRST, ProcessIdentity.own())
    assert watch_record.identity(tmp_path, Role.FIRST) == ProcessIdentity.own()
    assert watch_record.identity(tmp_path, Role.SECOND) is None
    watch_record.write_deadlines(tmp_path, LIMITS)
    assert watch_record.read_deadlines(tmp_path) == LIMITS
    assert watch_record.read_oom_score(tmp_path) == Path("/proc/self/oom_score_adj").read_text().strip()
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_watchdog_without_its_file_uses_the_defaults(tmp_path: Path) -> None:
    assert watch_record.read_deadlines(tmp_path) == Deadlines()
    assert watch_record.read_oom_score(tmp_path) == "0"
    assert watch_record.last_words(tmp_path) is None


@pytest.mark.parametrize("value", [0.0, 0.5, 3601.0, math.nan, math.inf])
def test_deadlines_have_bounds(value: float) -> None:
    with pytest.raises(UsageError, match="health_s"):
        Deadlines(health_s=value)


def test_a_watchdog_gives_up_only_where_trying_makes_no_sense(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    manifest = SimpleNamespace(local=True, data_directory=str(data))
    bundle = SimpleNamespace(directory=tmp_path / "bundle", manifest=manifest)
    assert watchdog._why_never(bundle, 0) == "the undo bundle is gone"
    bundle.directory.mkdir()
    assert watchdog._why_never(bundle, 0) is None
    assert watchdog._why_never(bundle, watchdog.GIVE_UP_S + 1) == "not restored within 24 h"
    data.rmdir()
    assert watchdog._why_never(bundle, 0) == "the data directory is gone"
    manifest.local = False
    assert watchdog._why_never(bundle, 0) is None
