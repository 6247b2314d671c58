"""A kernel in a folder: captured files that answer a write as Linux does, counterparts and refusals included."""

from __future__ import annotations

import errno
import json
import os
from functools import cache
from pathlib import Path

from pgdyno.linux.kernel_tree import Tree, choices, plain
from pgdyno.model.linux import COUNTERPARTS, LINUX

_PAIRS = {LINUX[one].path: LINUX[other].path for one, other in COUNTERPARTS.items()}
_POOL = LINUX["vm.nr_hugepages"].path
STACK = {"dm-0": ("vda", "vdb", "vdc", "vdd"), "dm-1": ("vda", "vdb")}
"""Which disks lie below the logical volumes of the captured s390x machine: data over four, log over two."""


@cache
def _captured() -> dict[str, dict[str, str]]:
    return json.loads((Path(__file__).parent / "data" / "kernels.json").read_text("utf-8"))


class SimulatedKernel(Tree):
    """A captured machine below `root`. `refused` maps a path to the errno of reading, `locked` to that of writing."""

    def __init__(self, root: Path, machine: str = "x86_64-6.18") -> None:
        super().__init__(root)
        self.refused: dict[str, int] = {}
        self.locked: dict[str, int] = {}
        self.free_huge_pages = 1 << 40
        self.written: list[tuple[str, str]] = []
        for path, text in _captured()[machine].items():
            self.place(path, text)

    def place(self, path: str, text: str | bytes) -> None:
        """Make a file, as the hardware or the boot would."""
        local = self.local(path)
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(text.encode() if isinstance(text, str) else text)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link to another path of this tree."""
        local = self.local(path)
        local.parent.mkdir(parents=True, exist_ok=True)
        local.symlink_to(os.path.relpath(self.local(target), local.parent))

    def read(self, path: str) -> str:
        if path in self.refused:
            raise OSError(self.refused[path], os.strerror(self.refused[path]), path)
        return super().read(path)

    def try_to_open(self, path: str) -> None:
        if path in self.locked:
            raise OSError(self.locked[path], os.strerror(self.locked[path]), path)
        super().try_to_open(path)

    def write(self, path: str, text: str) -> None:
        self.try_to_open(path)
        self.written.append((path, text))
        before = self.read(path)
        if "[" in before:
            if text not in choices(before):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
            self.place(path, " ".join(f"[{word}]" if word == text else word for word in choices(before)) + "\n")
            if path.endswith("/scheduler") and plain(before) != text:
                self._reset_queue(path.removesuffix("/scheduler"), text)
            return
        if path == _POOL:
            text = str(min(int(text), self.free_huge_pages))
        if path.endswith("_bytes") and path in _PAIRS and int(text) < (8192 if path.endswith("/dirty_bytes") else 1):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        self.place(path, f"{text}\n")
        # as mm/page-writeback.c: the foreground pair takes notice of a change only, the background pair always
        if path in _PAIRS and ("background" in path or plain(before) != text):
            self.place(_PAIRS[path], "0\n")

    def _reset_queue(self, queue: str, scheduler: str) -> None:
        self.place(f"{queue}/nr_requests", "64\n" if scheduler == "none" else "128\n")
        folder = self.local(f"{queue}/iosched")
        for file in folder.glob("*") if folder.is_dir() else ():
            file.unlink()
        if scheduler == "mq-deadline":
            self.place(f"{queue}/iosched/fifo_batch", "16\n")

    def state(self) -> dict[str, str]:
        """Return the text of every file."""
        root = self.local("/")
        files = (path for path in root.rglob("*") if path.is_file())
        return {f"/{path.relative_to(root)}": path.read_text(errors="replace") for path in files}


def lvm(root: Path) -> SimulatedKernel:
    """Return the captured s390x machine with its logical volumes linked to their disks, 253:0 data and 253:1 log."""
    kernel = SimulatedKernel(root, "s390x-6.1")
    for minor, (volume, disks) in enumerate(STACK.items()):
        kernel.link(f"/sys/dev/block/253:{minor}", f"/sys/block/{volume}")
        kernel.link(f"/sys/class/block/{volume}", f"/sys/block/{volume}")
        for disk in disks:
            kernel.place(f"/sys/block/{volume}/slaves/{disk}", "")
    for disk in STACK["dm-0"]:
        kernel.link(f"/sys/class/block/{disk}", f"/sys/block/{disk}")
    return kernel
