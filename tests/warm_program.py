"""`pgdyno` as a process of its own without a start's imports, which are half of the CPU that a short study costs.

The first call of a run of pytest starts a process that has imported the program and waits; each call of any worker is a
fork of it, with words, environment and outputs of its own, to which signals go as to any process. A test that is about
what comes before the first verb (a broken pipe, the interpreter's own flags) starts a real one. So are the watchdogs of
sessions that such forks and the tests themselves begin, root's workers with other accounts, the verbs of a night and of
a project, and what puts on a server's image; a tuner that is a real process has real ones, and the tests of `host` have
real workers.

Past 400 lines: this file is also the program of that process, and both ends of each message stand together.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import json
import math
import os
import pkgutil
import select
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
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn, Self

from compiled_agent import use_bytecode
from pgdyno.linux import processes
from pgdyno.linux.identity import wait_until
from pgdyno.owner import hands, launch, runner, worker
from pgdyno.owner.account import Account, become
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.parent import PARENT
from pgdyno.undo import watch, watch_record
from quick_accounts import REAL_PROGRAMS, use_setpriv
from templates import FOLDER, empty_store, use_templates

if TYPE_CHECKING:
    import pytest

REAL_WORKERS = "PGDYNO_TEST_REAL_WORKERS"
"""Set for the tests of `host` and what they start: what a worker may and may not do is theirs to show."""
_ARGUMENTS = 4096
"""Bytes of arguments that a fork may be seen with."""
_IDLE = 20
"""Half seconds without a worker after which a run of pytest is taken for killed."""
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
                self.returncode = os.waitstatus_to_exitcode(_number(self._told))
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


class _Begun(_Standby):
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
    python, start, start_worker = sys.executable, watch.spawn, hands._Worker._start
    start_program = runner._popen

    def begin_program(
        argv: Sequence[str], env: Mapping[str, str] | None, user: str | None, cwd: Path | None, stdin: IO[bytes],
        stdout: IO[bytes], stderr: IO[bytes], cgroups: Sequence[Path], kind: ProgramKind,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        if sys.executable == python and user is None and not cgroups and REAL_PROGRAMS not in os.environ:
            with suppress(ConnectionError):
                if (begun := _Begun.take(argv, kind, cwd, env, stdin, stdout, stderr)) is not None:
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


_address: str | None = None
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
    if _address is not None:
        return _joined(_address)
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
        argv = [sys.executable, __file__, str(door.fileno()), "-" * _ARGUMENTS]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        os.posix_spawn(sys.executable, argv, os.environ, file_actions=[nothing])


def _joined(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.connect(address)
    atexit.register(found.close)
    return found


def _number(connection: socket.socket) -> int:
    told = connection.recv(8, socket.MSG_WAITALL)
    if len(told) < 8:  # the number of nothing is 0, and with that every run would have ended well
        raise ConnectionError("the process that forks is gone, and with it the exit codes of its forks")
    return int.from_bytes(told, "big")


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _serve(door: socket.socket) -> None:
    """Begin what is asked for until nobody is left who could ask."""
    begun: dict[int, tuple[int, socket.socket]] = {}
    asking: dict[int, socket.socket] = {}
    ready = select.poll()
    ready.register(door, select.POLLIN)
    idle, folder = 0, Path(os.environ[FOLDER])
    while asking or (folder.exists() and idle < _IDLE):
        found = ready.poll(None if asking else 500)
        idle = 0 if found else idle + 1
        for number, _ in found:
            if number == door.fileno():
                worker, _ = door.accept()
                if not _is_of_ours(worker):
                    worker.close()
                    continue
                asking[worker.fileno()] = worker
                ready.register(worker, select.POLLIN)
            elif (asks := asking.get(number)) is not None:
                if made := _begin(asks):
                    handle = os.pidfd_open(made[0])
                    begun[handle] = made
                    ready.register(handle, select.POLLIN)
                else:
                    ready.unregister(number)
                    asking.pop(number).close()
            else:
                ready.unregister(number)
                os.close(number)
                pid, told = begun.pop(number)
                with told, suppress(OSError):  # nobody waits for it any more
                    told.sendall(os.waitpid(pid, 0)[1].to_bytes(8, "big"))


def _is_of_ours(asks: socket.socket) -> bool:
    """Tell whether a process of our own account asks: an abstract address has no mode, and we run what we are given."""
    credentials = asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.geteuid())


def _begin(connection: socket.socket) -> tuple[int, socket.socket] | None:
    head, given, _, _ = socket.recv_fds(connection, 8, 5)
    if not head:
        return None
    *standard, asks = given
    request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    pid = os.fork()
    if pid == 0:
        _be(standard, *json.loads(request))
    for number in standard:
        os.close(number)
    told = socket.socket(fileno=asks)
    with suppress(OSError):  # who asked was killed meanwhile
        told.sendall(pid.to_bytes(8, "big"))
    return pid, told


def _be(standard: list[int], program: str, words: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    for number, given in enumerate(standard):  # the fourth is a worker's channel
        os.dup2(given, number)
    os.closerange(len(standard), 1024)  # what is open for others of us
    # What Python made of our own at its start knows whether they can be sought in.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    code = 1
    try:
        if program == "watchdog":
            os.setsid()
            _rename(sys.executable, "-m", "pgdyno.undo.watchdog", *words)
            code = import_module("pgdyno.undo.watchdog").main(words)
        elif program == "worker":
            os.setsid()
            root = str(Path(worker.__file__).parents[2])
            _rename(sys.executable, "-I", "-S", "-c", worker.BOOT, root, "3", words[0], last=str(os.getppid()))
            _work(words[0], int(words[1]))
            code = 0
        elif program == "verb":
            os.setsid()
            _rename(sys.executable, "-m", "pgdyno", *words)
            sys.argv = ["pgdyno", *words]
            asks = os.environ.pop(PARENT, None)
            if asks is not None and not _end_with(int(asks), signal.SIGTERM):
                raise SystemExit(f"the runner {asks} of this job is gone")
            import_module("pgdyno.cli.main").main()
        elif program == "launch":
            os.setsid()
            try:
                launch.main(words)
                code = 0
            except Exception as error:
                sys.stderr.write(f"{error!r}\n")
                code = 125
        elif program == "text":
            sys.argv = ["-c", *words[1:]]
            exec(words[0], {"__name__": "__main__"})
            code = 0
        else:
            sys.argv = ["pgdyno", *words]
            import_module("pgdyno.cli.main").main()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]  # there is one
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(numbers: str, asks: int) -> None:
    """Do what `worker.main` does."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    become(Account.parse(numbers))
    if not _end_with(asks, signal.SIGKILL):
        return
    with socket.socket(fileno=3) as channel:
        worker.serve(channel, worker.all_tasks())


def _end_with(asks: int, by: signal.Signals) -> bool:
    """End with who asks for us, False when it is gone: the kernel does so for a child of its, and a thread for us."""
    try:
        handle = os.pidfd_open(asks)
    except ProcessLookupError:
        return False

    def end() -> None:
        select.select([handle], [], [])
        os.kill(os.getpid(), by)

    threading.Thread(target=end, daemon=True).start()
    return True


def _rename(*words: str, last: str = "") -> None:
    """Be seen with these arguments: they are written over our own, for which `_warm` leaves room.

    One that is looked for at the end is put there, behind a word that fills what is left.
    """
    content, end_word = b"".join(word.encode() + b"\0" for word in words), last.encode() + b"\0"
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    room = end - begin - len(content) - len(end_word)
    if room <= 0:
        raise ValueError(f"no room for {len(content)} bytes of arguments")
    if last:
        content += b"-" * (room - 1) + b"\0" + end_word
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, content, len(content))


def _import_program() -> None:
    for part in ("cli", "studies", "trial", "workloads", "probes", "undo", "report", "web"):
        package = import_module(f"pgdyno.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.rpartition(".")[2].startswith("__"):
                import_module(module.name)


def _read_once() -> None:
    """Read what each fork would read for itself: knobs and their policy, rules, and the templates of pages."""
    from pgdyno.advisor.rulebook import shipped_rules
    from pgdyno.knobs.linux import load_all_knobs
    from pgdyno.knobs.policy import load_policy
    from pgdyno.report.drawing import html
    from pgdyno.web import pages

    load_all_knobs()
    load_policy()
    shipped_rules()
    for environment in (html._environment(), pages._environment()):
        for name in environment.list_templates(extensions=["j2"]):
            environment.get_template(name)


if __name__ == "__main__":
    _import_program()
    _read_once()
    use_templates()
    use_bytecode()
    empty_store()  # each fork with a new home would load Alembic and build one: half a CPU second
    gc.collect()
    gc.freeze()  # no fork looks through, and so copies, what it has of us
    gc.set_threshold(50_000)
    use_forks()
    with socket.socket(fileno=int(sys.argv[1])) as door:
        _address = door.getsockname().decode()
        _serve(door)
