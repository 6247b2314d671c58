"""The flag that names the store, the store that it names, and the warning of a password in such a flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgdyno.cli.arguments.flags import Flags, flag
from pgdyno.outside.secret_words import names_secret

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store


def warn_of_password(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Warn of a password on the command line: pgdyno keeps it to itself, but every user of the host can read it."""
    typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    if value and typed and ("@" in value or names_secret(value)):  # else without the wait for psycopg
        from pgdyno.server.postgres import redact

        if redact(value) != value:
            place = "~/.pgpass, the file of PGPASSFILE, or a service file"
            flag = parameter.opts[0]
            click.echo(f"warning: the password in {flag} is visible to every user of this host who runs ps", err=True)
            click.echo(f"hint: Put it into {place}, and leave it out of {flag}.", err=True)
    return value


class StoreFlag(Flags):
    """The store that is meant."""

    store_url: str | None = flag(
        "Where measurements are kept.  [default: pgdyno.db in the data folder]",
        "--store",
        metavar="PATH|URL",
        envvar="PGDYNO_STORE",
        callback=warn_of_password,
    )


def open_store(url: str | None) -> Store:
    """Open the store that was asked for, or the user's own in the data folder; the end of the verb closes it."""
    from pgdyno.server import places
    from pgdyno.store.catalogue import Store

    store = Store.open(url or places.ensure(places.data_dir()) / "pgdyno.db")
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(store.close)
    return store
