"""A short run of bench/torture: every scene once, a few kills of a real tune, and a hostile owner for a minute or two.

The long forms are `make nightly`; PGDYNO_TEST_KILLS and PGDYNO_TEST_MOVES make these longer too.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import launch
import pytest
import scenes
import state
from hostile import torment
from hostile_moves import MOVES
from kernel_values import changes, kernel_kept, kernel_values
from kills import Kills, summary
from kinds import KINDS

import fix_postgres
from pgdyno.sandbox.sandbox import Sandbox
from server_image import eventually

pytestmark = [
    pytest.mark.host,
    pytest.mark.pg,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
SHORT = ("in a restart", "owner's worker", "both watchdogs", "last instant")
"""Kinds of which each run has one; so many more are drawn from all."""
MORE_KILLS = int(os.environ.get("PGDYNO_TEST_KILLS", "0"))
MOVES_AT_ONCE = int(os.environ.get("PGDYNO_TEST_MOVES", "30"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts and cgroups need root")
@pytest.mark.parametrize(
    "scene",
    [
        "disk full",
        "folder is a link",
        pytest.param("starving", marks=pytest.mark.alone),  # whoever watches this machine sees what the kernel kills
        pytest.param(
            "main file edited",
            marks=pytest.mark.night("pg/test_undo_others.py::test_a_line_appended_to_the_main_file_stays_in_force"),
        ),
        pytest.param(
            "drop-in edited",
            marks=pytest.mark.night("pg/test_undo_others.py::test_lines_written_into_the_drop_in_stay_in_force"),
        ),
        pytest.param(
            "server stopped",
            marks=pytest.mark.night("pg/test_watchdog.py::test_a_server_that_a_person_shuts_down_is_left_down"),
        ),
        pytest.param(
            "killed in our restart", marks=pytest.mark.night("pg/test_watchdog.py::test_a_tuner_killed_in_a_restart")
        ),
        pytest.param(
            "data directory away",
            marks=pytest.mark.night("pg/test_watchdog_password.py::test_a_data_directory_that_is_away_for_a_while"),
        ),
        pytest.param(
            "password in the DSN",
            marks=pytest.mark.night("pg/test_watchdog_password.py::test_killed_in_a_configuration"),
        ),
        pytest.param(
            "two tuners",
            marks=pytest.mark.night(
                "pg/test_two_tuners.py::test_the_second_tuner_of_another_account_is_refused_and_the_first_goes_on"
            ),
        ),
        pytest.param(
            "ALTER SYSTEM before",
            marks=pytest.mark.night("pg/test_alter_system_before.py::test_a_killed_session_is_undone_with_the_server"),
        ),
        pytest.param(
            "ALTER SYSTEM in between",
            marks=pytest.mark.night("pg/test_alter_system_before.py::test_what_a_person_sets_meanwhile_survives"),
        ),
        pytest.param("hung", marks=pytest.mark.night("pg/test_watchdog.py::test_a_server_that_hangs_goes_on")),
        pytest.param(
            "cannot start", marks=pytest.mark.night("pg/test_watchdog.py::test_a_configuration_that_cannot_start")
        ),
    ],
)
def test_every_scene_ends_with_the_server_as_it_was(server_home: Path, scene: str) -> None:
    if scene == "starving" and not (scenes.MEMORY_CGROUPS / "cgroup.procs").exists():
        pytest.skip("this machine has no version 1 memory cgroups")
    assert scenes.play_all(server_home, rounds=1, seed=5, names=(scene,)) == 0


@pytest.mark.alone
def test_kills_of_a_real_tune(server_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fix_postgres.NIGHT:  # soon: the phases that come later are the night's
        monkeypatch.setattr("kills.LONGEST_S", 4.0)
        monkeypatch.setattr("kills.SHARE_LEFT_ALONE", 0.0)
    kills = Kills(server_home, random.Random(6), linux=os.geteuid() == 0)
    try:
        for kind in (*SHORT, *[None] * MORE_KILLS):
            kills.once(kind)
    finally:
        kills.close()
    assert all(kill.whole for kill in kills.done), summary(kills.done)
    assert any(kill.doing != "no session" for kill in kills.done), summary(kills.done)


@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_a_hostile_owner_gains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    folder = fix_postgres.public_dir()
    try:
        failed = torment(folder, moves=MOVES_AT_ONCE, seed=7)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    told = capsys.readouterr().out
    assert failed == 0, told
    assert "done: restart" in told, "the moves left no session time to work: nothing was shown"
    assert "last session" in told


def test_every_scene_is_played() -> None:
    (mark,) = [one for one in test_every_scene_ends_with_the_server_as_it_was.pytestmark if one.name == "parametrize"]
    assert sorted(one if isinstance(one, str) else one.values[0] for one in mark.args[1]) == sorted(scenes.SCENES)


def test_there_are_as_many_kinds_as_promised() -> None:
    assert len(KINDS) >= 20
    assert len(MOVES) >= 15
    assert set(SHORT) <= KINDS.keys()


def test_the_comparison_sees_what_a_server_takes_along(server_home: Path) -> None:
    """The check itself: a server that was started by hand, and then by somebody with other limits and a secret."""
    sandbox = Sandbox.open_or_create("seen", root=server_home)
    try:
        sandbox.start()
        own = launch.OwnServer(sandbox.data_directory, sandbox.log_file)
        own.restart()
        before = state.process_of(sandbox.data_directory)
        own.restart()
        assert state.State(before).differences(state.State(state.process_of(sandbox.data_directory))) == []
        assert state.told_of(launch.LEAK.encode(), sandbox.data_directory) == []
        own.stop()
        program = Path(before["process program"]).with_name("pg_ctl")
        words = [str(program), "start", "-w", "-D", str(sandbox.data_directory), "-l", os.devnull]
        library = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        environment = launch.OWN | launch.SECRETS | library
        user = sandbox.record.os_user
        own = os.getpriority(os.PRIO_PROCESS, 0)
        nicer = min(own + 3, 19)  # the highest; and the way back may be denied to root, too
        subprocess.run(
            ["/usr/bin/nice", "-n", "3", *words], env=environment, user=user, cwd="/", check=True,
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        after = state.process_of(sandbox.data_directory)
        found = " ".join(state.State(before).differences(state.State(after)))
        assert own == nicer or f"process nice: was {own}, is {nicer}" in found
        assert "process limit Max open files" in found
        assert "process variable PGPASSWORD" in found
        assert state.told_of(launch.LEAK.encode(), sandbox.data_directory)
    finally:
        sandbox.destroy()


@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0, reason="kernel values are root's to write")
def test_kernel_values_that_are_left_changed_are_told_and_put_back() -> None:
    """The guard itself, around every part of bench/torture and every test that runs alone."""
    before = kernel_values()
    disks = {path.parents[1] for path in before if path.is_relative_to("/sys/block")}
    assert all((disk / "size").read_text().strip() != "0" for disk in disks), "an idle loop device is no disk"
    dirty, huge = Path("/proc/sys/vm/dirty_bytes"), Path("/sys/kernel/mm/transparent_hugepage/enabled")
    with kernel_kept() as left:
        dirty.write_text("939524096")
        huge.write_text("madvise" if "[never]" in before[huge] else "never")
    assert f"{dirty}: was {before[dirty]}, is 939524096" in left
    assert any(line.startswith(f"{huge}: was") for line in left)
    assert not any(line.startswith("not put back") for line in left)
    assert changes(before) == []


def test_a_tuner_hears_an_interrupt_also_where_a_shell_ignores_it(tmp_path: Path) -> None:
    """What a shell starts with & ignores SIGINT, and so would every process below it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with (tmp_path / "out").open("w+b") as out:
            words = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
            heard = launch.start_other(words, dict(os.environ), cpu=0, stdout=out, stderr=out)
            eventually(lambda: b"up" in (tmp_path / "out").read_bytes(), "the program is up")
            heard.send_signal(signal.SIGINT)
            assert heard.wait(30) == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)
