"""SIGKILL at any moment of a session, then a rollback: files byte-identical, settings identical. SIGINT needs none."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tuner_process import await_down, await_line, tuner_of

from fix_postgres import NIGHT
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import postmaster_lock, snapshot
from pgdyno.undo import rollback
from pgdyno.undo.bundle import bundle_directories
from pgdyno.undo.journal import read_journal
from pgdyno.undo.restore import Restored
from server_image import eventually, files_of, settings_of

pytestmark = [pytest.mark.pg, pytest.mark.slow]
KILLS = 16 if NIGHT else 8
LONGEST_S = 1.6
INTENT = -1.0
"""In the place of a time: when the journal says that a change is in work."""
INTERRUPTS = 3


@pytest.fixture
def victim(server_home: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.open_or_create("killed", root=server_home)
    sandbox.start()
    yield sandbox
    sandbox.destroy()


def moment_of(sandbox: Sandbox, undo_root: Path) -> str:
    """Say what the tuner was doing when it died."""
    unfinished = [path for path in bundle_directories(undo_root) if not _is_closed(path)]
    if not unfinished:
        return "beginning"
    last = read_journal(unfinished[0] / "journal.jsonl").records[-1].kind
    return last if postmaster_lock.postmaster_pid(sandbox.data_directory) else f"{last}, server down"


def is_held_in_a_change(sandbox: Sandbox, undo_root: Path, tuner: subprocess.Popen[str]) -> bool:
    """Stop the tuner where the journal says that a change is in work; let it go on where that is over meanwhile."""
    if not moment_of(sandbox, undo_root).startswith("intent"):
        return False
    tuner.send_signal(signal.SIGSTOP)
    if moment_of(sandbox, undo_root).startswith("intent"):
        return True
    tuner.send_signal(signal.SIGCONT)
    return False


def roll_back_abandoned(undo_root: Path) -> list[Restored]:
    """Roll back every session that was killed, newest first."""
    found = rollback.list_bundles(undo_root)
    return [rollback.rollback(info.bundle) for info in found if info.state is rollback.SessionState.ABANDONED]


def _is_closed(bundle: Path) -> bool:
    return read_journal(bundle / "journal.jsonl").records[-1].kind == "closed"


@pytest.mark.requirement("R-SAF-02")
@pytest.mark.timeout(900)
def test_killed_at_any_moment(victim: Sandbox, tmp_path: Path) -> None:
    undo_root = tmp_path / "undo"
    settings, files = settings_of(victim), files_of(victim.data_directory)
    draw, moments = random.Random(20), Counter[str]()
    # One kill in each slice of time, every other from the session's begin on and not from the process's; and two that
    # wait, whatever the speed of the machine: until a change is in work, and until the server is down.
    slices = [LONGEST_S * (kill + draw.random()) / KILLS for kill in range(KILLS)]
    for number, after_s in enumerate([*slices, INTENT, None]):
        with tuner_of(victim, undo_root) as tuner:
            if after_s == INTENT:
                eventually(lambda: is_held_in_a_change(victim, undo_root, tuner), "a change in work", step_s=0.005)
            elif after_s is None:
                await_down(victim, tuner)
                moments["killed with the server down"] += 1
            else:
                if number % 2:
                    await_line(tuner, "begun")
                time.sleep(after_s)
            assert tuner.poll() is None, "the tuner ended by itself"
            tuner.kill()
        moments[moment_of(victim, undo_root)] += 1
        done = roll_back_abandoned(undo_root)
        assert all(restored.is_whole for restored in done), (after_s, done)
        assert files_of(victim.data_directory) == files, after_s
        assert snapshot.differences(settings, settings_of(victim)) == (), after_s
        assert roll_back_abandoned(undo_root) == []
        assert not [path for path in undo_root.iterdir() if path.name.endswith(".tmp")]
    print(dict(moments))  # noqa: T201 - shown with -s: how the kills fell
    assert sum(count for moment, count in moments.items() if moment.startswith("intent")) >= 1, moments
    assert sum(count for moment, count in moments.items() if "server down" in moment) >= 1, moments


def test_interrupted_twice(victim: Sandbox, tmp_path: Path) -> None:
    """Ctrl-C, and an impatient second one while the server is being put back: it is put back all the same."""
    settings, files = settings_of(victim), files_of(victim.data_directory)
    draw = random.Random(21)
    for _ in range(INTERRUPTS):
        with tuner_of(victim, tmp_path / "undo") as tuner:
            await_line(tuner, "begun")
            time.sleep(draw.uniform(0, 1))
            tuner.send_signal(signal.SIGINT)
            time.sleep(draw.uniform(0, 0.2))
            tuner.send_signal(signal.SIGINT)
            said = tuner.communicate(timeout=60)[1]
        assert "KeyboardInterrupt" in said
        assert files_of(victim.data_directory) == files, said
        assert snapshot.differences(settings, settings_of(victim)) == ()
        assert roll_back_abandoned(tmp_path / "undo") == []
