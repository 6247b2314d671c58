"""Channel devices of s390x from lscss and lsdasd, and the adapters and paths of any machine. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from pgdyno.capture.texts import Capture
from pgdyno.inventory.machine import architecture_of
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import ChannelDevice

_ROW = re.compile(
    r"^(?P<bus>[0-9a-f]+\.[0-9a-f]\.[0-9a-f]{4}|[0-9a-f]\.[0-9a-f]\.[0-9a-f]{4})\s+\S+\s+(?P<dev>[0-9a-f]{4})/[0-9a-f]{2}\s+"
    r"(?P<cu>[0-9a-f]{4})/(?P<model>[0-9a-f]{2})\s+(?:(?P<use>yes)\s+)?(?P<pim>[0-9a-f]{2})\s+[0-9a-f]{2}\s+[0-9a-f]{2}\s+"
    r"(?P<chpids>[0-9a-f]{8}\s+[0-9a-f]{8})\s*$",
    re.IGNORECASE,
)
_BUS = re.compile(r"^[0-9a-f]+\.[0-9a-f]\.[0-9a-f]{4}$", re.IGNORECASE)
_KINDS = {"3832": "virtio", "3990": "ECKD DASD", "2107": "ECKD DASD", "1731": "network", "1732": "zfcp"}
_UNITS = {"B": 1, "kB": 1 << 10, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_ADAPTERS = ("commands/lszfcp.txt", "commands/multipath.txt", "commands/lsscsi.txt")


def read_channel_devices(capture: Capture) -> tuple[ChannelDevice, ...] | Unknown:
    """Return the CCW devices; none on a machine without channels."""
    lscss, lsdasd = capture.text("commands/lscss.txt"), capture.text("commands/lsdasd.txt")
    if isinstance(lscss, Unknown) and isinstance(lsdasd, Unknown):
        architecture = architecture_of(capture)
        return lscss if architecture == "s390x" or isinstance(architecture, Unknown) else ()
    found: dict[str, ChannelDevice] = {}
    for line in lscss.splitlines() if isinstance(lscss, str) else []:
        row = _ROW.match(line)
        if row:
            kind = _KINDS.get(row["cu"].lower(), f"{row['dev']}/{row['cu']}")
            found[row["bus"]] = ChannelDevice(
                row["bus"],
                kind,
                status="in use" if row["use"] else None,
                chpids=chpids_of(row["pim"], row["chpids"]),
            )
    for line in lsdasd.splitlines() if isinstance(lsdasd, str) else []:
        disk = _dasd(line)
        if disk is not None:
            earlier = found.get(disk.bus_id)
            found[disk.bus_id] = replace(disk, chpids=earlier.chpids if earlier else ())
    return tuple(found.values())


def chpids_of(mask: str, listed: str) -> tuple[str, ...]:
    """Return the channel paths that exist: the mask of installed paths has a bit for each of eight."""
    names = re.findall("..", "".join(listed.split()))
    return tuple(name for place, name in enumerate(names) if int(mask, 16) & (0x80 >> place))


def read_adapters(capture: Capture) -> tuple[str, ...] | Unknown:
    """Return the lines of lszfcp, multipath and lsscsi; none where none of them is installed."""
    texts = [capture.text(key) for key in _ADAPTERS]
    lines = [line.strip() for text in texts if isinstance(text, str) for line in text.splitlines() if line.strip()]
    if lines or any(isinstance(text, str) for text in texts):
        return tuple(lines)
    return capture.reason("commands/lsscsi.txt")


def _dasd(line: str) -> ChannelDevice | None:
    words = line.split()
    if len(words) < 2 or not _BUS.match(words[0]):
        return None
    status, rest = words[1], words[2:]
    if len(rest) < 5:  # offline: the bus id and the status alone
        return ChannelDevice(words[0], "DASD", None, status)
    name, _, kind, block, size = rest[:5]
    return ChannelDevice(
        words[0],
        f"{kind} DASD",
        name,
        status,
        int(block) if block.isdecimal() else Unknown(f'lsdasd shows "{block}"'),
        _size(size),
    )


def _size(text: str) -> int | Unknown:
    match = re.fullmatch(r"(\d+)([kKMGT]?B)", text)
    return int(match[1]) * _UNITS[match[2]] if match else Unknown(f'lsdasd shows "{text}"')
