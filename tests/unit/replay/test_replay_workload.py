"""The workload `replay` without a server: what it is made of, what it refuses, and what its records come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_trace import INIT, made_trace
from pgdyno.errors import UsageError
from pgdyno.model.trial import LoadPlan
from pgdyno.outputs import write_output
from pgdyno.replay.records_reader import BEGIN, RECORDS, RecordsReader
from pgdyno.replay.reel import Reel, ReelWindow, make_reel
from pgdyno.studies.replay.run import whole_meta
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome import DTYPE
from pgdyno.trace.parquet import read_meta, write_meta
from pgdyno.trace.schema import Lost
from pgdyno.workloads.pgbench.transaction_log import Status
from pgdyno.workloads.registry import make_workload

PLAN = LoadPlan(clients=7, jobs=3, warmup_s=0.0, measure_s=2.0)
WHOLE = ReelWindow(0.0, 0.0, read_only=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_trace(tmp_path_factory.mktemp("trace") / "load.parquet", sessions=3, seconds=4.0, pause_s=0.1)


@pytest.fixture(scope="module")
def reel(trace: Path) -> Reel:
    return make_reel(trace, WHOLE, Order.SESSION, trace.parent, lambda _: None)


@pytest.fixture
def init(tmp_path: Path) -> str:
    path = tmp_path / "before.sql"
    path.write_text(INIT)
    return str(path)


def reader(folder: Path, reel: Reel, **more) -> RecordsReader:
    return RecordsReader(
        folder,
        reel,
        **{"speed": 1.0, "seconds": 2.0, "by_service": False, "error_limit_percent": 1.0, "is_scheduled": True, **more},
    )


def records(count: int, **columns) -> np.ndarray:
    """Return answers of session 0, one each 100 ms, on time, after 2 ms, as captured."""
    found = np.zeros(count, DTYPE)
    found["seq"] = np.arange(1, count + 1)
    found["due_us"] = found["sent_us"] = 100_000 * found["seq"].astype(np.int64)
    found["bytes"], found["done_us"] = 10, found["due_us"] + 2_000
    for name, values in columns.items():
        found[name] = values
    return found


def write(folder: Path, found: np.ndarray, cut: int = 0) -> None:
    (folder / BEGIN).write_text("1700000000000000\n")
    (folder / RECORDS).write_bytes(found.tobytes()[: found.nbytes - cut])


def test_a_workload_is_named_with_its_trace(trace: Path, init: str) -> None:
    made = make_workload(f"replay:{trace}", {"init": init, "speed": "2"})
    spec = made.spec()
    assert (spec.name, spec.parameters["trace"], spec.unit, spec.clock) == (
        "replay", str(trace), "statements", "schedule",
    )  # fmt: skip
    assert make_workload(spec.name, spec.parameters).spec() == spec
    planned = made.planned(PLAN)
    assert (planned.clients, planned.jobs) == (3, 1), "sessions are the trace's"
    assert made.planned(planned) == planned


def test_what_is_run_counts_by_its_content_and_not_by_its_place(trace: Path, init: str, tmp_path: Path) -> None:
    moved = tmp_path / "moved.parquet"
    for path in (trace, trace.with_suffix(".json")):
        write_output(moved.with_suffix(path.suffix), path.read_bytes())
    here, there = (make_workload(f"replay:{path}", {"init": init}).spec().fingerprint for path in (trace, moved))
    assert here == there
    assert here != make_workload(f"replay:{trace}", {"init": init, "speed": 2}).spec().fingerprint


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "the data from before the capture"),
        ({"database": "shop", "init": "x"}, "the data from before the capture"),
        ({"database": "shop", "clock": "sun"}, 'clock "sun"'),
        ({"database": "shop", "order": "none"}, 'order "none"'),
        ({"database": "shop", "latency": "all"}, 'latency "all"'),
        ({"database": "shop", "engine": "steam"}, 'engine "steam"'),
        ({"database": "shop", "speed": 0}, '"speed"'),
        ({"database": "shop", "from_s": 9}, "from_s 9 of workload replay is not before its end, at 4 s"),
        ({"database": "shop", "from_s": 2, "to_s": 1}, "from_s 2 of workload replay is not before its end, at 1 s"),
    ],
)
def test_bad_parameters_are_refused_with_what_is_wrong(trace: Path, more: dict, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make_workload(f"replay:{trace}", more)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"masked": True}, "is masked"),
        ({"statements": 18, "refused": {"pgdyno's own session": 17, "COPY": 1}}, "has no statement that may be sent"),
        ({"sampled": 0.1}, "is a sample, 10 % of the transactions"),
        ({"sampled": 0.004}, "is a sample, 0.4 % of the transactions"),
        ({"lost": Lost(truncated=2)}, "has only a part of 2 statements or their values"),
    ],
)
def test_a_trace_that_is_not_what_was_sent_is_refused(trace: Path, tmp_path: Path, changed: dict, why: str) -> None:
    other = tmp_path / "other.parquet"
    other.write_bytes(trace.read_bytes())
    write_meta(other, replace(read_meta(trace), **changed))
    with pytest.raises(UsageError, match=why):
        make_workload(f"replay:{other}", {"database": "shop"})
    with pytest.raises(UsageError, match=why):
        whole_meta(other)


def test_no_trace_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a trace"):
        make_workload("replay", {"database": "shop"})
    with pytest.raises(UsageError, match="behind a colon"):
        make_workload("tpcb-like:x", {})


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (replace(PLAN, measure_s=5.0), r"holds 4\.0 s at speed 1"),
        (replace(PLAN, rate=5.0), "no --rate"),
        (replace(PLAN, connect_each=True), "no --connect-each"),
        (replace(PLAN, instances=2), "one load generator"),
    ],
)
def test_a_plan_that_the_trace_cannot_fill_is_refused(trace: Path, plan: LoadPlan, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make_workload(f"replay:{trace}", {"database": "shop"}).planned(plan)


def test_one_that_thinks_may_be_through_before_its_time(trace: Path) -> None:
    made = make_workload(f"replay:{trace}", {"database": "shop", "clock": "think"})
    assert made.planned(replace(PLAN, measure_s=50.0)).clients == 3


def test_a_reel_has_a_class_for_each_statement_and_no_value_in_its_name(reel: Reel) -> None:
    assert reel.keys.size == reel.taped.statements == 3 * 40
    assert [script.name.split()[1] for script in reel.scripts] == ["SELECT", "UPDATE"]
    assert not any("'label" in (script.text or "") for script in reel.scripts)
    classes = reel.class_of(np.array([0, 0, 2]), np.array([3, 4, 8]))
    assert list(classes) == [0, 1, 1], "every fourth statement writes"


def test_a_window_is_cut_out_and_what_writes_left_out(trace: Path) -> None:
    window = ReelWindow(1.0, 3.0, read_only=True)
    reel = make_reel(trace, window, Order.SESSION, trace.parent, lambda _: None)
    assert [script.name.split()[1] for script in reel.scripts] == ["SELECT"]
    assert reel.taped.statements == 3 * 15
    assert reel.due_us.max() < 2_000_000


def test_records_become_transactions_and_a_cut_one_waits_for_its_rest(reel: Reel, tmp_path: Path) -> None:
    found, read = records(20), reader(tmp_path, reel)
    assert list(read.read_new()) == [], "nothing has begun"
    write(tmp_path, found, cut=1)
    (log,) = read.read_new()
    assert len(log) == 19
    assert set(log.latency_us) == {2_000}
    assert list(log.end_us[:2]) == [1_700_000_000_102_000, 1_700_000_000_202_000]
    assert read.whole_until_us == 1_700_000_001_902_000
    write(tmp_path, found)
    assert [len(log) for log in read.read_rest()] == [1]
    assert (read.late, read.void) == (None, None)


def test_latency_is_from_the_due_moment_unless_asked_from_the_sending(reel: Reel, tmp_path: Path) -> None:
    write(tmp_path, records(10, sent_us=100_000 * np.arange(1, 11) + 1_500))
    (response,), (service,) = (reader(tmp_path, reel, by_service=by).read_new() for by in (False, True))
    assert set(response.latency_us) == {2_000}
    assert response.lag_us is not None
    assert set(response.lag_us) == {1_500}
    assert (set(service.latency_us), service.lag_us) == ({500}, None)


@pytest.mark.requirement("R-TUN-20")
def test_a_late_engine_is_told_and_a_late_server_is_not(reel: Reel, tmp_path: Path) -> None:
    for part, is_late in (("injector_us", True), ("server_us", False)):
        write(tmp_path, records(20, **{part: 40_000}))
        read = reader(tmp_path, reel)
        assert sum(len(log) for log in read.read_new()) == 20
        assert ("the injector was late" in (read.late or "")) == is_late


def test_answers_unlike_the_captured_ones_fail_and_void_the_run_beyond_the_limit(reel: Reel, tmp_path: Path) -> None:
    write(tmp_path, records(20, sqlstate=[b"42P01"] + [b""] * 19))
    strict, lenient = reader(tmp_path, reel), reader(tmp_path, reel, error_limit_percent=10.0)
    (log,), (_,) = strict.read_new(), lenient.read_new()
    assert [Status(one) for one in log.status[:2]] == [Status.FAILED, Status.OK]
    assert strict.void is not None
    assert "1 of 20 answers" in strict.void
    assert lenient.void is None


def test_an_error_that_was_captured_is_no_failure_and_its_time_no_latency(reel: Reel, tmp_path: Path) -> None:
    found = records(5, sqlstate=[b"23505"] + [b""] * 4, expected=[b"23505"] + [b""] * 4)
    found["done_us"][0] += 5_000_000
    write(tmp_path, found)
    read = reader(tmp_path, reel)
    (log,) = read.read_new()
    assert (set(log.status), set(log.latency_us), len(log)) == ({Status.OK}, {2_000}, 4)
    assert (read.answered, read.expected, read.unlike, read.void) == (5, 1, 0, None)
    assert read.whole_until_us == 1_700_000_005_102_000


def test_a_piece_of_captured_errors_alone_gives_no_transactions(reel: Reel, tmp_path: Path) -> None:
    write(tmp_path, records(5, sqlstate=b"23505", expected=b"23505"))
    read = reader(tmp_path, reel)
    assert (list(read.read_new()), read.answered, read.late) == ([], 5, None)


def test_deadlocks_that_were_captured_are_told_apart_from_those_that_were_not(reel: Reel, tmp_path: Path) -> None:
    write(tmp_path, records(4, sqlstate=[b"40P01", b"40P01", b"23505", b""], expected=[b"40P01", b"", b"23505", b""]))
    read = reader(tmp_path, reel)
    assert sum(len(log) for log in read.read_new()) == 2
    assert (read.captured_deadlocks, read.unlike) == (1, 1)


def test_a_server_that_falls_behind_is_told(reel: Reel, tmp_path: Path) -> None:
    write(tmp_path, records(5))
    read = reader(tmp_path, reel)
    assert list(map(len, read.read_new())) == [5]
    assert ["fell behind" in warning.text for warning in read.warnings] == [True]
    assert reader(tmp_path, reel, is_scheduled=False).warnings == ()
