"""The structure of a storage server: servers, adapter pairs, array sites, arrays, ranks, extent pools, paths, volumes.

    array site (8 disks) -> array -> rank -> extent pool -> server (and its cache)
    adapter pair serves up to 4 array sites

The names are those of one vendor; others have the same parts under other names. Pure; `read_topology` takes the text of
a file. The format is described in docs/howto/choose-disks.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.errors import UsageError
from pgdyno.outside.documents import load_json, load_toml

SITES_PER_PAIR = 4
DISKS_PER_SITE = 8
_RANGE = re.compile(r"^([0-9A-Fa-f]{4})-([0-9A-Fa-f]{4})$")


class Attachment(StrEnum):
    """How volumes are attached: ECKD switches its paths by itself, FCP fixes one for each disk."""

    ECKD = "ECKD"
    FCP = "FCP"


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: one array on one array site, in one extent pool and so below one server."""

    name: str
    array: str
    array_site: str
    adapter_pair: str
    pool: str
    server: str


@dataclass(frozen=True, slots=True)
class StorageVolume:
    """A volume that can be given to the host; `rank` is None in a striped pool, `path` None where none is fixed."""

    address: str
    pool: str
    rank: Rank | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """One storage server. `striped` are pools whose volumes are spread over all their ranks."""

    name: str
    model: str
    attachment: Attachment
    servers: tuple[str, ...]
    pools: Mapping[str, str]
    """Extent pool to its server."""
    striped: frozenset[str]
    ranks: tuple[Rank, ...]
    paths: tuple[str, ...]
    volumes: tuple[StorageVolume, ...]

    def volume(self, address: str) -> StorageVolume:
        """Return a volume. Raises UsageError that names the address."""
        return self.find((address,))[0]

    def find(self, addresses: Sequence[str]) -> tuple[StorageVolume, ...]:
        """Return volumes in the order of the addresses. Raises UsageError that names the first that is not there."""
        known = {volume.address: volume for volume in self.volumes}
        missing = next((address for address in addresses if address.upper() not in known), None)
        if missing is not None:
            raise UsageError(
                f'volume "{missing}" is not in the topology of "{self.name}"',
                hint="Addresses are written as in the volumes of the file.",
            )
        return tuple(known[address.upper()] for address in addresses)

    def resources(self, volume: StorageVolume) -> Mapping[str, str]:
        """Return what a volume uses, by kind of resource; in a striped pool it uses all of the pool's ranks alike."""
        found = {"server": self.pools[volume.pool]}
        if volume.rank is not None:
            found |= {"adapter pair": volume.rank.adapter_pair, "rank": volume.rank.name}
        else:
            found["extent pool"] = volume.pool
        if volume.path is not None and self.attachment is Attachment.FCP:
            found["path"] = volume.path
        return found


def expand(addresses: str) -> tuple[str, ...]:
    """Return the addresses of "5100-510F,5200": hexadecimal ranges and single ones. Raises UsageError."""
    found: list[str] = []
    for word in addresses.split(","):
        name = word.strip().upper()
        span = _RANGE.match(name)
        if span:
            first, last = int(span[1], 16), int(span[2], 16)
            if last < first:
                raise UsageError(f'addresses "{name}" run backwards', hint=f"Write {span[2]}-{span[1]}.")
            found += [f"{number:04X}" for number in range(first, last + 1)]
        elif name:
            found.append(name)
    if not found:
        raise UsageError(f'"{addresses}" names no volume', hint="Write addresses such as 5100-510F,5200.")
    return tuple(found)


def read_topology(text: str, source: str) -> Topology:
    """Return the topology that a JSON or TOML text describes. Raises UsageError that names file, table and value."""
    return _Reader(source, _parsed(text, source)).topology()


def _parsed(text: str, source: str) -> Mapping[str, object]:
    try:
        document: object = load_json(text) if text.lstrip().startswith("{") else load_toml(text)
    except ValueError as error:
        raise UsageError(
            f'topology file "{source}" is neither JSON nor TOML: {error}',
            hint="docs/howto/choose-disks.md has an example.",
        ) from error
    if not isinstance(document, dict):
        raise UsageError(f'topology file "{source}" holds no table', hint="docs/howto/choose-disks.md has an example.")
    return document


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one document; every complaint names the file and the row."""

    source: str
    document: Mapping[str, object]

    def topology(self) -> Topology:
        unknown = (
            set(self.document)
            - {"name", "model", "attachment", "servers", "pools", "sites", "ranks"}
            - {
                "paths",
                "volumes",
            }
        )
        if unknown:
            raise self.wrong(f"{sorted(unknown)[0]} is not a part of a topology")
        attachment = self.text(self.document, "attachment", "the file", "FCP").upper()
        if attachment not in list(Attachment):
            raise self.wrong(f'attachment "{attachment}" is neither FCP nor ECKD')
        servers = self.words(self.document, "servers", "the file")
        pools, striped = self.pools(servers)
        ranks = self.ranks(pools, self.sites())
        paths = self.words(self.document, "paths", "the file") if "paths" in self.document else ()
        return Topology(
            name=self.text(self.document, "name", "the file", self.source),
            model=self.text(self.document, "model", "the file", "unknown"),
            attachment=Attachment(attachment),
            servers=servers,
            pools=pools,
            striped=striped,
            ranks=tuple(ranks.values()),
            paths=paths,
            volumes=self.volumes(pools, striped, ranks, paths),
        )

    def pools(self, servers: tuple[str, ...]) -> tuple[dict[str, str], frozenset[str]]:
        found, striped = {}, set()
        for name, row in self.rows("pools"):
            server = self.text(row, "server", f"pool {name}")
            if server not in servers:
                raise self.wrong(f'pool {name}: server "{server}" is not one of {", ".join(servers)}')
            found[name] = server
            if row.get("striped", False) is True:
                striped.add(name)
        return found, frozenset(striped)

    def sites(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, row in self.rows("sites"):
            found[name] = pair = self.text(row, "adapter_pair", f"array site {name}")
            disks = row.get("disks", DISKS_PER_SITE)
            if disks != DISKS_PER_SITE:
                raise self.wrong(f"array site {name}: {disks} disks, and an array site has {DISKS_PER_SITE}")
            if sum(1 for other in found.values() if other == pair) > SITES_PER_PAIR:
                raise self.wrong(f'adapter pair "{pair}" has more than {SITES_PER_PAIR} array sites')
        return found

    def ranks(self, pools: Mapping[str, str], sites: Mapping[str, str]) -> dict[str, Rank]:
        found: dict[str, Rank] = {}
        for name, row in self.rows("ranks"):
            site, pool = self.text(row, "site", f"rank {name}"), self.text(row, "pool", f"rank {name}")
            array = self.text(row, "array", f"rank {name}", f"A-{site}")
            if site not in sites:
                raise self.wrong(f'rank {name}: array site "{site}" is not in the file')
            if pool not in pools:
                raise self.wrong(f'rank {name}: extent pool "{pool}" is not in the file')
            taken = next((rank.name for rank in found.values() if site == rank.array_site or array == rank.array), None)
            if taken:
                raise self.wrong(f"rank {name}: its array or array site is that of rank {taken}")
            found[name] = Rank(name, array, site, sites[site], pool, pools[pool])
        return found

    def volumes(
        self, pools: Mapping[str, str], striped: frozenset[str], ranks: Mapping[str, Rank], paths: tuple[str, ...]
    ) -> tuple[StorageVolume, ...]:
        found: dict[str, StorageVolume] = {}
        rows = self.document.get("volumes")
        if not isinstance(rows, list) or not rows:
            raise self.wrong("it has no [[volumes]]")
        for number, row in enumerate(rows, 1):
            where = f"volumes, row {number}"
            if not isinstance(row, dict):
                raise self.wrong(f"{where}: it is not a table")
            rank = None
            if "rank" in row:
                rank = ranks.get(self.text(row, "rank", where))
                if rank is None:
                    raise self.wrong(f'{where}: rank "{row["rank"]}" is not in the file')
                pool = rank.pool
            else:
                pool = self.text(row, "pool", where)
                if pool not in striped:
                    raise self.wrong(f'{where}: pool "{pool}" is not a striped pool, so a rank is needed')
            path = self.text(row, "path", where) if "path" in row else None
            if path is not None and path not in paths:
                raise self.wrong(f'{where}: path "{path}" is not one of {", ".join(paths) or "none"}')
            for address in expand(self.text(row, "addresses", where)):
                if address in found:
                    raise self.wrong(f"{where}: volume {address} appears twice")
                found[address] = StorageVolume(address, pool, rank if pool not in striped else None, path)
        return tuple(found.values())

    def rows(self, table: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        rows = self.document.get(table)
        if not isinstance(rows, list) or not rows:
            raise self.wrong(f"it has no [[{table}]]")
        seen = set()
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise self.wrong(f"{table}, row {number}: it is not a table")
            name = self.text(row, "name", f"{table}, row {number}")
            if name in seen:
                raise self.wrong(f"{table}: {name} appears twice")
            seen.add(name)
            yield name, row

    def text(self, row: Mapping[str, object], key: str, where: str, default: str | None = None) -> str:
        value = row.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{where}: {key} is missing" if value is None else f"{where}: {key} is {value!r}, no text")
        return value

    def words(self, row: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
        value = row.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
            raise self.wrong(f"{where}: {key} is not a list of names")
        if len(set(value)) != len(value):
            raise self.wrong(f"{where}: {key} names one twice")
        return tuple(value)

    def wrong(self, what: str) -> UsageError:
        return UsageError(f'topology file "{self.source}": {what}', hint="docs/howto/choose-disks.md has an example.")
