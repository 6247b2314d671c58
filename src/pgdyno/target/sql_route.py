"""Settings reach a server by ALTER SYSTEM where only SQL does, and leave it the same way (PostgreSQL 13 to 18).

ALTER SYSTEM rewrites `postgresql.auto.conf`: it takes the lines of the name out and appends the new one, so setting a
value back moves its line to the end. The way back therefore sets the lines from the first wrong one on again, in
their old order. Statements are single commands: a session that dies between two is put right by `put_back`, which
goes by what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RollbackError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.target import snapshot, sql_rights
from pgdyno.target.auto_conf import Line, first_wrong, list_words, plan
from pgdyno.target.file_check import read_files
from pgdyno.target.postgres import Postgres, Query, query_error
from pgdyno.target.route import FILES
from pgdyno.target.route_names import is_ours, may_hold_secret, refuse_strange
from pgdyno.target.snapshot import SettingDifference, SettingState

KIND = "sql"
AUTO_CONF = "postgresql.auto.conf"
HEADER_LINES = 2
"""ALTER SYSTEM writes two lines of comment above the settings (`write_auto_conf_file` in guc.c, 13 to 18)."""


@dataclass(frozen=True, slots=True)
class SqlRoute:
    """ALTER SYSTEM on one server. `originals` are the lines that its postgresql.auto.conf held, in their order.

    A value that `may_hold_secret` is None there: such a line is never touched, only moved with the value that it has.
    """

    postgres: Postgres
    auto_conf: Path
    originals: tuple[Line, ...]

    @classmethod
    def open(cls, postgres: Postgres) -> SqlRoute:
        """Take down what postgresql.auto.conf holds, and see that we may change it. No effect on the server.

        Raises EnvironmentUnsuitable as `sql_rights.check`, and when the file was edited by hand, because ALTER
        SYSTEM could not bring back what it looked like.
        """
        auto_conf = sql_rights.check(postgres) / AUTO_CONF
        found = _read(postgres, auto_conf)
        lines = tuple(line for _, line in found)
        in_a_row = [number for number, _ in found] == [*range(HEADER_LINES + 1, HEADER_LINES + 1 + len(lines))]
        if not in_a_row or len({line.name for line in lines}) < len(lines):
            raise EnvironmentUnsuitable(
                f'"{auto_conf}" was edited by hand',
                detail="ALTER SYSTEM would drop its comments and double lines, and could not bring them back.",
                hint=f"Let the server write it once: ALTER SYSTEM SET {lines[0].name} = ... with its own value.",
            )
        sql_rights.refuse_unknown(postgres, auto_conf, [line.name for line in lines])
        return cls(postgres, auto_conf, tuple(line.without_secret(may_hold_secret) for line in lines))

    @property
    def source(self) -> Path | None:
        """Return the server's postgresql.auto.conf."""
        return self.auto_conf

    @property
    def accepted_sources(self) -> frozenset[str]:
        """Return that a configuration file is the only place."""
        return FILES

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        originals = [[line.name, line.value] for line in self.originals]
        return {"kind": KIND, "auto_conf": str(self.auto_conf), "originals": originals}

    @classmethod
    def from_record(cls, record: Mapping[str, object], *, postgres: Postgres) -> SqlRoute:
        """Rebuild it. Raises KeyError or ValueError on anything else than what `record` made."""
        originals = record["originals"]
        if not isinstance(originals, list):
            raise ValueError("not a list of lines")
        lines = tuple(Line(str(name), None if value is None else str(value)) for name, value in originals)
        return cls(postgres, Path(str(record["auto_conf"])), lines)

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Set what differs and take away what is no longer asked for; see `Route.stage`.

        Rights are checked before the first statement. When one is refused, what was staged before is staged again.
        Raises ApplyError that names knob and value when the server rejects one.
        """
        refuse_strange(configuration)
        sql_rights.refuse_ungranted(self.postgres, {*configuration, *(line.name for line in self.originals)})
        before = self._lines()
        try:
            self._bring(configuration)
        except (ApplyError, EnvironmentUnsuitable):
            self._run(plan(self._lines(), before, is_ours))
            raise

    def check(self, configuration: Configuration) -> None:
        """See through `pg_file_settings` that every line can be used; see `Route.check`."""
        reading = read_files(self.postgres)
        for line in reading.rejected():
            raise ApplyError(
                f"the server rejected {line.name} = {line.setting}",
                detail=f"{line.place}: {line.error}",
                hint=f"pgdyno knobs {line.name} shows its range on this server.",
            )
        for line, winner in reading.overridden(self.auto_conf):
            if line.name in configuration:
                raise ApplyError(
                    f"{line.name} = {line.setting} would not be in force: overridden by {winner.place}",
                    detail=f"That line sets {winner.setting}.",
                    hint=f"Take that line out of {winner.sourcefile}, or leave this knob out.",
                )

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Do nothing: what was staged stays by itself; see `Route.keep`."""

    def put_back(self) -> Sequence[str]:
        """Bring back the lines of before, in their order; see `Route.put_back`."""
        statements = plan(self._lines(), self.originals, is_ours)
        self._run(statements)
        left = self.leftovers()
        if left:
            raise RollbackError(f'"{self.auto_conf}" is not as it was', detail="\n".join(left))
        return sorted({line.name for line in statements})

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each line that is not as it was; see `Route.leftovers`."""
        lines = self._lines()
        current = {line.name: line.value for line in lines}
        known = {line.name for line in self.originals}
        found = [
            f"{line.name} is {current.get(line.name, 'absent')} in {AUTO_CONF}, was {line.value or 'there'}"
            for line in self.originals
            if line.name not in current or (line.value is not None and current[line.name] != line.value)
        ]
        found += [
            f"{name} = {value} is in {AUTO_CONF} and was not"
            for name, value in current.items()
            if name not in known and is_ours(name)
        ]
        if not found and first_wrong(lines, self.originals) < len(self.originals):
            found.append(f"the lines of {AUTO_CONF} are not in their old order")
        return found

    def differences(
        self, before: Mapping[str, SettingState], after: Mapping[str, SettingState]
    ) -> tuple[SettingDifference, ...]:
        """Return every setting that is not what it was, where it was."""
        return snapshot.differences(before, after)

    def _bring(self, configuration: Configuration) -> None:
        """Stage the originals with the configuration on top of them."""
        if configuration == BASELINE:
            self._run(plan(self._lines(), self.originals, is_ours))
            return
        current = {line.name: line.value for line in self._lines()}
        wanted = {line.name: line.value for line in self.originals if line.value is not None} | dict(configuration)
        untouched = {line.name for line in self.originals}
        gone = [name for name in current if name not in wanted and name not in untouched and is_ours(name)]
        changed = [Line(name, value) for name, value in wanted.items() if current.get(name) != value]
        self._run([*(Line(name, None) for name in gone), *changed])

    def _lines(self) -> tuple[Line, ...]:
        return tuple(line for _, line in _read(self.postgres, self.auto_conf))

    def _run(self, lines: Sequence[Line]) -> None:
        """Run one statement for each line in one session: SET, or RESET where there is no value."""
        if not lines:
            return
        with self.postgres.connect() as connection:
            for line in lines:
                try:
                    connection.execute(alter_system(line))
                except psycopg.errors.InsufficientPrivilege as error:
                    raise EnvironmentUnsuitable(
                        f"{line.name} may not be changed by ALTER SYSTEM",
                        detail=error.diag.message_primary,
                        hint=f"GRANT ALTER SYSTEM ON PARAMETER {line.name} TO {connection.info.user}; (15 and later)",
                    ) from error
                except (psycopg.DataError, psycopg.ProgrammingError) as error:
                    raise ApplyError(
                        f"the server rejected {line.name} = {line.value}",
                        detail=error.diag.message_primary,
                        hint=error.diag.message_hint or f"pgdyno knobs {line.name} shows its range on this server.",
                    ) from error
                except psycopg.Error as error:
                    raise query_error(self.postgres.label, error) from error


def alter_system(line: Line) -> Query:
    """Compose the statement. A list such as shared_preload_libraries is given word by word.

    One literal `'a,b'` would be written as one quoted name `"a,b"`, with which the server does not start.
    """
    name = sql.Identifier(*line.name.split("."))
    if line.value is None:
        return sql.SQL("ALTER SYSTEM RESET {}").format(name)
    words = sql.SQL(", ").join(sql.Literal(word) for word in list_words(line.name, line.value))
    return sql.SQL("ALTER SYSTEM SET {} = {}").format(name, words)


def _read(postgres: Postgres, auto_conf: Path) -> list[tuple[int, Line]]:
    lines = (line for line in read_files(postgres).lines if line.sourcefile == str(auto_conf))
    return [(line.sourceline or 0, Line(line.name or "", line.setting or "")) for line in lines]
