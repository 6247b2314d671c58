"""`pgdyno` as a process of its own without a start's imports, which are half of the CPU that a short study costs.

The first call of a worker starts a process that has imported the program and waits; each call is a fork of it, with
words, environment and outputs of its own. What a test is about that comes before the first verb (a broken pipe, the
interpreter's own flags), or of signals and kills, starts a real one.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

from templates import use_templates


def run_pgdyno(*words: str, timeout_s: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `pgdyno WORDS` to its end, in our environment with more. Raises subprocess.TimeoutExpired, it killed."""
    ours = _warm()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = json.dumps([words, {**os.environ, **environment}, str(Path.cwd())]).encode()
        socket.send_fds(ours, [len(request).to_bytes(8, "big")], [out.fileno(), err.fileno()])
        ours.sendall(request)
        pid = _number(ours)
        ours.settimeout(timeout_s)
        try:
            status = _number(ours)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            ours.settimeout(None)
            _number(ours)
            raise subprocess.TimeoutExpired(words, timeout_s, _text(out), _text(err)) from None
        ours.settimeout(None)
        return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), _text(out), _text(err))


@cache
def _warm() -> socket.socket:
    """Start the process that forks; it ends with this one, whose end of the socket it reads."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.set_inheritable(True)
        argv = [sys.executable, __file__, str(theirs.fileno())]
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        os.posix_spawn(sys.executable, argv, os.environ, file_actions=[nothing])
    return ours


def _number(connection: socket.socket) -> int:
    return int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _serve(connection: socket.socket) -> None:
    while True:
        head, outputs, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return
        request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            connection.close()
            _be_pgdyno(outputs, *json.loads(request))
        for output in outputs:
            os.close(output)
        connection.sendall(pid.to_bytes(8, "big"))
        connection.sendall(os.waitpid(pid, 0)[1].to_bytes(8, "big"))


def _be_pgdyno(outputs: list[int], words: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
        os.close(output)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["pgdyno", *words]
    code = 1
    try:
        import_module("pgdyno.cli.main").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]  # there is one
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import_program() -> None:
    for part in ("cli", "studies", "trial", "workloads", "probes", "undo", "report"):
        package = import_module(f"pgdyno.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.rpartition(".")[2].startswith("__"):
                import_module(module.name)


if __name__ == "__main__":
    _import_program()
    use_templates()
    _serve(socket.socket(fileno=int(sys.argv[1])))
