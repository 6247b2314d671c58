"""The process that `warm_program.py` starts: it has imported the program, and forks itself for each call.

    python warm_process.py DESCRIPTOR

What it is asked comes as `_Fork._begin` there sends it: the length, five descriptors, and the words as JSON. It answers
with the number of the process, and later with how that ended, and with the CPU seconds that it took.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import warm_program
from compiled_agent import use_bytecode
from pgdyno.owner import launch, worker
from pgdyno.owner.account import Account, become
from pgdyno.owner.parent import PARENT
from templates import FOLDER, empty_store, use_templates

LEADERS = ("watchdog", "worker", "verb", "load", "launch")
"""What has a session and a group of its own, as the real ones are started."""
_IDLE = 20
"""Half seconds without a worker after which a run of pytest is taken for killed."""


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
                _, status, used = os.wait4(pid, 0)
                with told, suppress(OSError):  # nobody waits for it any more
                    told.sendall(struct.pack(warm_program.ENDED, status, used.ru_utime + used.ru_stime))


def _is_of_ours(asks: socket.socket) -> bool:
    """Tell whether a process of our own account asks: an abstract address has no mode, and we run what we are given."""
    credentials = asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.geteuid())


def _begin(connection: socket.socket) -> tuple[int, socket.socket] | None:
    head, given, _, _ = socket.recv_fds(connection, 8, 6)
    if not head:
        return None
    *standard, asks = given
    try:
        program, *rest = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    except ValueError:  # who asked was killed meanwhile
        for number in given:
            os.close(number)
        return None
    leads, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        if program in LEADERS:
            os.setsid()
        os.close(its)
        os.close(leads)
        _be(standard, program, *rest)
    for number in (*standard, its):
        os.close(number)
    os.read(leads, 1)  # until it leads its session, or is gone: who signals its group at once would miss it
    os.close(leads)
    told = socket.socket(fileno=asks)
    with suppress(OSError):  # who asked was killed meanwhile
        told.sendall(pid.to_bytes(8, "big"))
    return pid, told


def _be(standard: list[int], program: str, words: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    for number, given in enumerate(standard):  # the fourth is a worker's channel, or what a load reads
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
            _rename(sys.executable, "-m", "pgdyno.undo.watchdog", *words)
            code = import_module("pgdyno.undo.watchdog").main(words)
        elif program == "worker":
            root = str(Path(worker.__file__).parents[2])
            _rename(sys.executable, "-I", "-S", "-c", worker.BOOT, root, "3", words[0], last=str(os.getppid()))
            _work(words[0], int(words[1]))
            code = 0
        elif program == "verb":
            _rename(sys.executable, "-m", "pgdyno", *words)
            sys.argv = ["pgdyno", *words]
            asks = os.environ.pop(PARENT, None)
            if asks is not None and not _end_with(int(asks), signal.SIGTERM):
                raise SystemExit(f"the runner {asks} of this job is gone")
            import_module("pgdyno.cli.main").main()
        elif program == "load":
            asks, module, *own = words
            _rename(sys.executable, "-m", module, *own)
            if not _end_with(int(asks), signal.SIGTERM):
                raise SystemExit(f"{asks}, whose load this is, is gone")
            sys.argv = [module, *own]
            main = import_module(module).main
            code = main(own) if main.__code__.co_argcount else main()
        elif program == "launch":
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
    warm_program.use_forks()
    with socket.socket(fileno=int(sys.argv[1])) as door:
        warm_program.address = door.getsockname().decode()
        _serve(door)
