"""The agent: pgdyno on the database host, told what to do by stdin, one request at a time (protocol: wire.py).

Everything that is changed is changed by the same code as on the tuner's own host: the undo bundle, the journal and
the watchdogs are here, on this host, and need neither the tuner nor its network.

When the tuner's end of the line is closed, or nothing is heard of it for `SILENCE_S`, an open session is rolled back
at once. When the agent itself is killed, its watchdog does that. It opens no port.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pwd
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from pgdyno import __version__
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError
from pgdyno.model.shapes import plain
from pgdyno.remote import wire
from pgdyno.remote.dispatcher import Dispatcher
from pgdyno.remote.wire import Json

log = logging.getLogger(__name__)

SILENCE_S = 30.0
"""A network that is cut without a word closes no stream; the tuner gives a sign of life every few seconds."""
_END = b""


def serve(
    dispatcher: Dispatcher, requests: int, write: Callable[[bytes], object], *, silence_s: float = SILENCE_S
) -> str:
    """Answer requests, read from a descriptor, until the tuner is gone; return why. The dispatcher is left as it is.

    `requests` is the descriptor, with one request of JSON on a line, and `write` is given each line of reply, as bytes.
    The tuner counts as gone when the descriptor is at its end, or nothing came from it for `silence_s` seconds.
    """
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    heard = [time.monotonic()]
    threading.Thread(target=_listen, args=(requests, lines, heard), name="pgdyno-listener", daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=silence_s / 4)
        except queue.Empty:
            if time.monotonic() - heard[0] > silence_s:
                return f"the tuner has not responded for {silence_s:g} s"
            continue
        if line == _END:
            return "the connection was closed"
        try:
            write(wire.to_line(answer(dispatcher, line)))
        except OSError:
            return "the connection was cut"


def answer(dispatcher: Dispatcher, line: bytes) -> Json:
    """Do what a line asks for and return the reply; an error is a reply too."""
    number: object = None
    try:
        message = wire.from_line(line)
        number = message.get("id")
        given = dispatcher.calls[str(message["call"])](wire.mapping(message.get("with", {})))
        return {"id": number, "gives": plain(given)}
    except PgdynoError as error:
        return {"id": number, "error": wire.error_to_json(error)}
    except Exception as error:  # a fault of ours must reach the tuner as words, and must not end the session
        log.exception("request %s failed", number)
        fault = EnvironmentUnsuitable(f"the agent failed with {type(error).__name__}: {error}")
        return {"id": number, "error": wire.error_to_json(fault)}


def hello() -> Mapping[str, object]:
    """Return who we are; the tuner sees by the digest whether we are the agent that it knows."""
    here = Path(sys.path[0])
    digest = hashlib.sha256(here.read_bytes()).hexdigest() if here.is_file() else None
    return {"version": __version__, "digest": digest, "user": pwd.getpwuid(os.geteuid()).pw_name, "pid": os.getpid()}


def main(extend: Callable[[Dispatcher], None] | None = None) -> int:
    """Serve on stdin and stdout, then restore the server; 0 when it is as it was found, 5 when damage is left.

    `extend` adds calls of layers above this one to the dispatcher.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    dispatcher = Dispatcher()
    if extend is not None:
        extend(dispatcher)
    why = "a signal asked it to"
    # Nothing but the protocol may reach the tuner's end: whatever else prints, prints to the log.
    with os.fdopen(os.dup(1), "wb", buffering=0) as replies:
        os.dup2(2, 1)
        with contextlib.suppress(KeyboardInterrupt, OSError):
            replies.write(wire.to_line({"hello": hello()}))
            why = serve(dispatcher, 0, replies.write)
    return _leave(dispatcher, why)


def _listen(requests: int, lines: queue.SimpleQueue[bytes], heard: list[float]) -> None:
    for line in _lines_of(requests, heard):
        if line.strip() not in (b"", b"{}"):
            lines.put(line)
    lines.put(_END)


def _lines_of(descriptor: int, heard: list[float]) -> Iterator[bytes]:
    """Yield whole lines. By the descriptor: a thread inside a buffered stdin would hold its lock at exit."""
    rest = b""
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:
            return
        if not data:
            return
        heard[0] = time.monotonic()
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def _leave(dispatcher: Dispatcher, why: str) -> int:
    session = dispatcher.session
    if session is None or session.bundle.is_closed():
        return 0
    log.warning("%s: session %s is rolled back", why, session.id)
    dispatcher.cut_tunnel()
    try:
        return 0 if session.rollback().is_whole else 5
    except PgdynoError:
        return 5  # our end is what its watchdog waits for: it tries again and again


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
