"""How fast WAL is written at load, by the best source there is, named in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pgdyno.model.evidence import WAL_RATE_BY_LOG, Checkpoint, DeviceActivity, LogEvidence, Statistics
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory, Purpose
from pgdyno.probes.evidence.log_lines import seconds_of
from pgdyno.units import seconds_text

_FEWEST_CHECKPOINTS = 2
LEAST_SHARE = 0.1
"""Of checkpoint_timeout, for which a rate is extended: WAL of less time is a burst (an UPDATE, an index), no load."""
USUAL_TIMEOUT_S = 300.0


def wal_rate(
    statistics: Statistics | Unknown,
    log: LogEvidence | Unknown,
    devices: Sequence[DeviceActivity] | Unknown,
    inventory: Inventory,
    *,
    wal_device: str | None = None,
    devices_from: str = "the host's devices over the window",
) -> tuple[float | Unknown, str]:
    """Return bytes a second and the source in words: unknown rather than a mean in which idle days count.

    The higher of what the server counted over a sampled window and of what the checkpoints of its log show, for a
    window may be quieter than the load; else the kB written to the WAL's device. `statistics` is what the server
    counted, `log` what its log told, and `devices` are means by device, of the source that `devices_from` names in
    words. `wal_device` is the WAL's device as that source names it; None takes it from `inventory`, which also has
    checkpoint_timeout.
    """
    found: list[tuple[float, str]] = []
    reasons = []
    numbers = _counted(statistics)
    if isinstance(numbers, Unknown):
        reasons.append(numbers.reason)
    elif not isinstance(statistics, Unknown) and statistics.window.is_mean_of_all:
        reasons.append("a mean since the statistics were reset has idle times in it; --window SECONDS watches the load")
    else:
        found.append((numbers, "WAL counted by the server over the sampled window"))
    by_log = log if isinstance(log, Unknown) else log_rate(log.checkpoints, _least_s(inventory))
    if isinstance(by_log, Unknown):
        reasons.append(by_log.reason)
    else:
        found.append((by_log, WAL_RATE_BY_LOG))
    best = max(found, default=None)
    if best is not None and best[0] > 0:
        return best
    by_device = _device_rate(devices, inventory, wal_device)
    if not isinstance(by_device, Unknown):
        rate, name = by_device
        return rate, f"kB written per second to the WAL's device {name}, of {devices_from}"
    return best or (Unknown("; ".join(dict.fromkeys([*reasons, by_device.reason]))), "")


def _least_s(inventory: Inventory) -> float:
    server = inventory.server
    told = server if isinstance(server, Unknown) else server.text("checkpoint_timeout")
    return LEAST_SHARE * (float(told) if isinstance(told, str) and told.isdecimal() else USUAL_TIMEOUT_S)


def log_rate(checkpoints: Sequence[Checkpoint], least_s: float) -> float | Unknown:
    """Return WAL bytes per second at load, from checkpoints that follow each other.

    Where WAL started checkpoints, the rate at which the middle byte of theirs was written: no mean, because the first
    of a load ends the idle time before it. Else, and where these took less than `least_s` together, the busiest time
    between two that time started, because an idle server leaves checkpoints out; else the middle of all.
    `distance` is the WAL between the starts of two checkpoints; a start is the completion less the total time.
    """
    spans = []
    for before, after in pairwise(checkpoints):
        began, ended = _started(before), _started(after)
        if began is None or ended is None or ended <= began or isinstance(after.distance_bytes, Unknown):
            continue
        if before.cause in ("shutdown", "recovery") or after.cause in ("shutdown", "recovery"):
            continue
        spans.append((after.distance_bytes / (ended - began), after.distance_bytes, after.cause, ended - began))
    if len(spans) < _FEWEST_CHECKPOINTS:
        return Unknown("the log has too few whole checkpoints to compute a rate of WAL")
    by_wal = [span for span in spans if span[2] == "wal"]
    timed = [rate for rate, _, cause, _ in spans if cause == "time"]
    if not by_wal and timed:
        return max(timed)
    at_load = by_wal or spans
    found = _of_the_middle_byte([(rate, size) for rate, size, _, _ in at_load])
    load_s = sum(seconds for rate, _, _, seconds in at_load if rate >= found / 4)
    if load_s >= least_s:
        return found
    if timed:
        return max(timed)
    return Unknown(f"the log's checkpoints show {seconds_text(load_s)} of WAL at load, too short to tell a rate")


def _of_the_middle_byte(spans: list[tuple[float, int]]) -> float:
    """Return the rate above which half of the bytes were written, from the rate and the bytes of each span."""
    left = sum(size for _, size in spans) / 2
    for rate, size in sorted(spans, reverse=True):
        left -= size
        if left <= 0:
            return rate
    return 0.0


def _started(checkpoint: Checkpoint) -> float | None:
    at = seconds_of(checkpoint.at)
    return None if at is None or isinstance(checkpoint.total_s, Unknown) else at - checkpoint.total_s


def _counted(statistics: Statistics | Unknown) -> float | Unknown:
    return statistics if isinstance(statistics, Unknown) else statistics.wal_bytes_s


def _device_rate(
    devices: Sequence[DeviceActivity] | Unknown, inventory: Inventory, named: str | None
) -> tuple[float, str] | Unknown:
    if isinstance(devices, Unknown):
        return devices
    names = [named] if named is not None else wal_devices(inventory)
    if isinstance(names, Unknown):
        return names
    for name in names:
        for row in devices:
            if row.device == name.removeprefix("/dev/").removeprefix("mapper/") and not isinstance(
                row.write_kb_s, Unknown
            ):
                return row.write_kb_s * 1024, row.device
    return Unknown(f"none of the devices shown is the WAL's ({', '.join(names)}), --wal-device names it")


def wal_devices(inventory: Inventory) -> list[str] | Unknown:
    """Return the devices below the WAL alone, the mounted one first; unknown where it shares them with the data."""
    wal, data = inventory.host.place(Purpose.WAL), inventory.host.place(Purpose.DATA)
    if wal is None or isinstance(wal.stack, Unknown):
        return Unknown("the device of the WAL is not known; name it")
    others = () if data is None or isinstance(data.stack, Unknown) else data.stack
    own = [name for name in wal.stack if name not in others]
    return [each for name in own for each in _names(inventory, name)] or Unknown(
        "the WAL shares its device with the data, so that its writes cannot be told apart"
    )


def _names(inventory: Inventory, name: str) -> list[str]:
    """Return what iostat may call a device: the kernel's name, and with -N the one below /dev/mapper."""
    device = inventory.host.device(name)
    return [name] if device is None or not device.mapper else [name, device.mapper]
