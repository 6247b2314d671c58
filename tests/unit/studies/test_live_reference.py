"""Watching a baseline that is made up: what is read when, what voids a reading, and what the whole comes to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from facts_from_params import make_facts
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, ExitCode, OutOfTime
from pgdyno.model.results.live import LiveResult
from pgdyno.model.shapes import plain
from pgdyno.model.study import USERS_LOAD, StudyKind, StudyState
from pgdyno.model.trial import WorkloadSpec
from pgdyno.probes.settings_seen import SettingSeen
from pgdyno.probes.statements import DatabaseTotals, SessionCounts, StatementKey
from pgdyno.report.drawing.html import render as render_html
from pgdyno.report.drawing.text import render
from pgdyno.report.sections import TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.stats.body_index import StatementReference
from pgdyno.stats.statement_deltas import StatementSnapshot, VoidCause
from pgdyno.store.codec import result_from_json
from pgdyno.studies.live import ground
from pgdyno.studies.live.reference import watch_baseline
from pgdyno.studies.live.watch import SETTINGS_S, SettingsMoved
from pgdyno.studies.live.watched_result import live_result
from pgdyno.studies.live.words import held
from pgdyno.studies.live.world import StopFile
from pgdyno.studies.reports import compose
from study_example import make_study

MEAN_MS = np.array([2.0, 9.0, 300.0])
RATES = np.array([200.0, 40.0, 0.02])


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Server:
    """Three statements at steady rates, whose times scatter; `tampered` changes a reading, `down` fails it."""

    def __init__(self, clock, *, rates=RATES, own=0.0, tampered=None, down=(), error=ConnectError):
        self._clock, self._rates, self._own, self._error = clock, rates, own, error
        self._tampered, self._down = tampered or {}, set(down)
        self._rng = np.random.default_rng(1)
        self._calls, self._times, self._read = np.zeros(3), np.zeros(3), 0
        self._last = clock.now
        self.reads, self.session_reads, self.reopened = 0, 0, 0

    def statements(self):
        self.reads += 1
        if self.reads in self._down:
            raise self._error("gone")
        passed, self._last = self._clock.now - self._last, self._clock.now
        calls = self._rng.poisson(self._rates * passed)
        self._calls = self._calls + calls
        self._times = self._times + calls * MEAN_MS * self._rng.normal(1, 0.02, 3)
        snapshot = StatementSnapshot(
            at=self._clock.now, started_at=1.0, ids=np.arange(3), calls=self._calls, exec_ms=self._times,
            sd_ms=np.ones(3), plans=np.zeros(3), plan_ms=np.zeros(3), rows=np.zeros(3), since=np.full(3, np.nan),
            blocks=np.zeros(3),
            own_ms=self._own * float(self._times.sum()),
        )  # fmt: skip
        return self._tampered.get(self.reads, lambda one: one)(snapshot)

    def sessions(self, since):
        self.session_reads += 1
        return SessionCounts(10, 2, 4, 0.5)

    def databases(self):
        return DatabaseTotals(100.0 * self._clock.now, 0.0, 2 * float(self._times.sum()))

    def reopen(self):
        self.reopened += 1


def watched(seconds=600.0, clock=None, **server):
    clock = clock or Clock()
    made = Server(clock, **server)
    return made, watch_baseline(made, seconds, announce=lambda _: None, clock=clock, sleep=clock.sleep)


KEYS = [StatementKey(5, 6, queryid, True) for queryid in (11, -22, 33)]
NAMES = ({5: "shop"}, {6: "web"})


def result(seconds=600.0, **server):
    _, seen = watched(seconds, **server)
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE)
    return study, live_result(study, make_facts(18), seen, KEYS, NAMES, elapsed_s=601.0)


def test_statements_are_read_every_five_seconds_and_sessions_every_second():
    server, seen = watched(60.0)
    assert len(seen.steps) == len(seen.whole) == 12
    assert server.reads == 13
    assert server.session_reads == len(seen.sessions) == 60


def test_a_reset_a_restart_and_a_clock_that_was_set_void_the_reading_and_no_other():
    def later(change):
        return lambda snapshot: replace(snapshot, **change(snapshot))

    tampered = {3: later(lambda one: {"at": one.at + 60})}
    _, seen = watched(40.0, tampered=tampered)
    assert [isinstance(step, VoidCause) for step in seen.steps] == [False, True, True, *[False] * 5]
    _, seen = watched(40.0, tampered={number: later(lambda _: {"dealloc": 1}) for number in range(5, 99)})
    assert seen.void == {VoidCause.EVICTED.value: 1}


@pytest.mark.parametrize("error", [ConnectError, EnvironmentUnsuitable])
def test_a_server_that_is_away_or_refuses_for_a_moment_costs_one_reading(error):
    """A busy one lets our reading run into its timeout, which is no end of half an hour of watching."""
    _, seen = watched(60.0, down=(4, 5), error=error)
    assert len(seen.whole) == 11
    assert len(seen.steps) == 12


@pytest.mark.parametrize("error", [ConnectError, EnvironmentUnsuitable])
def test_a_server_that_stays_away_ends_it(error):
    with pytest.raises(error, match="gone"):
        watched(600.0, down=range(4, 999), error=error)


def test_the_load_of_our_own_role_cannot_be_watched():
    with pytest.raises(EnvironmentUnsuitable, match="the role that pgdyno has"):
        watched(120.0, own=0.5)
    watched(120.0, own=0.1)


def test_entries_that_are_given_up_all_the_time_cannot_be_watched():
    counter = iter(range(1000))
    full = {number: (lambda one: replace(one, dealloc=next(counter))) for number in range(1, 99)}
    with pytest.raises(EnvironmentUnsuitable, match="is full"):
        watched(120.0, tampered=full)


@pytest.mark.parametrize("seconds", [15.0, 600.0])
def test_a_server_whose_statistics_are_always_reset_cannot_be_watched(seconds):
    counter = iter(range(1000))
    reset = {number: (lambda one: replace(one, reset_at=float(next(counter)))) for number in range(1, 999)}
    with pytest.raises(EnvironmentUnsuitable, match="no reading of pg_stat_statements") as caught:
        watched(seconds, tampered=reset)
    assert f"{min(12, int(seconds / 5))} x " in str(caught.value.detail)


def test_a_steady_load_can_be_resolved_and_the_rare_statement_is_beside_the_claim():
    study, told = result()
    assert (told.exit_code, told.period_s) == (ExitCode.OK, 30.0)
    assert told.chosen is not None
    assert told.chosen.effects[2].effect < 0.1
    assert [one.queryid for one in told.body] == ["11", "-22"]
    assert [(one.queryid, one.database, one.role) for one in told.beside] == [("33", "shop", "web")]
    assert told.reference.visible == pytest.approx(0.5, rel=0.01)
    assert told.reference.commits_a_second == pytest.approx(100.0)
    assert not any("too short" in note for note in told.notes)
    assert study.id == told.study


def test_one_statement_that_takes_longer_than_a_fourth_of_a_period_is_told(monkeypatch):
    monkeypatch.setitem(globals(), "MEAN_MS", np.array([2.0, 9.0, 9000.0]))
    (note,) = [note for note in result()[1].notes if "longer than a fourth" in note]
    assert note.startswith("1 statement takes longer than a fourth of a period")


@pytest.mark.requirement("R-TUN-14")
@pytest.mark.parametrize(("computing", "is_saturated"), [(9, True), (8, False), (2, False)])
def test_a_server_without_a_cpu_for_each_process_says_so_and_one_where_sessions_wait_does_not(computing, is_saturated):
    clock = Clock()
    server = Server(clock)
    server.sessions = lambda since: SessionCounts(40, 20, 4, 0.5, computing=computing)
    seen = watch_baseline(server, 600.0, announce=lambda _: None, clock=clock, sleep=clock.sleep)
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE)
    told = live_result(study, make_facts(18, cores=8), seen, KEYS, NAMES, around=("So and so.",), elapsed_s=1.0)
    assert (
        any("more processes computed or waited for a CPU than there are CPUs (8)" in note for note in told.notes)
        is is_saturated
    )
    assert told.reference.computing_median == computing
    assert told.notes[-1] == "So and so."


def test_sessions_that_do_not_report_their_time_leave_the_share_of_statements_unknown():
    clock = Clock()
    server = Server(clock)
    server.databases = lambda: DatabaseTotals(100.0, 0.0, clock.now / 1000)
    seen = watch_baseline(server, 600.0, announce=lambda _: None, clock=clock, sleep=clock.sleep)
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE)
    told = live_result(study, make_facts(18), seen, KEYS, NAMES, elapsed_s=1.0)
    assert told.reference.visible is None
    assert not any("explain" in note for note in told.notes)


def test_a_short_reference_says_so():
    _, told = result(240.0)
    assert "too short" in told.notes[0]


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        (np.zeros(3), "no statement of others ended"),
        (np.array([1.0, 0.1, 0.0]), "100 would take"),
        (np.array([200.0, 40.0, 0.0]), None),
    ],
)
def test_a_load_that_is_too_small_is_not_resolved(rates, why):
    _, told = result(rates=rates)
    assert (told.exit_code is ExitCode.NOT_RESOLVED) == (why is not None)
    assert why is None or why in told.title


@pytest.mark.parametrize(
    ("cv", "seconds", "rest"),
    [
        (7.8, 240.0, ", which periods of 1:00 min would hold; watch it for 5:00 min or more"),
        (7.8, 600.0, ", which periods of 1:00 min would hold"),
        (20.0, 600.0, ", which periods of 5:01 min would hold"),
        (float("inf"), 600.0, "; how the calls of the others scatter is not known"),
    ],
)
def test_where_too_little_of_the_time_is_told_it_is_said_what_would_do(cv, seconds, rest):
    calls, time_ms = np.array([60.0, 60.0]) * seconds, np.array([50.0, 5.0]) * seconds
    m2 = (np.array([cv, 1.0]) * time_ms / calls) ** 2 * (calls - 1)
    if not np.isfinite(cv):
        calls[0], m2[0] = 1.0, 0.0
    said = held(0.13, 30.0, StatementReference(seconds, calls, time_ms, m2))
    assert said == f"the statements that a period of 30 s resolves hold 13 % of the time, at least half is needed{rest}"


def test_the_result_and_its_page_survive_the_store():
    study, told = result(tampered={9: lambda one: replace(one, reset_at=5.0), 10: lambda one: one})
    again = result_from_json(StudyKind.LIVE, plain(told))
    assert isinstance(again, LiveResult)
    assert again == told
    load = WorkloadSpec(USERS_LOAD, {}, "", "the load of its users", read_only=False, unit="statements")
    watched = replace(study, result=again, workload=load)
    report = compose(StudyRecord(watched, ()))
    assert report.word == "resolvable"
    assert VoidCause.RESET.value in str(report.sections)
    assert render(report) is not None
    assert "pgbench" not in str(report.sections)
    assert "the load of its users" in render_html(report).lower()


def test_a_study_that_was_ended_has_a_page_without_an_answer():
    assert compose(StudyRecord(replace(make_study(StudyKind.LIVE), state=StudyState.FAILED), ())).title.startswith("No")


@pytest.mark.requirement("R-TUN-16")
@pytest.mark.parametrize(("bytes_a_second", "is_told"), [(0.0, True), (50.0, True), (60_000.0, False)])
def test_of_a_load_that_hardly_writes_it_is_said_that_nothing_of_it_holds_under_writes(bytes_a_second, is_told):
    clock = Clock()
    server = Server(clock)
    server.databases = lambda: DatabaseTotals(100.0, 0.0, None, wal_bytes=bytes_a_second * clock.now)
    seen = watch_baseline(server, 600.0, announce=lambda _: None, clock=clock, sleep=clock.sleep)
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE)
    told = live_result(study, make_facts(18), seen, KEYS, NAMES, elapsed_s=1.0)
    assert any("hardly writes" in note for note in told.notes) is is_told


def test_the_page_says_what_settings_that_need_a_restart_would_cost_to_prove():
    study, told = result()
    page = compose(StudyRecord(replace(study, result=told), ()))
    (section,) = [one for one in page.sections if one.id == "restarts"]
    (block,) = section.blocks
    assert [row[:2] for row in block.table.rows][:2] == [("3", "4"), ("4", "4")]
    assert "simulated" in block.caption


def test_a_length_with_too_few_neighbours_says_unknown_and_not_that_nothing_would_be_seen():
    study, found = result(120.0)
    page = compose(StudyRecord(replace(study, result=found), []))
    (section,) = [one for one in page.sections if one.id == "resolution"]
    (block,) = [one for one in section.blocks if isinstance(one, TableBlock)]
    for row in block.table.rows:
        assert ("unknown" in row[5:]) is (row[1] == "unknown"), row
    assert "unknown" in {row[1] for row in block.table.rows}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_sessions_that_stay_keep_their_plans_unless_arms_come_by_restarts(is_restarted):
    clock = Clock()
    server = Server(clock)
    server.sessions = lambda since: SessionCounts(10, 2, 9, 0.5)
    seen = watch_baseline(server, 600.0, announce=lambda _: None, clock=clock, sleep=clock.sleep)
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE)
    told = live_result(study, make_facts(18), seen, KEYS, NAMES, elapsed_s=1.0, is_restarted=is_restarted)
    assert any("cached generic plans" in note for note in told.notes) is not is_restarted


def test_settings_that_somebody_changes_while_a_server_is_watched_are_noted_once():
    """Another study that compares two values makes periods differ which this one takes for the load's own."""
    clock, small, large = Clock(), SettingSeen("4096", "kB"), SettingSeen("65536", "kB")
    seen = iter([{"work_mem": small}, None, {"work_mem": large}, {"work_mem": small}, {"work_mem": large}])
    moved = SettingsMoved(lambda: next(seen), clock)
    for _ in range(9):
        moved.look()
        clock.sleep(SETTINGS_S / 2)
    assert moved.notes() == (
        "Somebody changed settings while it was watched, and periods differ by that, too: work_mem was changed from "
        "4096kB to 65536kB; work_mem was changed from 65536kB to 4096kB.",
    )
    assert next(seen, None) is None


def test_of_many_settings_a_few_are_named():
    clock = Clock()
    seen = iter([{}, {f"s{number}": SettingSeen("1") for number in range(8)}])
    moved = SettingsMoved(lambda: next(seen), clock)
    moved.look()
    assert moved.notes() == ()
    clock.sleep(SETTINGS_S)
    moved.look()
    assert moved.notes()[0].endswith("s3 was set; s4 was set; and 3 more.")


@pytest.mark.requirement("R-SAF-12")
def test_a_stop_file_ends_the_reference_before_anything_was_changed(tmp_path):
    server, stop = Server(Clock()), StopFile(tmp_path / "stop")
    stop.path.touch()
    with pytest.raises(OutOfTime, match=r'the stop file ".*stop" was found, before anything was changed'):
        ground._watched(server, 600.0, [lambda: ground.require_no_stop(stop)], lambda _text: None)
    assert server.reads == 1
