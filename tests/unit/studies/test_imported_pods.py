"""A matrix out of what pods printed: sums, partial rows, repetitions, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pgdyno.errors import UsageError
from pgdyno.fleet.pod_log import read_pod
from pgdyno.model.shapes import plain
from pgdyno.report.drawing import markdown
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.imported_pods import import_pods
from pgdyno.studies.reports import build_report
from pod_example import CELL, pod_text


def imported(tmp_path: Path, *texts: str) -> tuple[dict[str, Any], str]:
    files = [(read_pod(text, name=f"{place}.log"), text) for place, text in enumerate(texts)]
    with Store.open(tmp_path / "store.db") as store:
        result = import_pods(store, files, target="db1 of the lab")
        said = markdown.render(build_report(store, result.study)).replace("\\", "")
    return cast("dict[str, Any]", plain(result)), " ".join(said.split())


@pytest.mark.requirement("R-BEN-02", "R-BEN-05", "R-MON-04")
def test_pods_add_up_and_keep_littles_law(tmp_path: Path) -> None:
    result, said = imported(tmp_path, pod_text(1, late_s=0.2), pod_text(0))
    assert "Every cell begins with fresh data" in said, "pods make their tables anew, also to read them only"
    (row,) = result["rows"]
    assert row["state"] == "complete"
    assert row["tps"] == pytest.approx(200, rel=0.01)
    assert row["latency_ms"] == pytest.approx(20)
    assert row["transactions"] == 2000
    assert row["locks"]["row_exclusive"] == pytest.approx(6.5, abs=0.2)
    assert row["little"]["demand"] == pytest.approx(4, rel=0.01)
    assert row["cpu_pct"] is None
    assert row["history_rows"] is None
    assert "CPU % is not known" in said
    assert "PostgreSQL 18.6 · its machine was not recorded" in said
    assert "2 load generators as pods of a cluster" in said
    assert "VLAN 20" in said
    assert not any("apart" in note for note in result["notes"])


@pytest.mark.requirement("R-BEN-02", "R-BEN-05")
@pytest.mark.parametrize("texts", [(pod_text(0),), (pod_text(0), pod_text(1).replace("pgdyno-complete", ""))])
def test_a_pod_that_is_missing_or_was_killed_makes_the_row_partial(tmp_path: Path, texts: tuple[str, ...]) -> None:
    result, said = imported(tmp_path, *texts)
    (row,) = result["rows"]
    assert row["state"] == "partial"
    assert row["reason"].startswith("1 of 2 load generators ended early: number 1, its output")
    assert row["runs"] == {}
    assert "default, db1 (partial)" in said or "default (partial)" in said


def test_repetitions_and_configurations_become_comparisons(tmp_path: Path) -> None:
    cells = {"default": 100, "tuned": 120}
    texts = []
    for repetition in (1, 2, 3):
        for place, (name, rate) in enumerate(cells.items()):
            cell = replace(CELL, configuration=name, instances=1)
            settings = {"fsync": "off"} if name == "tuned" else {}
            number = 2 * repetition + place
            texts.append(
                pod_text(0, cell=cell, number=number, repetition=repetition, per_second=rate, settings=settings)
            )
    result, _ = imported(tmp_path, *texts)
    assert [(row["cell"]["configuration"], len(row["runs"])) for row in result["rows"]] == [
        ("default", 3),
        ("tuned", 3),
    ]
    assert [row["durability"] for row in result["rows"]] == ["", "X"]
    (contrast,) = result["contrasts"]
    assert contrast["change_pct"] == pytest.approx(20, abs=0.5)
    assert contrast["verdict"]["pairs"] == 3


def test_what_cannot_belong_together_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'load generator 0 of run 1 appears twice, also in "1\.log"'):
        imported(tmp_path, pod_text(0), pod_text(0))
    with pytest.raises(UsageError, match=r"the pods of run 1 did not all run the same load: 0\.log, 1\.log"):
        imported(tmp_path, pod_text(0), pod_text(1, repetition=2))
    result, _ = imported(tmp_path, pod_text(0), pod_text(1, late_s=3.0))
    assert "Run 1: its pods began up to 3.0 s apart, by the clocks of their nodes." in result["notes"]
    nothing, _ = imported(tmp_path, pod_text(0).split("pgdyno-begin")[0])
    assert nothing["rows"][0]["state"] == "failed"
