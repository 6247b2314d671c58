"""What the kernel of a host says at one moment, unparsed: read there in one go, parsed by the probes wherever."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pgdyno.linux.small_files import read_small

FILES = (
    "stat",
    "meminfo",
    "vmstat",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "diskstats",
    "net/dev",
)
SPEEDS = "net/speed"
"""Lines `interface Mbit/s`, of the interfaces whose driver tells a speed."""


@dataclass(frozen=True, slots=True)
class HostTexts:
    """Files below /proc by their name there; `failures` says why one is missing.

    `devices` names the whole block devices, None when they cannot be listed. Ticks and pages are the host's own.
    """

    texts: Mapping[str, str]
    failures: Mapping[str, str]
    devices: frozenset[str] | None
    ticks_per_s: int
    page_size: int

    def text(self, name: str) -> str:
        """Return a file. Raises OSError with the host's reason when it could not be read."""
        if name in self.texts:
            return self.texts[name]
        raise OSError(self.failures.get(name, f"{name} was not read"))


@dataclass(frozen=True, slots=True)
class DistantReading:
    """One reading of a host that is not this one. CPU seconds are cumulative; the server's are None when unknown.

    `own_cpu_s` is what we ourselves use there: the agent, and the sshd that carries its sessions.
    """

    texts: HostTexts
    server_cpu_s: float | None
    own_cpu_s: float


def read_texts(
    proc: Path = Path("/proc"), sys: Path = Path("/sys"), read: Callable[[str], str] = read_small
) -> HostTexts:
    """Read the files of this machine. Who does it each second reads them by `KeptFiles`."""
    texts: dict[str, str] = {}
    failures: dict[str, str] = {}
    for name in FILES:
        try:
            texts[name] = read(f"{proc}/{name}")
        except OSError as error:
            failures[name] = str(error)
    texts[SPEEDS] = _speeds(sys)
    return HostTexts(texts, failures, _devices(sys), os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE"))


def _devices(sys: Path) -> frozenset[str] | None:
    try:
        return frozenset(entry.name for entry in os.scandir(sys / "block"))
    except OSError:
        return None  # partitions are then counted beside their devices, which is better than nothing


@lru_cache(maxsize=8)
def _speeds(sys: Path) -> str:
    """Return what the drivers tell, once: some ask their hardware, which is nothing to do every second."""
    lines = []
    for file in sorted(sys.glob("class/net/*/speed")):
        try:
            speed = file.read_text().strip()
        except OSError:  # it is down, or has none
            continue
        lines += [f"{file.parent.name} {speed}"] if speed.isdigit() else []  # -1 is "not known"
    return "\n".join(lines)
