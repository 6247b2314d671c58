"""Find the table that makes up most of the I/O, and write the DDL and the volume for its own tablespace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from pgdyno.advisor.amounts import READ_BYTES, ROWS_WRITTEN, total
from pgdyno.advisor.block_stack import place_of, unused_disks, volume_below
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.device_figures import DeviceLoad, load_state
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.model.evidence import TableActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.model.inventory import Purpose
from pgdyno.outside.quoting import identifier, literal
from pgdyno.units import bytes_text, percent_text, seconds_text

DOMINATES = 0.5
"""The source moved a table that made up more than half of the traffic."""
COPY_BYTES_S = 100 << 20
"""A rate to picture the copy with, said as such: no source gives one."""
NOTABLE_GROWTH = 64 << 20
SMALL = 1 << 30
"""Bytes below which growth says nothing, and below which a move is worth no more than a note."""
_SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


def hot_tables(case: Case) -> Judgement:
    """Look for one table with most of the reads, the growth, or the written rows of the window."""
    tables = [table for table in known(case.evidence.tables, "the activity of tables") if table.schema not in _SYSTEM]
    shares = {
        measure: _shares(tables, weight) if _is_much(case, measure, tables) else [0.0] * len(tables)
        for measure, weight in _MEASURES.items()
    }
    led = [(max(share[i] for share in shares.values()), i) for i in range(len(tables))]
    reads = shares[_READS]
    ranked = [i for share, i in sorted(led, key=lambda one: (reads[one[1]] < DOMINATES, -one[0])) if share >= DOMINATES]
    waiting = [i for i in ranked if not tables[i].tablespace]
    if not ranked:
        top = max(led, default=(0.0, -1))[0]
        text = f"No table makes up half of the I/O or of the growth; the most is {percent_text(top)}."
        return InOrder(text, of_load=True)
    if not waiting:
        return InOrder(f"{tables[ranked[0]].name} dominates and lies in tablespace {tables[ranked[0]].tablespace}.")
    table = tables[waiting[0]]
    name = tablespace_name(table)
    folder = f"/pg_{name.removesuffix('_ts')}/data"
    return Fires(
        changes=(*_volume(case, name, folder), tablespace_ddl(table, name, folder)),
        current=f"{table.schema}.{table.name} in the database's default tablespace",
        proposed=f"{table.schema}.{table.name} and its indexes in tablespace {name}",
        evidence=(*_evidence(table, waiting[0], shares), *_lock(case, table), *_devices(case), *_unused(case)),
        alternatives=tuple(
            f"Next, and only after this step was measured: {tables[i].schema}.{tables[i].name}." for i in waiting[1:]
        ),
        severity=Severity.NOTE if _relaxed(case) or table.bytes + table.index_bytes < SMALL else None,
    )


def _growth(table: TableActivity) -> float:
    growth = 0 if isinstance(table.growth_bytes, Unknown) else table.growth_bytes
    return float(growth) if growth >= NOTABLE_GROWTH else 0.0


def _writes(table: TableActivity) -> float:
    return 0.0 if isinstance(table.writes, Unknown) else float(table.writes)


_READS = "the blocks read from outside shared_buffers"
_WRITES = "the rows written"
BLOCK = 8192
_MEASURES: dict[str, Callable[[TableActivity], float]] = {
    _READS: lambda table: table.read_share,
    "the growth of all tables": _growth,
    _WRITES: _writes,
}


def _is_much(case: Case, measure: str, tables: Sequence[TableActivity]) -> bool:
    """Tell whether a measure has an amount of which a share says something; growth has its own bound."""
    counted = case.evidence.statistics
    if measure == _WRITES:
        return sum(_writes(table) for table in tables) >= ROWS_WRITTEN
    if measure != _READS or isinstance(counted, Unknown):
        return True
    blocks = total("blocks_read_s", counted)
    return blocks is None or blocks * BLOCK >= READ_BYTES


def _shares(tables: Sequence[TableActivity], weight: Callable[[TableActivity], float]) -> list[float]:
    total = sum(weight(table) for table in tables)
    return [weight(table) / total if total else 0.0 for table in tables]


def tablespace_name(table: TableActivity) -> str:
    """Return the table's name with `_ts`, safe as part of a path and never beginning with `pg_`."""
    plain = re.sub(r"[^a-z0-9_]+", "_", table.name.lower()).strip("_") or "table"
    return re.sub(r"^(pg_)+", "", f"{plain[:50]}_ts")


def tablespace_ddl(table: TableActivity, name: str, folder: str) -> Change:
    """Return the statements that move a table with its indexes, and those that move it back."""
    new, whole = identifier(name), identifier(table.schema, table.name)
    indexes = [identifier(table.schema, index) for index in table.indexes]
    old = identifier(table.tablespace or "pg_default")

    def moves(space: str) -> list[str]:
        found = [f"ALTER TABLE {whole} SET TABLESPACE {space};"]
        return found + [f"ALTER INDEX {index} SET TABLESPACE {space};" for index in indexes]

    return Change(
        ChangeKind.DDL,
        value=name,
        current=table.tablespace or "pg_default",
        commands=(f"CREATE TABLESPACE {new} LOCATION {literal(folder)};", *moves(new)),
        undo=(*moves(old), f"DROP TABLESPACE {new};"),
    )


def _volume(case: Case, name: str, folder: str) -> tuple[Change, ...]:
    """Return the steps that make the mount: for review, because only people know which disks are apart."""
    disks = unused_disks(case.host)
    volume = None
    with suppress(Missing):
        volume = volume_below(case.host, place_of(case, Purpose.DATA))
    stripes = len(disks) or (volume.stripes if volume and isinstance(volume.stripes, int) else 0)
    paths = " ".join(shlex.quote(f"/dev/{disk}") for disk in disks) or "DISK1 ... DISKN"
    short, mount = name.removesuffix("_ts"), folder.removesuffix("/data")
    return (
        Change(
            ChangeKind.MANUAL,
            value=f"an additional striped volume at {mount}",
            commands=(
                f"vgcreate {name}_vg {paths}",
                f"lvcreate -i {stripes or 'N'} -I 64k -l 100%FREE -n {short} {name}_vg",
                f"mkfs.xfs /dev/{name}_vg/{short}",
                f"mkdir -p {mount}",
                f"mount /dev/{name}_vg/{short} {mount}",
                f"install -d -m 0700 -o postgres -g postgres {folder}",
            ),
            undo=(f"umount {mount}", f"lvremove {name}_vg/{short}", f"vgremove {name}_vg"),
        ),
    )


def _evidence(table: TableActivity, at: int, shares: dict[str, list[float]]) -> list[str]:
    return [
        f"{table.schema}.{table.name} has {percent_text(share[at], 1)} of {measure}."
        for measure, share in shares.items()
        if share[at]
    ]


def _lock(case: Case, table: TableActivity) -> list[str]:
    size = table.bytes + table.index_bytes
    found = [
        f"The move copies {bytes_text(size)} under an ACCESS EXCLUSIVE lock: at 100 MB/s that is "
        f"{seconds_text(size / COPY_BYTES_S)} in which nobody can use the table."
    ]
    if case.has("wal_level") and case.text("wal_level") != "minimal":
        found.append(f"With wal_level = {case.text('wal_level')} the log grows by as much, and standbys receive it.")
    return found


def _devices(case: Case) -> list[str]:
    rows = () if isinstance(case.evidence.devices, Unknown) else case.evidence.devices
    return [state.sentence for row in rows if (state := load_state(row)).state is DeviceLoad.QUEUEING]


def _unused(case: Case) -> list[str]:
    disks = unused_disks(case.host)
    return [f"Nothing is mounted from {', '.join(disks)}: make sure that they are empty indeed."] if disks else []


def _relaxed(case: Case) -> bool:
    """Return True when devices were measured and none of them lets requests queue."""
    return not isinstance(case.evidence.devices, Unknown) and not _devices(case)


def volume_side(case: Case) -> Iterator[Resolution]:
    """Decide CON-30 by what lies below the data files; needs no activity of tables."""
    place = place_of(case, Purpose.DATA)
    known(place.stack, f'the stack of devices below "{place.path}"')
    volume = volume_below(case.host, place)
    here = "no logical volume is below the data files"
    if volume is not None:
        stripes = f", {volume.stripes} stripes" if isinstance(volume.stripes, int) else ""
        here = f"the data files lie on {volume.path} already{stripes}"
    yield Resolution("CON-30", f"LVM is accepted, as striping over independent disks: {here}.")
