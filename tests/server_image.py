"""What a server was like, for tests that must find it so again, and waiting for that."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import hands_of
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.server.snapshot import SettingState
from pgdyno.undo.watch import Deadlines

PATIENCE_S = 150.0
UNHURRIED = Deadlines(heartbeat_s=30, health_s=30, grace_s=1)
"""For sessions that nobody hangs: a machine that stands still for seconds is no reason for their watchdog to act."""


def files_of(folder: Path) -> dict[str, tuple[str, int, int, int]]:
    """Return digest, time, owner and mode of every configuration file."""
    found = {}
    for path in folder.iterdir():
        if ".conf" in path.name:
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.name] = (digest, status.st_mtime_ns, status.st_uid, status.st_mode)
    return found


def write_as_owner(path: Path, text: str) -> None:
    """Write a file as the account does that owns its folder: a session could not put back what root owns there."""
    hands = hands_of(path.parent)
    hands.replace(path, text.encode(), Attributes(hands.account.uid, hands.account.gid, 0o600))


def settings_of(sandbox: Sandbox) -> dict[str, SettingState]:
    """Return every setting as a new session sees it."""
    with sandbox.target().postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def eventually(condition: Callable[[], bool], what: str, *, step_s: float | None = None) -> None:
    """Wait until the condition holds; fail, naming what never came, when it does not.

    Without a step it asks again after a tenth of what it has waited: most conditions cost a session with the server.
    """
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        assert waited < PATIENCE_S, f"never: {what}"
        time.sleep(min(max(waited / 10, 0.1), 0.5) if step_s is None else step_s)
