"""Judge read-ahead by who does the reading ahead (database or kernel) and by the access pattern of the load."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.advisor.block_stack import (
    KERNEL_READ_AHEAD_KB,
    automatic_read_ahead_kb,
    device_of,
    mapped_name,
    path_of,
    places_of,
    top_name,
    volume_of,
)
from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.planned import has_direct_io
from pgdyno.model.evidence import WorkloadClass
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution
from pgdyno.model.inventory import BlockDevice, LogicalVolume, Purpose
from pgdyno.units import percent_text

SWEEP_KB = (0, 16, 32, 64, 128, 256, 512)
RANDOM_ONLY = 0.01
"""Up to this share of rows read by sequential scans a load counts as random reads only."""
_OWN_IO = ("db2", "oracle", "informix")


class ReadAhead(StrEnum):
    """What the sources say of kernel read-ahead for a database and a load."""

    ON = "on"
    OFF = "off"
    SWEEP = "sweep"


def policy(dbms: str, *, direct_io: bool = False, random_only: bool = False) -> ReadAhead:
    """Return what holds for a database: off where it prefetches by itself or goes around the page cache."""
    if dbms.lower() in _OWN_IO or direct_io:
        return ReadAhead.OFF
    return ReadAhead.SWEEP if random_only else ReadAhead.ON


@dataclass(frozen=True, slots=True)
class Top:
    """The device at the top of a place's stack, with its logical volume when it is one."""

    path: str
    device: BlockDevice
    volume: LogicalVolume | None
    effective_kb: int

    @property
    def node(self) -> str:
        """Return the path that commands take."""
        return self.volume.path if self.volume else path_of(self.device)

    @property
    def usual_kb(self) -> int:
        """Return what the kernel or LVM would choose by itself."""
        volume = self.volume
        if volume is None or isinstance(volume.stripes, Unknown) or isinstance(volume.stripe_bytes, Unknown):
            return KERNEL_READ_AHEAD_KB
        return automatic_read_ahead_kb(volume.stripes, volume.stripe_bytes)


def tops(case: Case) -> tuple[Top, ...]:
    """Return the devices whose read-ahead counts for data files. Raises Missing."""
    found: dict[str, Top] = {}
    for place in places_of(case, Purpose.DATA, Purpose.TABLESPACE):
        name = top_name(place)
        device, volume = device_of(case.host, name), volume_of(case.host, name)
        kernel = volume.effective_read_ahead_kb if volume else device.read_ahead_kb
        if isinstance(kernel, Unknown):
            kernel = device.read_ahead_kb
        effective = known(kernel, f"the read-ahead of {device.name}")
        found.setdefault(device.name, Top(place.path, device, volume, effective))
    return tuple(found.values())


def read_ahead(case: Case) -> Judgement:
    """Fire where the kernel reads nothing ahead although PostgreSQL leaves it to the kernel."""
    if has_direct_io(case):
        return DoesNotApply(
            "debug_io_direct has the data files read around the page cache, where the kernel never reads ahead",
            (_resolution("off", "direct I/O is set for data files"),),
        )
    devices = tops(case)
    if not devices:
        return CannotTell("the devices below the data files are unknown (no place was read)")
    off = [top for top in devices if top.effective_kb == 0]
    said = "; ".join(f"{top.node} below {top.path}: {top.effective_kb} KiB" for top in devices)
    decided = (_resolution("on", f"{case.server.flavour} reads through the page cache; {said}"),)
    if not off:
        return InOrder(f"The kernel reads ahead below the data files ({said}).", decided)
    return Fires(
        changes=tuple(change_of(top, None) for top in off),
        current=f"read-ahead 0 KiB on {', '.join(top.node for top in off)}",
        proposed=", ".join(f"{top.usual_kb} KiB on {top.node}" for top in off),
        evidence=tuple(sentence for top in off for sentence in _evidence(case, top)),
        alternatives=tuple(
            f"Until the next boot: blockdev --setra {2 * top.usual_kb} {shlex.quote(top.node)} "
            f"({2 * top.usual_kb} sectors of 512 bytes are {top.usual_kb} KiB)."
            for top in off
        ),
        resolutions=decided,
    )


def read_ahead_sweep(case: Case) -> Judgement:
    """Offer a sweep where all reads are random."""
    workload = known(case.evidence.workload, "the workload's class")
    if workload not in (WorkloadClass.READ_ONLY, WorkloadClass.MOSTLY_READ):
        return DoesNotApply(f"the load is {workload}, not reads alone")
    statistics = known(case.evidence.statistics, "the statistics window")
    scans = known(statistics.analytic_share, "the share of sequential scans")
    if policy("PostgreSQL", direct_io=has_direct_io(case), random_only=scans <= RANDOM_ONLY) is not ReadAhead.SWEEP:
        return InOrder(f"{percent_text(scans, 1)} of the rows come from sequential scans: the rule read-ahead holds.")
    devices = tops(case)
    if not devices:
        return CannotTell("the devices below the data files are unknown (no place was read)")
    values = [kb for kb in SWEEP_KB if kb != devices[0].effective_kb]
    return Fires(
        changes=tuple(change_of(top, values[0]) for top in devices),
        current=", ".join(f"{top.effective_kb} KiB on {top.node}" for top in devices),
        proposed=f"a sweep over {', '.join(str(kb) for kb in SWEEP_KB)} KiB",
        evidence=(f"The load is {workload} with {percent_text(scans, 1)} of its rows from sequential scans.",),
        alternatives=tuple(f"blockdev --setra {2 * kb} {shlex.quote(devices[0].node)} ({kb} KiB)" for kb in values[1:]),
        resolutions=(_resolution("sweep", f"{percent_text(scans, 1)} of the rows come from sequential scans"),),
    )


def change_of(top: Top, kb: int | None) -> Change:
    """Return the change to so many KiB; None is what LVM or the kernel chooses by itself.

    A volume is set by lvchange, which lasts and knows `auto`. Numbers are sectors of 512 bytes for either command.
    """
    node, now = shlex.quote(top.node), top.effective_kb
    if top.volume is not None:
        before = "auto" if top.volume.read_ahead == "auto" else str(2 * now)
        commands = (f"lvchange -r {'auto' if kb is None else 2 * kb} {node}",)
        undo = (f"lvchange -r {before} {node}",)
    else:
        commands = (f"blockdev --setra {2 * (top.usual_kb if kb is None else kb)} {node}",)
        undo = (f"blockdev --setra {2 * now} {node}",)
    return Change(
        ChangeKind.BLOCK,
        knob="read_ahead_kb",
        value=str(top.usual_kb if kb is None else kb),
        current=str(now),
        device=f"/dev/mapper/{mapped_name(top.volume)}" if top.volume else top.node,
        commands=commands,
        undo=undo,
    )


def _evidence(case: Case, top: Top) -> Iterator[str]:
    yield f"{top.node}, which {top.path} is mounted from, reads {top.effective_kb} KiB ahead."
    if top.volume is not None and top.volume.stripes != 1 and not isinstance(top.volume.stripes, Unknown):
        yield f"It has {top.volume.stripes} stripes; `auto` makes two full stripes of it, {top.usual_kb} KiB."
    lower = [device_of(case.host, name) for name in top.device.below]
    ahead = [device for device in lower if isinstance(device.read_ahead_kb, int) and device.read_ahead_kb > 0]
    if ahead:
        names = ", ".join(f"{device.name} {device.read_ahead_kb} KiB" for device in ahead)
        yield f"The devices below it ({names}) do not count: the top of the stack decides."


def _resolution(side: str, condition: str) -> Resolution:
    words = {
        ReadAhead.ON: "On holds, as for every database that reads through the page cache",
        ReadAhead.OFF: "Off holds, as for databases that do their own I/O",
        ReadAhead.SWEEP: "Neither holds for random reads alone; a sweep decides",
    }
    return Resolution("CON-06", f"{words[ReadAhead(side)]}: {condition}.")
