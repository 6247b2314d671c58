"""Open the target that was asked for. Loads nothing but the way that was asked for: verbs that only look are quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target


@contextmanager
def opened(request: TargetRequest, *, to_read: bool = False) -> Iterator[Target]:
    """Open the target that was asked for: a server, here or on another host, or the sandbox, started and stopped.

    With `to_read` nobody looks for a way to restart a server of this host, or asks whether SQL alone could set it.
    """
    if request.host is not None:
        from pgdyno.remote.address import HostAddress
        from pgdyno.remote.deploy import HostRequest
        from pgdyno.remote.host import opened_host

        with opened_host(HostRequest(HostAddress.parse(request.host), request.sudo_user)) as host:
            yield host.target(request.dsn or "", request.restart_command)
        return
    if request.dsn is not None and (request.patroni or request.sql_only):
        from pgdyno.targets.connect_routes import open_server

        yield open_server(
            request.dsn,
            api=request.patroni_api(),
            sql_only=request.sql_only,
            restart_command=request.restart_command,
            to_read=to_read,
        )
        return
    if request.dsn is not None:
        from pgdyno.targets.connect import open_target

        yield open_target(request.dsn, restart_command=request.restart_command, to_read=to_read)
        return
    from pgdyno.sandbox.sandbox import Sandbox

    sandbox = Sandbox.open_or_create(request.sandbox, bin_dir=request.sandbox_bin, memory_bytes=request.sandbox_memory)
    try:
        sandbox.start()
        if request.loopback:
            sandbox.open_loopback()
        yield sandbox.target()
    finally:
        sandbox.close(keep=request.keep)
