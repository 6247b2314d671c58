"""A session's care for the server's process: taken down before the first change, compared when the session closes."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.control import Control, PgCtl, PgCtlCluster
from pgdyno.errors import EnvironmentUnsuitable, RollbackError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner import launch
from pgdyno.owner.process_image import ProcessImage, capture, differences
from pgdyno.owner.runner import Runner
from pgdyno.server import postmaster_lock

if TYPE_CHECKING:
    from pgdyno.targets.target import Target
    from pgdyno.undo.bundle import UndoBundle
    from pgdyno.undo.journal import Journal

log = logging.getLogger(__name__)

STARTED = "postmaster"
"""The kind of a journal's record that names the postmaster that a restart of the session made."""
_NEEDED = ("environment", "limit")
_OURS = ("pg_ctl", "pg_ctlcluster")


@dataclass(frozen=True, slots=True)
class Kept:
    """The server's process as it was found, None where nothing can be kept, and what of it a start of ours would lack.

    `lacking` is a reason against a restart, and none against a session that only reloads.
    """

    image: ProcessImage | None = None
    lacking: tuple[str, ...] = ()


def take(target: Target, data_directory: Path) -> Kept:
    """Read the running postmaster, and try on a child, where we start the server ourselves, what could be had again.

    Nothing is kept where the server does not run here, and of a sandbox that cannot be started as it was. Raises
    EnvironmentUnsuitable when the process cannot be read, or is not of the directory's owner. Changes nothing.
    """
    pid = postmaster_lock.postmaster_pid(data_directory)
    if pid is None:
        return Kept()
    starts_it = isinstance(target.control, PgCtl | PgCtlCluster)
    try:
        image = capture(pid)
        # The number comes from a file of the server's owner: whose process it names, is looked at.
        if image.uid != data_directory.stat().st_uid:
            raise PermissionError(f"process {pid} does not belong to the owner of the data directory")
    except OSError as error:
        if not starts_it or target.disposable:
            return Kept()
        raise unsuitable(target, str(error)) from error
    if not starts_it:
        return Kept(image)
    unread = tuple(
        f"{name} of the server's process cannot be read: {image.unknown[name]}"
        for name in _NEEDED
        if name in image.unknown
    )
    lacking = unread or rehearse(image, target.runner)
    if lacking and target.disposable:
        log.info("the sandbox will be started in another way than it was: %s", "; ".join(lacking))
        return Kept()
    return Kept(image, lacking)


def is_born_of_us(target: Target, image: ProcessImage | None) -> bool:
    """Tell whether a restart makes the server a child of ours as we are, because there is no image to start it by."""
    return image is None and isinstance(target.control, PgCtl)


def rehearse(image: ProcessImage, runner: Runner) -> tuple[str, ...]:
    """Have a child of ours put the image on, and return what of it it could not have."""
    done = runner.run(launch.command(), input_text=launch.instructions(image), timeout_s=30, check=False)
    if done.returncode != 0:
        return (done.stderr.strip() or f"the rehearsal ended with exit status {done.returncode}",)
    return tuple(f"It would come back with {text}." for text in json.loads(done.stdout))


@dataclass(frozen=True, slots=True)
class Before:
    """The server's process before a start of ours: what the next one is to be like.

    `image` is None where nothing was kept. `original` is how it was before the session; `theirs` says that somebody
    else has started the server since, so that it is to be like that, and differs from the original by their doing.
    """

    bundle: UndoBundle
    original: ProcessImage | None
    image: ProcessImage | None = None
    theirs: bool = False
    unread: tuple[str, ...] = ()

    @classmethod
    def look(cls, bundle: UndoBundle, journal: Journal) -> Before:
        """Look at the postmaster that runs, if any. Changes nothing."""
        try:
            original = bundle.process_image() if bundle.manifest.local else None
        except RollbackError as error:  # no reason to keep a server down
            return cls(bundle, None, unread=(f"{error.message}: the server is not started as it was",))
        if original is None:
            return cls(bundle, None)
        starts = [record.data for record in journal.records if record.kind == STARTED]
        now = _postmaster(Path(bundle.manifest.data_directory))
        known = now is None or now == original.identity or any(_is_of(data, now) for data in starts)
        theirs = not known or any(data.get("theirs") for data in starts)
        image = original
        if theirs and now is not None:
            with contextlib.suppress(OSError):
                found = capture(now.pid)
                image = found if found.uid == original.uid else original
        return cls(bundle, original, image, theirs)

    def like(self, control: Control) -> Control:
        """Return the control as one that starts the server so; where others start it, it stays as it is."""
        if self.image is not None and isinstance(control, PgCtl | PgCtlCluster):
            return replace(control, image=self.image)
        return control

    def note(self, journal: Journal) -> None:
        """Journal the postmaster that we have just started. Raises OSError."""
        now = _postmaster(Path(self.bundle.manifest.data_directory)) if self.original is not None else None
        if now is not None:
            journal.append(STARTED, {**asdict(now), "theirs": self.theirs})

    def damage(self, journal: Journal, restarted: bool) -> tuple[str, ...]:
        """Return how the process differs from the one before the session, where a start of ours made it so.

        What another start brought with it (a person's, a service manager's, a named command's) is told in the log: it
        is theirs. `restarted` says that the restore itself has started the server; that is journalled.
        """
        if self.original is None:
            return self.unread
        if restarted:
            self.note(journal)
        now = _postmaster(Path(self.bundle.manifest.data_directory))
        if now is None or now == self.original.identity:
            return ()
        try:
            changes = differences(self.original, capture(now.pid))
            found = tuple(f"the server's process came back with {text}" for text in changes)
        except OSError as error:
            found = (f"the server's process cannot be read: {error}",)
        control = self.bundle.manifest.control
        by_us = control is not None and control["kind"] in _OURS and not self.theirs
        if by_us and any(record.kind == STARTED and _is_of(record.data, now) for record in journal.records):
            return found
        for text in found:
            log.warning("%s; it was not pgdyno that changed it", text)
        return ()


def _is_of(data: Mapping[str, object], process: ProcessIdentity) -> bool:
    return all(data.get(name) == value for name, value in asdict(process).items())


def _postmaster(data_directory: Path) -> ProcessIdentity | None:
    pid = postmaster_lock.postmaster_pid(data_directory)
    return None if pid is None else ProcessIdentity.of(pid)


def unsuitable(target: Target, detail: str) -> EnvironmentUnsuitable:
    """Return the error for a server that must not be restarted, because it would come back as another process."""
    return EnvironmentUnsuitable(
        f'"{target.postgres.label}" could not be started again as the process that it is',
        detail=detail,
        hint="Run pgdyno as root and without nice, taskset or smaller limits, or name whoever starts the server: "
        "--restart-command 'systemctl restart NAME'.",
    )
