"""HTTP by uvicorn's h11 protocol, with what it lacks: a place in the crowd, and through it limits in time.

TLS begins here and not in the listener, because a connection that has not finished its handshake counts as well.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

from pgdyno.web.access import ADMITTED
from pgdyno.web.crowd import Crowd, peer_of

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_NOTHING = struct.pack("ii", 1, 0)


class GuardedProtocol(H11Protocol):
    """One connection. `crowd` and `tls` are set by `guarded`."""

    crowd: Crowd
    tls: ssl.SSLContext | None = None

    peer = "unknown"
    since = 0.0
    _raw: asyncio.Transport | None = None
    _early = b""
    _was_admitted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as H11Protocol narrows it
        """Take a place in the crowd, or say that there is none; with TLS the request comes after the handshake."""
        self._raw = self.transport = transport
        self.since = self.loop.time()
        self.peer = peer_of(transport.get_extra_info("peername"))
        if not self.crowd.enter(self):
            if self.tls is None:
                transport.write(_FULL)
            transport.close()
        elif self.tls is None:
            super().connection_made(transport)
        else:
            self._handshake = self.loop.create_task(self._secure(transport, self.tls))

    async def _secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        limit = self.crowd.limits.head_s
        try:
            secured = await self.loop.start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=limit, ssl_shutdown_timeout=limit
            )
        except OSError:  # ssl.SSLError, TimeoutError and a client that went away are such
            secured = None
        if secured is None:
            self.crowd.forget(self)
            transport.abort()
            return
        super().connection_made(secured)
        if self._early:
            super().data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.crowd.forget(self)
        if self.flow is not None:  # else it ended before its first request could begin
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a request; what came with the end of the handshake waits until we know of it."""
        if self.flow is None:
            self._early += data
        else:
            super().data_received(data)

    def handle_events(self) -> None:
        """Note when a request begins."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and self.is_busy:
            self.since = self.loop.time()

    def on_response_complete(self) -> None:
        """Note when a request was answered, before the next one may begin in here."""
        self.since = self.loop.time()
        super().on_response_complete()

    @property
    def is_busy(self) -> bool:
        """Return whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_owing(self) -> bool:
        """Return whether the client has yet to send a request, or the rest of its body."""
        return not self.is_busy or self.cycle.more_body

    @property
    def is_admitted(self) -> bool:
        """Return whether a request of this connection was let in by the gate."""
        self._was_admitted |= self.scope is not None and bool(self.scope["state"].get(ADMITTED))
        return self._was_admitted

    @property
    def unsent(self) -> int:
        """Return what waits for the client, in both layers of TLS."""
        waiting = 0 if self._raw is None else self._raw.get_write_buffer_size()
        return waiting if self.transport is self._raw else waiting + self.transport.get_write_buffer_size()

    def leave(self) -> None:
        """Cut the connection; what it was told and has not taken is lost, in the kernel as well."""
        assert self._raw is not None, "only who has entered can leave"
        if (connection := self._raw.get_extra_info("socket")) is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOTHING)
        self._raw.abort()


def guarded(crowd: Crowd) -> type[GuardedProtocol]:
    """Return the protocol of one server, whose connections share a crowd."""
    return type("Guarded", (GuardedProtocol,), {"crowd": crowd})
