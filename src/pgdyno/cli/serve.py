"""`pgdyno serve`: the dashboard in a browser."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.store import open_store, store_option
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.model.live import Live
    from pgdyno.model.study import Study

PORT = 8432


@click.command("serve")
@click.option("--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True,
              help="Where to listen; an address that other hosts reach needs --token-file.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
              help="Port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path),
              help="Ask every reader for the token in this file; it is made when it is missing.")  # fmt: skip
@click.option("--allow-host", "allowed", metavar="NAME", multiple=True,
              help="A name by which readers may call this host, such as db1.example; may be given again.")  # fmt: skip
@click.option("--tls-cert", metavar="FILE", type=click.Path(path_type=Path), help="Serve by TLS with this certificate.")
@click.option("--tls-key", metavar="FILE", type=click.Path(path_type=Path), help="The key of --tls-cert.")
@store_option
def command(
    bind: str,
    port: int,
    token_file: Path | None,
    allowed: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    store_url: str | None,
) -> int:
    """Show in a browser what runs on a store, what waits in its queue, and every report.

    The page moves by itself: load, resources and guards of running studies, each second. It reads the store alone, so
    that it may run beside a measurement or on another host; it changes nothing and fetches nothing from elsewhere.
    Ends with Ctrl-C.
    """
    from pgdyno.web.access import access_of, is_loopback, read_token
    from pgdyno.web.app import make_app
    from pgdyno.web.server import bound_socket, run_server

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together", hint="Give both, or neither.")
    token = None if token_file is None else read_token(token_file)
    access = access_of(bind, allowed, token, secure=tls_cert is not None)
    listener = bound_socket(bind, port)
    with listener, open_store(store_url) as store:
        if not is_loopback(bind) and tls_cert is None:
            click.echo("warning: without --tls-cert the token and every figure cross the network in clear", err=True)
        url = _url(bind, int(listener.getsockname()[1]), secure=tls_cert is not None)
        click.echo(f"store    {store.name}", err=True)
        if token_file is not None:
            click.echo(f"token    in {token_file}", err=True)
        ending = threading.Event()
        run_server(
            make_app(store, access, is_ending=ending.is_set, is_over=_is_over),
            listener,
            certificate=tls_cert,
            key=tls_key,
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
