"""What a kill cannot do: a full disk, a server that hangs, that starves, that cannot start; the tuner dies too.

What people do to a server meanwhile is in people.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from people import PEOPLE, Played
from stage import NAME, Stage, await_closed, hold
from state import end_watchdogs, state_of
from tuner_process import newest

from pgdyno.linux import processes
from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import render
from pgdyno.routes.written import INTENT
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.undo import watch_record

DISK_BYTES = 400 << 20
STARVING_BYTES = 48 << 20
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")


Scene = Callable[[Stage], contextlib.AbstractContextManager[None]]
"""Does its harm on entry, while the tuner lives in a configuration, and takes away what is left of it on exit."""


@contextmanager
def hung(stage: Stage) -> Iterator[None]:
    """Stop the postmaster, and every backend too in one of two rounds."""
    os.kill(stage.postmaster(), signal.SIGSTOP)
    if stage.draw.random() < 0.5:
        for child in processes.children_of(stage.postmaster()):
            with contextlib.suppress(ProcessLookupError):  # a worker that has ended meanwhile
                os.kill(child.pid, signal.SIGSTOP)
    yield


@contextmanager
def cannot_start(stage: Stage) -> Iterator[None]:
    """Leave a configuration in the drop-in that no machine can start, and take the server down."""
    configuration = Configuration.of({"huge_pages": "on", "shared_buffers": "900GB"})
    bundle = newest(stage.disk / "undo")
    bundle.journal().append(INTENT, {"settings": dict(configuration)})  # else it would be somebody else's, and stay
    (stage.data / "pgdyno.conf").write_bytes(render(configuration, session=bundle.id))
    stage.sandbox.crash()
    yield


@contextmanager
def disk_full(stage: Stage) -> Iterator[None]:
    """Use up every byte of the disk that holds data, configuration and undo bundle; the server is killed with it."""
    ballast = stage.disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    if stage.draw.random() < 0.5:
        stage.sandbox.crash()
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def starving(stage: Stage) -> Iterator[None]:
    """Move the server into a memory cgroup that its configuration does not fit into, and make it use its memory."""
    group = MEMORY_CGROUPS / f"pgdyno-torture-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(STARVING_BYTES))
        (group / "cgroup.procs").write_text(str(stage.postmaster()))
        for child in processes.children_of(stage.postmaster()):  # what it starts from now on is in the group anyhow
            with contextlib.suppress(ProcessLookupError):  # a worker that has ended meanwhile
                (group / "cgroup.procs").write_text(str(child.pid))
        with contextlib.suppress(psycopg.Error), stage.sandbox.target().postgres.connect("postgres") as session:
            session.execute("SET work_mem = '1GB'")
            session.execute("SELECT count(DISTINCT md5(i::text)) FROM generate_series(1, 2000000) i")
        yield
    finally:
        # The server that was started again is not in it: only what is left of the old one may be.
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (MEMORY_CGROUPS / "cgroup.procs").write_text(left)
        with contextlib.suppress(OSError):
            group.rmdir()


HARM: dict[str, Scene] = {
    "hung": hung, "cannot start": cannot_start, "disk full": disk_full, "starving": starving,
}  # fmt: skip
SCENES = (*HARM, *PEOPLE)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a loop file system on a folder."""
    image, mount = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    mount.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
    try:
        mount.chmod(0o755)
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True)
        image.unlink()
        mount.rmdir()


def play(stage: Stage, name: str, undo_root: Path) -> Played:
    """Play one scene. Return seconds to restored, None when nobody did, and what was lost."""
    try:
        seconds, lost = _harm(stage, HARM[name], undo_root) if name in HARM else PEOPLE[name](stage, undo_root)
    except (AssertionError, OSError, psycopg.Error) as error:  # the tuner did not get as far as the scene
        return None, [f"{type(error).__name__}: {str(error).strip()[-600:]}"]
    if seconds is None:
        lost.append(watch_record.last_words(newest(undo_root).directory) or "no word from the watchdog")
    return seconds, lost


def _harm(stage: Stage, scene: Scene, undo_root: Path) -> Played:
    """A tuner applies, harm is done, the tuner is killed."""
    socket_folder = stage.data.parent
    before = state_of(stage.data, socket_folder)
    with hold(stage, undo_root) as tuner, scene(stage):
        tuner.kill()
        seconds = await_closed(undo_root, time.monotonic())
        return seconds, [] if seconds is None else before.differences(state_of(stage.data, socket_folder))


def play_all(folder: Path, *, rounds: int, seed: int, names: tuple[str, ...] = SCENES) -> int:
    """Play the scenes so many times each, as root; print each, and return 1 when anything was lost."""
    draw, failures = random.Random(seed), 0
    with small_disk(folder) as disk:
        stage = Stage(Sandbox.open_or_create(NAME, root=disk), disk, draw)
        try:
            for name in names * rounds:
                stage.sandbox.start()
                seconds, lost = play(stage, name, disk / "undo")
                failures += bool(lost) or seconds is None
                took = "never restored" if seconds is None else f"restored in {seconds:.1f} s"
                print(f"{name}: {took}{'; LOST ' + '; '.join(lost) if lost else ', everything as it was'}", flush=True)
                end_watchdogs(disk / "undo")
                shutil.rmtree(disk / "undo", ignore_errors=True)
        finally:
            stage.sandbox.destroy()
    print(f"{len(names) * rounds} scenes, {failures} failures")
    return 1 if failures else 0
