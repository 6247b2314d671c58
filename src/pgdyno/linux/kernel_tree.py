"""The files below /proc and /sys, read and written as the kernel wants it; the root can be another for tests.

Standard library only: a watchdog on a bare host imports this and what builds on it.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_CHOSEN = re.compile(r"\[([^\]]+)\]")
_LOCKDOWN = "/sys/kernel/security/lockdown"
_DEBUGFS = "/sys/kernel/debug"


class Tree:
    """A tree of kernel files. Paths are absolute as on the real machine; every failure is the plain OSError."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def local(self, path: str) -> Path:
        """Return where a path of the kernel lies in this file system."""
        return self._root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Return the exact text of a file."""
        return self.local(path).read_text(errors="replace")

    def write(self, path: str, text: str) -> None:
        """Write a value in one write call, as the kernel reads it; the file must exist."""
        descriptor = os.open(self.local(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)

    def make_folder(self, path: str) -> None:
        """Make a folder, such as a group of a cgroup tree, which the kernel fills; nothing where it is there."""
        self.local(path).mkdir(exist_ok=True)

    def remove_folder(self, path: str) -> None:
        """Remove a group with the kernel's files in it; the kernel refuses while a process is in it."""
        self.local(path).rmdir()

    def try_to_open(self, path: str) -> None:
        """Open a file for writing and write nothing: the only question that lockdown and mounts answer truly."""
        os.close(os.open(self.local(path), os.O_WRONLY | os.O_CLOEXEC))

    def exists(self, path: str) -> bool:
        """Return True when there is such a file or folder."""
        try:
            return self.local(path).exists()
        except OSError:
            return False

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none when it cannot be read."""
        try:
            return sorted(path.name for path in self.local(folder).iterdir())
        except OSError:
            return []

    def resolved(self, path: str) -> str:
        """Return a path of this tree with its symbolic links followed."""
        root = self._root.resolve()
        return "/" + os.path.relpath(self.local(path).resolve(), root)


LIVE = Tree()
"""The machine that this process runs on."""


def plain(text: str) -> str:
    """Return the value in a file's text: the word in brackets of a choice, else the words with single spaces."""
    match = _CHOSEN.search(text)
    return match[1] if match else " ".join(text.split())


def choices(text: str) -> tuple[str, ...]:
    """Return the words of a choice such as `none [mq-deadline] kyber`."""
    return tuple(text.replace("[", "").replace("]", "").split())


def reason_of(error: OSError, path: str, tree: Tree = LIVE) -> str:
    """Return why a file cannot be had, in words that say which of the possible causes it is."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _absence(path, tree)
    if error.errno == errno.EACCES:
        return f"{path}: permission denied, only root may"
    if error.errno == errno.EPERM:
        return f"{path}: {_refusal(tree)}"
    if error.errno == errno.EOPNOTSUPP:
        return f"{path}: not supported by this processor or kernel"
    if error.errno == errno.EROFS:
        return f"{path} is read-only here, as in a container"
    return f"{path}: {(error.strerror or str(error)).lower()}"


def _absence(path: str, tree: Tree) -> str:
    if not path.startswith(_DEBUGFS):
        return f"this kernel has no {path}"
    if not tree.exists(_DEBUGFS):
        return "this kernel has no debugfs"
    if not is_debugfs_mounted(tree):
        return f"debugfs is not mounted at {_DEBUGFS}"
    return f"this kernel has no {path}"


def is_debugfs_mounted(tree: Tree = LIVE) -> bool:
    """Return True when debugfs is mounted at its usual place."""
    try:
        mounts = tree.read("/proc/mounts")
    except OSError:
        return False
    return any(line.split()[1:3] == [_DEBUGFS, "debugfs"] for line in mounts.splitlines())


def _refusal(tree: Tree) -> str:
    try:
        mode = plain(tree.read(_LOCKDOWN))
    except OSError:
        mode = "none"
    refused = "operation not permitted (EPERM)"
    return refused if mode == "none" else f"{refused}: kernel lockdown is in mode {mode}"
