"""Every kind of chart of the sources is drawn from their rows, and its colours can be seen on either page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import study_example as example
from pgdyno.report.drawing import html, text_charts
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report
from seed_charts import batch_windows, delays, locks, scaling

STATIC = Path(html.__file__).parents[1] / "static"
LEAST_CONTRAST = 3.0
"""What WCAG 2 asks of graphics; text has more."""


@pytest.mark.requirement("R-REP-02")
def test_the_scaling_curve_and_the_locks_of_the_source_are_curves() -> None:
    drawn = text_charts.framed_chart(scaling(), 110)
    assert scaling().title == "Tuned throughput is highest at 224 connections"
    assert "● default   ○ tuned   ╎ best" in drawn[-1]
    assert [word for word in drawn[-2].split() if word.isdecimal()] == ["112", "224", "448"]
    assert locks().title == "Row Exclusive locks grow 4.9 times from 112 to 448 connections"
    assert text_charts.framed_chart(locks(), 110)[0].strip() == "locks held, count"


@pytest.mark.requirement("R-REP-02")
def test_batch_windows_and_delays_are_bars() -> None:
    widths = [line.count("█") for line in text_charts.bars(batch_windows(), 110)]
    assert widths[0] / widths[1] == pytest.approx(54 / 40, rel=0.05)
    assert widths[2] > widths[0] > widths[1]
    lines = text_charts.bars(delays(), 110)
    assert [line.split("  ")[-1].strip() for line in lines] == ["97.00 %", "2.32 %", "0.68 %"]


@pytest.mark.requirement("R-REP-02")
def test_throughput_latency_and_resources_are_strips_of_both_runs(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        found = {figure.id.rpartition("-")[0] for figure in build_report(store, example.add_tune(store)).figures()}
    assert {"throughput", "latency", "cpu", "waits", "blocks", "wal", "disk"} <= found


def palette() -> dict[bool, dict[str, str]]:
    light, dark = (STATIC / "report.css").read_text("utf-8").split("@media (prefers-color-scheme: dark)")[:2]
    return {
        False: dict(re.findall(r"--([\w-]+): (#\w{6})", light)),
        True: dict(re.findall(r"--([\w-]+): (#\w{6})", dark)),
    }


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_curves_and_bars_stand_out_from_the_page(dark: bool) -> None:
    script = (STATIC / "figures" / "look.js").read_text("utf-8")
    curves = re.search(r"const CURVES = \[(.*?)\]", script)
    bars = re.search(r"keep: (\d), drop: (\d), null: (\d)", script)
    assert curves is not None
    assert bars is not None
    keys = [key.strip().strip('"') for key in curves[1].split(",")[:6]] + list(bars.groups())
    colours = palette()[dark]
    found = {key: contrast(colours[f"c{key}" if key.isdecimal() else key], colours["page"]) for key in keys}
    assert {key: round(value, 2) for key, value in found.items() if value < LEAST_CONTRAST} == {}
    assert contrast(colours["muted"], colours["page"]) >= 4.5, "labels of axes are text"
