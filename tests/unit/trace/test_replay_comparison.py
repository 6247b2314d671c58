"""A replay held against another one, against its capture, and against a server's log."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.replay_comparison import Basis, Cause, Limits, ReplayComparison, ReplayPause
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.verdict import Word
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.compared_rows import ReplaySide
from pgdyno.trace.comparing import Rules, compare_replay
from pgdyno.trace.refusals import Barred
from replayed_load import LONG, READ, ROUNDS, SESSIONS, WRITE, Load, Statement, noisy, usual_load

TRANSACTIONS = SESSIONS * ROUNDS * 2


def of_outcome(folder):
    return ReplaySide(folder.name, tuple(sorted(folder.glob("part-*.parquet"))))


def compared(tmp_path, load, *, a=None, b, again=None, rules=None, **kept):
    """Write trace and outcomes, and compare; `a`, `b` and `again` are the arguments of `replay`."""
    trace = load.write(tmp_path / "trace.parquet")
    sides = {
        name: of_outcome(load.replay(tmp_path / name, **given))
        for name, given in (("a", a), ("b", b), ("again", again))
        if given is not None
    }
    return compare_replay(
        trace, sides.get("a", ReplaySide("capture")), sides["b"], again=sides.get("again"), rules=rules, **kept
    )


def test_a_class_that_is_slower_is_named_and_the_others_are_not(tmp_path):
    found = compared(
        tmp_path, usual_load(), a={"took": noisy(1)}, again={"took": noisy(2)}, b={"took": noisy(3, {LONG: 1.3})}
    )
    words = {one.text: one.word for one in found.statements.classes}
    assert words[LONG] is Word.WORSE
    assert {word for text, word in words.items() if text != LONG} == {Word.EQUIVALENT}
    assert "SELECT a FROM t WHERE b = $1" in words  # no value of a user
    assert [one.text for one in found.transaction_classes.classes if one.word is Word.WORSE] == [LONG]
    assert (found.word, found.exit_code, found.basis) == (Word.WORSE, ExitCode.FINDINGS, Basis.CLIENT)
    assert "1 class of statements and 1 class of transactions take longer" in found.sentence
    assert sum(one.count for one in found.transactions) == TRANSACTIONS
    assert sum(one.percent for one in found.transactions) == pytest.approx(100)
    assert found.difference is not None
    assert found.difference.again.percent == pytest.approx(50, abs=6)
    assert found.difference.hi < 0


def test_a_side_that_was_paused_has_no_verdict_whichever_it_is(tmp_path):
    load, pause = usual_load(), ReplayPause(0.1, 1.1, 1.0)
    trace = load.write(tmp_path / "trace.parquet")
    sides = [of_outcome(load.replay(tmp_path / name, noisy(n))) for n, name in enumerate(("a", "b", "again"))]
    for paused, name in enumerate(("of A, the run", "INVALID: the run", "of the A/A run, the run")):
        one = [replace(side, pauses=(pause,)) if n == paused else side for n, side in enumerate(sides)]
        found = compare_replay(trace, one[0], one[1], again=one[2])
        assert (found.word, found.exit_code) == (Word.NOT_RESOLVED, ExitCode.NOT_RESOLVED)
        assert f"{name} was paused once, 1.0 s in all" in found.sentence
        assert found.share.of == TRANSACTIONS, "its figures are shown"


@pytest.mark.requirement("R-RPL-10")
def test_delayed_statements_are_ranked_by_the_time_that_users_lost(tmp_path):
    found = compared(tmp_path, usual_load(), a={"took": noisy(1)}, b={"took": noisy(3, {LONG: 1.3, READ: 1.5})})
    first, second, third = found.delayed
    assert [first.text, second.text, third.text] == [LONG, "SELECT a FROM t WHERE b = $1", WRITE]
    assert first.seconds_lost == pytest.approx(SESSIONS * ROUNDS * 0.03, rel=0.2)
    assert first.executions == SESSIONS * ROUNDS >= first.delayed
    assert first.sessions == SESSIONS


@pytest.mark.requirement("R-RPL-03")
@pytest.mark.parametrize(("slower", "is_passed"), [(50, True), (51, False)])
def test_950_transactions_of_1000_that_are_not_slower_pass_and_949_do_not(
    tmp_path: Path, slower: int, is_passed: bool
) -> None:
    each = {turn: 100_000 * turn for turn in range(20)}
    load = Load({session: [Statement(READ, at, 10_000, turn) for turn, at in each.items()] for session in range(50)})
    places = itertools.count()
    late = {"took": lambda one: one.took + 1_000 * (next(places) < slower)}
    found = compared(tmp_path, load, a={"took": lambda one: one.took}, b=late)
    assert (found.share.not_slower, found.share.of, found.share.is_passed) == (1000 - slower, 1000, is_passed)


@pytest.mark.requirement("R-RPL-03")
@pytest.mark.parametrize(("slower", "is_passed"), [(40, True), (41, False)])
def test_a_transaction_with_another_answer_is_no_success(tmp_path: Path, slower: int, is_passed: bool) -> None:
    """The share is of all that were sent: 950 of 990 that are timed are 95.96 %, and 949 would have passed, too."""
    load = Load({session: [Statement(READ, 100_000 * n, 10_000, n) for n in range(20)] for session in range(50)})
    places, failed = itertools.count(), {(session, 20): "42P01" for session in range(10)}
    late = {"took": lambda one: one.took + 1_000 * (one.tx == 0 and next(places) < slower), "answers": failed}
    found = compared(tmp_path, load, a={"took": lambda one: one.took}, b=late)
    assert found.fidelity.is_valid
    assert [one.count for one in found.transactions] == [990 - slower, slower, 10]
    for share in (found.share, found.service_share):
        assert share is not None
        assert (share.not_slower, share.of, share.is_passed) == (990 - slower, 1000, is_passed)


def test_equal_platforms_are_equivalent_and_half_is_not_slower(tmp_path):
    found = compared(
        tmp_path,
        usual_load(),
        a={"took": noisy(1)},
        again={"took": noisy(2)},
        b={"took": noisy(3)},
        rules=Rules(tolerance_points=10),
    )
    assert (found.word, found.exit_code) == (Word.EQUIVALENT, ExitCode.OK)
    assert found.share.percent == pytest.approx(50, abs=6)
    assert not found.share.is_passed
    assert found.statements.count(Word.WORSE) == 0
    assert found.fidelity.warnings  # a certification has a million transactions


def test_without_a_run_on_equal_platforms_only_a_passed_requirement_says_something(tmp_path):
    load = usual_load()
    same = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(3)})
    assert (same.word, same.exit_code) == (Word.NOT_RESOLVED, ExitCode.NOT_RESOLVED)
    assert "no A/A run" in same.sentence
    faster = of_outcome(load.replay(tmp_path / "faster", lambda one: one.took / 2))
    found = compare_replay(tmp_path / "trace.parquet", of_outcome(tmp_path / "a"), faster)
    assert (found.word, found.exit_code, found.share.percent) == (Word.BETTER, ExitCode.OK, 100)
    assert found.change.improvement_percent == pytest.approx(50, abs=1)


@pytest.mark.requirement("R-RPL-06")
def test_an_error_of_both_runs_is_the_environment_and_one_of_the_target_unexpected(tmp_path):
    found = compared(
        tmp_path,
        usual_load(),
        a={"took": noisy(1), "answers": {(0, 1): "42P01", (1, 1): "42P01"}},
        b={"took": noisy(2), "answers": {(0, 1): "42P01", (1, 1): "42703", (2, 1): "22012"}},
    )
    causes = {(line.came, line.cause): line.count for line in found.errors.lines}
    assert causes == {
        ("42P01", Cause.ENVIRONMENT): 1,
        ("42703", Cause.UNEXPECTED): 1,
        ("22012", Cause.UNEXPECTED): 1,
    }
    assert found.errors.unexpected == 2
    assert found.transactions[2].count == 2
    assert found.left_out == {"an error of the environment": 1}


@pytest.mark.requirement("R-RPL-07")
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = 1 WHERE ctid = '(0,1)'",
        "INSERT INTO t VALUES (nextval('s'))",
        "SELECT a FROM t WHERE xmin = 7",
    ],
)
def test_statements_that_depend_on_row_identity_have_that_cause(tmp_path, sql):
    load = usual_load()
    load.sessions[3][0] = replace(load.sessions[3][0], sql=sql)
    found = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "answers": {(3, 1): "23505"}})
    (line,) = found.errors.lines
    assert (line.answer, line.cause, line.count) == ("new", Cause.ROW_IDENTITY, 1)


def inserts(first_value, second_value, *, second_due):
    """Return a load in which two sessions insert a key: the second failed, or came much later."""
    load = usual_load()
    insert = "INSERT INTO k VALUES ($1)"
    load.sessions[60] = [Statement(insert, 1_000, 5_000, 0, [first_value])]
    load.sessions[61] = [Statement(insert, second_due, 5_000, 0, [second_value], "23505")]
    return load


def test_a_unique_key_that_another_session_won_is_the_order(tmp_path):
    load = inserts("7", "7", second_due=2_000)
    found = compared(
        tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "answers": {(60, 1): "23505", (61, 1): ""}}
    )
    causes = {(line.answer, line.captured, line.came): line.cause for line in found.errors.lines}
    assert causes == {("new", "", "23505"): Cause.ORDER, ("missing", "23505", ""): Cause.ORDER}


def test_a_unique_key_that_nobody_else_used_is_unexpected(tmp_path):
    load = inserts("7", "8", second_due=2_000)
    found = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "answers": {(60, 1): "23505"}})
    assert [line.cause for line in found.errors.lines] == [Cause.UNEXPECTED]
    assert found.errors.expected == 1
    assert found.left_out == {"an error that the capture has as well": 1}


def test_what_follows_a_deadlock_has_its_cause(tmp_path):
    answers = {(4, 1): "40P01", (4, 2): "25P02"}
    found = compared(tmp_path, usual_load(), a={"took": noisy(1)}, b={"took": noisy(2), "answers": answers})
    assert {line.came: line.cause for line in found.errors.lines} == {"40P01": Cause.ORDER, "25P02": Cause.ORDER}
    assert found.transactions[2].count == 1


def test_keys_that_a_session_was_given_explain_a_missing_parent(tmp_path):
    load = usual_load()
    load.sessions[5][0] = replace(load.sessions[5][0], sql="INSERT INTO p DEFAULT VALUES RETURNING id")
    found = compared(
        tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "answers": {(5, 2): "23503", (6, 2): "23503"}}
    )
    assert {line.cause: line.count for line in found.errors.lines} == {Cause.ROW_IDENTITY: 1, Cause.UNEXPECTED: 1}


def test_servers_logs_are_compared_by_what_sessions_sent(tmp_path):
    load = usual_load()
    load.sessions[70] = [Statement("SELECT 1", 10, 100, 0)]
    logged = Load()
    for session, statements in load.sessions.items():
        if session != 70:  # that one the log does not have; others began in another order, and later
            took = noisy(session, {LONG: 1.3})
            logged.sessions[(session * 7) % SESSIONS] = [
                replace(one, took=int(took(one)), due=one.due + 100_000) for one in statements
            ]
    trace, log = load.write(tmp_path / "trace.parquet"), logged.write(tmp_path / "log.parquet")
    found = compare_replay(trace, ReplaySide("capture"), ReplaySide("log", log=log))
    assert found.basis is Basis.SERVER
    assert {one.text for one in found.statements.classes if one.word is Word.WORSE} == {LONG}
    assert found.left_out == {"not sent, or not found in the log": 1}
    assert found.service_share is None
    assert "name its outcome" in found.fidelity.unknown
    kept = compare_replay(
        trace,
        ReplaySide("capture"),
        ReplaySide("log", log=log),
        kept=of_outcome(load.replay(tmp_path / "b", noisy(1), injector=3_000)),
    )
    assert [(one.part, one.p99) for one in kept.fidelity.lateness] == [("injector", 3), ("gate", 0), ("server", 0)]


def test_logs_of_real_servers_of_any_version_and_style_are_matched(tmp_path):
    logs = Path(__file__).parents[2] / "data" / "traces"
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    for log, out in (("13-A.csv", first), ("18-B.json", second)):
        build_trace([logs / log], out, BuildOptions())
    found = compare_replay(first, ReplaySide("capture"), ReplaySide("log", log=second))
    assert (found.fidelity.sent, found.fidelity.statements) == (48, 48)
    assert (found.errors.expected, found.errors.lines) == (11, ())
    assert found.share.of > 20
    assert found.fidelity.warnings


def test_errors_of_a_log_void_a_run_too(tmp_path):
    load = usual_load()
    failed = Load({number: [replace(one, sqlstate="22012") for one in rows] for number, rows in load.sessions.items()})
    trace, log = load.write(tmp_path / "trace.parquet"), failed.write(tmp_path / "log.parquet")
    found = compare_replay(trace, ReplaySide("capture"), ReplaySide("log", log=log))
    assert "are not the captured ones" in found.sentence
    assert found.exit_code is ExitCode.NOT_RESOLVED


def test_times_of_a_server_are_not_held_against_times_of_a_caller(tmp_path):
    found = compared(tmp_path, usual_load(), b={"took": lambda one: one.took / 2})
    assert (found.basis, found.word, found.exit_code) == (Basis.UNLIKE, Word.NOT_RESOLVED, ExitCode.NOT_RESOLVED)
    assert "cannot be held against" in found.sentence


def test_a_late_injector_voids_the_comparison(tmp_path):
    found = compared(tmp_path, usual_load(), a={"took": noisy(1)}, b={"took": noisy(1), "injector": 150_000})
    assert found.exit_code is ExitCode.NOT_RESOLVED
    assert found.sentence.startswith("the run is INVALID: the injector was late: p99 150 ms")


def test_a_run_that_b_is_held_against_has_to_count_too(tmp_path):
    late = {"took": noisy(1), "injector": 150_000}
    found = compared(tmp_path, usual_load(), a=late, again=late, b={"took": noisy(2)})
    assert found.exit_code is ExitCode.NOT_RESOLVED
    for side in ("A", "the A/A run"):
        assert f"of {side}, the injector was late: p99 150 ms, more than 2 ms" in found.sentence
    errors = {(session, seq): "42P01" for session in range(SESSIONS) for seq in (1, 2)}
    discounted = compare_replay(
        tmp_path / "trace.parquet",
        of_outcome(usual_load().replay(tmp_path / "old", noisy(1), answers=errors)),
        of_outcome(tmp_path / "b"),
    )
    assert discounted.fidelity.is_valid, "errors of the control run are the environment's"


@pytest.mark.parametrize(
    ("ended", "why"), [("killed", "the run ended before the trace did: killed"), ("", "the run has not ended")]
)
def test_a_run_that_did_not_end_with_its_trace_does_not_count(tmp_path, ended, why):
    load = usual_load()
    trace, whole = load.write(tmp_path / "trace.parquet"), of_outcome(load.replay(tmp_path / "a", noisy(1)))
    cut = replace(whole, ended=ended)
    assert compare_replay(trace, whole, cut).fidelity.invalid == (why,)
    assert compare_replay(trace, cut, whole).fidelity.invalid == (f"of A, {why}",)


def test_response_counts_from_the_due_moment_and_service_from_sending(tmp_path):
    as_captured = {"took": lambda one: one.took}
    found = compared(tmp_path, usual_load(), a=as_captured, b=as_captured | {"injector": 1_000})
    assert (found.share.percent, found.service_share.percent) == (0, 100)


def test_statements_that_were_not_sent_are_counted(tmp_path):
    load = usual_load()
    load.sessions[0][2] = replace(load.sessions[0][2], refused="ALTER SYSTEM")
    load.sessions[0][5] = replace(load.sessions[0][5], refused=Barred.OURS)
    found = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "skip": {(1, 3), (2, 3)}})
    assert found.left_out == {"not sent, or not found in the log": 2}
    assert (found.fidelity.refused, found.fidelity.statements - found.fidelity.sent) == (1, 2)
    strict = Rules(limits=Limits(refused_percent=0))
    refused = compare_replay(
        tmp_path / "trace.parquet", of_outcome(tmp_path / "a"), of_outcome(tmp_path / "b"), rules=strict
    )
    assert refused.fidelity.invalid == (f"1 of {3 * SESSIONS * ROUNDS - 1:,} statements are refused, more than 0 %",)


def test_rows_of_statements_are_compared_where_both_sides_have_them(tmp_path):
    load = usual_load()
    load.sessions[0][0] = replace(load.sessions[0][0], sql="SELECT a FROM t WHERE ctid = '(0,1)'")
    found = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(2), "rows": {(0, 1): 0, (0, 2): 2}})
    assert (found.rows.compared, found.rows.different, found.rows.by_row_identity) == (3 * SESSIONS * ROUNDS, 2, 1)
    unknown = compare_replay(tmp_path / "trace.parquet", ReplaySide("capture"), of_outcome(tmp_path / "b"))
    assert unknown.rows.reason


def test_it_survives_json(tmp_path):
    found = compared(
        tmp_path, usual_load(), a={"took": noisy(1)}, again={"took": noisy(2)}, b={"took": noisy(3, {LONG: 1.3})}
    )
    written = json.loads(json.dumps(plain(found)))
    assert shaped(ReplayComparison, written) == found


def test_files_that_are_something_else_are_named(tmp_path):
    load = usual_load()
    trace, outcome = load.write(tmp_path / "trace.parquet"), of_outcome(load.replay(tmp_path / "b", noisy(1)))
    with pytest.raises(UsageError, match="is no outcome: column"):
        compare_replay(trace, outcome, ReplaySide("b", (trace,)))
    with pytest.raises(UsageError, match="is no trace: column"):
        compare_replay(outcome.outcome[0], outcome, outcome)
    (tmp_path / "text").write_text("no Parquet")
    with pytest.raises(UsageError, match="no Parquet file"):
        compare_replay(tmp_path / "text", outcome, outcome)


def test_a_trace_without_statements_has_no_verdict(tmp_path):
    load = Load({0: [Statement("SELECT 1", 0, 5, 0, refused="ours")]})
    found = compared(tmp_path, load, a={"took": noisy(1)}, b={"took": noisy(1)})
    assert found.exit_code is ExitCode.NOT_RESOLVED
    assert found.transactions[0].count == 0
