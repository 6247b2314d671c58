"""What pods of a cluster printed, read back; and everything that may have happened to it on the way."""

from __future__ import annotations

import pytest

from pgdyno.errors import UsageError
from pgdyno.fleet.pod_log import read_pod
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
