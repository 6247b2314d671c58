"""The page of two iostat reports: what each device carried before and after, and how long requests waited. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno import __version__
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.figure import Table
from pgdyno.probes.evidence.iostat import DeviceTotals, IostatComparison
from pgdyno.report.sections import Block, Notice, Prose, Report, Section, TableBlock, Tone
from pgdyno.report.wording import capital
from pgdyno.stats.ratios import RatioChange, rounded
from pgdyno.units import plural

_WAITING = 100.0
_COLUMNS = ("device", "requests/s", "kB/s", "share of kB/s", "read wait ms", "write wait ms", "queue", "%util")
Devices = Sequence[DeviceActivity]


def iostat_page(before: Devices, after: Devices, comparison: IostatComparison) -> Report:
    """Return the report of two sets of devices and their comparison."""
    sentences = change_sentences(comparison)
    answer: tuple[Block, ...] = (
        Prose((*sentences, *new_device_sentences(before, comparison)), points=True),
        *util_notice(before, after),
    )
    tables = tuple(
        TableBlock(_table(rows, totals), f"{word}:")
        for word, rows, totals in (("Before", before, comparison.before), ("After", after, comparison.after))
    )
    method = Prose(
        (
            "Waits are means over requests, so that a busy device weighs more. An unknown rate counts as none. "
            "Stacked devices count twice: choose one layer with --device.",
            "Two reports from different times prove no effect: whatever else changed between them is in the figures.",
        ),
        points=True,
    )
    return Report(
        study="iostat",
        kind="comparison",
        title=capital(sentences[0].rstrip(".")) if sentences else "Nothing that both reports have can be compared",
        word="",
        tone=Tone.NEUTRAL,
        lead=f"{plural(len(before), 'device')} before, {plural(len(after), 'device')} after",
        stamp="extended device reports of iostat",
        sections=(
            Section("answer", "Answer", "What changed?", answer),
            Section("devices", "Devices", "What did each device carry?", tables),
            Section("method", "Method", "What do the figures mean?", (method,)),
        ),
        provenance={"written by": f"pgdyno {__version__}"},
        label="iostat before and after",
    )


def change_sentences(comparison: IostatComparison) -> tuple[str, ...]:
    """Say what became of waits, requests, bytes and queue; what is not known of both is left out."""
    was, now = comparison.before, comparison.after
    told = (
        ("mean write wait", was.write_await_ms, now.write_await_ms, " ms", 2),
        ("mean read wait", was.read_await_ms, now.read_await_ms, " ms", 2),
        ("requests", was.requests_s, now.requests_s, "/s", 1),
        ("data", was.kb_s, now.kb_s, " kB/s", 1),
        ("queue", was.queue, now.queue, "", 1),
    )
    return tuple(
        f"{capital(name)} {rounded(left, digits)}{unit} before, {rounded(right, digits)}{unit} after: "
        f"{RatioChange(left, right).text(1)}."
        for name, left, right, unit, digits in told
        if not isinstance(left, Unknown) and not isinstance(right, Unknown) and left > 0
    )


def new_device_sentences(before: Devices, comparison: IostatComparison) -> tuple[str, ...]:
    """Say how much of the data each device carries that was not there before."""
    known = {row.device for row in before}
    return tuple(
        f"{device}, new afterwards, carries {rounded(100 * share, 1)} % of the data."
        for device, share in comparison.shares.items()
        if device not in known
    )


def util_notice(before: Devices, after: Devices) -> tuple[Block, ...]:
    """Say what %util of 100 does not show; nothing where no device has it."""
    busy = [
        word
        for word, rows in (("before", before), ("after", after))
        if any(isinstance(row.util_pct, float) and row.util_pct >= _WAITING for row in rows)
    ]
    if not busy:
        return ()
    return (
        Notice(
            (
                f"%util is 100 % {' and '.join(busy)}. It means that some request was always in progress, which a "
                "volume of many disks, or an SSD, can sustain with room to spare: it does not prove saturation. Look "
                "at waits and queue.",
            )
        ),
    )


def _table(rows: Devices, totals: DeviceTotals) -> Table:
    cells = [
        (
            row.device,
            _sum(row.reads_s, row.writes_s),
            _sum(row.read_kb_s, row.write_kb_s),
            _share(row, totals),
            *(_figure(value) for value in (row.read_await_ms, row.write_await_ms, row.queue, row.util_pct)),
        )
        for row in rows
    ]
    whole = (
        "all",
        rounded(totals.requests_s, 1),
        rounded(totals.kb_s, 1),
        "",
        *(_figure(value) for value in (totals.read_await_ms, totals.write_await_ms, totals.queue)),
        "",
    )
    return Table(_COLUMNS, (*cells, whole), _COLUMNS[1:])


def _sum(*values: float | Unknown) -> str:
    known = [value for value in values if not isinstance(value, Unknown)]
    return rounded(sum(known), 1) if known else "unknown"


def _share(row: DeviceActivity, totals: DeviceTotals) -> str:
    known = [value for value in (row.read_kb_s, row.write_kb_s) if not isinstance(value, Unknown)]
    return f"{rounded(100 * sum(known) / totals.kb_s, 1)} %" if known and totals.kb_s else "unknown"


def _figure(value: float | Unknown) -> str:
    return "unknown" if isinstance(value, Unknown) else rounded(value)
