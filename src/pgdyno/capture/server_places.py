"""Where the server's directories really are: links followed, file systems asked by statvfs of the directory itself.

Never of a device node: /dev is a file system of its own, and its block size is a page. Reads only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdyno.capture.backup_tools import backup_folders
from pgdyno.linux.mountinfo import mount_lines
from pgdyno.model.inventory import Purpose

Place = tuple[Purpose, str, str]
"""Purpose, name of the tablespace or of the backup tool, path."""


def server_places(texts: Mapping[str, str], data_directory: Path | None, pid: int | None) -> list[Place]:
    """Return the places that the server's own answers name, and its log where that is standard error."""
    settings = {str(row["name"]): str(row.get("setting", "")) for row in _rows(texts, "settings")}
    shown = settings.get("data_directory")
    data = Path(shown) if shown else data_directory
    if data is None:
        return []
    places: list[Place] = [(Purpose.DATA, "", str(data)), (Purpose.WAL, "", str(data / "pg_wal"))]
    paths = {str(row["name"]): str(row["path"]) for row in _rows(texts, "tablespaces") if row["path"]}
    places += [(Purpose.TABLESPACE, name, path) for name, path in paths.items()]
    places += [
        (Purpose.TEMP, name, paths[name])
        for name in map(str.strip, settings.get("temp_tablespaces", "").replace('"', "").split(","))
        if name in paths
    ]
    places += [(Purpose.LOG, "", path) for path in _logs(texts, settings, data, pid)]
    archive = [str(row["folder"]) for row in _rows(texts, "archive") if row["folder"]]
    places += [(Purpose.BACKUP, "", folder) for folder in archive]
    places += [(Purpose.BACKUP, tool, folder) for folder, tool in backup_folders().items() if folder not in archive]
    return places


def look_at_places(places: list[Place]) -> str:
    """Return what this host says of each place, as JSON: the real path, the device number, statvfs, or the error."""
    return json.dumps([_looked_at(*place) for place in places], indent=1) + "\n"


def look_at_mounts(mountinfo: str) -> str:
    """Return statvfs of every mount point of this machine's own memory and disks, as JSON by mount point.

    Network file systems are left out: one whose server is gone would keep us for ever.
    """
    found: dict[str, object] = {}
    for mount in mount_lines(mountinfo):
        if mount.source.startswith("/dev/") or mount.kind in ("overlay", "tmpfs"):
            found[mount.point] = _statvfs(Path(mount.point))
    return json.dumps(found, indent=1) + "\n"


def _looked_at(purpose: Purpose, name: str, path: str) -> dict[str, object]:
    told: dict[str, object] = {"purpose": purpose.value, "name": name, "path": path}
    try:
        real = Path(path).resolve(strict=True)
        device = real.stat().st_dev
    except (OSError, ValueError) as error:  # a NUL, which no path has
        return {**told, "error": f"{path}: {(getattr(error, 'strerror', None) or str(error)).lower()}"}
    return {**told, "real": str(real), "device": f"{os.major(device)}:{os.minor(device)}", **_statvfs(real)}


def _statvfs(path: Path) -> dict[str, object]:
    try:
        system = os.statvfs(path)
    except OSError as error:
        return {"error": f"{path}: {(error.strerror or str(error)).lower()}"}
    unit = system.f_frsize or system.f_bsize
    return {"block_size": unit, "size_bytes": unit * system.f_blocks, "free_bytes": unit * system.f_bavail}


def _logs(texts: Mapping[str, str], settings: Mapping[str, str], data: Path, pid: int | None) -> Iterator[str]:
    files = [str(path) for row in _rows(texts, "log") for path in row.values() if path]
    if files:
        yield from dict.fromkeys(str(Path(data, file).parent) for file in files)
    elif settings.get("logging_collector") == "on":
        yield str(Path(data, settings.get("log_directory", "log")))
    else:
        file = standard_error(pid)
        if file is not None:
            yield str(Path(file).parent)


def standard_error(pid: int | None) -> str | None:
    """Return the file that the postmaster's standard error goes to, None when it is none or hidden from this user."""
    try:
        leads_to = str(Path(f"/proc/{pid}/fd/2").readlink()) if pid is not None else ""
    except OSError:
        return None
    is_file = leads_to.startswith("/") and not leads_to.startswith(
        ("/dev/null", "/dev/pts/", "/dev/tty", "/dev/console")
    )
    return leads_to if is_file else None


def _rows(texts: Mapping[str, str], query: str) -> list[dict[str, object]]:
    text = texts.get(f"postgres/{query}.json")
    return [] if text is None else list(json.loads(text))
