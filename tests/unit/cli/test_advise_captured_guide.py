"""The way of the guide of 2023 through the command: a captured machine and the iostat report of its load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from captured import CAPTURES
from pgdyno.cli.advise import command
from pgdyno.model.evidence import Evidence

DATA = CAPTURES.parent
MACHINE = ("--root", str(CAPTURES / "s390x-lpar-128g"))
REPORT = ("--iostat", str(DATA / "iostat" / "iostat_before.txt"))
DEVICE = ("--wal-device", "edb_logs_enc")


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def run(*words: str) -> Result:
    return CliRunner().invoke(command, [*words, "--depth", "deep"], catch_exceptions=False, standalone_mode=False)


def finding(rule: str, *words: str) -> dict[str, Any]:
    document = json.loads(run(*words, "--json").stdout)
    (found,) = (each for each in document["findings"] if each["rule"] == rule)
    return dict(found)


def changes(found: dict[str, Any]) -> dict[str, str]:
    return {change["knob"]: change["value"] for change in found["changes"]}


@pytest.mark.requirement("R-PG-04", "R-PG-05", "R-STO-11", "R-ADV-05", "CON-19")
def test_the_report_of_the_guide_gives_its_max_wal_size() -> None:
    found = finding("max-wal-size", *MACHINE, *REPORT, *DEVICE)
    assert changes(found) == {"max_wal_size": "256GB"}
    evidence = " ".join(found["evidence"])
    assert "edb_logs_enc" in evidence
    assert "starts a checkpoint every 1.6 s" in evidence
    assert "no log and no counters" in " ".join(found["doubts"])


@pytest.mark.requirement("R-PG-01", "R-PG-03")
def test_with_its_log_nothing_needs_to_be_computed() -> None:
    log = ("--log", str(DATA / "pg-logs" / "checkpoints_pg16.log"))
    found = finding("max-wal-size", *MACHINE, *REPORT, *DEVICE, *log)
    assert "too frequently" in " ".join(found["evidence"])
    assert "no log and no counters" not in " ".join(found["doubts"])


def test_the_device_of_the_wal_comes_from_the_capture_where_iostat_names_it(tmp_path: Path) -> None:
    report = tmp_path / "iostat.txt"
    text = (DATA / "iostat" / "iostat_before.txt").read_text()
    report.write_text(text.replace("edb_logs_enc", "edbvg-edb_logs"))
    assert changes(finding("max-wal-size", *MACHINE, "--iostat", str(report))) == {"max_wal_size": "256GB"}


def test_a_device_that_nobody_names_leaves_the_rate_unknown() -> None:
    found = finding("max-wal-size", *MACHINE, *REPORT)
    assert (found["answer"], found["changes"]) == ("unknown", [])
    assert "none of the devices shown is the WAL's" in found["reason"]
    assert "--wal-device names it" in found["reason"]


def test_a_configuration_and_a_report_need_no_captured_folder(tmp_path: Path) -> None:
    conf = tmp_path / "postgresql.conf"
    conf.write_text("max_wal_size = 1GB\n")
    found = finding("max-wal-size", "--pg-conf", str(conf), "--pg-version", "14", *REPORT, *DEVICE)
    assert changes(found) == {"max_wal_size": "256GB"}


@pytest.mark.requirement("R-PG-39")
def test_recorded_bench_runs_reach_the_evidence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def gathered(*_: object, matrix: object, **__: object) -> Evidence:
        asked.append(matrix)
        return Evidence()

    points = ((4, 100.0), (16, 390.0), (64, 402.0))
    monkeypatch.setattr("pgdyno.studies.advice.client_matrix.client_matrix", lambda *_: points)
    monkeypatch.setattr("pgdyno.studies.advice.advise.evidence_of_capture", gathered)
    run(*MACHINE, "--store", f"sqlite:///{tmp_path / 'store.db'}")
    run(*MACHINE)
    assert asked == [points, ()]
