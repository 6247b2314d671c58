"""Alembic's entry: runs the migrations on the connection, and in the transaction, that `store/migrate.py` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
