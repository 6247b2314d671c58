"""`pgdyno disks`: choose volumes of a storage server, or judge a list that somebody was given. Needs no server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FILE, JsonFlag, argument, flag, verb
from pgdyno.cli.terminal.columns import column_lines
from pgdyno.cli.terminal.files import read_text
from pgdyno.errors import ExitCode
from pgdyno.units import plural

if TYPE_CHECKING:
    from pgdyno.advisor.disk_order import Balance, Separation
    from pgdyno.advisor.storage_server import StorageVolume, Topology

_EXAMPLE = "docs/howto/choose-disks.md has an example."


class _Flags(JsonFlag):
    file: Path = argument("FILE", type=FILE)
    count: int | None = flag("How many volumes to propose.  [default: 8, or as in --given]", type=click.IntRange(1))
    given: str | None = flag("Judge these volumes, such as 5100-510F,5200, and propose others.", metavar="LIST")
    wal: int | None = flag("Propose this many more for the log, as far apart as possible.", type=click.IntRange(1))


@verb("disks")
def command(flags: _Flags) -> int:
    """Propose volumes of the storage server that FILE describes (TOML or JSON), in the order of their use.

    Each next volume lies on another server, adapter pair, rank and path, and none is used again before the others.
    Exit code 1 when the list of --given is out of balance.
    """
    from pgdyno.advisor.disk_order import check, propose, propose_apart, separation
    from pgdyno.advisor.storage_server import expand, read_topology

    topology = read_topology(read_text(flags.file, "topology file", hint=_EXAMPLE), str(flags.file))
    given = None if flags.given is None else check(topology, expand(flags.given))
    default = len(given.volumes) if given else min(8, len(topology.volumes))
    count = flags.count or default
    data = propose(topology, count)
    wal: tuple[StorageVolume, ...] = ()
    apart: Separation | None = None
    if flags.wal:
        data, wal = propose_apart(topology, count, flags.wal)
        apart = separation(topology, data, wal)
    if flags.as_json:
        click.echo(json.dumps(_document(topology, given, data, wal, apart), indent=2))
    else:
        _print(topology, given, data, wal, apart)
    return int(ExitCode.FINDINGS if given is not None and not given.balanced else ExitCode.OK)


def _row(topology: Topology, volume: StorageVolume) -> dict[str, str]:
    return {"volume": volume.address, **topology.resources(volume)}


def _balance(balance: Balance) -> dict[str, object]:
    return {
        "volumes": [volume.address for volume in balance.volumes],
        "balanced": balance.balanced,
        "worst_case": balance.worst_case,
        "problems": list(balance.problems),
        "uses": {use.kind: use.counts for use in balance.uses},
    }


def _document(
    topology: Topology,
    given: Balance | None,
    data: Sequence[StorageVolume],
    wal: Sequence[StorageVolume],
    apart: Separation | None,
) -> dict[str, object]:
    return {
        "storage": topology.name,
        "attachment": topology.attachment.value,
        "given": None if given is None else _balance(given),
        "proposed": [_row(topology, volume) for volume in data],
        "wal": [_row(topology, volume) for volume in wal],
        "separation": None if apart is None else apart.value,
        "remarks": _remarks(topology),
    }


def _remarks(topology: Topology) -> list[str]:
    from pgdyno.advisor.storage_server import Attachment

    paths = (
        "ECKD switches its paths by itself; give the host all of them."
        if topology.attachment is Attachment.ECKD
        else "FCP needs a fixed path for each disk: attach each by the path of its row, with a second as a spare."
    )
    pools = sorted(set(topology.pools) - topology.striped)
    if not pools:
        return [paths]
    return [paths, f"Storage pool striping is off for {', '.join(pools)}: where it is available, enable it."]


def _print(
    topology: Topology,
    given: Balance | None,
    data: Sequence[StorageVolume],
    wal: Sequence[StorageVolume],
    apart: Separation | None,
) -> None:
    if given is not None:
        verdict = "balanced" if given.balanced else "out of balance"
        click.echo(f"given: {plural(len(given.volumes), 'volume')} of {topology.name}, {verdict}")
        for problem in given.problems:
            click.echo(f"  {problem}")
        click.echo()
    _print_table(f"proposed, in this order ({plural(len(data), 'volume')} of {topology.name})", topology, data)
    if wal:
        click.echo()
        relation = f"{apart} than the data" if apart != "shared ranks" else "on shared ranks"
        _print_table(f"for the log ({relation})", topology, wal)
    click.echo()
    for remark in _remarks(topology):
        click.echo(remark)


def _print_table(title: str, topology: Topology, volumes: Sequence[StorageVolume]) -> None:
    rows = [_row(topology, volume) for volume in volumes]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    click.echo(f"{title}:")
    for line in column_lines(columns, [[row.get(name, "") for name in columns] for row in rows]):
        click.echo(f"  {line}")
