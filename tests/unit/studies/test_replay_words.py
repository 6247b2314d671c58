"""What a replay came to, in words."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pgdyno.cli.replay import _teller
from pgdyno.errors import ExitCode
from pgdyno.model.replay_comparison import Fidelity, Lateness, ReplayPause
from pgdyno.model.results.replay import KeysKept, ReplayResult
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import WorkloadSpec
from pgdyno.report.provenance import environment
from pgdyno.report.sections import TableBlock
from pgdyno.studies.replay.page import _keys, _sections, _tiles
from pgdyno.studies.replay.words import COUNTS, VOID, judgement
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.schema import AnswerClass
from study_example import make_study

ANSWERS = dict.fromkeys([one.value for one in AnswerClass], 0) | {"success": 90, "expected": 5, "new": 3, "changed": 2}
GOOD = ReplayResult(
    study="s", trace="t", outcome="o", engine="e", speed=1.0, level=100.0, clock="schedule", ended="complete",
    answers=ANSWERS, fidelity=Fidelity(statements=100, sent=100),
)  # fmt: skip
LATE = replace(GOOD, fidelity=replace(GOOD.fidelity, invalid=("the injector was late", "and more")))


@pytest.mark.parametrize(
    ("result", "word", "title", "code"),
    [
        (GOOD, COUNTS, "5 were answered differently than in the capture", ExitCode.OK),
        (LATE, VOID, "does not count: the injector was late", ExitCode.NOT_RESOLVED),
        (replace(GOOD, ended="guard disk: 1 GB are free"), VOID, "guard disk: 1 GB are free", ExitCode.RESTORED),
        (replace(GOOD, ended="SIGTERM"), VOID, "ended before the trace did (SIGTERM)", ExitCode.NOT_RESOLVED),
    ],
)
def test_a_run_that_does_not_count_says_why_and_is_looked_at(result, word: str, title: str, code: ExitCode) -> None:
    found = judgement(result)
    assert (found.word, found.code, bool(found.alert)) == (word, code, word == VOID)
    assert title in found.title


def test_times_have_their_thousands_and_the_driver_is_the_engine() -> None:
    late = replace(GOOD.fidelity, lateness=(Lateness("injector", 1.0, 4949.05, 12_345.0),))
    times = {"p50": 4949.2}
    result = replace(GOOD, fidelity=late, service_ms=times, response_ms=times, speed=4949.2)
    told = repr((_tiles(result), _sections(result)))
    for words in ("4,949.05 ms", "'4,949.050', '12,345.000'", "'4,949.200'", "4,949 x"):
        assert words in told
    load = WorkloadSpec("replay", {}, "d", "trace t", read_only=False, unit="statements")
    study = replace(make_study(StudyKind.REPLAY, "replay-1"), workload=load)
    assert dict(environment(study, ()).rows)["driver"].startswith("pgdyno's own replay engine, 1 load generator")


def test_shares_of_answers_sum_to_100() -> None:
    answers = dict.fromkeys([one.value for one in AnswerClass], 0) | {"success": 2, "expected": 2, "new": 2}
    fidelity = replace(GOOD.fidelity, lateness=(Lateness("injector", 1.0, 2.0, 3.0),))
    told = next(one for one in _sections(replace(GOOD, answers=answers, fidelity=fidelity)) if one.id == "answers")
    table = next(one.table for one in told.blocks if isinstance(one, TableBlock))
    assert [row[3] for row in table.rows] == ["33.34 %", "33.33 %", "33.33 %"]


def test_each_pause_is_named_with_who_did_not_rest() -> None:
    pauses = (ReplayPause(2.0, 62.0, 60.0, 1), ReplayPause(70.0, 71.5, 1.5))
    fidelity = replace(GOOD.fidelity, lateness=(Lateness("injector", 1.0, 2.0, 3.0),))
    times = {"p50": 1.0}
    text = repr(_sections(replace(GOOD, pauses=pauses, fidelity=fidelity, service_ms=times, response_ms=times)))
    assert "('paused', 'from 2.0 s to 1:02 min after the begin, 1:00 min; 1 session did not rest')" in text
    assert "('paused', 'from 1:10 min to 1:12 min after the begin, 1.5 s')" in text


def test_sessions_that_a_stand_in_opened_are_named() -> None:
    fidelity = replace(GOOD.fidelity, lateness=(Lateness("injector", 1.0, 2.0, 3.0),))
    alone, text = (
        repr(_sections(replace(GOOD, stand_in="dba", stood_for=roles, fidelity=fidelity)))
        for roles in ((), ("app", "web"))
    )
    assert "SESSION AUTHORIZATION" not in alone
    assert "('sessions of app, web', 'opened by dba, who took on each role by SET SESSION AUTHORIZATION, as" in text
    assert "settings that ALTER ROLE gave to it do not apply" in text


def test_keys_of_the_server_are_counted_mapped_and_not_by_reason() -> None:
    keys = KeysKept(captured=9, without={"nobody returns": 2}, unplaced=1, named=5, learned=4, sent=3, unknown=2)
    text = repr(_keys(keys))
    for words in (
        "7: answers of",
        "not mapped, 2', 'nobody returns'",
        "1 transaction with keys",
        "in 5 places",
        "2 places, as",
    ):
        assert words in text


def test_progress_says_paused_at_once_and_what_is_left_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list[str]()
    progress, ready = SimpleNamespace(announce=lines.append), SimpleNamespace(seconds=20.0)
    monkeypatch.setattr("pgdyno.cli.replay.time.monotonic", lambda: 100.0)
    tell = _teller(progress, ready)  # type: ignore[arg-type]
    for at_us, pauses in (
        (5_000_000, []),
        (5_200_000, []),
        (5_400_000, [[5_300_000, -1, 1]]),
        (8_000_000, [[5_300_000, -1, 0]]),
        (9_000_000, [[5_300_000, 8_300_000, 0]]),
    ):
        tell(RunTally(at_us=at_us, pauses=pauses, sent=2000, done=2040, errors=3))
    assert lines[0].startswith("2,000 statements sent; 3 answered differently than captured; 0 sessions; "), (
        "connects, which are among what is done, are not counted"
    )
    assert [line.split("injector; ")[1] for line in lines] == [
        "15 s left",
        "paused for 0.1 s, 1 session is still at a statement or in a transaction; 15 s left",
        "14 s left",
    ]
