"""Where one CPU lies, as `lscpu --extended` has it: a row of the topology."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuRow:
    """One CPU. What its source does not show is None; `last_cache` names its last-level cache, level 3 or above.

    `caches` are the numbers of all its caches as they are listed, such as "L1d:L1i:L2 0:0:0". `address` is the CPU's
    own on s390x, and `configured` says there that the hypervisor lets it be used.
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
