from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.workloads.pgbench import progress
from pgdyno.workloads.pgbench.progress import (
    ProgressReader,
    count_aborted,
    first_reason,
    loaded_percent,
    parse_progress,
)

# As written by pgbench 18.6, 15.18 and, without the count of failures, 14.
V18 = "progress: 1795296016.782 s, 11386.4 tps, lat 0.346 ms stddev 0.687, 0 failed\n"
V18_RATE = (
    "progress: 1795296019.795 s, 471.9 tps, lat 0.804 ms stddev 0.353, 2 failed, lag 0.117 ms, "
    "3 skipped, 0 retried, 0 retries\n"
)
V14 = "progress: 1795296016.8 s, 10.0 tps, lat 99.500 ms stddev 1.000\n"
V14_RATE = "progress: 1795296016.8 s, 10.0 tps, lat 99.500 ms stddev 1.000, lag 4.500 ms, 0 skipped\n"


def test_progress_lines_of_every_form() -> None:
    lines = parse_progress("pgbench: setting random seed to 5\n" + V18 + V18_RATE + V14 + V14_RATE)
    assert [line.tps for line in lines] == [11386.4, 471.9, 10.0, 10.0]
    assert [line.failed for line in lines] == [0, 2, None, None]
    assert [line.lag_ms for line in lines] == [None, 0.117, None, 4.5]
    assert lines[0].t == 1795296016.782
    assert lines[1].latency_ms == 0.804


def test_what_is_short_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    real = progress.read_regular
    monkeypatch.setattr(progress, "read_regular", lambda *what: (reads.append(1), real(*what))[1])
    file = tmp_path / "stderr"
    file.write_text(V18 + V14 + V18_RATE[:20])
    reader = ProgressReader(file)
    assert (reader.latest(), len(reads)) == (parse_progress(V14)[0], 1)
    file.write_text(V18 + V14 + V18_RATE)
    assert (reader.latest(), len(reads)) == (parse_progress(V18_RATE)[0], 2)


def test_an_unfinished_line_waits() -> None:
    assert len(parse_progress(V18 + V18[:-1])) == 1
    assert parse_progress("") == []


def test_no_transaction_in_an_interval_is_no_number() -> None:
    assert parse_progress("progress: 1795296016.8 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed\n")[0].tps == 0.0


def test_each_aborted_client_counts_once() -> None:
    text = """\
pgbench: error: client 0 script 0 aborted in command 4 query 0: FATAL:  terminating connection due to command
pgbench: error: client 3 aborted in command 5 (SQL) of script 0; perhaps the backend died while processing
pgbench: error: client 3 aborted while establishing connection
pgbench: error: Run was aborted; the above results are incomplete.
"""
    assert count_aborted(text) == 2
    reason = first_reason(text)
    assert reason is not None
    assert "terminating connection" in reason
    assert count_aborted(V18) == 0
    assert first_reason(V18) is None


def test_progress_of_a_load() -> None:
    text = """\
dropping old tables...
creating tables...
generating data (client-side)...
1000000 of 2000000 tuples (50%) of pgbench_accounts done (elapsed 0.80 s, remaining 0.80 s)
"""
    assert loaded_percent(text) == 50
    assert loaded_percent("creating tables...\n") is None
