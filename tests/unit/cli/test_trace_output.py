"""Where `pgdyno trace build` and `cut` write: never in the place of a trace that is there, or of another file."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.main import command as program
from pgdyno.errors import UsageError

LOG = Path(__file__).parents[3] / "examples" / "traces" / "load.csv"


@pytest.mark.parametrize("taken", ["load.parquet", "load.json"])
@pytest.mark.parametrize("verb", ["build", "cut"])
def test_neither_file_of_a_trace_is_written_over(tmp_path: Path, taken: str, verb: str) -> None:
    kept = tmp_path / taken
    kept.write_text("of an earlier day")
    words = ["trace", verb, str(LOG), "-o", str(tmp_path / "load.parquet")]
    done = CliRunner().invoke(program, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError), done.output
    assert f'"{kept}" already exists' in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert kept.read_text() == "of an earlier day"
