"""The page of samples that others recorded: what the machine did is drawn, at the pace of the readings."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.probes.evidence.sample_files import read_sadf
from pgdyno.report.sections import Prose, Strips
from pgdyno.report.traces import usual_spacing_s
from pgdyno.store.catalogue import Store
from pgdyno.studies.imported.samples import import_samples, named
from pgdyno.studies.reports import build_report

SADF = (Path(__file__).parents[2] / "data" / "iostat" / "sadf_A.json").read_text()
MINUTES, HOLE = 10, range(20, 26)


def a_day() -> str:
    """Return a day as sar records it by default: a reading each ten minutes, an hour of which is missing."""
    document = json.loads(SADF)
    host = document["sysstat"]["hosts"][0]
    first = host["statistics"][0]
    host["statistics"] = []
    for number in range(144):
        at = datetime(2026, 3, 12) + timedelta(minutes=MINUTES * number)
        stamp = {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M:%S}", "utc": 1, "interval": 60 * MINUTES}
        if number not in HOLE:
            host["statistics"].append({**first, "timestamp": stamp})
    return json.dumps(document)


@pytest.mark.requirement("R-MON-12")
def test_a_day_of_sar_is_drawn_without_a_line_over_its_hole(tmp_path: Path) -> None:
    files = [(f"sa{number}.json", a_day()) for number in (11, 12, 13)]
    with Store.open(tmp_path / "s.db") as store:
        read = [named(name, text, read_sadf(text, source=name)) for name, text in files]
        study = import_samples(store, read).study
        report = build_report(store, study)
    (flight,) = [section for section in report.sections if section.title == "Flight recorder"]
    (said,) = [block for block in flight.blocks if isinstance(block, Prose)]
    assert "each point over 10:00 min" in said.sentences[0]
    assert "warm-up" not in said.sentences[0], "there was none"
    (strips,) = [block for block in flight.blocks if isinstance(block, Strips)]
    assert [column.partition(",")[0] for column in strips.columns] == ["sa11.json", "sa12.json"]
    cpu = strips.rows[0][0]
    assert cpu is not None
    usr = next(one for one in cpu.series if one.name == "usr")
    assert len([height for height in usr.y if height is not None]) == 144 - len(HOLE)
    assert usr.y.count(None) == 1, "one gap, and not one between all readings"


@pytest.mark.parametrize(
    ("times", "spacing"), [((), 1), ((5.0,), 1), ((0.0, 1.01, 2.0), 1), ((0.0, 600.0, 1200.0, 7200.0), 600)]
)
def test_readings_are_usually_as_far_apart_as_most_of_them(times: tuple[float, ...], spacing: int) -> None:
    assert usual_spacing_s({"cpu": {"t": times}, "waits": {}}) == spacing
