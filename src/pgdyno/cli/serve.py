"""`pgdyno serve`: the dashboard in a browser."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import flag, verb
from pgdyno.cli.arguments.operators import read_operators
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.model.live import Live
    from pgdyno.model.study import Study

PORT = 8432


class _Flags(StoreFlag):
    bind: str = flag(
        "Where to listen; an address that other hosts reach needs --token-file.", default="127.0.0.1", metavar="ADDRESS"
    )
    port: int = flag("Port to listen on; 0 takes a free one.", default=PORT, type=click.IntRange(0, 65535))
    token_file: Path | None = flag(
        "Ask every reader for the token in this file; it is created if missing.", metavar="FILE"
    )
    operator_token_file: Path | None = flag(
        "Let anyone with a token in this file answer and stop live studies; it is created if missing.", metavar="FILE"
    )
    allowed: tuple[str, ...] = flag(
        "A name by which readers may call this host, such as db1.example; may be given again.",
        "--allow-host",
        metavar="NAME",
    )
    tls_cert: Path | None = flag("Serve by TLS with this certificate.", metavar="FILE")
    tls_key: Path | None = flag("The key of --tls-cert.", metavar="FILE")


@verb("serve")
def command(flags: _Flags) -> int:
    """Show in a browser what runs on a store, what waits in its queue, and every report.

    The page updates itself every second: load, resources and guards of running studies. It only reads the store, so it
    may run beside a measurement or on another host; it changes nothing and fetches nothing from elsewhere.
    With --operator-token-file operators may answer a live study that was begun with the same file: their requests are
    recorded in the store, and the study itself carries them out. Ends with Ctrl-C.
    """
    from pgdyno.web.access import access_of, is_loopback, read_token
    from pgdyno.web.app import make_app
    from pgdyno.web.server import bound_socket, run_server

    if (flags.tls_cert is None) != (flags.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together", hint="Give both, or neither.")
    token = None if flags.token_file is None else read_token(flags.token_file)
    operators = read_operators(flags.operator_token_file)
    secure = flags.tls_cert is not None
    access = access_of(flags.bind, flags.allowed, token, secure=secure, operators=operators)
    listener = bound_socket(flags.bind, flags.port)
    with listener, open_store(flags.store_url) as store:
        if not is_loopback(flags.bind) and flags.tls_cert is None:
            click.echo(
                "warning: without --tls-cert the token and every figure cross the network in clear text", err=True
            )
        url = _url(flags.bind, int(listener.getsockname()[1]), secure=flags.tls_cert is not None)
        click.echo(f"store    {store.name}", err=True)
        if flags.token_file is not None:
            click.echo(f"token    in {flags.token_file}", err=True)
        if flags.operator_token_file is not None:
            click.echo(f"operator tokens in {flags.operator_token_file}; sign in at {url}operator", err=True)
        ending = threading.Event()
        run_server(
            make_app(store, access, is_ending=ending.is_set, is_over=_is_over),
            listener,
            certificate=flags.tls_cert,
            key=flags.tls_key,
            ready=lambda: click.echo(url),
            ending=ending.set,
        )
    return 0


def _is_over(study: Study, live: Live) -> bool:
    from pgdyno.studies.session.aftermath import Aftermaths  # reads undo bundles, for which most pages have no need

    return Aftermaths().is_over(study, live)


def _url(bind: str, port: int, *, secure: bool) -> str:
    host = f"[{bind}]" if ":" in bind else bind
    return f"{'https' if secure else 'http'}://{host}:{port}/"
