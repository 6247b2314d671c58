"""Exports hold every row, appear whole or not at all, and never replace a file."""

import base64
import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.samples import Event, HistogramRow, SampleRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store import export
from pgdyno.store.catalogue import Store

BLOB = b"\x00\xff histogram"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    workload, plan = WorkloadSpec("select-only", {"scale": 1}, "f", "d", True), LoadPlan(1, 1, 1.0, 1.0)
    made = Store.open(tmp_path / "store.db")
    for name in ("mine", "other"):
        made.add_study(Study(name, StudyKind.AB, "n", StudyState.RUNNING, 1.0, "t", "e", {"k": [1]}, workload, plan))
        spec = TrialSpec(Configuration.of({"work_mem": "64MB", "jit": "off"}), Role.ARM, "a", 0, 0)
        run = made.begin_trial(name, spec)
        made.add_samples(run, [SampleRow("pressure", t, (1.0, None, 0.5, None, None, None)) for t in (2.0, 1.0)])
        made.add_events(run, [Event(1.5, "checkpoint", 'timed, "quoted"\nand two lines')])
        made.add_histograms(run, [HistogramRow(1, 0, "s", 5, 10, 0, 0, 0, BLOB)])
        made.finish_trial(run, Outcome(TrialState.COMPLETE, throughput=0.1 + 0.2, counters={"blks_hit": 3.0}))
    yield made
    made.close()


def test_json_holds_every_row_of_the_study_and_no_other(store: Store, tmp_path: Path) -> None:
    export.export_json(store, "mine", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    tables = found["tables"]
    assert found["format"] == 1
    assert [row["id"] for row in tables["study"]] == ["mine"]
    assert tables["study"][0]["facts"] == {"k": [1]}
    assert [row["throughput"] for row in tables["trial"]] == [0.1 + 0.2]
    assert {(row["knob"], row["value"]) for row in tables["trial_setting"]} == {("work_mem", "64MB"), ("jit", "off")}
    assert [row["t"] for row in tables["pressure"]] == [1.0, 2.0]
    assert tables["pressure"][0]["cpu_some_pct"] is None
    assert base64.b64decode(tables["histogram"][0]["blob"]) == BLOB
    assert tables["cpu"] == []


def test_csv_holds_the_same_rows(store: Store, tmp_path: Path) -> None:
    export.export_csv(store, "mine", tmp_path / "out")
    export.export_json(store, "mine", tmp_path / "out.json")
    tables = json.loads((tmp_path / "out.json").read_text())["tables"]
    files = {path.stem: path for path in (tmp_path / "out").iterdir()}
    assert set(files) == {name for name, rows in tables.items() if rows}
    for name, path in files.items():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        expected = [
            {
                key: "" if v is None else json.dumps(v) if isinstance(v, list | dict) else str(v)
                for key, v in row.items()
            }
            for row in tables[name]
        ]
        assert rows == expected


@pytest.mark.parametrize("write", [export.export_json, export.export_csv])
def test_what_exists_is_never_replaced(store: Store, tmp_path: Path, write: object) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(UsageError, match="exists") as caught:
        write(store, "mine", tmp_path / "out")  # type: ignore[operator]  # one of two functions
    assert caught.value.hint
    assert (tmp_path / "out").read_text() == "precious"


@pytest.mark.parametrize("write", [export.export_json, export.export_csv])
def test_a_failure_leaves_nothing_behind(
    store: Store, tmp_path: Path, write: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    before = set(tmp_path.iterdir())
    with pytest.raises(StoreError, match="cannot be written") as caught:
        write(store, "mine", tmp_path / "out")  # type: ignore[operator]  # one of two functions
    assert "No space left" in (caught.value.detail or "")
    assert set(tmp_path.iterdir()) == before


def test_a_folder_that_is_missing_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        export.export_json(store, "mine", tmp_path / "missing" / "out.json")


@pytest.mark.parametrize("write", [export.export_json, export.export_csv])
def test_a_place_that_cannot_hold_even_the_partial_file_is_one_error(store: Store, tmp_path: Path, write) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        write(store, "mine", tmp_path / "file" / "out")
