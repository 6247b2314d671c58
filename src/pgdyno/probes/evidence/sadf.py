"""The JSON that `sadf -j FILE -- -A` prints: the host's activity and its devices, of any machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pgdyno.model.evidence import DeviceActivity, HostActivity, Window
from pgdyno.model.facts import Unknown
from pgdyno.model.shapes import inner
from pgdyno.outside.documents import load_json
from pgdyno.probes.evidence.host_activity import UPPER, Burst, burst
from pgdyno.probes.evidence.iostat import mean_devices

_ABSENT = Unknown("sadf did not print it")
_LONGEST_FOR_BURSTS = 5.0
_SECTOR_KB = 0.5
BEYOND = 1e15
"""No machine counts so much of anything in an interval."""


def parse_sadf(text: str, page_size: int | Unknown) -> tuple[HostActivity, tuple[DeviceActivity, ...]] | Unknown:
    """Return what the first host of the file did, averaged over its records; unknown when it is no JSON of sadf.

    `page_size` is that machine's in bytes: sadf counts swapped pages. A record or column that is missing costs itself.
    """
    records = _records(text)
    if isinstance(records, Unknown):
        return records
    spans = [number_of(inner(record, "timestamp"), "interval") for record in records]
    lengths = [span for span in spans if span]
    if not lengths:
        return Unknown("no record of sadf tells the time that it holds for")
    every = sum(lengths) / len(lengths)
    cpu = [all_cpus(record) for record in records]
    swap = [inner(record, "swap-pages") for record in records]
    activity = HostActivity(
        window=Window(sum(lengths), "a sadf file", _began(records[0])),
        usr_pct=_sum(_mean(cpu, "usr", "user"), _mean(cpu, "nice")),
        sys_pct=_mean(cpu, "sys", "system"),
        iowait_pct=_mean(cpu, "iowait"),
        steal_pct=_mean(cpu, "steal"),
        idle_pct=_mean(cpu, "idle"),
        run_queue=_mean([inner(record, "queue") for record in records], "runq-sz"),
        swap_in_bytes_s=_pages(_mean(swap, "pswpin"), page_size),
        swap_out_bytes_s=_pages(_mean(swap, "pswpout"), page_size),
        oom_kills=Unknown("sadf does not record it"),
        **_bursts(records, every),
        network_utilization=_network(records),
    )
    return activity, mean_devices([_devices(record) for record in records])


def _records(text: str) -> list[Mapping[str, object]] | Unknown:
    try:
        found = load_json(text)["sysstat"]["hosts"][0]["statistics"]
    except (ValueError, LookupError, TypeError):
        return Unknown("the file is not what sadf -j prints")
    records = found if isinstance(found, list) else []
    usable: list[Mapping[str, object]] = [
        record for record in records if isinstance(record, dict) and isinstance(record.get("timestamp"), dict)
    ]
    return usable or Unknown("the file of sadf holds no record")


def all_cpus(record: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a record says of all CPUs together; an empty mapping where it says nothing."""
    rows = rows_of(record, "cpu-load") or rows_of(record, "cpu-load-all")
    return next((row for row in rows if row.get("cpu") == "all"), {})


def _devices(record: Mapping[str, object]) -> list[DeviceActivity]:
    apart = Unknown("sar counts reads and writes of a device together")
    return [
        DeviceActivity(
            device=str(row.get("disk-device", "?")),
            reads_s=apart,
            writes_s=apart,
            read_kb_s=_told(kilobytes_of(row, "rkB", "rd_sec")),
            write_kb_s=_told(kilobytes_of(row, "wkB", "wr_sec")),
            read_await_ms=apart,
            write_await_ms=apart,
            queue=_told(number_of(row, "aqu-sz", "avgqu-sz")),
            read_request_kb=apart,
            write_request_kb=apart,
            service_ms=_told(number_of(row, "svctm")),
            util_pct=_told(number_of(row, "util-percent")),
        )
        for row in rows_of(record, "disk")
    ]


def kilobytes_of(row: Mapping[str, object], name: str, sectors: str) -> float | None:
    """Return a rate in kB/s, of older versions from `sectors`; None where neither is there."""
    direct, old = number_of(row, name), number_of(row, sectors)
    return direct if direct is not None or old is None else old * _SECTOR_KB


def _bursts(records: Sequence[Mapping[str, object]], every: float) -> dict[str, float | Unknown]:
    if every > _LONGEST_FOR_BURSTS:
        reason = Unknown(f"the records of sadf are {every:.0f} s apart, too far to see bursts")
        found = Burst(reason, reason, reason)
    else:
        found = burst([value for value in map(_written, records) if value is not None])
    return {
        "write_peak_to_mean": found.peak_to_mean,
        "write_variation": found.variation,
        "write_idle_share": found.idle_share,
    }


def _written(record: Mapping[str, object]) -> float | None:
    disks = rows_of(record, "disk")
    rows = [row for row in disks if not str(row.get("disk-device", "")).startswith(UPPER)]
    known = [value for row in rows or disks if (value := kilobytes_of(row, "wkB", "wr_sec")) is not None]
    return sum(known) if known else None


def _network(records: Iterable[Mapping[str, object]]) -> float | Unknown:
    """Return the mean of the busiest interface's %ifutil; sysstat writes 0 where the speed is not known."""
    by_name: dict[str, list[float]] = {}
    for record in records:
        for row in rows_of(inner(record, "network"), "net-dev"):
            if (value := number_of(row, "ifutil-percent")) is not None:
                by_name.setdefault(str(row.get("iface")), []).append(value)
    means = [sum(values) / len(values) for values in by_name.values()]
    return max(means) / 100 if means and max(means) > 0 else Unknown("sadf shows no interface's speed")


def _mean(rows: Iterable[Mapping[str, object]], *names: str) -> float | Unknown:
    known = [value for row in rows if (value := number_of(row, *names)) is not None]
    return sum(known) / len(known) if known else _ABSENT


def _told(value: float | None) -> float | Unknown:
    return _ABSENT if value is None else value


def number_of(row: Mapping[str, object], *names: str) -> float | None:
    """Return the first of these members that is a number which a machine can count; None without one."""
    for name in names:
        value = row.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < BEYOND:
            return float(value)
    return None


def rows_of(record: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """Return the objects of a list below a name; none where there is no list."""
    value = record.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _sum(first: float | Unknown, second: float | Unknown) -> float | Unknown:
    if isinstance(first, Unknown):
        return first
    return first if isinstance(second, Unknown) else first + second


def _pages(rate: float | Unknown, page_size: int | Unknown) -> float | Unknown:
    if isinstance(rate, Unknown) or rate == 0:
        return rate
    return rate * page_size if isinstance(page_size, int) else Unknown("the page size of that machine is unknown")


def _began(record: Mapping[str, object]) -> str:
    stamp = inner(record, "timestamp")
    try:
        return datetime.fromisoformat(f"{stamp.get('date')}T{stamp.get('time')}").isoformat()
    except ValueError:
        return ""
