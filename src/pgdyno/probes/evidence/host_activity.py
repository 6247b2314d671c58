"""Readings of /proc over a window, as `HostActivity` and as rows of iostat. Pure over what the probes parsed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from pgdyno.model.evidence import SAMPLED, DeviceActivity, HostActivity, Window
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.model.sample_tables import named
from pgdyno.model.samples import SampleValue
from pgdyno.probes.host.reading import HostCounters, rows
from pgdyno.units import rate_text

UPPER = ("dm-", "md", "loop", "zram", "ram", "sr", "drbd", "nbd")
"""Devices that lie on others, or in memory: their kB are counted where they arrive."""
_NO_READING = Unknown("the host's counters were not read twice")
FEWEST = 5
"""Fewer values than this tell nothing about bursts."""
LEAST_KB_S = 64.0
"""On average; a host that does nothing writes a few pages now and then."""


def host_activity(readings: Sequence[HostCounters], inventory: Inventory) -> HostActivity | Unknown:
    """Return what the host did between the first reading and the last; bursts come from all of them."""
    if len(readings) < 2 or readings[-1].t <= readings[0].t:
        return _NO_READING
    first, last = readings[0], readings[-1]
    window = Window(last.t - first.t, SAMPLED, datetime.fromtimestamp(first.t, UTC).isoformat(timespec="seconds"))
    whole = rows(first, last)
    cpu = next((named(row) for row in whole if row.table == "cpu"), None)
    queues = [reading.cpu.run_queue for reading in readings[1:] if reading.cpu is not None]
    written = [_written_kb(before, after) for before, after in pairwise(readings)]
    bursts = burst([value for value in written if value is not None])
    return HostActivity(
        window=window,
        usr_pct=_value(cpu, "usr_pct", last),
        sys_pct=_value(cpu, "sys_pct", last),
        iowait_pct=_value(cpu, "iowait_pct", last),
        steal_pct=_value(cpu, "steal_pct", last),
        idle_pct=_value(cpu, "idle_pct", last),
        run_queue=sum(queues) / len(queues) if queues else Unknown(last.failures.get("cpu", "it was not read")),
        swap_in_bytes_s=_swap(first, last, "pswpin"),
        swap_out_bytes_s=_swap(first, last, "pswpout"),
        oom_kills=_kills(first, last),
        write_peak_to_mean=bursts.peak_to_mean,
        write_variation=bursts.variation,
        write_idle_share=bursts.idle_share,
        network_utilization=_network(first, last, inventory),
    )


def device_activity(readings: Sequence[HostCounters]) -> tuple[DeviceActivity, ...] | Unknown:
    """Return the devices' rows over the window, in the columns of iostat."""
    if len(readings) < 2 or readings[-1].t <= readings[0].t:
        return _NO_READING
    found = [_device(named(row)) for row in rows(readings[0], readings[-1]) if row.table == "disk"]
    if not found and readings[-1].disks is None:
        return Unknown(f"/proc/diskstats could not be read: {readings[-1].failures.get('disk', 'no reason given')}")
    return tuple(found)


def _device(values: Mapping[str, SampleValue]) -> DeviceActivity:
    idle = Unknown("no such request was made in the window")

    def number(name: str) -> float | Unknown:
        value = values.get(name)
        return float(value) if isinstance(value, int | float) else idle

    return DeviceActivity(
        device=str(values["device"]),
        reads_s=number("r_per_s"),
        writes_s=number("w_per_s"),
        read_kb_s=number("rkb_per_s"),
        write_kb_s=number("wkb_per_s"),
        read_await_ms=number("r_await_ms"),
        write_await_ms=number("w_await_ms"),
        queue=number("aqu_sz"),
        read_request_kb=number("rareq_kb"),
        write_request_kb=number("wareq_kb"),
        service_ms=Unknown("the kernel does not measure it; newer versions of iostat have left it out"),
        util_pct=number("util_pct"),
    )


def _written_kb(before: HostCounters, after: HostCounters) -> float | None:
    """Return kB written per second to the devices at the bottom."""
    if before.disks is None or after.disks is None or after.t <= before.t:
        return None
    names = [name for name in after.disks if name in before.disks]
    bottom = [name for name in names if not name.startswith(UPPER)] or names
    kb = sum(after.disks[name].writes.kb - before.disks[name].writes.kb for name in bottom)
    return max(0.0, kb) / (after.t - before.t)


def _value(row: Mapping[str, SampleValue] | None, name: str, last: HostCounters) -> float | Unknown:
    value = None if row is None else row.get(name)
    return float(value) if isinstance(value, int | float) else Unknown(last.failures.get("cpu", "it was not read"))


def _swap(first: HostCounters, last: HostCounters, name: str) -> float | Unknown:
    if first.vmstat is None or last.vmstat is None or name not in first.vmstat or name not in last.vmstat:
        return Unknown(last.failures.get("memory", f"/proc/vmstat has no {name}"))
    return (last.vmstat[name] - first.vmstat[name]) * last.page_size / (last.t - first.t)


def _kills(first: HostCounters, last: HostCounters) -> int | Unknown:
    if first.vmstat is None or last.vmstat is None or "oom_kill" not in last.vmstat:
        return Unknown("/proc/vmstat has no oom_kill; kernels have it since 4.13")
    return last.vmstat["oom_kill"] - first.vmstat.get("oom_kill", 0)


def _network(first: HostCounters, last: HostCounters, inventory: Inventory) -> float | Unknown:
    """Return the busiest interface's share of its speed, the busier direction."""
    interfaces = inventory.host.network
    if isinstance(interfaces, Unknown):
        return Unknown(f"the speed of the interfaces is unknown: {interfaces.reason}")
    speeds = {each.name: each.speed_mbit for each in interfaces if isinstance(each.speed_mbit, int)}
    shares = []
    for row in rows(first, last):
        if row.table != "net":
            continue
        values = named(row)
        speed = speeds.get(str(values.get("interface")))
        kilobytes = [value for name, value in values.items() if re.fullmatch(r"[rt]x_kb_per_s", name)]
        known = [float(value) for value in kilobytes if isinstance(value, int | float)]
        if speed and speed > 0 and known:
            shares.append(max(known) * 1024 * 8 / (speed * 1e6))
    return max(shares) if shares else Unknown("no interface tells its speed")


@dataclass(frozen=True, slots=True)
class Burst:
    """The figures of a series of rates, one a second."""

    peak_to_mean: float | Unknown
    variation: float | Unknown
    idle_share: float | Unknown


def burst(series: Sequence[float]) -> Burst:
    """Return the burst figures of a series; the coefficient of variation is the standard deviation over the mean."""
    if len(series) < FEWEST:
        few = Unknown(f"{len(series)} readings are too few to see bursts; --window 10 makes enough")
        return Burst(few, few, few)
    mean = math.fsum(series) / len(series)
    idle = sum(value <= 0 for value in series) / len(series)
    if 0 < mean < LEAST_KB_S:
        little = Unknown(f"{rate_text(mean)} kB/s were written, too little to tell bursts from an idle host")
        return Burst(little, little, idle)
    if mean <= 0:
        nothing = Unknown("nothing was written in the window")
        return Burst(nothing, nothing, idle)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in series) / len(series))
    return Burst(max(series) / mean, deviation / mean, idle)
