"""The program behind a job of SQL: `python -m pgdyno.studies.batch.sql_program FILE`, with libpq's variables set.

The file is sent as it is, as one message: several statements in it are one transaction unless they say BEGIN and
COMMIT themselves. psql's own commands are not known here; a job with them is argv = ["psql", "-f", FILE].
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ConnectError
from pgdyno.server.postgres import Postgres

NO_FILE, NO_SESSION, REFUSED, CANCELLED = 1, 2, 3, 130
"""Exit codes: as psql has them, and one for what somebody cancelled on the server."""
_BY_SOMEBODY = ("57014", "57P01")
_SYNTAX = "42601"
"""Its message has a word of the text."""


def main() -> int:
    """Run the file and return the exit code; what the server said goes to stderr."""
    name = os.environ.get("PGAPPNAME", "")
    server = Postgres(make_conninfo("", application_name=name) if name else "", as_load=True)
    try:
        text = Path(sys.argv[1]).read_bytes()
    except OSError as error:
        sys.stderr.write(f'"{sys.argv[1]}" cannot be read: {error.strerror}\n')
        return NO_FILE
    try:
        with server.connect() as connection:
            connection.execute(text)
    except ConnectError as error:
        sys.stderr.write(f"{error.one_line}\n")
        return NO_SESSION
    except psycopg.Error as error:
        said = error.diag.message_primary or str(error).strip() or type(error).__name__
        if error.sqlstate == _SYNTAX and b"password" in text.lower():
            said = "syntax error in a text with a password, which is not quoted"
        sys.stderr.write(f"ERROR:  {' '.join(said.split())}\n")  # not the lines below it, which quote the text
        return CANCELLED if error.sqlstate in _BY_SOMEBODY else REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
