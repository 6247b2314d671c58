"""Which texts a capture can hold: every key that is taken, and no other. Pure.

A capture of another host is that host's word. Its keys become paths here, so that only names that this module knows
get as far as a file system, and only texts of a bounded size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgdyno.capture import device_files, kernel_files, programs, server_queries
from pgdyno.capture.loose import LOOSE_FILES
from pgdyno.outside.numbers import longest_run

MOST_TEXTS = 50_000
"""A machine of 2,048 CPUs and as many disks has so many files of sysfs."""
MOST_CHARACTERS = 8 << 20
"""Of one text; a log that was put beside is not ours."""
MOST_IN_ALL = 64 << 20
_LONGEST_KEY = 400
_NAME = r"(?!\.{1,2}(?:/|$))[\w.:!@+~=,-]{1,128}"
"""A device, an interface or a file as the kernel names it: no slash, no white space, and neither . nor .."""
_GROUP = r"(?!\.{1,2}(?:/|$))[\w.:!@+~=,\\-]{1,255}"
"""systemd writes what a unit's name may not hold as \\x2d."""


def is_key(key: str) -> bool:
    """Tell whether a capture can have a text of this name."""
    return len(key) <= _LONGEST_KEY and (key in _FIXED or _PATTERNS.fullmatch(key) is not None)


def check_texts(texts: Mapping[str, str]) -> None:
    """Refuse texts that no capture has. Raises ValueError that names the first."""
    if len(texts) > MOST_TEXTS:
        raise ValueError(f"it has {len(texts):,} texts, and no host has more than {MOST_TEXTS:,}")
    total = 0
    for key, text in texts.items():
        if not is_key(key):
            raise ValueError(f"it has a text named {key[:80]!r}, which no capture has")
        total += len(text)
        if len(text) > MOST_CHARACTERS or total > MOST_IN_ALL:
            raise ValueError(f"its text {key} is larger than {MOST_CHARACTERS >> 20} MiB, or all are too large")


def why_unreadable(text: str) -> str | None:
    """Return why no parser is to see a text, None when it may: a number that no kernel and no program writes."""
    digits = longest_run(text)
    return f"it holds a number of {digits:,} digits" if digits else None


def _any(names: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(map(re.escape, names))})"


_FIXED = frozenset(
    {
        *kernel_files.FILES,
        *kernel_files.SOME_HAVE,
        *LOOSE_FILES.values(),
        *(f"proc/{who}/{name}" for who in ("postmaster", "self") for name in ("status", "cgroup", "mountinfo")),
        *(f"commands/{name}" for names in (programs.PROGRAMS, programs.S390X, programs.PPC64) for name in names),
        *(f"postgres/{name}.json" for name in server_queries.QUERIES),
        *(
            f"postgres/{name}.json"
            for name in ("settings", "file_settings", "archive", "target", "version", "environment")
        ),
        *("commands/places.json", "commands/statvfs.json", "commands/postmaster.json"),
        *("proc/stat", "run/.dockerenv", "etc/sysctl.conf", "postgres/postgresql.conf"),
    }
)
_PATTERNS = re.compile(
    "|".join(
        (
            rf"sys/devices/system/cpu/cpu\d{{1,6}}/{_any(kernel_files.OF_A_CPU)}",
            rf"sys/kernel/mm/hugepages/hugepages-\d{{1,12}}kB/{_any(kernel_files.OF_A_POOL)}",
            rf"{_any(kernel_files.SYSCTL_FOLDERS)}/{_NAME}\.conf",
            rf"sys/class/block/{_NAME}(?:\.link|/slaves\.list|/device\.link|/{_any(device_files.BLOCK_FILES)})",
            rf"sys/class/net/{_NAME}(?:\.link|/{_any(device_files.NET_FILES)}|/{_any(device_files.NET_LINKS)}\.link)",
            rf"sys/class/net/{_NAME}/card_type",
            rf"sys/fs/cgroup(?:/{_GROUP}){{0,24}}/{_any(device_files.LIMITS)}",
        )
    ),
    re.ASCII,
)
