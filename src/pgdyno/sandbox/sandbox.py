"""The sandbox: a PostgreSQL of pgdyno's own, which may be broken, restarted and thrown away.

A sandbox is a folder below the user's cache: `sandbox.json` (the record, written last), and `server/` with the data
directory, the log and the socket, which only the server's user may enter. One pgdyno at a time holds it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.control import PgCtl
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, RestartError, UsageError
from pgdyno.linux.cpu import CpuGroup, ServerCpu
from pgdyno.model.facts import Unknown
from pgdyno.owner.hands import hands_of
from pgdyno.owner.runner import LocalRunner, Runner
from pgdyno.owner.signals import deferred_signals
from pgdyno.sandbox import cluster, loopback, registry
from pgdyno.sandbox.memory_group import MemoryGroup, left_behind, unbind
from pgdyno.sandbox.registry import SandboxLock, SandboxRecord
from pgdyno.server import binaries, databases, places, postmaster_lock
from pgdyno.server.binaries import Build
from pgdyno.server.postgres import Postgres
from pgdyno.targets import accounts
from pgdyno.targets.target import Target

log = logging.getLogger(__name__)

DEFAULT_NAME = "default"
CLOSE_TIMEOUT_S = 60.0
"""How long a sandbox that is let go may take for its last checkpoint before it is stopped without one."""
_OURS = {"server", registry.RECORD, f"{registry.RECORD}.partial", loopback.PASSFILE}


class Sandbox:
    """One sandbox, held by this process until `close` or `destroy`. Make it with `open_or_create`.

    Works as root, whose server runs as the system user `pgdyno`, and as an ordinary user.
    """

    def __init__(
        self,
        record: SandboxRecord,
        build: Build,
        folder: Path,
        lock: SandboxLock,
        runner: Runner,
        memory_bytes: int | None = None,
    ) -> None:
        self.record = record
        self.folder = folder
        self._build = build
        self._lock = lock
        self._runner = runner
        self._control = self._pg_ctl()
        self._group = self._cpu_group()
        self._loopback: int | None = None
        self._memory_bytes = memory_bytes
        self._memory: MemoryGroup | None = None

    @classmethod
    def open_or_create(
        cls,
        name: str = DEFAULT_NAME,
        *,
        bin_dir: Path | None = None,
        root: Path | None = None,
        runner: Runner | None = None,
        memory_bytes: int | None = None,
    ) -> Sandbox:
        """Open the sandbox of this name, or make it; the server is left as it is, stopped when new.

        `bin_dir` names the build, by default the embedded one (or the one that the sandbox was made with); `root`
        replaces the cache folder, and `runner` the LocalRunner that starts programs. `memory_bytes` bounds the server's
        memory, page cache included, for as long as the sandbox is held: it needs root, and the server is started again
        inside. Raises UsageError on a wrong folder or a sandbox of another major version, and EnvironmentUnsuitable
        when another process holds it, or the folder, the disk or the build will not do.
        """
        runner = runner or LocalRunner()
        folder = registry.sandbox_dir(name, root)
        user = accounts.server_user(runner)
        accounts.check_can_enter(runner, user, next(part for part in folder.parents if part.is_dir()))
        lock = SandboxLock(name, root)
        lock.acquire()
        record = None
        try:
            record = registry.read_record(folder)
            if record is None:
                record, build = _make(name, folder, bin_dir, user, runner)
            else:
                build = _build_of(record, bin_dir, folder, runner)
            return cls(record, build, folder, lock, runner, memory_bytes)
        except BaseException:
            lock.release(delete=record is None)
            raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Return the sandbox's name."""
        return self.record.name

    @property
    def data_directory(self) -> Path:
        """Return the data directory."""
        return self.folder / "server" / "data"

    @property
    def log_file(self) -> Path:
        """Return the server's log."""
        return self.folder / "server" / "server.log"

    def is_running(self) -> bool:
        """Tell whether the server runs."""
        return self._control.is_running()

    def start(self) -> None:
        """Start the server and wait; make `pgdyno_observer` if it is missing. Raise RestartError with the log."""
        with places.telling_full(self.data_directory):
            self._bring_up()

    def _bring_up(self) -> None:
        elsewhere = postmaster_lock.port(self.data_directory) not in (None, cluster.PORT)
        if self.is_running() and self._loopback is None and elsewhere:
            self._control.stop("fast")  # a killed pgdyno had opened it to the loopback
        if self._memory_bytes is not None and self._memory is None:
            self._bound(self._memory_bytes)
        elif self._memory is None:
            self._leave_bound()
        if not self.is_running():
            self._start_server()
        databases.ensure_observer(self._postgres("postgres"))

    def open_loopback(self) -> None:
        """Let the server listen on a free port of 127.0.0.1, for loads by TCP; until it is let go. Restarts it.

        Only a password that is made here, and kept in a file of this user, opens a session there.
        """
        if self._loopback is not None:
            return
        self.start()
        loopback.set_password(self._postgres("postgres"), port := loopback.free_port(), self._passfile)
        loopback.admit(self.data_directory)
        self._control.stop("fast")
        self._loopback = port
        self.start()

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `smart`, `fast` or `immediate`."""
        self._control.stop(mode)
        self._set_stay_up(False)

    def crash(self) -> None:
        """Kill the postmaster with SIGKILL and wait until its backends are gone; the next start recovers from WAL."""
        pid = postmaster_lock.postmaster_pid(self.data_directory)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            postmaster_lock.wait_gone(self.data_directory)

    def recreate(self, bin_dir: Path | None = None) -> None:
        """Throw the data away and run initdb again, with the same build or another; the server is stopped after it."""
        wanted = bin_dir or (Path(self.record.bin_dir) if self.record.bin_dir else None)
        binaries.find_build(self._runner, wanted, self.record.os_user)  # a wrong folder is told before anything is lost
        self._remove_files()
        self.record, self._build = _make(self.name, self.folder, wanted, self.record.os_user, self._runner)
        self._control = self._pg_ctl()
        self._group = self._cpu_group()

    def destroy(self) -> None:
        """Stop the server, remove every trace of the sandbox and let it go; do nothing when it was let go."""
        if not self._lock.held:
            return
        self._remove_files()
        cluster.remove_tree(self.folder)
        self._lock.release(delete=True)

    def close(self, *, keep: bool = True) -> None:
        """Let the sandbox go: with `keep`, its data stay, and its server if the user started it; else destroy it."""
        with deferred_signals():  # a second Ctrl-C must not leave the server running
            if not keep:
                self.destroy()
                return
            is_altered = self._memory is not None or self._loopback is not None
            if self._lock.held and (is_altered or not self.record.stay_up):
                self._stop_at_last()
                self._remove_group()
                self._as_it_was()
            self._lock.release()

    def leave_running(self) -> None:
        """Let the sandbox go and its server run on, until `stop` is called."""
        self._set_stay_up(True)
        self._lock.release()

    def target(self) -> Target:
        """Return the sandbox as a target; its sessions go to `pgdyno_observer`."""
        return Target(
            name=f"sandbox {self.name}",
            postgres=self._postgres(databases.OBSERVER),
            runner=self._runner,
            control=self._control,
            bin_dir=self._build.bin_dir,
            os_user=self.record.os_user,
            disposable=True,
            directory=self.data_directory,
            cpu=ServerCpu(self._postmaster, self._group if isinstance(self._group, CpuGroup) else None),
            client_bin_dir=binaries.client_bin_dir(self._build.bin_dir),
            block_reads=None if self._memory is None else self._memory.device_reads,
        )

    def clone_database(self, template: str, name: str) -> None:
        """Make `name` a fresh copy of `template`; see `databases.clone_database`."""
        databases.clone_database(self._postgres("postgres"), template, name)

    def drop_database(self, name: str) -> None:
        """Drop a database with every session in it; do nothing when there is none."""
        databases.drop_database(self._postgres("postgres"), name)

    @property
    def _passfile(self) -> Path:
        return self.folder / loopback.PASSFILE

    def _postgres(self, dbname: str) -> Postgres:
        where = make_conninfo("", host=self.record.socket_dir, user=cluster.SUPERUSER, dbname=dbname)
        if self._loopback is None:
            return Postgres(make_conninfo(where, port=cluster.PORT))
        return Postgres(make_conninfo(where, port=self._loopback, passfile=str(self._passfile)))

    def _pg_ctl(self) -> PgCtl:
        return PgCtl(
            runner=self._runner,
            bin_dir=self._build.bin_dir,
            data_directory=self.data_directory,
            log_file=self.log_file,
            user=self.record.os_user,
            env=self._build.env,
            cgroups=self._cgroups,
        )

    def _postmaster(self) -> int | None:
        return postmaster_lock.postmaster_pid(self.data_directory)

    def _cpu_group(self) -> CpuGroup | Unknown:
        """Return the cgroup that the running server is in, else the one that the next start goes into."""
        pid = self._postmaster()
        found = CpuGroup.holding(pid) if pid is not None else None
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:10]
        group = found or CpuGroup.create(f"sandbox-{digest}")
        if isinstance(group, Unknown):
            log.info("server CPU is read from /proc: %s", group.reason)
        return group

    def _cgroups(self) -> Sequence[Path]:
        """Return the cgroups to start in; the group is made again if somebody tidied it away."""
        if isinstance(self._group, CpuGroup) and not self._group.path.is_dir():
            self._group = self._cpu_group()
        paths = self._group.paths if isinstance(self._group, CpuGroup) else ()
        return (*paths, *(() if self._memory is None else self._memory.paths))

    def _bound(self, limit: int) -> None:
        """Make the memory group, and have the next start enter it with nothing of the data in the page cache."""
        cpu = self._group if isinstance(self._group, CpuGroup) else None
        self._memory = MemoryGroup.create(self._memory_label(), limit, cpu, self.data_directory)
        if self.is_running():
            self._control.stop()
        hands_of(self.data_directory).forget_cached(self.data_directory)

    def _leave_bound(self) -> None:
        """Take the server out of the bound that a killed pgdyno left it in: nobody asked for it now."""
        groups = left_behind(self._memory_label(), self._postmaster())
        if groups and self.is_running():
            self._control.stop()
        for group in groups:
            with suppress(OSError):
                group.rmdir()
        if isinstance(self._group, CpuGroup) and self._group.version == 2 and unbind(self._group):
            log.info("the bound on the memory of sandbox %s was taken off", self.name)

    def _memory_label(self) -> str:
        return f"memory-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:10]}"

    def _release_shared_memory(self) -> None:
        """Let a server that died uncleanly come up once more: only its next start frees what it left in /dev/shm."""
        if not self.is_running() and (self.data_directory / "postmaster.pid").exists():
            try:
                self._start_server()
            except PgdynoError as error:
                log.info("the dead server's shared memory stays until the next boot: %s", error)

    def _start_server(self) -> None:
        postmaster_lock.clear(self.data_directory, reused=True)
        socket_dir = Path(self.record.socket_dir)
        cluster.ensure_socket_dir(socket_dir, self.record.os_user)
        cluster.write_settings(self.data_directory, self.name, socket_dir, loopback=self._loopback)
        self._control.start()

    def _set_stay_up(self, stay_up: bool) -> None:
        if self.record.stay_up != stay_up:
            self.record = replace(self.record, stay_up=stay_up)
            registry.write_record(self.folder, self.record)

    def _stop_at_last(self) -> None:
        """Stop the server, without a checkpoint if it does not stop otherwise, as after a full disk: never hang."""
        try:
            replace(self._control, timeout_s=CLOSE_TIMEOUT_S).stop()
        except RestartError as error:
            log.info("%s; stopping it without a checkpoint", error)
            self._control.stop("immediate")

    def _remove_group(self) -> None:
        if self._memory is not None:
            self._memory.remove()
        if isinstance(self._group, CpuGroup):
            self._group.remove()

    def _as_it_was(self) -> None:
        """Take the way by TCP and the bound on memory away; a server that the user had started runs on without them."""
        is_altered = self._memory is not None or self._loopback is not None
        if self._loopback is not None:
            loopback.dismiss(self.data_directory)
            self._passfile.unlink(missing_ok=True)
        self._loopback = self._memory = self._memory_bytes = None
        if is_altered and self.record.stay_up:
            self._group = self._cpu_group()
            self._start_server()

    def _remove_files(self) -> None:
        self._release_shared_memory()
        self._control.stop("immediate")
        postmaster_lock.wait_gone(self.data_directory)
        (self.folder / registry.RECORD).unlink(missing_ok=True)  # first: what remains after a kill is incomplete
        cluster.remove_tree(self.folder / "server")
        cluster.remove_tree(Path(self.record.socket_dir))
        self._remove_group()


def _make(
    name: str, folder: Path, bin_dir: Path | None, user: str | None, runner: Runner
) -> tuple[SandboxRecord, Build]:
    build = binaries.find_build(runner, bin_dir, user)
    build = binaries.readable_build(runner, build, user, folder.parent.parent / "builds")
    places.ensure(folder, places.PUBLIC)
    _refuse_strangers(folder)
    server = folder / "server"
    cluster.remove_tree(server)  # what an interrupted making left behind
    try:
        cluster.make_private_dir(server, user)
        cluster.initialise(runner, build, server / "data", user)
    except BaseException:
        cluster.remove_tree(folder)
        raise
    record = SandboxRecord(
        name=name,
        bin_dir=None if bin_dir is None else str(bin_dir.absolute()),
        version=build.version,
        version_num=build.version_num,
        os_user=user,
        socket_dir=str(cluster.choose_socket_dir(server)),
        created_at=time.time(),
    )
    registry.write_record(folder, record)
    log.info('made sandbox "%s" with PostgreSQL %s in "%s"', name, build.version, folder)
    return record, build


def _refuse_strangers(folder: Path) -> None:
    strangers = sorted(entry.name for entry in folder.iterdir() if entry.name not in _OURS)
    if strangers:
        raise EnvironmentUnsuitable(
            f'folder "{folder}" holds "{strangers[0]}", which is not part of a sandbox',
            hint="Move it away, or use another sandbox: --sandbox NAME.",
        )


def _build_of(record: SandboxRecord, bin_dir: Path | None, folder: Path, runner: Runner) -> Build:
    """Return the build to run an existing sandbox with; the major version must be that of its data."""
    folder_of_programs = bin_dir or (Path(record.bin_dir) if record.bin_dir else None)
    build = binaries.find_build(runner, folder_of_programs, record.os_user)
    if build.major != record.version_num // 10_000:
        raise UsageError(
            f'sandbox "{record.name}" holds PostgreSQL {record.version}, not {build.version}',
            hint="Use another sandbox (--sandbox NAME), or recreate this one: pgdyno sandbox recreate.",
        )
    return binaries.readable_build(runner, build, record.os_user, folder.parent.parent / "builds")
