"""What runs on the host before the agent does: look at the host, take the payload in, start it.

    python3 -IS -c BOOTSTRAP look
    python3 -IS -c BOOTSTRAP receive DIGEST     the payload on stdin
    python3 -IS -c BOOTSTRAP launch DIGEST      becomes the agent

Travels as the text of this file, so it imports the standard library alone and nothing of ours. Prints one JSON object.
The payload lies in the cache folder of the remote user, which only he can enter, named by its SHA-256.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import json
import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path


def payload_folder() -> Path:
    """Return where payloads lie, as pgdyno's own cache folder is found."""
    home = os.environ.get("PGDYNO_HOME")
    cache = (
        Path(home) / "cache" if home else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pgdyno"
    )
    return cache / "agent"


def look(path: Path, digest: str) -> dict[str, object]:
    """Return what the tuner has to know before it sends anything."""
    del path, digest
    return {
        "python": sys.executable,
        "version": ".".join(map(str, sys.version_info[:3])),
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "libpq": ctypes.util.find_library("pq"),
        "folder": str(payload_folder()),
        "sudo": shutil.which("sudo"),
    }


def receive(path: Path, digest: str) -> dict[str, object]:
    """Write stdin to the path, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    data = sys.stdin.buffer.read()
    if hashlib.sha256(data).hexdigest() != digest:
        return {"refused": f"{len(data)} bytes arrived, and they are not what was sent"}
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), 0o755)
        os.fsync(file.fileno())
    Path(file.name).replace(path)
    return {"path": str(path)}


def launch(path: Path, digest: str) -> dict[str, object]:
    """Become the agent, if the payload is whole and in a folder that only we can change."""
    try:
        folder, file = path.parent.stat(), path.stat()
    except FileNotFoundError:
        return {"missing": str(path)}
    mine = folder.st_uid == file.st_uid == os.geteuid() and not (folder.st_mode | file.st_mode) & 0o022
    if not mine or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        return {"missing": str(path)}
    return os.execv(sys.executable, [sys.executable, "-IS", str(path)])  # this process is the agent then


def main(words: list[str]) -> None:
    """Do what the words say."""
    digest = words[1] if len(words) > 1 else ""
    act = {"look": look, "receive": receive, "launch": launch}[words[0]]
    try:
        answer = act(payload_folder() / f"{digest}.pyz", digest)
    except OSError as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
