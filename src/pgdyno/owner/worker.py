"""The process that works with a server's account: started by root, becomes the account, then does tasks until its end.

    python -I -S -c BOOT ROOT FD UID:GID:GROUP,... PARENT

It ends with who started it, so that nobody writes behind the back of whoever restores the server (orphans.py).
It imports before it becomes the account, who may not be able to read our code; one that LOOKING_BOOT starts imports and
does only what is in `looking`, and is there in half of the time. Requests and answers go through one Unix socket. A
request is pickled, because root made it; an answer is not, because root must not trust who sends it: a header of JSON,
then bytes. Everything that can be asked for is in `looking` and `tasks`.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping

from pgdyno.errors import PgdynoError
from pgdyno.owner.becoming import become_ids, parse_ids
from pgdyno.owner.looking import OpenedFile
from pgdyno.owner.parent import end_with

Tasks = Mapping[str, Callable[..., object]]
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from pgdyno.owner import worker; worker.main(sys.argv[2:])"
LOOKING_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pgdyno.owner import looking, worker; "
    "worker.main(sys.argv[2:], looking.LOOKING)"
)
"""Of a worker that only looks. It writes nothing, so that nobody has to wait for the end of one that was killed."""
LENGTHS = struct.Struct("!IQ")
"""How long the two parts of a message are: header and bytes."""


def all_tasks() -> Tasks:
    """Import and return everything that can be asked for."""
    from pgdyno.owner.tasks import TASKS

    return TASKS


def main(words: list[str], tasks: Tasks | None = None) -> None:
    """Become the account and serve; ends when the other side is gone. `tasks` None are all."""
    descriptor, numbers, parent = words
    tasks = all_tasks() if tasks is None else tasks
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever started us decides when the work is over
    os.umask(0o077)
    os.chdir("/")
    become_ids(*parse_ids(numbers))
    if not end_with(int(parent), signal.SIGKILL):
        return
    with socket.socket(fileno=int(descriptor)) as channel:
        serve(channel, tasks)


def serve(channel: socket.socket, tasks: Tasks) -> None:
    """Do one task after another until the channel is closed."""
    while (message := receive(channel)) is not None:
        _, data = message
        name, given = pickle.loads(data)  # noqa: S301 - it comes from our parent alone, which has more rights than this process
        header, answer, descriptor = _done(tasks[name], given)
        send(channel, header, answer)
        if descriptor is not None:
            socket.send_fds(channel, [b"d"], [descriptor])
            os.close(descriptor)


def _done(task: Callable[..., object], given: dict[str, object]) -> tuple[dict[str, object], bytes, int | None]:
    try:
        value = task(**given)
    except PgdynoError as error:
        told = {"message": error.message, "detail": error.detail, "hint": error.hint}
        return {"refused": type(error).__name__, **told}, b"", None
    except OSError as error:
        return (
            {"errno": error.errno, "text": error.strerror or str(error), "path": str(error.filename or "")},
            b"",
            None,
        )
    if isinstance(value, OpenedFile):
        return {"value": None, "descriptor": True}, b"", value.descriptor
    if isinstance(value, bytes):
        return {"value": None, "bytes": True}, value, None
    if isinstance(value, tuple):
        return {"value": value[0], "bytes": True}, value[1], None
    return {"value": value}, b"", None


def send(channel: socket.socket, header: object, data: bytes) -> None:
    """Send one message whole."""
    text = json.dumps(header).encode()
    channel.sendall(LENGTHS.pack(len(text), len(data)) + text)
    channel.sendall(data)


def receive(channel: socket.socket, most: int = sys.maxsize) -> tuple[bytes, bytes] | None:
    """Return header and bytes of the next message; None when the other side is gone. Raises OSError past `most`."""
    lengths = _exactly(channel, LENGTHS.size)
    if lengths is None:
        return None
    header, data = LENGTHS.unpack(lengths)
    if header > 1 << 20 or data > most:
        raise OSError(f"a message of {header + data} bytes is too long")
    first, second = _exactly(channel, header), _exactly(channel, data)
    return None if first is None or second is None else (first, second)


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
