"""The knobs of a server's own postgresql.auto.conf that a session sets by ALTER SYSTEM, and their way back.

The server is asked to write its file as long as it can be asked. When it is down nobody else writes the file, and it
is replaced. When it is up and lets us not in (no password, no free connection), it is replaced as well, but only if
it is still the very file that was read: ALTER SYSTEM holds a lock that only sessions of the server can take.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError, RollbackError
from pgdyno.owner import durable
from pgdyno.owner.file_image import digest, found_sum
from pgdyno.owner.hands import hands_of
from pgdyno.routes.auto_conf import Line, plan
from pgdyno.routes.auto_conf_file import Merged, merge, read_lines, written
from pgdyno.routes.dropin import LONGEST, TRIES
from pgdyno.routes.file_change import diff
from pgdyno.routes.route import Record
from pgdyno.routes.route_names import may_hold_secret
from pgdyno.routes.sql_route import AUTO_CONF, run_statements
from pgdyno.server import postmaster_lock
from pgdyno.server.postgres import Postgres
from pgdyno.undo.bundle import UndoBundle


@dataclass(frozen=True, slots=True)
class Shared:
    """What is kept of the file: its lines' names in their order, and the values of those that we may set."""

    path: Path
    order: tuple[str, ...]
    originals: Mapping[str, str]

    @classmethod
    def read(cls, data_directory: Path, names: frozenset[str]) -> Shared:
        """Take the file down before the first change. Raises ValueError when we could not write it as it is."""
        path = data_directory / AUTO_CONF
        data = hands_of(data_directory).read_whole(path, LONGEST)
        lines = [line for line in read_lines(data) if line.name is not None]
        originals = {str(line.name): str(line.value) for line in lines if line.name in names}
        order = tuple(str(line.name) for line in lines)
        if originals.keys() != names or merge(data, order, originals, None).data != data:
            raise ValueError("it is not as ALTER SYSTEM writes it")
        return cls(path, order, originals)

    def record(self) -> dict[str, object]:
        """Return plain JSON values; no value that may be a secret is among the originals."""
        return {"path": str(self.path), "order": list(self.order), "originals": dict(self.originals)}

    @classmethod
    def from_record(cls, record: Record) -> Shared:
        """Rebuild it. Raises KeyError or ValueError on anything else than what `record` made."""
        order, originals = record["order"], record["originals"]
        if not isinstance(order, list) or not isinstance(originals, dict):
            raise ValueError("not the lines of postgresql.auto.conf")
        values = {str(name): str(value) for name, value in originals.items()}
        return cls(Path(str(record["path"])), tuple(map(str, order)), values)


class AutoConfStore:
    """Sets and puts back these lines. The values that are ours are the originals and those in the journal."""

    def __init__(self, shared: Shared, bundle: UndoBundle, postgres: Postgres) -> None:
        self.shared = shared
        self._bundle = bundle
        self._postgres = postgres
        self._told: set[str] = set()

    def refuse_foreign(self) -> None:
        """Raise EnvironmentUnsuitable when somebody else changed one of our lines; once, so that a way back goes on."""
        foreign = [name for name in self._merge(self._read(), {}).foreign if name not in self._told]
        if not foreign:
            return
        self._told.update(foreign)
        raise EnvironmentUnsuitable(
            f"{', '.join(foreign)} was changed by ALTER SYSTEM during the session, and not by pgdyno",
            detail="That value stays; a trial would have overwritten it.",
            hint=f"Begin again, with --exclude {foreign[0]} if it is to be changed meanwhile.",
        )

    def bring(self, values: Mapping[str, str]) -> None:
        """Set our lines to these values, to their originals where none is given; what others set in them stays.

        Raises ApplyError when the server rejects a value, ConnectError when it is up and cannot be asked.
        """
        found = self._read()
        wanted = {line.name: line.value for line in read_lines(self._merge(found, values).data)}
        changed = [
            Line(str(line.name), wanted[line.name])
            for line in read_lines(found)
            if line.name in self.shared.originals and line.value != wanted[line.name]
        ]
        try:
            run_statements(self._postgres, changed)
        except ConnectError:
            if postmaster_lock.postmaster_pid(self.shared.path.parent) is not None:
                raise
            self._replace(values)

    def put_back(self) -> Sequence[str]:
        """Put our lines back, and every line to its place; return the path when there was something to do.

        Raises RollbackError when neither the server nor the file takes it.
        """
        try:
            self._bundle.hands().sweep(self.shared.path)
            found = self._read()
            merged = self._merge(found, {})
            self._keep_foreign(found, merged)
            if merged.data == found:
                return []
            self._ask_server(found, merged)
            self._replace({})
        except OSError as error:
            raise self._not_put_back(error) from error
        return [str(self.shared.path)]

    def plan(self) -> list[str]:
        """Return the lines that `put_back` would change. Raises RollbackError when the file cannot be read."""
        try:
            found = self._read()
        except OSError as error:
            raise self._not_put_back(error) from error
        merged = self._merge(found, {})
        # ALTER SYSTEM writes the line that it sets at the end: one that only stands elsewhere does not change.
        lines = [data.splitlines(keepends=True) for data in (found, merged.data)]
        kept = set(lines[0]) & set(lines[1])
        before, after = (b"".join(line for line in each if line not in kept) for each in lines)
        stays = [f"note: {name} was changed by somebody else since; that value stays" for name in merged.foreign]
        return diff(self.shared.path, before, after) + stays

    def leftovers(self) -> Sequence[str]:
        """Return a sentence when a line of ours is not as it was; what others changed meanwhile is none of ours."""
        try:
            found = self._read()
        except OSError as error:
            return [f'"{self.shared.path}" cannot be read: {(error.strerror or str(error)).lower()}']
        if self._merge(found, {}).data != found:
            return [f'"{self.shared.path}" is not as it was']
        return []

    def foreign(self) -> frozenset[str]:
        """Return our names that stand at a value of somebody else, which stays."""
        return frozenset(self._merge(self._read(), {}).foreign)

    def _not_put_back(self, error: OSError) -> RollbackError:
        return RollbackError(
            f'"{self.shared.path}" could not be put back: {(error.strerror or str(error)).lower()}',
            hint=f"Fix the problem and run pgdyno rollback {self._bundle.id}.",
        )

    def _read(self) -> bytes:
        return self._bundle.hands().read_whole(self.shared.path, LONGEST)

    def _merge(self, found: bytes, values: Mapping[str, str]) -> Merged:
        return merge(found, self.shared.order, {**self.shared.originals, **values}, self._ours())

    def _ours(self) -> dict[str, set[str]] | None:
        """Return the values that are ours by the journal; None when it is damaged and some may be missing."""
        reading = self._bundle.reading()
        if reading.damage is not None:
            return None
        ours = {name: {value} for name, value in self.shared.originals.items()}
        for record in reading.records:
            settings = record.data.get("settings")
            for name, value in settings.items() if isinstance(settings, dict) else ():
                ours.setdefault(str(name), set()).add(str(value))
        return ours

    def _ask_server(self, found: bytes, merged: Merged) -> None:
        """Let the server write its file; what it refuses, or must not read in a statement, is left to `_replace`."""
        lines, wanted = (_lines(data) for data in (found, merged.data))
        statements = plan(lines, wanted, lambda _: False)
        if any(may_hold_secret(line.name) for line in statements):
            current = {line.name: line.value for line in lines}
            statements = [line for line in wanted if line.name in self.shared.originals]
            statements = [line for line in statements if current.get(line.name) != line.value]
        try:
            run_statements(self._postgres, statements)
        except PgdynoError:
            return

    def _replace(self, values: Mapping[str, str]) -> None:
        """Replace the file, if it is not as wanted, by one that is; only while it is the very file that was read."""
        for tries in range(1, TRIES + 1):
            found = self._read()
            wanted = self._merge(found, values).data
            if wanted == found:
                return
            try:
                self._bundle.hands().put(self.shared.path, wanted, found_sum(found))
            except OSError as error:
                if error.errno != errno.ESTALE or tries == TRIES:
                    raise
            else:
                return

    def _keep_foreign(self, found: bytes, merged: Merged) -> None:
        """Keep a copy of what somebody else set in lines of ours, which `pgdyno rollback --list` then names."""
        theirs = {line.name: line.value for line in read_lines(found) if line.name in merged.foreign}
        if not merged.foreign:
            return
        lines = [written(Line(name, theirs[name])) if name in theirs else b"# no " + name.encode() + b"\n"
                 for name in merged.foreign]  # fmt: skip
        kept = self._bundle.directory / f"found-{digest(b''.join(lines))[:12]}.conf"
        if not kept.exists():
            durable.write_new(kept, b"".join(lines))


def _lines(data: bytes) -> list[Line]:
    return [Line(line.name, line.value) for line in read_lines(data) if line.name is not None]
