"""`pgdyno` as a process of its own without a start's imports, which are half of the CPU that a short study costs.

The first call of a run of pytest starts a process that has imported the program and waits; each call of any worker is a
fork of it, with words, environment and outputs of its own, to which signals go as to any process. A test that is about
what comes before the first verb (a broken pipe, the interpreter's own flags) starts a real one. So are the watchdogs of
sessions that such forks and the tests themselves begin, root's workers with other accounts, the verbs of a night and of
a project, loads of our own (`warm_load.py`), and what puts on a server's image; a tuner that is a real process has real
ones, and the tests of `host` have real workers.

That process is `warm_process.py`.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from compiled_agent import use_bytecode
from pgdyno.linux import processes
from pgdyno.linux.identity import wait_until
from pgdyno.owner import hands, launch, runner
from pgdyno.owner.account import Account
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.undo import watch, watch_record
from quick_accounts import REAL_PROGRAMS, use_setpriv
from templates import FOLDER

if TYPE_CHECKING:
    import pytest

REAL_WORKERS = "PGDYNO_TEST_REAL_WORKERS"
"""Set for the tests of `host` and what they start: what a worker may and may not do is theirs to show."""
_ARGUMENTS = 4096
"""Bytes of arguments that a fork may be seen with."""
ENDED = ">Qd"
"""What is told of an end: the status as wait4 has it, and CPU seconds."""
_asking = threading.Lock()
"""A session's thread may ask for a watchdog while a test asks for something else."""


def run_pgdyno(
    *words: str, timeout_s: float = 240, stdin: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `pgdyno WORDS` to its end, in our environment with more. Raises subprocess.TimeoutExpired, it killed.

    It reads from the descriptor `stdin`, nothing by default.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
        given = nothing.fileno() if stdin is None else stdin
        running = _Fork(words, environment, given, out.fileno(), err.fileno())
        try:
            running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise subprocess.TimeoutExpired(words, timeout_s, _text(out), _text(err)) from None
        assert running.returncode is not None
        return subprocess.CompletedProcess(words, running.returncode, _text(out), _text(err))


class _Fork:
    """A fork of the program that waits; it is another process's child, which tells us how it ended."""

    def __init__(self, words: tuple[str, ...], environment: dict[str, str], *standard: int) -> None:
        self._begin("pgdyno", words, {**os.environ, **environment}, str(Path.cwd()), *standard)

    def _begin(self, program: str, words: tuple[str, ...], env: dict[str, str], cwd: str, *standard: int) -> None:
        self.args = words
        self.returncode: int | None = None
        self.cpu_s: float | None = None
        self._told, its = socket.socketpair()
        request = json.dumps([program, words, env, cwd]).encode()
        with its, _asking:
            socket.send_fds(_warm(), [len(request).to_bytes(8, "big")], [*standard, its.fileno()])
            _warm().sendall(request)
        self.pid = _number(self._told)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, a signal's number negative, as subprocess does.

        Raises ConnectionError where nobody can say it: the process that forks was killed.
        """
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                status, self.cpu_s = struct.unpack(ENDED, _told(self._told, struct.calcsize(ENDED)))
                self.returncode = os.waitstatus_to_exitcode(status)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, to nobody when it has ended."""
        with suppress(ConnectionError, ProcessLookupError):
            if self.poll() is not None:
                return
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        self._told.close()  # nobody waited for it, as for a watchdog that outlives its session


class RunningPgdyno(_Fork):
    """`pgdyno WORDS` at work, with pipes. Leaving the context waits for its end; an error kills it first."""

    def __init__(self, *words: str, **environment: str) -> None:
        with Path(os.devnull).open() as nothing:
            self._start("pgdyno", words, environment, nothing.fileno())

    def _start(self, program: str, words: tuple[str, ...], environment: Mapping[str, str], given: int) -> None:
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        self._begin(program, words, {**os.environ, **environment}, str(Path.cwd()), given, its_out, its_err)
        for end in (its_out, its_err):
            os.close(end)
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """Return what it wrote, from here to its end. Raises subprocess.TimeoutExpired, it killed."""
        killer = threading.Timer(timeout, self.kill)
        killer.start()
        try:
            with ThreadPoolExecutor(1) as beside:
                out = beside.submit(self.stdout.read)
                told = self.stderr.read()
                self.wait()
                if not killer.is_alive():
                    raise subprocess.TimeoutExpired(self.args, timeout, out.result(), told)
                return out.result(), told
        finally:
            killer.cancel()
            self._close()

    def __del__(self) -> None:
        self._close()
        super().__del__()

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self.kill()
        self.wait()
        self._close()


class _Standby(_Fork):
    """A fork that pgdyno itself waits for: it has to go on also where the process that forks was killed."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, 1 of one whose end is seen in /proc alone."""
        with suppress(ConnectionError):
            return super().wait(timeout)
        if not wait_until(lambda: not processes.alive(self.pid), timeout_s=math.inf if timeout is None else timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.returncode = 1
        return 1


class _Watchdog(_Standby):
    """A watchdog as `watch.spawn` starts it: a process of its own with its arguments, its session and its secrets."""

    def __init__(self, directory: Path, secrets: Mapping[str, str]) -> None:
        hidden = watch.secret_variables()
        env = {name: value for name, value in inherited(ProgramKind.OURSELVES).items() if name not in hidden}
        given, ours = os.pipe()
        with watch_record.open_log(directory) as output:
            self._begin("watchdog", (str(directory),), env, "/", given, output.fileno(), output.fileno())
        os.close(given)
        with os.fdopen(ours, "wb") as pipe, suppress(OSError):  # it has ended already
            pipe.write(json.dumps(dict(secrets)).encode() + b"\n")


class _Worker(_Standby):
    """A worker of root's with another account, as `hands` starts it."""

    def __init__(self, channel: socket.socket, account: Account) -> None:
        words, env = (account.numbers, str(os.getpid())), {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            self._begin("worker", words, env, "/", *[nothing.fileno()] * 3, channel.fileno())


class Begun(_Standby):
    """A verb of a night or a project, or what becomes a server's program, as `runner` starts it."""

    def __init__(self, program: str, words: tuple[str, ...], env: dict[str, str], cwd: str, *standard: int) -> None:
        self._begin(program, words, env, cwd, *standard)

    def terminate(self) -> None:
        """Tell it to end."""
        self.send_signal(signal.SIGTERM)

    @classmethod
    def take(cls, argv: Sequence[str], kind: ProgramKind, cwd: Path | None, env: Mapping[str, str] | None,
             *standard: IO[bytes]) -> Self | None:  # fmt: skip
        """Begin a program of pgdyno's own; None for any other, and for one with more words than a fork is seen with."""
        words = tuple(argv)
        if words[:3] == (sys.executable, "-m", "pgdyno") and sum(map(len, words)) < _ARGUMENTS // 2:
            found = "verb", words[3:]
        elif words[1:5] == tuple(launch.command()[1:5]):
            found = "launch", words[6:]
        else:
            return None
        given = runner._environment(env, None, kind)
        return cls(*found, given, str(cwd or Path.cwd()), *(one.fileno() for one in standard))


def use_forks() -> None:
    """Have this process begin what is pgdyno's own as forks, unless a test says what Python it has or wants real ones.

    Where the process that forks was killed, they are real too: a server has to be restored all the same.
    """
    import warm_load  # which begins its forks by this module

    python, start, start_worker = sys.executable, watch.spawn, hands._Worker._start
    start_program = runner._popen

    def begin_program(
        argv: Sequence[str], env: Mapping[str, str] | None, user: str | None, cwd: Path | None, stdin: IO[bytes],
        stdout: IO[bytes], stderr: IO[bytes], cgroups: Sequence[Path], kind: ProgramKind,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        if sys.executable == python and user is None and not cgroups and REAL_PROGRAMS not in os.environ:
            with suppress(ConnectionError):
                if (begun := Begun.take(argv, kind, cwd, env, stdin, stdout, stderr)) is not None:
                    return begun  # type: ignore[return-value]  # it has what `Process` and `run` ask of one
        return start_program(argv, env, user, cwd, stdin, stdout, stderr, cgroups, kind)

    def spawn(directory: Path, secrets: Mapping[str, str]) -> _Watchdog | subprocess.Popen[bytes]:
        if sys.executable == python:
            with suppress(ConnectionError):
                return _Watchdog(directory, secrets)
        return start(directory, secrets)

    def begin(self: hands._Worker) -> None:
        if sys.executable == python and REAL_WORKERS not in os.environ:
            ours, theirs = socket.socketpair()
            with theirs, suppress(ConnectionError):
                self._process = _Worker(theirs, self._account)
                ours.settimeout(hands.ANSWER_S)
                self._channel = ours
                return
            ours.close()
        start_worker(self)

    watch.spawn, hands._Worker._start, runner._popen = spawn, begin, begin_program
    warm_load.use_loads()
    use_setpriv()


def pytest_configure() -> None:
    use_forks()
    use_bytecode()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start tuners as forks too; real ones on a host, and where a file says REAL_TUNERS: it looks at the process."""
    import tuner_process  # on the path of tests, not of the process that forks

    is_host = item.get_closest_marker("host") is not None
    real = getattr(item.module, "REAL_TUNERS", is_host)
    tuner_process.begin = tuner_process.begin_python if real else RunningText
    os.environ.pop(REAL_PROGRAMS, None)
    if real:
        os.environ[REAL_PROGRAMS] = "1"
    if is_host is not (REAL_WORKERS in os.environ):
        hands._end_all()  # those that the tests before had
        os.environ.pop(REAL_WORKERS, None)
        if is_host:
            os.environ[REAL_WORKERS] = "1"


address: str | None = None
"""Where a fork reaches the process that it was forked from."""


class RunningText(RunningPgdyno):
    """A text in Python at work that imports pgdyno; it reads `given` from its standard input."""

    def __init__(self, text: str, *words: str, given: str = "", **environment: str) -> None:
        with tempfile.TemporaryFile() as stream:
            stream.write(given.encode())
            stream.seek(0)
            self._start("text", (text, *words), environment, stream.fileno())


@cache
def _warm() -> socket.socket:
    """Return a way to the process that forks; one of a run of pytest starts it, the other workers find it."""
    if address is not None:
        return _joined(address)
    folder = Path(os.environ[FOLDER])
    with (folder / "warm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = folder / "warm"
        with suppress(FileNotFoundError, ConnectionRefusedError):  # none was begun, or it was killed
            return _joined(f"\0{place.read_text()}")
        name = f"pgdyno-tests-{os.getpid()}"
        _start(f"\0{name}")
        place.write_text(name)
        return _joined(f"\0{name}")


def _start(address: str) -> None:
    """Start the process that forks; it listens from now on, and ends with the run of pytest."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(64)
        door.set_inheritable(True)
        argv = [sys.executable, str(Path(__file__).with_name("warm_process.py")), str(door.fileno()), "-" * _ARGUMENTS]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        os.posix_spawn(sys.executable, argv, os.environ, file_actions=[nothing])


def _joined(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.connect(address)
    atexit.register(found.close)
    return found


def _number(connection: socket.socket) -> int:
    return int.from_bytes(_told(connection, 8), "big")


def _told(connection: socket.socket, size: int) -> bytes:
    told = connection.recv(size, socket.MSG_WAITALL)
    if len(told) < size:  # the number of nothing is 0, and with that every run would have ended well
        raise ConnectionError("the process that forks is gone, and with it the exit codes of its forks")
    return told


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()
