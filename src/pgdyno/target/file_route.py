"""The route through the configuration files: our drop-in, and the line in the main file that names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import EnvironmentUnsuitable, RollbackError
from pgdyno.model.configuration import Configuration
from pgdyno.target import durable, file_image, snapshot
from pgdyno.target.bundle import UndoBundle
from pgdyno.target.dropin import DropIn, render, with_include
from pgdyno.target.file_image import FileImage
from pgdyno.target.route import FILES, Record
from pgdyno.target.snapshot import SettingDifference, SettingState

if TYPE_CHECKING:
    from pgdyno.target.target import Target

KIND = "files"


class FileRoute:
    """Stages into `pgdyno.conf` beside the main file; puts back the exact images that the undo bundle holds.

    `stage` and `check` need the server's host; `put_back` needs nothing but the bundle and the file system, also
    when that is full. What was in the drop-in before the session stays in front of what is staged, but only where
    the main file named it already: else it was not in force, and no trial builds on it.
    """

    def __init__(self, dropin: DropIn, bundle: UndoBundle, target: Target | None = None) -> None:
        self.dropin = dropin
        self._bundle = bundle
        self._target = target
        is_named = all(image.path != bundle.manifest.main_file for image in bundle.manifest.images)
        self._original = bundle.content_of(dropin.path) if is_named else None

    @classmethod
    def from_record(cls, record: Record, bundle: UndoBundle) -> FileRoute:
        """Rebuild one. Raises KeyError on a record that `record` did not make."""
        return cls(DropIn(Path(str(record["main"]))), bundle)

    @property
    def source(self) -> Path:
        """Return the drop-in's path."""
        return self.dropin.path

    @property
    def accepted_sources(self) -> frozenset[str]:
        """Return that a configuration file is the only place."""
        return FILES

    def record(self) -> dict[str, object]:
        """Return plain JSON values; see `Route.record`."""
        return record_of(self.dropin)

    def stage(self, configuration: Configuration, *, session: str) -> None:
        """Write the drop-in, atomically; see `Route.stage`."""
        data = self._original
        if configuration:
            data = render(configuration, session=session, original=self._original or b"")
        try:
            if data != self.dropin.read():
                self.dropin.put_back(data)
            if data is not None:
                self.dropin.include()
        except OSError as error:
            raise unwritable(self.dropin.path, error) from error

    def keep(self, configuration: Configuration, *, session: str) -> None:
        """Write the drop-in as one that stays; the server reads the same lines in it. See `Route.keep`."""
        if not configuration:
            return
        data = render(configuration, session=session, original=self._original or b"", kept=True)
        try:
            self.dropin.put_back(data)
        except OSError as error:
            raise unwritable(self.dropin.path, error) from error

    def check(self, configuration: Configuration) -> None:
        """Ask the running server; see `Route.check`. Only for a route that was made with its target."""
        from pgdyno.target.precheck import check_files  # what restores needs no SQL

        assert self._target is not None, "a route that only restores checks nothing"
        check_files(self._target, self.dropin, configuration, data_directory=self._bundle.manifest.data_directory)

    def put_back(self) -> Sequence[str]:
        """Put every file back as its image says; see `Route.put_back`."""
        changed = []
        for image in self._bundle.manifest.images:
            data = self._bundle.content(image)
            try:
                if file_image.restore(image, data):
                    changed.append(image.path)
            except OSError as error:
                raise RollbackError(
                    f'"{image.path}" could not be put back: {(error.strerror or str(error)).lower()}',
                    hint=f"Mend that and run pgdyno rollback {self._bundle.id}, or follow "
                    f"{self._bundle.directory / 'UNDO.md'}.",
                ) from error
        return changed

    def leftovers(self) -> Sequence[str]:
        """Return a sentence for each file that is not what it was."""
        images = self._bundle.manifest.images
        return [f'"{image.path}" is not what it was' for image in images if not image.is_in_place()]

    def strange_edits(self) -> Sequence[str]:
        """Keep a copy of a main file that somebody else changed during the session, and say where.

        To be called before `put_back`, which returns the file to its old bytes.
        """
        manifest = self._bundle.manifest
        images = (image for image in manifest.images if image.path == manifest.main_file and image.was_present)
        return [text for image in images for text in self._keep_edit(image)]

    def _keep_edit(self, image: FileImage) -> list[str]:
        path, original = Path(image.path), self._bundle.content(image)
        if not path.exists():
            return []
        found = path.read_bytes()
        if found in (original, with_include(original)):
            return []
        kept = self._bundle.directory / f"found-{file_image.digest(found)[:12]}.conf"
        if not kept.exists():
            durable.write_new(kept, found)
        return [f'"{path}" was edited by somebody else during the session; that edit is kept in "{kept}"']

    def differences(
        self, before: Mapping[str, SettingState], after: Mapping[str, SettingState]
    ) -> tuple[SettingDifference, ...]:
        """Return every setting that is not what it was, where it was."""
        return snapshot.differences(before, after)


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
        hint=f'Make room on the file system of "{path.parent}", or grant the right to write there.',
    )
