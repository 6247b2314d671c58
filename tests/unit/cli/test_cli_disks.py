"""`pgdyno disks` on the example, and on files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.main import command
from pgdyno.errors import UsageError

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "storage" / "ds8000.toml")


def run(*words):
    return CliRunner().invoke(command, ["disks", *words], standalone_mode=False)


@pytest.mark.requirement("R-STO-15", "R-STO-16", "R-STO-18")
def test_a_list_in_a_row_is_judged_and_another_one_proposed():
    result = run(EXAMPLE, "--given", "5100-510F")
    assert result.return_value == 1
    assert "close to the worst case" in result.output
    assert "proposed, in this order (16 volumes of ds8k-1)" in result.output
    assert "fixed path for each disk" in result.output
    assert "Storage pool striping is off" in result.output


@pytest.mark.requirement("R-STO-02", "R-STO-16")
def test_json_has_the_order_with_every_resource():
    result = run(EXAMPLE, "--count", "4", "--wal", "2", "--json")
    document = json.loads(result.stdout)
    assert result.return_value == 0
    assert [set(row) for row in document["proposed"]] == [{"volume", "server", "adapter pair", "rank", "path"}] * 4
    assert len(document["wal"]) == 2
    assert document["separation"] == "other ranks"


def test_a_balanced_list_ends_with_0():
    words = ",".join(row["volume"] for row in json.loads(run(EXAMPLE, "--count", "8", "--json").stdout)["proposed"])
    result = run(EXAMPLE, "--given", words)
    assert (result.return_value, "8 volumes of ds8k-1, balanced" in result.output) == (0, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe", "cannot be read"), (b"name = 3", "servers is not a list"), (b"", "servers is not a list")],
)
def test_a_file_that_is_wrong_is_a_usage_error(tmp_path, content, words):
    path = tmp_path / "box.toml"
    path.write_bytes(content)
    result = run(str(path))
    assert isinstance(result.exception, UsageError)
    assert words in result.exception.message
