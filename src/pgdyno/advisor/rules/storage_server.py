"""Judge the disks of storage servers as far as the host can see them: addresses, paths, type, caching mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdyno.advisor.block_stack import device_of, disks_of, place_of
from pgdyno.advisor.case import Case, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution, Severity
from pgdyno.model.inventory import BlockDevice, ChannelDevice, HostInventory, Purpose
from pgdyno.units import percent_text, plural

BUSY_NETWORK = 0.7
"""From this share of an interface's speed on, bursts wait."""
_ESS, _SARC = ("2105",), ("1750", "2107", "2421", "2422", "2423", "2424")
"""Machine types: ESS; DS6000 and DS8000, whose cache adapts by itself."""
_BEHIND = ("dasd", "fcp")
_ADAPTER = re.compile(r"\b[0-9a-f]\.[0-9a-f]\.[0-9a-f]{4}\b")


def disk_selection(case: Case) -> Judgement:
    """Look for consecutive addresses among the storage server's disks below the data files."""
    disks = _data_disks(case)
    behind = [disk for disk in disks if disk.storage in _BEHIND]
    if not behind:
        unknown = next((disk for disk in disks if isinstance(disk.storage, Unknown)), None)
        if unknown is not None:
            return CannotTell(f"what kind of storage {unknown.name} is on is unknown ({unknown.storage})")
        return DoesNotApply("no disk below the data files is one of a storage server that this host can recognise")
    from pgdyno.advisor.disk_order import consecutive  # brings the choice of volumes, which few hosts have

    addresses = _addresses(case.host, behind)
    if consecutive(addresses):
        what = f"The data files lie on consecutive addresses, {addresses[0]} to {addresses[-1]}"
        return Fires(
            changes=(Change(ChangeKind.MANUAL, value="volumes that alternate server, adapter pair, rank and path"),),
            current=", ".join(addresses),
            proposed="the order that `pgdyno disks FILE --given LIST` proposes",
            evidence=(f"{what}: {', '.join(disk.name for disk in behind)} are {', '.join(addresses)}.",),
        )
    if len(behind) == 1:
        return Fires(
            changes=(Change(ChangeKind.MANUAL, value="many small disks of several ranks instead of one"),),
            current=behind[0].name,
            proposed="a volume striped over disks of all ranks",
            evidence=(
                f"{behind[0].name} is the only disk below the data files; whether the storage server spreads it over "
                "many, its own tools say.",
            ),
            severity=Severity.NOTE,
        )
    if not addresses and any(disk.storage == "dasd" for disk in behind):
        known(case.host.channel_devices, "the list of channel devices")
        return CannotTell("the addresses of the DASD are unknown (lscss lists none of them)")
    listed = f", not consecutive ({', '.join(addresses)})" if addresses else ""
    return InOrder(
        f"{plural(len(behind), 'disk')} of a storage server are below the data files{listed}; whether "
        f"ranks and paths are loaded "
        "alike, `pgdyno disks` says from the server's topology."
    )


def disk_paths(case: Case) -> Judgement:
    """Count the paths of FCP adapters or channels to the disks of the data files."""
    disks = _data_disks(case)
    kinds = {disk.storage for disk in disks if disk.storage in _BEHIND}
    if not kinds:
        return DoesNotApply("the disks below the data files are not reached over FCP or channels")
    if "fcp" in kinds:
        lines = known(case.host.adapters, "the list of disk adapters")
        adapters = sorted({found[0] for line in lines if (found := _ADAPTER.search(line))}) or sorted(set(lines))
        if not adapters:
            return CannotTell("the paths to the disks are unknown (no adapter was listed)")
        if len(adapters) > 1:
            return InOrder(f"{len(adapters)} adapters lead to the disks: {', '.join(adapters)}.")
        return _single(adapters[0])
    known(case.host.channel_devices, "the list of channel devices")
    channels = [device for device in _channels(case.host, disks) if device.chpids]
    paths = sorted({path for device in channels for path in device.chpids})
    if not paths:
        return CannotTell("the channel paths are unknown (lscss lists none for these disks)")
    if len(paths) > 1:
        return InOrder(f"{len(paths)} channel paths lead to the disks: {', '.join(paths)}; ECKD switches by itself.")
    return _single(f"channel path {paths[0]}")


def network_path(case: Case) -> Judgement:
    """Look for interfaces that share a port and for one that is near its limit."""
    interfaces = [one for one in known(case.host.network, "the list of network interfaces") if one.up is not False]
    if not interfaces:
        return DoesNotApply("the host has no network interface that is up")
    ports: dict[str, list[str]] = {}
    for one in interfaces:
        shared = [part for part in (one.physical_function, one.physical_port) if isinstance(part, str) and part]
        if len(shared) == 2 or (shared and isinstance(one.physical_function, str)):
            ports.setdefault("/".join(shared), []).append(one.name)
    listed = ", ".join(
        f"{one.name} ({'speed unknown' if isinstance(one.speed_mbit, Unknown) else f'{one.speed_mbit} Mbit/s'})"
        for one in interfaces
    )
    doubled = {port: names for port, names in ports.items() if len(names) > 1}
    if doubled:
        port, names = next(iter(doubled.items()))
        return Fires(
            current=listed,
            proposed="one port for each interface",
            evidence=(
                f"{', '.join(names)} are virtual functions of one physical port, {port}.",
                f"Interfaces: {listed}.",
            ),
        )
    host = case.evidence.host
    if not isinstance(host, Unknown) and not isinstance(host.network_utilization, Unknown):
        share = host.network_utilization
        if share >= BUSY_NETWORK:
            return Fires(
                current=f"{percent_text(share)} of the busiest interface's speed",
                proposed="a faster path",
                evidence=(
                    f"The busiest interface carries {percent_text(share)} of its speed.",
                    f"Interfaces: {listed}.",
                ),
            )
        return InOrder(f"The busiest interface carries {percent_text(share)} of its speed: {listed}.")
    return InOrder(f"No two interfaces share a port: {listed}. How busy they are was not measured.")


def eckd_caching_mode(case: Case) -> Judgement:
    """Propose `record` on an ESS; leave DS6000 and DS8000 alone."""
    disks = [disk for disk in _data_disks(case) if disk.storage == "dasd"]
    if not disks:
        return DoesNotApply("no DASD is below the data files")
    text = " ".join(_models(case.host, disks))
    if any(machine in text for machine in _SARC):
        return InOrder("The storage server is a DS6000 or DS8000, which adapts its cache by itself (SARC).")
    if not any(machine in text for machine in _ESS):
        return CannotTell("the model of the storage server is unknown (no machine type 2105, 1750 or 2107 was read)")
    return Fires(
        changes=(
            Change(
                ChangeKind.COMMAND,
                value="record",
                commands=tuple(f"tunedasd --cache record /dev/{disk.name}" for disk in disks),
                undo=tuple(f"tunedasd --cache normal /dev/{disk.name}" for disk in disks),
            ),
        ),
        current="unknown; the default is normal",
        proposed="record",
        evidence=(f"{', '.join(disk.name for disk in disks)} are DASD of an ESS (machine type 2105).",),
    )


def disk_type(case: Case) -> Judgement:
    """Say what is left of the old advice on disk types."""
    disks = _data_disks(case)
    kinds = _kinds(disks)
    decided = tuple(disk_type_side(case))
    if "dasd" not in kinds:
        if kinds in (["unknown"], []):
            return CannotTell("the type of the disks below the data files is unknown (it was not read)")
        return InOrder(f"The data files lie on {', '.join(kinds)} disks with a file system.", decided)
    dasd = [disk.name for disk in disks if disk.storage == "dasd"]
    return Fires(
        current="DASD",
        proposed="FCP or NVMe for the next volume group",
        evidence=(f"{', '.join(dasd)} are DASD.",),
        resolutions=decided,
    )


def disk_type_side(case: Case) -> Iterator[Resolution]:
    """Decide CON-29 on every architecture: what the disks below the data files are."""
    yield Resolution(
        "CON-29",
        "SCSI or NVMe with a file system holds; raw devices no longer exist. "
        f"The disks here are {', '.join(_kinds(_data_disks(case))) or 'unknown'}.",
    )


def _kinds(disks: list[BlockDevice]) -> list[str]:
    return sorted({disk.storage if isinstance(disk.storage, str) else "unknown" for disk in disks})


def _single(path: str) -> Fires:
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value="a second path to every disk", current=path),),
        current=path,
        proposed="at least two paths",
        evidence=(f"{path} is the only path that was found.",),
    )


def _data_disks(case: Case) -> list[BlockDevice]:
    return [device_of(case.host, name) for name in sorted(disks_of(place_of(case, Purpose.DATA)))]


def _channels(host: HostInventory, disks: list[BlockDevice]) -> list[ChannelDevice]:
    names = {disk.name for disk in disks}
    devices = () if isinstance(host.channel_devices, Unknown) else host.channel_devices
    return [one for one in devices if one.device is not None and one.device.removeprefix("/dev/") in names]


def _addresses(host: HostInventory, disks: list[BlockDevice]) -> list[str]:
    return sorted(one.bus_id for one in _channels(host, disks))


def _models(host: HostInventory, disks: list[BlockDevice]) -> list[str]:
    found = [disk.model for disk in disks if isinstance(disk.model, str)]
    found += [one.kind for one in _channels(host, disks)]
    return found + ([] if isinstance(host.adapters, Unknown) else list(host.adapters))
