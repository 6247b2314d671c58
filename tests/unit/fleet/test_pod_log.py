"""What pods of a cluster printed, read back; and everything that may have happened to it on the way."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from pgdyno.errors import UsageError
from pgdyno.fleet.pod_log import _samples, read_pod
from pgdyno.model import sample_tables
from pgdyno.model.sample_tables import named
from pod_example import CELL, EPOCH, pod_text


@pytest.mark.requirement("R-BEN-05", "R-BEN-22")
def test_the_output_of_a_pod_is_a_load_with_its_samples() -> None:
    pod = read_pod(pod_text(0), name="a.log")
    assert (pod.index, pod.run.cell, pod.reason) == (0, CELL, None)
    assert (pod.version, pod.database_bytes) == ("18.6", 23456789)
    assert pod.result is not None
    assert pod.result.transactions == 1000
    assert pod.result.began_at == pytest.approx(EPOCH, rel=0, abs=0.01)
    assert pod.result.ended_at == pytest.approx(EPOCH + 10.0, rel=0, abs=0.05)
    assert pod.result.driver_cpu_s == 1.0
    assert sum(row.count for row in pod.result.histograms) == 1000
    assert [row.table for row in pod.samples].count("sessions") == 10
    locks = [row for row in pod.samples if row.table == "locks"]
    assert locks[0].values == ("RowExclusiveLock", "relation", 6, 0)
    second = read_pod(pod_text(1), name="b.log")
    assert second.samples == ()
    assert second.result is not None
    assert [client for client, _ in second.result.log.by_client()] == [2, 3], "its clients are numbered on"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (pod_text(0).replace("pgdyno-complete\n", ""), "its output has no end"),
        (pod_text(0)[:600], "its output has no end"),
        (pod_text(0).split("pgdyno-begin")[0], "it ended before the start"),
        (pod_text(0).split("pgdyno-begin")[0] + "pgdyno-failed the gate stayed closed: x\n", "the gate stayed closed"),
        (pod_text(0, seconds=0), "not a single transaction"),
    ],
)
def test_a_pod_without_an_end_measured_nothing_and_says_why(text: str, reason: str) -> None:
    pod = read_pod(text, name="a.log")
    assert pod.result is None
    assert reason in (pod.reason or "")


def test_the_cpu_time_of_a_load_has_its_minutes() -> None:
    pod = read_pod(pod_text(0).replace("0m0.250s 0m0.750s", "2m0.250s 3m0.750s"), name="a.log")
    assert pod.result is not None
    assert pod.result.driver_cpu_s == 301.0


def test_clients_that_gave_up_are_no_whole_load() -> None:
    said = "pgbench: error: client 1 script 0 aborted in command 5 query 0: ERROR:  gone"
    pod = read_pod(pod_text(0, code=2, said=said), name="a.log")
    assert pod.result is not None, "what it did is counted"
    assert pod.reason == pod.result.reason
    assert (pod.reason or "").startswith("1 of 2 clients aborted (exit code 2)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "is not the output of a load generator"),
        (pod_text(0).replace("pgdyno-pod 1", "pgdyno-pod 2"), "version 2"),
        (pod_text(0).replace('"instances"', '"pods"'), "does not say what it ran"),
        (pod_text(0).replace('"warmup_s": 2.0', '"warmup_s": "x"'), "does not say what it ran"),
        (pod_text(0).replace('"instances": "2"', '"instances": "-1"'), "-1 load generators"),
        (pod_text(0).replace('"instances": "2"', '"instances": "1000000000"'), "1000000000 load generators"),
        (pod_text(1).replace("H4sI", "H4sJ", 1), "its SHA-256 is another"),
        (pod_text(1).replace("H4sI", "H4!I", 1), "is damaged"),
    ],
)
def test_damaged_and_foreign_texts_are_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=r'"a\.log"') as caught:
        read_pod(text, name="a.log")
    assert words in f"{caught.value.message} {caught.value.detail}"


def test_a_moment_of_the_server_is_a_row_of_its_table() -> None:
    """The shell that asks knows how many sessions there are, and nothing of what they do."""
    pod = read_pod(pod_text(0), name="a.log")
    sessions = next(row for row in pod.samples if row.table == "sessions")
    assert named(sessions) == {
        "t": EPOCH + 0.5, "total": CELL.connections, **dict.fromkeys(sample_tables.SESSIONS.column_names()[2:]),
    }  # fmt: skip
    locks = [named(row) for row in pod.samples if row.table == "locks"]
    assert [(row["t"], row["granted"]) for row in locks[:2]] == [(EPOCH + 0.5, 6), (EPOCH + 1.5, 7)]


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("5.5 AccessShareLock relation 2 1", [("AccessShareLock", "relation", 2, 1)]),
        ("5.5 AccessShareLock relation 2", []),  # the last one may be cut off
        ("5.5 AccessShareLock relation 2 1 7", []),
        ("x AccessShareLock relation 2 1", []),
        ("5.5 AccessShareLock relation x 1", []),
        ("5.5 AccessShareLock relation 2 x", []),
    ],
)
def test_a_line_that_is_no_moment_is_left_out(line: str, rows: list[tuple[object, ...]]) -> None:
    assert [row.values for row in _samples(line.encode())] == rows


@pytest.mark.parametrize("name", ["instances", "clients", "jobs"])
@pytest.mark.parametrize(("count", "is_read"), [(0, False), (1, True), (100_000, True), (100_001, False)])
def test_a_run_has_one_to_a_hundred_thousand_of_each(name: str, count: int, is_read: bool) -> None:
    text = pod_text(1, seconds=0, cell=replace(CELL, **{name: count}))
    with nullcontext() if is_read else pytest.raises(UsageError, match="does not say what it ran"):
        assert getattr(read_pod(text, name="a.log").run.cell, name) == count


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (1, "", "pgbench gave up (exit code 1): no reason given"),
        (1, "pgbench: error: no such table", "pgbench gave up (exit code 1): no such table"),
        (0, "pgbench: error: client 1 aborted in command 5", "1 of 2 clients aborted (exit code 0): client 1 aborted"),
        (0, "", None),
    ],
)
def test_a_load_that_gave_up_says_why(code: int, said: str, reason: str | None) -> None:
    pod = read_pod(pod_text(0, code=code, said=said), name="a.log")
    assert (pod.reason or "").startswith(reason or "")
    assert (pod.reason is None) is (reason is None)
    without = read_pod(pod_text(0, code=code, said=said, seconds=0), name="a.log")
    assert (without.result, without.samples) == (None, ())
    assert without.reason == (pod.reason or "not a single transaction")
