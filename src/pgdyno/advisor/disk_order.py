"""Choose volumes of a storage server so that servers, adapter pairs, ranks and paths are loaded alike. Pure.

The rules are those of the source: as many paths and ranks as possible, another rank for each new disk of a volume
group, servers and adapters in turn, and no resource again before all others had their turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from pgdyno.advisor.storage_server import Attachment, StorageVolume, Topology
from pgdyno.errors import UsageError

_KINDS = ("server", "adapter pair", "rank", "extent pool", "path")
_REST = ("rank", "extent pool", "path", "adapter pair", "server")
"""Whose rest counts first: the disks of a rank turn, adapters and servers only pass on."""


@dataclass(frozen=True, slots=True)
class Use:
    """How often the chosen volumes use each resource of one kind; `available` are all that could be used."""

    kind: str
    counts: dict[str, int]

    @property
    def spread(self) -> int:
        """Return the most minus the fewest uses; 0 or 1 is balanced."""
        return max(self.counts.values()) - min(self.counts.values())


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly a list of volumes loads a storage server. `problems` are sentences, the worst first."""

    volumes: tuple[StorageVolume, ...]
    uses: tuple[Use, ...]
    problems: tuple[str, ...]
    worst_case: bool

    @property
    def balanced(self) -> bool:
        """Return True when there is nothing to complain of."""
        return not self.problems


class Separation(StrEnum):
    """How far apart two sets of volumes are, the best first."""

    SERVER = "other server"
    POOL = "other extent pools"
    RANK = "other ranks"
    NONE = "shared ranks"


def consecutive(addresses: Sequence[str]) -> bool:
    """Return True when addresses are hexadecimal numbers without a gap, three at least, in any order."""
    try:
        numbers = sorted(int(address.rpartition(".")[2], 16) for address in addresses)
    except ValueError:
        return False
    return len(numbers) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def check(topology: Topology, addresses: Sequence[str]) -> Balance:
    """Return the balance of a list of volumes in the order of its use. Raises UsageError on an unknown address.

    An uneven topology cannot be loaded evenly: only what `propose` does better is a problem.
    """
    volumes = topology.find(addresses)
    if len(set(volumes)) != len(volumes):
        raise UsageError("a volume is named twice", hint="Name each volume once.")
    uses = _uses(topology, volumes)
    allowed = {use.kind: max(1, use.spread) for use in _uses(topology, propose(topology, len(volumes)))}
    problems = []
    ranks = {volume.rank.name for volume in volumes if volume.rank is not None}
    one_rank = len(ranks) == 1 and len(volumes) > 1 and all(volume.rank for volume in volumes)
    if one_rank:
        in_row = " of consecutive addresses" if consecutive([volume.address for volume in volumes]) else ""
        problems.append(
            f"All {len(volumes)} volumes{in_row} lie on rank {ranks.pop()}: one array of 8 disks, one server's cache "
            "and one adapter pair do all the work, which is close to the worst case."
        )
    for use in uses:
        least = min(use.counts.values())
        if use.spread > allowed.get(use.kind, 1):
            idle = [name for name, count in use.counts.items() if count == 0]
            unused = f"; {len(idle)} of {len(use.counts)} are not used at all" if idle else ""
            most = max(use.counts.values())
            problems.append(f"{use.kind}: the busiest has {most} volumes, the least busy {least}{unused}.")
    repeats = _repeats(topology, volumes)
    if repeats and not one_rank and not problems:
        problems.append(f"{repeats} neighbours in the list share a rank although others are free.")
    return Balance(volumes, uses, tuple(problems), one_rank)


def propose(topology: Topology, count: int, taken: Sequence[str] = ()) -> tuple[StorageVolume, ...]:
    """Return volumes in the order in which they go into a volume group; `taken` are not to be used.

    FCP volumes without a path of their own get the one that rests longest. Raises UsageError when there are too few.
    """
    used = {volume.address for volume in topology.find(taken)}
    free = [volume for volume in topology.volumes if volume.address not in used]
    if count < 1 or count > len(free):
        raise UsageError(
            f'"{topology.name}" has {len(free)} free volumes, {count} were asked for',
            hint="Ask for as many as there are with --count.",
        )
    turns = _Turns(topology)
    alike: dict[
        tuple[tuple[str, str], ...], deque[StorageVolume]
    ] = {}  # of volumes with the same resources any will do
    for volume in sorted(free, key=lambda volume: volume.address):
        alike.setdefault(tuple(topology.resources(volume).items()), deque()).append(volume)
    found: list[StorageVolume] = []
    while len(found) < count:
        resources = min(alike, key=lambda used: (turns.rest(used), alike[used][0].address))
        best = turns.with_path(alike[resources].popleft())
        if not alike[resources]:
            del alike[resources]
        turns.take(best)
        found.append(best)
    return tuple(found)


def propose_apart(
    topology: Topology, data: int, wal: int
) -> tuple[tuple[StorageVolume, ...], tuple[StorageVolume, ...]]:
    """Return volumes for data and for the log: on ranks of the log's own as long as enough are left for the data.

    Ranks are kept for the log from the pools of one server where that leaves the data both servers' adapters. Raises
    UsageError when there are too few volumes.
    """
    everything = propose(topology, data + wal)
    ranks = list(dict.fromkeys(volume.rank.name for volume in everything if volume.rank is not None))
    for reserved in range(min(wal, len(ranks) // 2), 0, -1):
        kept = set(ranks[-reserved:])
        own = [volume.address for volume in topology.volumes if volume.rank is not None and volume.rank.name in kept]
        others = [volume.address for volume in topology.volumes if volume.address not in own]
        if len(own) >= wal and len(others) >= data:
            return propose(topology, data, own), propose(topology, wal, others)
    return everything[:data], everything[data:]


def separation(topology: Topology, first: Sequence[StorageVolume], second: Sequence[StorageVolume]) -> Separation:
    """Return how far apart two sets of volumes of one storage server are, such as data and log."""

    def names(volumes: Sequence[StorageVolume], kind: str) -> set[str]:
        return {name for volume in volumes if (name := topology.resources(volume).get(kind)) is not None}

    if not names(first, "server") & names(second, "server"):
        return Separation.SERVER
    if not {volume.pool for volume in first} & {volume.pool for volume in second}:
        return Separation.POOL
    striped = any(volume.rank is None for volume in (*first, *second))
    return Separation.NONE if striped or names(first, "rank") & names(second, "rank") else Separation.RANK


class _Turns:
    """Who was used how often and when: the state of the order while it is made."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.counts: Counter[tuple[str, str]] = Counter()
        self.last: dict[tuple[str, str], int] = {}
        self.made = 0

    def rest(self, used: Sequence[tuple[str, str]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return a key that is smallest for the resources that were used least, then longest ago."""
        return (
            tuple(self.counts[one] for one in used),
            tuple(self.last.get(one, -1) for one in sorted(used, key=lambda one: _REST.index(one[0]))),
        )

    def with_path(self, volume: StorageVolume) -> StorageVolume:
        paths = self.topology.paths
        if self.topology.attachment is not Attachment.FCP or volume.path is not None or not paths:
            return volume
        return replace(
            volume, path=min(paths, key=lambda name: (self.counts["path", name], self.last.get(("path", name), -1)))
        )

    def take(self, volume: StorageVolume) -> None:
        for one in self.topology.resources(volume).items():
            self.counts[one] += 1
            self.last[one] = self.made
        self.made += 1


def _uses(topology: Topology, volumes: Sequence[StorageVolume]) -> tuple[Use, ...]:
    return tuple(use for kind in _KINDS if (use := _use(topology, volumes, kind)) is not None)


def _use(topology: Topology, volumes: Sequence[StorageVolume], kind: str) -> Use | None:
    """Count uses of one kind over everything of that kind that the volumes of the file could use."""
    counts = Counter({name: 0 for volume in topology.volumes if (name := topology.resources(volume).get(kind))})
    if kind == "path" and topology.attachment is Attachment.FCP and any(volume.path for volume in volumes):
        counts.update(dict.fromkeys(topology.paths, 0))
    counts.update(name for volume in volumes if (name := topology.resources(volume).get(kind)))
    return Use(kind, dict(counts)) if counts else None


def _repeats(topology: Topology, volumes: Sequence[StorageVolume]) -> int:
    pairs = pairwise(volumes)
    several = len({volume.rank for volume in topology.volumes}) > 1
    return sum(1 for one, other in pairs if several and one.rank is not None and one.rank == other.rank)
