"""The warning of a password on the command line, for flags that name a server or a store."""

from __future__ import annotations

import click
from click.core import ParameterSource

from pgdyno.outside.secret_words import names_secret


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
