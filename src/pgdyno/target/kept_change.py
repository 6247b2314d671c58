"""Changes that stayed after their session: whether the way back is still the one that the bundle describes."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import RollbackError
from pgdyno.target.bundle import UndoBundle, bundle_directories
from pgdyno.target.file_image import digest


def digests(bundle: UndoBundle) -> dict[str, str | None]:
    """Return the checksum of each file that the session could change, as it is now; None for one that is absent."""
    return {image.path: _digest(Path(image.path)) for image in bundle.manifest.images}


def refuse_stale(bundle: UndoBundle) -> None:
    """Refuse to put a server back over what others did since the change was kept. Nothing is changed here.

    Raises RollbackError when a file is not as the session left it, or a newer change on the same server is kept: the
    newest goes first.
    """
    noted = bundle.kept()
    if noted is None:
        return
    newer = [other.id for other in _kept_on_same_server(bundle) if other.id > bundle.id]
    if newer:
        raise RollbackError(
            f"session {bundle.id} cannot be rolled back before {max(newer)}, which changed the same server after it",
            hint=f"Run pgdyno rollback {max(newer)} first.",
        )
    files = noted.get("files")
    now = digests(bundle)
    changed = [path for path, before in files.items() if now.get(path) != before] if isinstance(files, dict) else []
    if changed:
        raise RollbackError(
            f'"{changed[0]}" was edited since session {bundle.id} was kept, and putting it back would lose that',
            detail="Nothing was changed.",
            hint=f"Take the lines of {bundle.id} out by hand; {bundle.directory / 'UNDO.md'} names the old files.",
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


def _digest(path: Path) -> str | None:
    try:
        return digest(path.read_bytes())
    except FileNotFoundError:
        return None
