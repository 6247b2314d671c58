"""A database that is made anew from a template before each run; the server goes on."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.server.databases import clone_database, database_exists, drop_database
from pgdyno.server.new_database import passing_name
from pgdyno.targets.target import Target

_MARK = "made by pgdyno replay --restore"
"""The comment of a database that we made: no other is dropped."""
_COMMENT = """
SELECT pg_catalog.shobj_description(oid, 'pg_database') AS text FROM pg_catalog.pg_database WHERE datname = %s"""


@dataclass(frozen=True, slots=True)
class TemplateDatabase:
    """The database `name` as a copy of `template`."""

    template: str
    name: str

    @classmethod
    def of(cls, subject: str) -> TemplateDatabase:
        """Return the restore of `TEMPLATE=NAME`. Raises UsageError on another word."""
        template, _, name = subject.partition("=")
        if not (template and name) or template == name:
            raise UsageError(
                f'"{subject}" does not name a template and the database that is made of it',
                hint="Write --restore template:shop_before=shop_replay, and --database-map shop=shop_replay.",
            )
        return cls(template, name)

    @property
    def words(self) -> str:
        """Return what is copied to what."""
        return f'database "{self.name}" as a copy of "{self.template}"'

    @property
    def databases(self) -> tuple[str, ...]:
        """Return the one that it makes."""
        return (self.name,)

    def check(self, target: Target, known: ReplayTarget) -> None:
        """Refuse a template that is not there, and a database that we did not make. Sizes are the disk guard's."""
        if not database_exists(target.postgres, self.template):
            raise EnvironmentUnsuitable(
                f'"{target.name}" has no database "{self.template}"', hint="Restore the state from before into it."
            )
        rows = target.postgres.fetch(_COMMENT, [self.name])
        if rows and rows[0]["text"] != _MARK:
            raise EnvironmentUnsuitable(
                f'database "{self.name}" exists and was not made by a restore: it is not dropped',
                hint="Name another one, and map to it: --database-map shop=shop_replay.",
            )

    def restore(self, target: Target, known: ReplayTarget) -> str:
        """Drop the database and copy the template; see `Restore.restore`."""
        drop_database(target.postgres, self.name)
        with passing_name(target.postgres, self.name) as passing:
            clone_database(target.postgres, self.template, passing)
            comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
            target.postgres.execute(comment.format(sql.Identifier(passing), sql.Literal(_MARK)))
        return "cold: no page of the new database was in shared buffers; the system's cache may hold its files"
