"""What held a run back: the resource that its sessions waited for, with the figures that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pgdyno.model.shapes import Named


class Resource(StrEnum):
    """What a load can be limited by. NONE: nothing was short. UNKNOWN: not enough was seen to say."""

    CPU = "cpu"
    DISK = "disk"
    WAL_FLUSH = "wal-flush"
    LOCKS = "locks"
    NETWORK = "network"
    CLIENT = "client"
    """The load generator: it is saturated, or its clients are too few to keep the server busy."""
    NONE = "none"
    UNKNOWN = "unknown"


WORDS: Mapping[Resource, str] = {
    Resource.CPU: "the processors",
    Resource.DISK: "disks",
    Resource.WAL_FLUSH: "flushing the WAL",
    Resource.LOCKS: "locks",
    Resource.NETWORK: "the network",
    Resource.CLIENT: "the load generator",
    Resource.NONE: "nothing",
    Resource.UNKNOWN: "unknown",
}
"""Each resource as sentences and pages name it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One resource as the run shows it. `share` is the part of all sessions' time that went there, 0 to 1.

    `is_short` is True when the resource meets its threshold; `sentence` has the figures, `threshold` the bound and why.
    """

    resource: Resource
    share: float
    is_short: Annotated[bool, Named("short")]
    sentence: str
    threshold: str


@dataclass(frozen=True, slots=True)
class BottleneckVerdict:
    """The verdict of one run. `second` is the resource that would be next, short or not; None when none was seen.

    `evidence` are the sentences behind the verdict, `notes` what qualifies it: how much was read from disks and how
    much from the page cache, where CPU time went, what was not seen.
    """

    resource: Resource
    second: Resource | None
    evidence: tuple[str, ...]
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()


def in_short(verdict: BottleneckVerdict) -> str:
    """Return the verdict in words with its first sentence of evidence, without the threshold; empty without one."""
    said = next(iter(verdict.evidence), "").partition(" (Threshold")[0]
    return f"{WORDS[verdict.resource]}. {said}" if said else ""
