"""`pgdyno knobs` and the reference pages that are made from the same data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import generated
import knob_docs
from pgdyno.cli.knobs import command
from pgdyno.errors import UsageError
from pgdyno.knobs.linux import load_all_knobs
from pgdyno.knobs.policy import load_policy
from pgdyno.model.linux import LINUX_KNOBS

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_list_shows_every_knob() -> None:
    lines = run("list").splitlines()
    shown = {line.split()[0] for line in lines if line and not line.startswith(" ")}
    assert set(load_all_knobs()) <= shown


def test_the_host_page_says_what_cannot_be_set_and_what_has_nothing_to_decide(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in json.loads(run("host", "--data-directory", str(tmp_path), "--json"))}
    assert list(rows) == list(LINUX_KNOBS)
    assert all(row["obstacle"] for row in rows.values() if row["value"] is None)
    memory, ratio = rows["vm.overcommit_memory"]["value"], rows["vm.overcommit_ratio"]
    assert (ratio["idle"] is None) is (memory == "2")
    line = next(line for line in run("host").splitlines() if line.startswith("vm.overcommit_ratio"))
    assert ("without effect here" in line) is (memory != "2" and ratio["obstacle"] is None)


def test_list_as_json_and_filters() -> None:
    assert [row["name"] for row in json.loads(run("list", "--json"))] == list(load_all_knobs())
    rows = json.loads(run("list", "--group", "checkpoint", "--class", "C", "--json"))
    assert [row["name"] for row in rows] == ["max_wal_size", "checkpoint_timeout"]
    with pytest.raises(UsageError, match="--group"):
        run("list", "--group", "colour")


def test_show_explains_a_knob() -> None:
    text = run("show", "max_wal_size")
    assert "C: recovery time or replication" in text
    assert "3 checkpoint cycles" in text
    assert "min_wal_size" in text
    assert json.loads(run("show", "SHARED_BUFFERS", "--json"))["high"] == "50% of ram"


def test_show_explains_what_is_refused() -> None:
    assert "never, whatever the flags" in run("show", "fsync")
    assert json.loads(run("show", "listen_addresses", "--json"))["class"] is None
    with pytest.raises(UsageError, match="unknown knob") as caught:
        run("show", "fsyncc")
    assert caught.value.hint == "Did you mean fsync?"


def test_the_reference_pages_are_what_the_data_says() -> None:
    pages = knob_docs.pages(load_all_knobs(), load_policy().rulings)
    assert generated.stale(pages, knob_docs.FOLDER) == [], "run make docs"
    assert set(pages) == {*(f"{name}.md" for name in load_all_knobs()), "index.md", "policy.md"}
