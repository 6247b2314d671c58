"""Where one CPU lies, and lists of CPUs as the kernel and `taskset -c` write them: `0-3,8`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.units import ranges_text

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?::(\d{1,5}))?")


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list, sorted, each once. Raises UsageError on anything but `0`, `0-3`, `0-6:2` or several.

    `0-6:2` takes every second one, as taskset(1) has it.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2]) if match and match[2] else first
        step = int(match[3]) if match and match[3] else 1
        if match is None or last < first or step < 1:
            raise UsageError(f'CPU list "{text}" cannot be read', hint="Write it as taskset -c does, such as 0-3,8.")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def count_of_cpus(text: str) -> int:
    """Return how many CPUs such a list names; 0 for what is none."""
    try:
        return len(parse_cpus(text))
    except UsageError:
        return 0


def cpus_text(cpus: tuple[int, ...]) -> str:
    """Write CPUs as a list with ranges; `parse_cpus` reads it back."""
    return ranges_text(sorted({*cpus})).replace(" ", "")


@dataclass(frozen=True, slots=True)
class CpuRow:
    """One CPU, a row of `lscpu --extended`. What its source does not show is None.

    `last_cache` names its last-level cache, level 3 or above. `caches` are the numbers of all its caches as they
    are listed, such as "L1d:L1i:L2 0:0:0". `address` is the CPU's own on s390x, and `configured` says there that the
    hypervisor lets it be used.
    """

    number: int
    node: str | None = None
    drawer: str | None = None
    book: str | None = None
    socket: str | None = None
    core: str | None = None
    last_cache: str | None = None
    online: bool = True
    configured: bool = True
    polarization: str | None = None
    caches: str | None = None
    address: str | None = None
