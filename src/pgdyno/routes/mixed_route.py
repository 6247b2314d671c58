"""The route through our drop-in, with ALTER SYSTEM for the knobs that postgresql.auto.conf sets.

That file is read after every other, so a line of ours could not win against it, and only the server may write it
while it runs. Only names that it held before the session are set there; all others go into the drop-in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import Configuration
from pgdyno.routes import file_route
from pgdyno.routes.auto_conf_store import AutoConfStore, Shared
from pgdyno.routes.dropin import DropIn
from pgdyno.routes.file_route import FileRoute
from pgdyno.routes.route import Record
from pgdyno.routes.sql_route import AUTO_CONF
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingDifference, SettingState
from pgdyno.targets.overrides import read_reach
from pgdyno.targets.target import Target
from pgdyno.undo.bundle import UndoBundle

KIND = "files and auto.conf"


class MixedRoute(FileRoute):
    """A `FileRoute` whose knobs of postgresql.auto.conf go there; see `Route` and auto_conf_store.py."""

    def __init__(self, dropin: DropIn, bundle: UndoBundle, store: AutoConfStore, target: Target | None = None) -> None:
        super().__init__(dropin, bundle, target)
        self._store = store

    @property
    def source(self) -> Path | None:
        """Return None: settings come from two files."""
        return None

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        return record_of(self.dropin, self._store.shared)

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Write the drop-in and set the lines of postgresql.auto.conf; see `Route.stage`.

        Both are journalled before. What stops in between is put right by the next stage, or by the way back. Raises
        EnvironmentUnsuitable, before anything is written, where somebody else has changed one of those lines.
        """
        shared, rest = self._split(configuration)
        try:
            self._store.refuse_foreign()
            super().stage(rest, session=session)
            self._store.bring(shared)
        except OSError as error:
            raise file_route.unwritable(self._store.shared.path, error) from error

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Keep the drop-in; what ALTER SYSTEM set stays by itself. See `Route.keep`."""
        super().keep(self._split(configuration)[1], session=session)

    def check(self, configuration: Configuration) -> None:
        """Ask the running server about our lines; ALTER SYSTEM asked it about its own. See `Route.check`."""
        super().check(self._split(configuration)[1])

    def put_back(self) -> Sequence[str]:
        """Put back the files, and our lines of postgresql.auto.conf; see `Route.put_back`."""
        return [*super().put_back(), *self._store.put_back()]

    def plan(self) -> list[str]:
        """Return every line that will change in the files and in postgresql.auto.conf; see `Route.plan`."""
        return [*super().plan(), *self._store.plan()]

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each file, and each line of ours, that is not what it was."""
        return [*super().leftovers(), *self._store.leftovers()]

    def differences(
        self, before: Mapping[str, SettingState], after: Mapping[str, SettingState]
    ) -> tuple[SettingDifference, ...]:
        """Return every setting that is not what it was, where it was.

        ALTER SYSTEM moves lines within the file, and what somebody else set there meanwhile stays: neither counts.
        """
        foreign = self._store.foreign()
        found = super().differences(before, after)
        return tuple(one for one in found if one.name not in foreign and not self._is_moved(one))

    def _is_moved(self, difference: SettingDifference) -> bool:
        before, after = difference.before, difference.after
        if before is None or after is None or before.sourcefile != str(self._store.shared.path):
            return False
        keys = ("setting", "source", "sourcefile", "pending_restart")
        return all(getattr(before, key) == getattr(after, key) for key in keys)

    def _split(self, configuration: Configuration) -> tuple[dict[str, str], Configuration]:
        names = [name for name in configuration if name in self._store.shared.originals]
        return {name: configuration[name] for name in names}, configuration.without(*names)


def record_of(dropin: DropIn, shared: Shared | None) -> dict[str, object]:
    """Return what the bundle keeps of the route of a server whose files are here, before the bundle exists."""
    record = file_route.record_of(dropin)
    return record if shared is None else {**record, "kind": KIND, "auto_conf": shared.record()}


def from_record(record: Record, bundle: UndoBundle, postgres: Postgres, target: Target | None = None) -> FileRoute:
    """Rebuild the route of a server whose files are here. Raises KeyError or ValueError on a broken record.

    `record` is what `record_of` made, `bundle` the session's undo bundle, and `postgres` the server for ALTER SYSTEM.
    Where `target` is None the route can put back, but not check.
    """
    dropin = DropIn(Path(str(record["main"])))
    if record["kind"] == file_route.KIND:
        return FileRoute(dropin, bundle, target)
    auto_conf = record["auto_conf"]
    if not isinstance(auto_conf, dict):
        raise ValueError("not the lines of postgresql.auto.conf")
    return MixedRoute(dropin, bundle, AutoConfStore(Shared.from_record(auto_conf), bundle, postgres), target)


def shared_lines(target: Target, data_directory: Path, settings: Mapping[str, SettingState]) -> Shared | None:
    """Return the lines of postgresql.auto.conf that a session may set; None where there are none. Reads only.

    Raises EnvironmentUnsuitable when the file cannot be read.
    """
    names = read_reach(target, settings).by_alter_system
    if not names:
        return None
    try:
        return Shared.read(data_directory, names)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else None
        raise EnvironmentUnsuitable(
            f'"{data_directory / AUTO_CONF}" could not be put back as it is: {(words or str(error)).lower()}',
            hint=f"Leave {', '.join(sorted(names))} out, or run pgdyno as the owner of that file or as root.",
        ) from error
