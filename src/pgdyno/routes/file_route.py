"""The route through the configuration files: our drop-in, and the line in the main file that names it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import EnvironmentUnsuitable, RollbackError, telling_files
from pgdyno.model.configuration import Configuration
from pgdyno.routes.dropin import TRIES, DropIn, block_of, render
from pgdyno.routes.file_change import FileChange, changes_of, plan_lines
from pgdyno.routes.route import Route
from pgdyno.routes.three_way import without_block
from pgdyno.undo.bundle import UndoBundle

if TYPE_CHECKING:
    from pgdyno.targets.target import Target

KIND = "files"
_AWAY = "Find out who moved or replaced the server's files; pgdyno rollback puts back what this session changed."


class FileRoute(Route):
    """Stages into `pgdyno.conf` beside the main file; puts back the images of the bundle where nobody else edited.

    `stage` and `check` need the server's host; `put_back` needs nothing but the bundle and the file system, also
    when that is full. What was in the drop-in before the session stays in front of what is staged, but only where
    the main file named it already: else it was not in force, and no trial builds on it. What others write into
    either file during the session stays, while it runs and when it ends (see three_way.py).
    """

    def __init__(self, dropin: DropIn, bundle: UndoBundle, target: Target | None = None) -> None:
        self._main = dropin.main
        self._bundle = bundle
        self._target = target
        is_named = all(image.path != bundle.manifest.main_file for image in bundle.manifest.images)
        self._original = bundle.content_of(dropin.path) if is_named else None
        self._staged: tuple[bytes | None, bytes | None] = (None, self._original)

    @property
    def dropin(self) -> DropIn:
        """Return the two files, worked on by the server's account within the pinned directories."""
        return DropIn(self._main, self._bundle.hands())

    @property
    def _path(self) -> Path:
        """Return the drop-in's path, also while the directories are away."""
        return DropIn(self._main).path

    @property
    def source(self) -> Path | None:
        """Return the drop-in's path."""
        return self._path

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        return record_of(DropIn(self._main))

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Write the drop-in, atomically; see `Route.stage`."""
        try:
            found = self.dropin.read()
            staged, base = self._staged
            if found != staged or found is None:
                base = self._base(found)
            data = render(configuration, session=session, original=base or b"") if configuration else base
            if data != found:
                self.dropin.put_back(data)
            if data is not None:
                self.dropin.include()
            self._staged = (data, base)
        except OSError as error:
            raise unwritable(self._path, error) from error

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Write the drop-in as one that stays; the server reads the same lines in it. See `Route.keep`."""
        if not configuration:
            return
        try:
            base = self._base(self.dropin.read())
            self.dropin.put_back(render(configuration, session=session, original=base or b"", kept=True))
        except OSError as error:
            raise unwritable(self._path, error) from error

    def _base(self, found: bytes | None) -> bytes | None:
        """Return what stays in front of what is staged: the original, or what others have made of it meanwhile."""
        image = self._bundle.content_of(self.dropin.path)
        if found in (None, image):
            return self._original
        assert found is not None
        block = block_of(self._bundle.id, self._bundle.written())
        rest, _ = without_block(found, self._original or b"", block)
        if self._original is None:
            rest = rest.removeprefix(image or b"")
        return rest if rest.strip() or self._original else None

    def check(self, configuration: Configuration) -> None:
        """Ask the running server; see `Route.check`. Only for a route that was made with its target."""
        from pgdyno.routes.precheck import check_files  # what restores needs no SQL

        assert self._target is not None, "a route that only restores checks nothing"
        folder = self._bundle.manifest.data_directory
        with telling_files(EnvironmentUnsuitable, _AWAY):
            check_files(self._target, self.dropin, configuration, data_directory=folder)

    def changes(self) -> list[FileChange]:
        """Return what becomes of each file when this session is undone. Reads only. Raises RollbackError."""
        written = self._bundle.written()
        try:
            return changes_of(self._bundle, self.dropin, written)
        except OSError as error:
            path = error.filename or self._main
            raise self._not_put_back(str(path), error) from error

    def put_back(self) -> Sequence[str]:
        """Take our lines out of every file; it is as its image then unless others edited it. See `Route.put_back`."""
        changed: dict[str, None] = {}
        for tries in range(1, TRIES + 1):
            for change in self.changes():
                try:
                    if change.carry_out():
                        changed[change.image.path] = None
                except OSError as error:
                    if error.errno != errno.ESTALE or tries == TRIES:
                        raise self._not_put_back(change.image.path, error) from error
                    break  # somebody writes just now: look again
            else:
                break
        return list(changed)

    def plan(self) -> list[str]:
        """Return every line of the files that will change, and what stays of others; see `Route.plan`."""
        return plan_lines(self.changes())

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each file that still holds something of ours."""
        changes = self.changes()
        return [f'"{change.path}" is not what it was' for change in changes if not change.is_done()]

    def as_found(self) -> frozenset[str]:
        """Return the files, as the server spells them, that are what they were: no setting of others is in them."""
        paths = {str(change.path) for change in self.changes() if change.merge.is_image and change.is_done()}
        return frozenset(paths | ({str(self.dropin.main)} if str(self.dropin.main_real) in paths else set()))

    def _not_put_back(self, path: str, error: OSError) -> RollbackError:
        return RollbackError(
            f'"{path}" could not be put back: {(error.strerror or str(error)).lower()}',
            hint=f"Fix the problem and run pgdyno rollback {self._bundle.id}, or follow "
            f"{self._bundle.directory / 'UNDO.md'}.",
        )


def record_of(dropin: DropIn) -> dict[str, object]:
    """Return what the bundle keeps of this route, before the bundle exists."""
    return {"kind": KIND, "main": str(dropin.main)}


def files_of(dropin: DropIn) -> list[Path]:
    """Return the files that a session on this drop-in may change."""
    return [dropin.path, *([] if dropin.is_included() else [dropin.main_real])]


def unwritable(path: Path, error: OSError) -> EnvironmentUnsuitable:
    """Return the error for a file that could not be written; the server is as before."""
    return EnvironmentUnsuitable(
        f'"{path}" cannot be written: {(error.strerror or str(error)).lower()}',
        detail="The change was not made.",
        hint=f'Free some space on the file system of "{path.parent}", or grant write permission there.',
    )
