"""Whoever writes a file for the user does it by `outputs`."""

from __future__ import annotations

import re
from pathlib import Path

import pgdyno

PRIVATE_PLACES = {
    "outputs.py",
    "cli/terminal/unforeseen.py",  # the state folder, by mode 0600
    "sandbox/cluster.py", "sandbox/registry.py",  # sandboxes, in the cache folder
    "owner/enter_cgroup.py", "owner/launch.py", "owner/process_image.py",  # the kernel's files
    "sandbox/memory_group.py", "undo/watchdog.py", "fleet/limits.py",
    "workloads/held_start.py",
    "owner/runner.py", "undo/watch_record.py",  # outputs of children and the session's record, in private folders
    "remote/bootstrap.py", "remote/ssh.py",  # the agent's own cache, and its log in a private folder
    "workloads/driver_process.py", "workloads/hammerdb/script.py", "workloads/script.py",
    "workloads/session_loop.py",
    "studies/project/run_platforms.py",  # the folder of a run, which is made for it and removed
    "trace/logs.py",  # segments of a log, in memory
    "server/binaries.py",
}  # fmt: skip


def test_no_module_writes_for_the_user_by_itself() -> None:
    """Whoever adds a writer uses this module, or says here why its files are not the user's."""
    root = Path(pgdyno.__file__).parent
    plain = re.compile(r"\.write_text\(|\.write_bytes\(|copyfile\(|\.open\(\s*\"[wax]|NamedTemporaryFile\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if plain.search(path.read_text("utf-8"))}
    assert found <= PRIVATE_PLACES
