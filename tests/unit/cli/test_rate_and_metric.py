"""An open loop fixes the throughput: nothing can be compared by it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pgdyno.cli import experiment, tune
from pgdyno.errors import PgdynoError, UsageError

FIXED = "--rate 100 fixes the throughput, which is the metric"


def refused(command: click.Command, *words: str) -> PgdynoError:
    with pytest.raises(PgdynoError) as found:
        CliRunner().invoke(command, [*words], catch_exceptions=False)
    return found.value


def test_a_rate_is_not_compared_by_throughput(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    (tmp_path / "a.conf").write_text("work_mem = 8MB\n")
    nowhere = ("--target", f"host={tmp_path}", "-R", "100", "--yes")
    ab = ("--ab", f"{tmp_path}/a.conf", f"{tmp_path}/a.conf")
    for error in (refused(tune.command, *nowhere), refused(experiment.command, *ab, *nowhere)):
        assert isinstance(error, UsageError)
        assert error.message == FIXED
        assert "latency_p99" in (error.hint or "")
    by_latency = refused(experiment.command, *ab, *nowhere, "--metric", "latency_p99")
    assert by_latency.message != FIXED, "it goes on, and there is no server at that place"
