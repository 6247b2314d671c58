"""Serve the dashboard until it is ended: with `protocol.py` the only module that imports uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.web.crowd import ConnectionLimits, Crowd
from pgdyno.web.protocol import guarded

BACKLOG = 64
"""So many are accepted at once, no more than one address may have before its oldest is cut."""
_TICKS = 5
"""Of uvicorn, a tenth of a second each, between two looks at who keeps us waiting."""
_SEND_BUFFER = 128 << 10
_LAST_S = 5
"""How long answers under way are waited for at the end."""


def bound_socket(bind: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises EnvironmentUnsuitable when it cannot be had."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Both are handed on to what is accepted. A client that is gone without a word is noticed in half a minute.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        listener.bind((bind, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise EnvironmentUnsuitable(
            f"{bind} port {port} cannot be listened on", detail=error.strerror, hint="Choose another with --port."
        ) from error
    return listener


def run_server(
    app: ASGIApp,
    listener: socket.socket,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    limits: ConnectionLimits | None = None,
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve on the socket until SIGINT or SIGTERM; call `ready` when requests are answered, `ending` at the signal.

    `app` answers what comes to `listener`, a listening socket. `certificate` and `key` are PEM files for TLS, None for
    plain HTTP. `limits` bounds how many may be connected and how long they may keep us waiting, None for the defaults.
    Raises EnvironmentUnsuitable when certificate or key cannot be used.
    """
    crowd = Crowd(limits or ConnectionLimits())
    protocol = guarded(crowd)
    config = uvicorn.Config(
        app, lifespan="off", ws="none", http=protocol, loop="asyncio", log_level="error", access_log=False,
        server_header=False, date_header=True, proxy_headers=False, backlog=BACKLOG,
        # requests whose clients are gone go on for a while: beyond what the crowd can have it is too much
        limit_concurrency=2 * crowd.limits.connections, timeout_graceful_shutdown=_LAST_S,
        ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise EnvironmentUnsuitable(
            f'certificate "{certificate}" cannot be used',
            detail=str(error),
            hint="Name PEM files that belong together.",
        ) from error
    protocol.tls, config.ssl = config.ssl, None
    server = _Server(config, crowd, ready, ending)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended
        asyncio.run(server.serve(sockets=[listener]))


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, crowd: Crowd, ready: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._crowd, self._ready, self._ending = crowd, ready, ending

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            self._crowd.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)
