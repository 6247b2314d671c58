"""What a replay says of its schedule is what a comparison says of its outcome, whatever else the records hold."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgdyno.errors import EnvironmentUnsuitable, GuardTripped, PgdynoError
from pgdyno.model.replay_comparison import Limits
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import StudyKind
from pgdyno.replay.captured import Taped, write_tape
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.result import _think, _Times, result_of
from pgdyno.trace.compared_rows import ReplaySide, side_of
from pgdyno.trace.comparing import Rules, compare_replay
from pgdyno.trace.engine.records import CONNECTION_FAILURE, RECORD, REFUSED_CONNECTION, Skip
from pgdyno.trace.engine.tally import COMPLETE, RunTally
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome import read_records
from pgdyno.trace.outcome_file import OUTCOME_VERSION, OutcomeFacts, OutcomeWriter
from pgdyno.trace.parquet import read_rows, write_meta, write_rows
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import TRACE, TraceMeta
from study_example import make_study

SPEED, SESSIONS, STATEMENTS, NONE = 2.0, 5, 20, b"\0" * 5
LOST, ENDED, CANCELLED = (1, 9), (2, STATEMENTS), (0, 5)
"""A statement whose session was lost under it, one that the end of the run met, and one that a user cancelled."""


def made(folder: Path) -> tuple[Path, TraceMeta]:
    """Write a trace of sessions with connects, disconnects, and a refused statement between others."""
    random, rows, names = np.random.default_rng(7), [], [one.name for one in TRACE]
    for session in range(SESSIONS):
        at = 1000 * session
        for seq in range(STATEMENTS + 2):
            kind = {0: "connect", STATEMENTS + 1: "disconnect"}.get(seq, "simple")
            took = 0 if (session, seq) == CANCELLED else 500
            known = {
                "session": session, "seq": seq, "kind": kind, "due_us": at, "user": "u", "database": "d",
                "application": "a", "end_us": None if kind == "connect" else at + took,
                "sql": "SELECT 1" if kind == "simple" else None,
                "tx": seq if kind == "simple" else None, "implied": False,
                "sqlstate": "57014" if (session, seq) == CANCELLED else None,
                "refused": {7: "role DDL", 8: Barred.OURS, 9: Barred.WRITES}.get(seq) if session == 3 else None,
            }  # fmt: skip
            rows.append([known.get(name) for name in names])
            at += 500 + int(random.uniform(2_000, 90_000))
    rows.sort(key=lambda row: (row[names.index("due_us")], row[0], row[1]))
    digest = write_rows(folder / "t.parquet", TRACE, rows)
    sent = SESSIONS * STATEMENTS
    refused = {"role DDL": 1, Barred.OURS: 1, Barred.WRITES: 1}
    meta = TraceMeta(
        1, "csvlog B", None, "1", "2026-01-01T00:00:00Z", 2.0, SESSIONS, sent, sent - 3, 0, refused=refused,
        digest=digest,
    )  # fmt: skip
    write_meta(folder / "t.parquet", meta)
    return folder / "t.parquet", meta


def answered(dues: dict[tuple[int, int], int]) -> bytes:
    """Return records: connects are late by half a second, statements by a few milliseconds."""
    random, found = np.random.default_rng(8), []
    for (session, seq), captured in dues.items():
        due, is_edge = int(captured / SPEED), seq in (0, STATEMENTS + 1)
        late = 500_000 if seq == 0 else int(random.lognormal(7, 1))
        expected = b"57014" if (session, seq) == CANCELLED else NONE
        came, size, skip, done = expected, 0 if is_edge else 60, Skip.SENT, due + late + 700
        if session == 4 and seq == 0:
            came = REFUSED_CONNECTION
        if (session, seq) == LOST:
            came, size, late = CONNECTION_FAILURE, 0, 40_000
        if (session, seq) == ENDED:
            skip, done, late = Skip.RUN_ENDED, -1, 0
        if session == 3 and seq in (7, 8, 9):
            skip, done = Skip.REFUSED, -1
        sent = -1 if skip is Skip.REFUSED else due + late
        found.append(RECORD.pack(session, seq, due, sent, done, done, late, 0, 0, 1, size, came, expected, skip))
    return b"".join(found)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_replay_and_its_comparison_tell_the_same_of_one_run(tmp_path: Path, *, is_known: bool) -> None:
    trace, meta = made(tmp_path)
    options = ReplayOptions(trace, tmp_path / "x", speed=SPEED)
    taped = write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None)
    dues = {(session, seq): due for session, seq, due in _dues(trace)}
    facts = OutcomeFacts(
        OUTCOME_VERSION, str(trace), meta.digest, "x", "18", "1", "e", SPEED, "schedule", "session", 1, 0.0, 1.0
    )
    writer = OutcomeWriter(options.output, facts)
    writer.files[0].write_bytes(answered(dues))
    result = result_of(
        make_study(StudyKind.REPLAY), meta, options, taped, RunTally(ended=COMPLETE), writer.records(),
        Limits(error_percent=2.0), 1.0, "e",
    )  # fmt: skip
    assert isinstance(result, ReplayResult)
    writer.finish(COMPLETE, RunTally(ended=COMPLETE), {})
    side = side_of(options.output)
    if not is_known:
        side = ReplaySide(side.name, side.outcome)
    told = compare_replay(trace, ReplaySide("capture"), side, rules=Rules(limits=Limits(error_percent=2.0)))
    found = result.fidelity
    if is_known:
        assert told.fidelity == found
    assert told.fidelity.think_ms == pytest.approx(found.think_ms, abs=0.002)
    assert replace(told.fidelity, think_ms=0, injector_limit_ms=0) == replace(found, think_ms=0, injector_limit_ms=0)
    assert (found.statements, found.sent, found.refused) == (SESSIONS * STATEMENTS - 3, SESSIONS * STATEMENTS - 4, 1)
    assert found.warnings[0] == "The trace was cut to what reads: 1 statement was left out."
    assert found.lateness[0].largest == 40
    assert found.think_ms is not None


@pytest.mark.parametrize(
    ("ended", "error", "words"),
    [
        ("guard disk: 1 GB, at least 2 GB is required", GuardTripped, "guard disk: .* before a statement was answered"),
        ("the stop file", EnvironmentUnsuitable, "no statement was answered before the run ended: the stop file"),
        (COMPLETE, EnvironmentUnsuitable, "no statement was answered$"),
    ],
)
def test_a_run_without_an_answer_says_what_ended_it(
    tmp_path: Path, ended: str, error: type[PgdynoError], words: str
) -> None:
    trace, meta = made(tmp_path)
    tally = RunTally(ended=ended, reasons={"too many clients": 3})
    with pytest.raises(error, match=words) as told:
        result_of(
            make_study(StudyKind.REPLAY), meta, ReplayOptions(trace, tmp_path / "x"), Taped(1, 0, 0, array("q")), tally,
            [], Limits(), 1.0, "e",
        )  # fmt: skip
    assert told.value.detail == "too many clients"
    assert told.value.exit_code is error.exit_code


def _dues(trace: Path) -> list[tuple[int, int, int]]:
    return sorted((int(a), int(b), int(c)) for a, b, c in read_rows(trace, ["session", "seq", "due_us"]))


def test_errors_have_no_part_in_how_long_answers_took(tmp_path: Path) -> None:
    trace, meta = made(tmp_path)
    options = ReplayOptions(trace, tmp_path / "x")
    taped = write_tape(trace, tmp_path / "tape", Order.SESSION, lambda _: None)
    ok = RECORD.pack(0, 1, 0, 10, 20, 1_010, 10, 0, 0, 1, 60, NONE, NONE, Skip.SENT)
    failed = RECORD.pack(0, 2, 0, 10, 20, 9_000_010, 10, 0, 0, -1, 60, b"57014", b"57014", Skip.SENT)

    def told(content: bytes) -> ReplayResult:
        (tmp_path / "records").write_bytes(content)
        return result_of(
            make_study(StudyKind.REPLAY), meta, options, taped, RunTally(ended=COMPLETE),
            [read_records(tmp_path / "records")], Limits(), 1.0, "e",
        )  # fmt: skip

    assert told(ok + failed).service_ms["p99"] == 1.0
    assert told(ok + failed).fidelity.sent == 2
    assert (told(failed).service_ms, told(failed).response_ms) == ({}, {})


@pytest.mark.parametrize("large", [1 << 31, -(1 << 40)])
def test_times_that_need_more_than_32_bits_are_whole(large: int) -> None:
    times = _Times(6)
    for part in ([1, -1], [large], [], [2, 3]):
        times.add(np.array(part, np.int64))
    assert times.all().tolist() == [1, -1, large, 2, 3]


def test_pauses_are_those_at_the_speed_of_the_replay() -> None:
    pauses = array("q", [3, 1 << 33, *range(50_000)])
    found = _think(Taped(0, 0, 0, pauses), 2.0)
    assert found.tolist() == [one // 2 for one in pauses]
