"""Settings reach a server by ALTER SYSTEM where only SQL does, and leave it the same way.

ALTER SYSTEM rewrites `postgresql.auto.conf`: it takes the lines of the name out and appends the new one, so setting a
value back moves its line to the end. The way back therefore sets the lines from the first wrong one on again, in
their old order. Statements are single commands: a session that dies between two is put right by `put_back`, which
goes by what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from pgdyno.errors import ApplyError, EnvironmentUnsuitable, RollbackError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.routes.auto_conf import Line, first_wrong, list_words, plan
from pgdyno.routes.file_check import read_files
from pgdyno.routes.route import Route
from pgdyno.routes.route_names import is_ours, may_hold_secret, refuse_strange
from pgdyno.routes.written import Written
from pgdyno.server import sql_rights
from pgdyno.server.postgres import Postgres, Query, query_error

KIND = "sql"
AUTO_CONF = "postgresql.auto.conf"
HEADER_LINES = 2
"""ALTER SYSTEM writes two lines of comment above the settings (`write_auto_conf_file` in guc.c)."""


@dataclass(frozen=True, slots=True)
class SqlRoute(Route):
    """ALTER SYSTEM on one server. `originals` are the lines that its postgresql.auto.conf held, in their order.

    A value that `may_hold_secret` is None there: such a line is never touched, only moved with the value that it has.
    `staged` are the values that the session has set, or meant to, by name: a line with another value is somebody
    else's, and stays. None is for a session of which that is not known: then every name of the policy counts as ours.
    """

    postgres: Postgres
    auto_conf: Path
    originals: tuple[Line, ...]
    staged: dict[str, set[str]] | None = field(default_factory=dict, compare=False)

    @classmethod
    def open(cls, postgres: Postgres) -> SqlRoute:
        """Take down what postgresql.auto.conf holds, and see that we may change it. No effect on the server.

        Raises EnvironmentUnsuitable as `sql_rights.check`, and when the file was edited by hand, because ALTER
        SYSTEM could not bring back what it looked like.
        """
        auto_conf = sql_rights.check(postgres) / AUTO_CONF
        found = _read(postgres, auto_conf)
        lines = tuple(line for _, line in found)
        if not is_as_written([number for number, _ in found], lines):
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

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        originals = [[line.name, line.value] for line in self.originals]
        return {"kind": KIND, "auto_conf": str(self.auto_conf), "originals": originals}

    @classmethod
    def from_record(
        cls, record: Mapping[str, object], *, postgres: Postgres, written: Written | None = None
    ) -> SqlRoute:
        """Rebuild it. Raises KeyError or ValueError on anything else than what `record` made."""
        originals = record["originals"]
        if not isinstance(originals, list):
            raise ValueError("not a list of lines")
        lines = tuple(Line(str(name), None if value is None else str(value)) for name, value in originals)
        return cls(postgres, Path(str(record["auto_conf"])), lines, staged_of(written))

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Set what differs and take away what is no longer asked for; see `Route.stage`.

        Rights are checked before the first statement. When one is refused, what was staged before is staged again.
        Raises ApplyError that names knob and value when the server rejects one, and when somebody else has set it
        since the session began: that is theirs, and is not overwritten.
        """
        refuse_strange(configuration)
        sql_rights.refuse_ungranted(self.postgres, {*configuration, *(line.name for line in self.originals)})
        before = self._lines()
        self._refuse_foreign(configuration, before)
        if self.staged is not None:
            for name, value in configuration.items():
                self.staged.setdefault(name, set()).add(value)
        try:
            self._bring(configuration)
        except (ApplyError, EnvironmentUnsuitable):
            now = self._lines()
            self._run(plan(now, before, self._ours_in(now)))
            raise

    def check(self, configuration: Configuration) -> None:
        """See through `pg_file_settings` that every line can be used; see `Route.check`."""
        reading = read_files(self.postgres)
        for line in reading.rejected():
            raise ApplyError(
                f"the server rejected {line.words}",
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
        now = self._lines()
        statements = plan(now, self._originals_in(now), self._ours_in(now))
        self._run(statements)
        left = self.leftovers()
        if left:
            raise RollbackError(f'"{self.auto_conf}" is not as it was', detail="\n".join(left))
        return sorted({line.name for line in statements})

    def plan(self) -> list[str]:
        """Return the statements that `put_back` would run; see `Route.plan`."""
        now = self._lines()
        statements = plan(now, self._originals_in(now), self._ours_in(now))
        return [
            f"ALTER SYSTEM RESET {line.name}"
            if line.value is None
            else f"ALTER SYSTEM SET {line.name} = {'(not shown)' if may_hold_secret(line.name) else repr(line.value)}"
            for line in statements
        ]

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each line that is not as it was; see `Route.leftovers`."""
        lines = self._lines()
        current = {line.name: line.value for line in lines}
        known = {line.name for line in self.originals}
        originals, is_ours = self._originals_in(lines), self._ours_in(lines)
        found = [
            f"{line.name} is {current.get(line.name, 'absent')} in {AUTO_CONF}, was {line.value or 'there'}"
            for line in originals
            if line.name not in current or (line.value is not None and current[line.name] != line.value)
        ]
        found += [
            f"{name} = {value} is in {AUTO_CONF} and was not"
            for name, value in current.items()
            if name not in known and is_ours(name)
        ]
        if not found and first_wrong(lines, originals) < len(originals):
            found.append(f"the lines of {AUTO_CONF} are not in their old order")
        return found

    def _bring(self, configuration: Configuration) -> None:
        """Stage the originals with the configuration on top of them."""
        lines = self._lines()
        originals, is_ours = self._originals_in(lines), self._ours_in(lines)
        if configuration == BASELINE:
            self._run(plan(lines, originals, is_ours))
            return
        current = {line.name: line.value for line in lines}
        wanted = {line.name: line.value for line in originals if line.value is not None} | dict(configuration)
        untouched = {line.name for line in self.originals}
        gone = [name for name in current if name not in wanted and name not in untouched and is_ours(name)]
        changed = [Line(name, value) for name, value in wanted.items() if current.get(name) != value]
        self._run([*(Line(name, None) for name in gone), *changed])

    def _refuse_foreign(self, names: Iterable[str], lines: Sequence[Line]) -> None:
        current, found = {line.name: line.value for line in lines}, {line.name: line.value for line in self.originals}
        is_from_us = self._ours_in(lines)
        for name in names:
            if current.get(name) != found.get(name) and not (name in current and is_from_us(name)):
                raise set_by_others(name, current.get(name), AUTO_CONF)

    def _ours_in(self, lines: Sequence[Line]) -> Callable[[str], bool]:
        """Return what tells whether a name's line, as it is now, is from this session."""
        current = {line.name: line.value for line in lines}
        return lambda name: (
            is_ours(name) and (self.staged is None or _is_one_of(current.get(name), self.staged.get(name, ())))
        )

    def _originals_in(self, lines: Sequence[Line]) -> tuple[Line, ...]:
        """Return the original lines but for those that somebody else has changed or taken away since."""
        current = {line.name: line.value for line in lines}
        is_from_us = self._ours_in(lines)
        return tuple(
            line
            for line in self.originals
            if self.staged is None
            or (line.name in current and (line.value in (None, current[line.name]) or is_from_us(line.name)))
        )

    def _lines(self) -> tuple[Line, ...]:
        return tuple(line for _, line in _read(self.postgres, self.auto_conf))

    def _run(self, lines: Sequence[Line]) -> None:
        run_statements(self.postgres, lines)


def run_statements(postgres: Postgres, lines: Sequence[Line]) -> None:
    """Run one ALTER SYSTEM for each line in one session: SET, or RESET where there is no value.

    Raises ApplyError that names knob and value when the server rejects one, EnvironmentUnsuitable when the role may
    not; what was set before stays set.
    """
    if not lines:
        return
    with postgres.connect() as connection:
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
                raise query_error(postgres.label, error) from error


def is_as_written(numbers: Sequence[int], lines: Sequence[Line]) -> bool:
    """Tell whether these lines of postgresql.auto.conf are as ALTER SYSTEM writes them: in a row, no name twice."""
    in_a_row = list(numbers) == [*range(HEADER_LINES + 1, HEADER_LINES + 1 + len(lines))]
    return in_a_row and len({line.name for line in lines}) == len(lines)


def set_by_others(name: str, value: object, where: str) -> ApplyError:
    """Return the error for a knob that somebody else has changed during the session, where we would change it."""
    return ApplyError(
        f"{name} was set by somebody else during the session",
        detail=f"It is {'absent' if value is None else value} in {where} now, and is not overwritten.",
        hint="Take that back, or leave this knob out.",
    )


def staged_of(written: Written | None) -> dict[str, set[str]] | None:
    """Return the values that a session meant to set, by name; None when that is not known."""
    if written is None or not written.is_known:
        return None
    return {name: set(values) for name, values in written.values().items()}


def _is_one_of(value: str | None, ours: Iterable[str]) -> bool:
    """Tell whether a value is one that we set; ALTER SYSTEM writes the words of a list in its own way."""
    return value is not None and _bare(value) in {_bare(each) for each in ours}


def _bare(value: str) -> str:
    return "".join(value.split()).replace('"', "").lower()


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
