"""Files of other tools as sample rows: what `sadf -j` and `iostat -x` recorded on another machine. Pure.

A column that the tool does not record stays empty: sar counts a device's reads and writes together and knows nothing of
the server; iostat knows devices and, without -d, CPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pgdyno.errors import UsageError
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.model.shapes import inner
from pgdyno.outside.documents import load_json
from pgdyno.probes.evidence.iostat import parse_iostat
from pgdyno.probes.evidence.sadf import BEYOND, all_cpus, kilobytes_of, number_of, rows_of

_STAMP = re.compile(r"^\s*(\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4})[T ]+(\d{1,2}:\d{2}:\d{2})\s*(AM|PM)?([+-]\d{4}|Z)?\s*$")
_DATES = ("%Y-%m-%d", "%m/%d/%Y", "%m/%d/%y", "%d.%m.%Y", "%Y/%m/%d")


@dataclass(frozen=True, slots=True)
class SampleFile:
    """What a file of another tool holds: the machine as it names itself, the rows, and what has to be known of them."""

    tool: str
    machine: str
    cpus: int | None
    rows: tuple[SampleRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def began_at(self) -> float:
        """Return when the first interval began, in seconds since the epoch (or since the file began)."""
        interval = next((row.values[self._place(row.table)] for row in self.rows if self._has(row.table)), 1.0)
        return min(row.t for row in self.rows) - (interval if isinstance(interval, float) else 1.0)

    @property
    def ended_at(self) -> float:
        """Return when the last interval ended."""
        return max(row.t for row in self.rows)

    def _has(self, table: str) -> bool:
        return "interval_s" in TABLES[table].column_names()

    def _place(self, table: str) -> int:
        return TABLES[table].column_names().index("interval_s") - 1


def read_sadf(text: str, *, source: str) -> SampleFile:
    """Return the first host of what `sadf -j FILE -- -A` prints. Raises UsageError when it is not that."""
    try:
        host = load_json(text)["sysstat"]["hosts"][0]
        records = [record for record in host["statistics"] if isinstance(record.get("timestamp"), dict)]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _not_of("sadf", source, "Make it with sadf -j /var/log/sysstat/saDD -- -A.") from None
    cpus = number_of(host, "number-of-cpus")
    rows = [row for record in records for row in _sadf_rows(record, cpus)]
    if not rows:
        raise _not_of("sadf", source, "It holds no record of CPUs, memory, devices or interfaces.")
    utc = all(record["timestamp"].get("utc") for record in records)
    notes = ["sar counts reads and writes of a device together: its waits are those of all requests."]
    if not utc:
        notes.append("The file's times are local times of that machine; they are kept as they stand.")
    name = " ".join(str(host.get(key, "")) for key in ("nodename", "sysname", "release", "machine")).strip()
    return SampleFile("sadf", name, None if cpus is None else int(cpus), tuple(rows), tuple(notes))


def read_iostat(text: str, *, source: str, interval_s: float | None = None) -> SampleFile:
    """Return the reports of `iostat -x`, without the first of several, which holds averages since boot.

    `interval_s` is the time between reports where they carry none (`iostat -t` prints it). Raises UsageError when there
    is no report in the text, or when neither the text nor `interval_s` tells their times.
    """
    reports = _iostat_reports(text)
    if not reports:
        raise _not_of("iostat", source, "Make it with iostat -x -t 1.")
    kept = reports[1:] if len(reports) > 1 else reports
    notes = ["The first report holds averages since boot and was left out."] if len(reports) > 1 else []
    stamps = [report.at for report in kept]
    known = [at for at in stamps if at is not None]
    if len(known) < len(stamps):
        every = interval_s or 1.0
        if interval_s is None and len(kept) > 1:
            raise UsageError(
                f'file "{source}" does not say when its reports were made',
                hint="Record with iostat -t, or give --interval SECONDS.",
            )
        notes.append(f"The reports carry no times: they are placed {every:g} s apart, from 0.")
        known = [every * (number + 1) for number in range(len(kept))]
    else:
        notes.append("The file's times are local times of that machine; they are kept as they stand.")
    rows: list[SampleRow] = []
    for number, report in enumerate(kept):
        before = known[number - 1] if number else (reports[0].at if len(reports) > 1 else None)
        span = interval_s or (known[number] - before if before is not None and known[number] > before else 1.0)
        rows += [_device_row(known[number], span, device) for device in report.devices]
        if report.cpu:
            rows.append(_row("cpu", known[number], interval_s=span, **report.cpu))
    machine = next((line.strip() for line in text.splitlines() if line.startswith("Linux ")), "")
    cpus = re.search(r"\((\d+) CPU\)", machine)
    return SampleFile("iostat", machine, int(cpus[1]) if cpus else None, tuple(rows), tuple(notes))


@dataclass(slots=True)
class _Report:
    at: float | None
    cpu: dict[str, SampleValue]
    devices: tuple[DeviceActivity, ...] = ()


def _iostat_reports(text: str) -> list[_Report]:
    reports: list[_Report] = []
    lines, at, cpu = text.splitlines(), None, {}
    for number, line in enumerate(lines):
        stamp = _STAMP.match(line)
        words = line.replace(",", ".").split()
        if stamp is not None:
            at = _epoch(stamp)
        elif words[:1] == ["avg-cpu:"]:
            cpu = _iostat_cpu(words[1:], lines[number + 1 : number + 2])
        elif words and words[0].rstrip(":").lower() == "device":
            end = next((n for n in range(number + 1, len(lines)) if not lines[n].strip()), len(lines))
            found = parse_iostat("\n".join(lines[number:end]), skips_first=False)
            if found:
                reports.append(_Report(at, cpu, found[0]))
            at, cpu = None, {}
    return reports


def _iostat_cpu(names: Sequence[str], following: Sequence[str]) -> dict[str, SampleValue]:
    cells = following[0].replace(",", ".").split() if following else []
    values = {name: _float(cell) for name, cell in zip(names, cells, strict=False)}
    user, nice = values.get("%user"), values.get("%nice")
    kept: dict[str, SampleValue] = {
        "usr_pct": None if user is None else user + (nice or 0.0),
        "sys_pct": values.get("%system"),
        "iowait_pct": values.get("%iowait"),
        "steal_pct": values.get("%steal"),
        "idle_pct": values.get("%idle"),
    }
    return kept if user is not None else {}


def _device_row(t: float, span: float, device: DeviceActivity) -> SampleRow:
    return _row(
        "disk",
        t,
        interval_s=span,
        device=device.device,
        r_per_s=_known(device.reads_s),
        w_per_s=_known(device.writes_s),
        rkb_per_s=_known(device.read_kb_s),
        wkb_per_s=_known(device.write_kb_s),
        r_await_ms=_known(device.read_await_ms),
        w_await_ms=_known(device.write_await_ms),
        rareq_kb=_known(device.read_request_kb),
        wareq_kb=_known(device.write_request_kb),
        aqu_sz=_known(device.queue),
        util_pct=_known(device.util_pct),
    )


def _sadf_rows(record: Mapping[str, object], cpus: float | None) -> Iterable[SampleRow]:
    stamp = inner(record, "timestamp")
    span = number_of(stamp, "interval") or 1.0
    try:
        t = datetime.fromisoformat(f"{stamp.get('date')}T{stamp.get('time')}+00:00").timestamp()
    except ValueError:
        return
    total = all_cpus(record)
    switches, queue = inner(record, "process-and-context-switch"), inner(record, "queue")
    if total:
        yield _row(
            "cpu",
            t,
            interval_s=span,
            cpus=None if cpus is None else int(cpus),
            usr_pct=_sum(number_of(total, "usr", "user"), number_of(total, "nice")),
            sys_pct=number_of(total, "sys", "system"),
            irq_pct=_sum(number_of(total, "irq"), number_of(total, "soft")),
            iowait_pct=number_of(total, "iowait"),
            steal_pct=number_of(total, "steal"),
            idle_pct=number_of(total, "idle"),
            run_queue=_whole(number_of(queue, "runq-sz")),
            blocked=_whole(number_of(queue, "blocked")),
            context_switches_per_s=number_of(switches, "cswch"),
            forks_per_s=number_of(switches, "proc"),
        )
    memory = inner(record, "memory")
    if memory:
        sizes = {name: _kilobytes(memory, key) for name, key in _MEMORY.items()}
        yield _row("memory", t, interval_s=span, **sizes)
    for disk in rows_of(record, "disk"):
        read, write = kilobytes_of(disk, "rkB", "rd_sec"), kilobytes_of(disk, "wkB", "wr_sec")
        values = {"rkb_per_s": read, "wkb_per_s": write, "aqu_sz": number_of(disk, "aqu-sz", "avgqu-sz")}
        name = str(disk.get("disk-device", "?"))
        yield _row("disk", t, interval_s=span, device=name, util_pct=number_of(disk, "util-percent"), **values)
    for interface in rows_of(inner(record, "network"), "net-dev"):
        values = {
            "rx_kb_per_s": number_of(interface, "rxkB"),
            "tx_kb_per_s": number_of(interface, "txkB"),
            "rx_packets_per_s": number_of(interface, "rxpck"),
            "tx_packets_per_s": number_of(interface, "txpck"),
        }
        if any(values.values()):
            yield _row("net", t, interval_s=span, interface=str(interface.get("iface", "?")), **values)


_MEMORY = {
    "free_bytes": "memfree",
    "available_bytes": "avail",
    "cached_bytes": "cached",
    "buffers_bytes": "buffers",
    "anonymous_bytes": "anonpg",
    "page_tables_bytes": "pgtbl",
    "dirty_bytes": "dirty",
    "swap_used_bytes": "swpused",
}


def _row(table: str, t: float, **values: SampleValue) -> SampleRow:
    return SampleRow(table, t, tuple(values.get(column.name) for column in TABLES[table].columns))


def _kilobytes(row: Mapping[str, object], name: str) -> int | None:
    value = number_of(row, name)
    return None if value is None else int(value * 1024)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _sum(first: float | None, second: float | None) -> float | None:
    return first if second is None else second if first is None else first + second


def _known(value: float | Unknown) -> float | None:
    return None if isinstance(value, Unknown) else value


def _float(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 <= value < BEYOND else None


def _epoch(stamp: re.Match[str]) -> float | None:
    date, clock, half, _zone = stamp.groups()
    for form in _DATES:
        try:
            text, pattern = (
                f"{date} {clock}{f' {half}' if half else ''}",
                f"{form} {'%I:%M:%S %p' if half else '%H:%M:%S'}",
            )
            return datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


def _not_of(tool: str, source: str, hint: str) -> UsageError:
    return UsageError(f'file "{source}" is not what {tool} prints', hint=hint)
