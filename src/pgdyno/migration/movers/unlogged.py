"""Statements with a secret in them, which a server shall keep nowhere but where they put it."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgdyno.server.postgres import Postgres, query_error

_QUIET = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "pg_stat_statements.track": "none",
    "pgaudit.log": "none",
    "session_replication_role": "replica",
}
"""What would write a statement's text down. The last keeps event triggers of users from reading it."""


def execute_unlogged(server: Postgres, query: sql.Composed) -> None:
    """Run a statement whose text goes into no log and no statistics of the server. Errors as `Postgres.fetch`.

    Needs a superuser: where the role may not change what is logged, nothing is run.
    """
    with server.connect() as session:
        try:
            for name, value in _QUIET.items():
                session.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
            session.execute(query)
        except psycopg.Error as error:
            raise query_error(server.label, error) from error
