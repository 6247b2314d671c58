"""Serve the dashboard until it is ended: the only module that imports uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pgdyno.errors import EnvironmentUnsuitable

MOST_CONNECTIONS = 128
_LAST_S = 5
"""How long answers under way are waited for at the end."""


def bound_socket(bind: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises EnvironmentUnsuitable when it cannot be had."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bind, port))
        listener.listen(MOST_CONNECTIONS)
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
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve on the socket until SIGINT or SIGTERM; call `ready` when requests are answered, `ending` at the signal.

    With a certificate by TLS. Raises EnvironmentUnsuitable when certificate or key cannot be used.
    """
    config = uvicorn.Config(
        app, lifespan="off", ws="none", http="h11", loop="asyncio", log_level="error", access_log=False,
        server_header=False, date_header=True, proxy_headers=False, limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_LAST_S, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise EnvironmentUnsuitable(
            f'certificate "{certificate}" cannot be used',
            detail=str(error),
            hint="Name PEM files that belong together.",
        ) from error
    server = _Server(config, ready, ending)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended
        asyncio.run(server.serve(sockets=[listener]))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)
