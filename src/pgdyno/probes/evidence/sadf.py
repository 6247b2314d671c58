"""The JSON that `sadf -j FILE -- -A` prints: the host's activity and its devices, of any machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pgdyno.model.evidence import DeviceActivity, HostActivity, Window
from pgdyno.model.facts import Unknown
from pgdyno.outside.documents import load_json
from pgdyno.probes.evidence.host_activity import UPPER, Burst, burst
from pgdyno.probes.evidence.iostat import mean_devices

_ABSENT = Unknown("sadf did not print it")
_LONGEST_FOR_BURSTS = 5.0
_SECTOR_KB = 0.5
_BEYOND = 1e15
"""No machine counts so much of anything in an interval."""


def parse_sadf(text: str, page_size: int | Unknown) -> tuple[HostActivity, tuple[DeviceActivity, ...]] | Unknown:
    """Return what the first host of the file did, averaged over its records; unknown when it is no JSON of sadf.

    `page_size` is that machine's in bytes: sadf counts swapped pages. A record or column that is missing costs itself.
    """
    records = _records(text)
    if isinstance(records, Unknown):
        return records
    spans = [_number(record.get("timestamp", {}), "interval") for record in records]
    lengths = [float(span) for span in spans if not isinstance(span, Unknown) and span > 0]
    if not lengths:
        return Unknown("no record of sadf tells the time that it holds for")
    every = sum(lengths) / len(lengths)
    cpu = [_all_cpus(record) for record in records]
    swap = [record.get("swap-pages", {}) for record in records]
    activity = HostActivity(
        window=Window(sum(lengths), "a sadf file", _began(records[0])),
        usr_pct=_sum(_mean(cpu, "usr", "user"), _mean(cpu, "nice")),
        sys_pct=_mean(cpu, "sys", "system"),
        iowait_pct=_mean(cpu, "iowait"),
        steal_pct=_mean(cpu, "steal"),
        idle_pct=_mean(cpu, "idle"),
        run_queue=_mean([record.get("queue", {}) for record in records], "runq-sz"),
        context_switches_s=_mean([record.get("process-and-context-switch", {}) for record in records], "cswch"),
        swap_in_bytes_s=_pages(_mean(swap, "pswpin"), page_size),
        swap_out_bytes_s=_pages(_mean(swap, "pswpout"), page_size),
        oom_kills=Unknown("sadf does not record it"),
        **_bursts(records, every),
        network_utilization=_network(records),
    )
    return activity, mean_devices([_devices(record) for record in records])


def _records(text: str) -> list[dict[str, Any]] | Unknown:
    try:
        document = load_json(text)
        found = document["sysstat"]["hosts"][0]["statistics"]
    except (ValueError, LookupError, TypeError):
        return Unknown("the file is not what sadf -j prints")
    records = [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []
    usable = [_clean(record) for record in records if isinstance(record.get("timestamp"), dict)]
    return usable or Unknown("the file of sadf holds no record")


def _clean(record: dict[str, Any]) -> dict[str, Any]:
    """Keep only parts of the shape that is expected, so that nothing below has to look twice."""
    mappings = ("timestamp", "queue", "process-and-context-switch", "swap-pages", "io", "network")
    lists = ("cpu-load", "cpu-load-all", "disk")
    kept: dict[str, Any] = {name: record[name] for name in mappings if isinstance(record.get(name), dict)}
    for name in lists:
        if isinstance(record.get(name), list):
            kept[name] = [row for row in record[name] if isinstance(row, dict)]
    return kept


def _all_cpus(record: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = record.get("cpu-load") or record.get("cpu-load-all") or []
    return next((row for row in rows if row.get("cpu") == "all"), {})


def _devices(record: Mapping[str, Any]) -> list[DeviceActivity]:
    apart = Unknown("sar counts reads and writes of a device together")
    return [
        DeviceActivity(
            device=str(row.get("disk-device", "?")),
            reads_s=apart,
            writes_s=apart,
            read_kb_s=_kilobytes(row, "rkB", "rd_sec"),
            write_kb_s=_kilobytes(row, "wkB", "wr_sec"),
            read_await_ms=apart,
            write_await_ms=apart,
            queue=_first(row, "aqu-sz", "avgqu-sz"),
            read_request_kb=apart,
            write_request_kb=apart,
            service_ms=_first(row, "svctm"),
            util_pct=_first(row, "util-percent"),
        )
        for row in record.get("disk", ())
    ]


def _kilobytes(row: Mapping[str, Any], name: str, sectors: str) -> float | Unknown:
    direct = _number(row, name)
    if not isinstance(direct, Unknown):
        return direct
    old = _number(row, sectors)
    return old if isinstance(old, Unknown) else old * _SECTOR_KB


def _bursts(records: Sequence[Mapping[str, Any]], every: float) -> dict[str, float | Unknown]:
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


def _written(record: Mapping[str, Any]) -> float | None:
    rows = [row for row in record.get("disk", ()) if not str(row.get("disk-device", "")).startswith(UPPER)]
    values = [_kilobytes(row, "wkB", "wr_sec") for row in rows or record.get("disk", ())]
    known = [value for value in values if not isinstance(value, Unknown)]
    return sum(known) if known else None


def _network(records: Iterable[Mapping[str, Any]]) -> float | Unknown:
    """Return the mean of the busiest interface's %ifutil; sysstat writes 0 where the speed is not known."""
    by_name: dict[str, list[float]] = {}
    for record in records:
        rows = record.get("network", {}).get("net-dev", ())
        for row in rows if isinstance(rows, list) else ():
            value = _number(row, "ifutil-percent") if isinstance(row, dict) else _ABSENT
            if not isinstance(value, Unknown):
                by_name.setdefault(str(row.get("iface")), []).append(value)
    means = [sum(values) / len(values) for values in by_name.values()]
    return max(means) / 100 if means and max(means) > 0 else Unknown("sadf shows no interface's speed")


def _mean(rows: Iterable[Mapping[str, Any]], *names: str) -> float | Unknown:
    values = [_first(row, *names) for row in rows]
    known = [value for value in values if not isinstance(value, Unknown)]
    return sum(known) / len(known) if known else _ABSENT


def _first(row: Mapping[str, Any], *names: str) -> float | Unknown:
    return next((value for value in (_number(row, name) for name in names) if not isinstance(value, Unknown)), _ABSENT)


def _number(row: Mapping[str, Any], name: str) -> float | Unknown:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _BEYOND:
        return _ABSENT
    return float(value)


def _sum(first: float | Unknown, second: float | Unknown) -> float | Unknown:
    if isinstance(first, Unknown):
        return first
    return first if isinstance(second, Unknown) else first + second


def _pages(rate: float | Unknown, page_size: int | Unknown) -> float | Unknown:
    if isinstance(rate, Unknown) or rate == 0:
        return rate
    return rate * page_size if isinstance(page_size, int) else Unknown("the page size of that machine is unknown")


def _began(record: Mapping[str, Any]) -> str:
    stamp = record.get("timestamp", {})
    try:
        return datetime.fromisoformat(f"{stamp.get('date')}T{stamp.get('time')}").isoformat()
    except ValueError:
        return ""
