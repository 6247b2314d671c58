"""Changes that stayed after their session: whether the way back is still the one that the bundle describes."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import RollbackError
from pgdyno.routes.dropin import block_of
from pgdyno.routes.file_route import FileRoute
from pgdyno.routes.route import Route
from pgdyno.routes.three_way import settings_in
from pgdyno.undo.bundle import UndoBundle, bundle_directories


def digests(bundle: UndoBundle) -> dict[str, str | None]:
    """Return the checksum of each file that the session could change, as it is now; None for one that is absent."""
    hands = bundle.hands()
    return {image.path: hands.capture(Path(image.path))[0].sha256 for image in bundle.manifest.images}


def refuse_stale(bundle: UndoBundle, route: Route) -> None:
    """Refuse to take back a change that cannot be told from what others did since. Nothing is changed here.

    What others wrote beside it stays, as in every rollback (three_way.py). Raises RollbackError when the head of our
    lines is gone and others set the same parameters in the drop-in, and when a newer change on the same server is
    kept: the newest goes first.
    """
    if bundle.kept() is None:
        return
    newer = [other.id for other in _kept_on_same_server(bundle) if other.id > bundle.id]
    if newer:
        raise RollbackError(
            f"session {bundle.id} cannot be rolled back before {max(newer)}, which changed the same server after it",
            hint=f"Run pgdyno rollback {max(newer)} first.",
        )
    if isinstance(route, FileRoute):
        _refuse_unrecognised(bundle, route)


def _refuse_unrecognised(bundle: UndoBundle, route: FileRoute) -> None:
    block = block_of(bundle.id, bundle.written())
    found = route.dropin.read() or b""
    if any(line.strip() in block.heads for line in found.splitlines()):
        return
    before = set(settings_in(bundle.content_of(route.dropin.path) or b""))
    left = [change.merge.data or b"" for change in route.changes() if change.path == route.dropin.path]
    names = sorted(name for data in left for name in settings_in(data) if name in block.names - before)
    if names:
        raise RollbackError(
            f'"{route.dropin.path}" was rewritten since session {bundle.id} was kept: whose the line of {names[0]} is '
            "cannot be told",
            detail="Nothing was changed.",
            hint=f"Take the line out by hand and run pgdyno rollback {bundle.id}; the old files are named in "
            f"{bundle.directory / 'UNDO.md'}.",
        )


def _kept_on_same_server(bundle: UndoBundle) -> list[UndoBundle]:
    found = []
    for directory in bundle_directories(bundle.directory.parent):
        try:
            other = UndoBundle.open(directory)
        except RollbackError:
            continue
        same = other.manifest.data_directory == bundle.manifest.data_directory
        if same and other.manifest.target == bundle.manifest.target and other.kept() is not None:
            found.append(other)
    return found
