"""A watch of a server that is made up: what is told of it, what voids a reading, how it ends, and its page."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from facts_from_params import make_facts
from fix_postgres import NIGHT
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, ExitCode
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.results.watch import WatchEventKind, WatchResult
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import WorkloadSpec
from pgdyno.probes.settings_seen import SettingSeen, changed
from pgdyno.probes.statements import SessionCounts, StatementKey, StatementReader
from pgdyno.report.drawing.html import render as render_html
from pgdyno.report.drawing.text import render
from pgdyno.report.study_record import StudyRecord
from pgdyno.stats.regressions import Slowdown
from pgdyno.stats.statement_deltas import StatementSnapshot
from pgdyno.store.codec import result_from_json
from pgdyno.studies.kind import Offered
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.reports import compose
from pgdyno.studies.watch import run, telling
from pgdyno.studies.watch.profiles import other_profile
from pgdyno.studies.watch.run import watch
from pgdyno.studies.watch.study import proposals, result_of
from pgdyno.studies.watch.telling import MOST_EVENTS, Told
from simulated_live_world import WATCHED
from study_example import make_study

KEYS = [StatementKey(5, 6, queryid, True) for queryid in (11, -22, 33)]
NAMES = ({5: "shop"}, {6: "web"})
BEGAN = 1_800_000_000.0
MEMORY = SettingSeen("4096", "kB")


class Server:
    """Three statements at steady rates; `factors` tells of a reading how long they take, `tampered` changes one."""

    def __init__(
        self, *, factors=lambda reading: np.ones(3), tampered=None, down=(), refuses=(), stop_at=None, own=0.0
    ):
        self.now, self.reading, self.asked = BEGAN, 0, 0
        self._factors, self._tampered, self._down, self._stop, self._own = factors, tampered or {}, down, stop_at, own
        self._refuses = refuses
        self._rng = np.random.default_rng(1)
        self._calls, self._ms, self._squares, self._blocks = (np.zeros(3) for _ in range(4))
        self.started, self.active = 1.0, 1
        self.keys = list(KEYS)

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def reopen(self):
        pass

    def sessions(self, since):
        return SessionCounts(12, self.active, 9, 0.1)

    def statements(self):
        self.asked += 1
        if self.asked in self._down:
            raise ConnectError("it does not answer")
        if self.asked in self._refuses:
            raise EnvironmentUnsuitable('"db1" refused a statement: canceling statement due to statement timeout')
        self.reading += 1
        if self.reading == self._stop:
            raise KeyboardInterrupt
        calls, factors = self._rng.poisson([3000.0, 900.0, 300.0]), self._factors(self.reading)
        self._calls = self._calls + calls
        mean = np.array([1.0, 4.0, 9.0]) * factors * self._rng.normal(1, 0.03, 3)
        self._ms, self._squares = self._ms + calls * mean, self._squares + calls * mean**2 * 1.25
        self._blocks = self._blocks + calls * np.where(factors > 3, 400.0, 4.0)
        one = StatementSnapshot(
            at=self.now, started_at=self.started, ids=np.arange(3), calls=self._calls, exec_ms=self._ms,
            sd_ms=np.sqrt(self._squares / self._calls - (self._ms / self._calls) ** 2),
            plans=np.zeros(3), plan_ms=np.zeros(3), rows=self._calls, since=np.full(3, np.nan),
            blocks=self._blocks, own_ms=self._own * float(self._ms.sum()),
        )  # fmt: skip
        return self._tampered.get(self.reading, lambda one: one)(one)


def watched(server, *, minutes=40, settings=None):
    heard, kept = [], []
    seen = watch(
        server, settings or (dict), Told(60.0, server.keys, lambda: NAMES),
        seconds=60.0 * minutes, period_s=60.0, announce=heard.append, keep=lambda seen: kept.append(len(heard)),
        clock=server.clock, sleep=server.sleep,
    )  # fmt: skip
    assert [one for one in heard if one in seen.told.events] == seen.told.events
    assert len(heard) == seen.told.told
    return seen, kept


def slow(number, factor, since=30):
    def factors(reading):
        made = np.ones(3)
        made[number] = factor if reading > since else 1.0
        return made

    return factors


def result(seen):
    load = WorkloadSpec("live", {}, "", "the load of its users", read_only=False, unit="statements")
    study = replace(make_study(StudyKind.WATCH), state=StudyState.COMPLETE, workload=load)
    return study, result_of(study, make_facts(18), seen, 2400.0, 0.2)


def test_a_quiet_server_is_told_to_be_quiet():
    seen, kept = watched(Server())
    _, found = result(seen)
    assert (found.events, found.exit_code) == ((), ExitCode.OK)
    assert found.readings == 40
    assert found.detectable is not None
    assert kept == [0, 0], "every quarter of an hour"


def test_a_slower_statement_is_told_by_name_and_with_its_plan():
    seen, kept = watched(Server(factors=slow(1, 8.0)))
    [event] = seen.told.events
    assert event.what is WatchEventKind.SLOWER
    assert (event.queryid, event.database, event.role) == ("-22", "shop", "web")
    assert event.text.startswith("statement -22 of web in shop takes 8.1 times as long (")
    assert "400 blocks a call, 4 before, for as many rows: most likely another plan" in event.text
    assert event.since == pytest.approx(BEGAN + 29 * 60, abs=61)
    assert 1 in kept, "what was found is kept at once"
    assert result(seen)[1].exit_code is ExitCode.FINDINGS


def test_a_setting_that_somebody_changed_is_told_and_named_with_what_followed():
    readings = itertools.count()
    server = Server(factors=slow(2, 2.5))
    values = lambda: {"work_mem": MEMORY if next(readings) < 30 else replace(MEMORY, value="64")}  # noqa: E731
    seen, _ = watched(server, settings=values)
    setting, slower = seen.told.events
    assert setting.text == "work_mem was changed from 4096kB to 64kB"
    assert slower.text.endswith("at that time work_mem was changed from 4096kB to 64kB")


def test_restarts_resets_and_outages_raise_no_alarm():
    def restarted(one):
        return replace(one, started_at=2.0)

    server = Server(
        factors=slow(0, 3.0),
        tampered={30: lambda one: replace(one, reset_at=5.0), **dict.fromkeys(range(31, 99), restarted)},
        down=(20,),
    )
    seen, _ = watched(server)
    whats = [event.what for event in seen.told.events]
    assert set(whats) == {WatchEventKind.AWAY, WatchEventKind.RESET, WatchEventKind.RESTARTED}
    assert whats.count(WatchEventKind.RESTARTED) == 1
    assert result(seen)[1].exit_code is not ExitCode.FINDINGS


def test_a_reading_that_is_refused_for_some_minutes_ends_no_watch_of_a_week():
    seen, _ = watched(Server(refuses=range(20, 60)))
    assert [event.text for event in seen.told.events] == [
        'the server refuses to be read: "db1" refused a statement: canceling statement due to statement timeout'
    ]
    assert result(seen)[1].exit_code is ExitCode.OK
    assert seen.void == {"a reading came late, or the clock was set": 1}


def test_a_server_that_refuses_for_good_ends_it_with_what_was_seen():
    server, kept = Server(factors=slow(1, 8.0), refuses=range(40, 9999)), []
    with pytest.raises(EnvironmentUnsuitable, match="refused a statement"):
        watch(
            server, dict, Told(60.0, server.keys, lambda: NAMES), seconds=7 * 86_400.0, period_s=60.0,
            announce=lambda _event: None, keep=lambda seen: kept.append(list(seen.told.events)),
            clock=server.clock, sleep=server.sleep,
        )  # fmt: skip
    assert [event.what for event in kept[-1]] == [WatchEventKind.SLOWER, WatchEventKind.AWAY]
    assert server.now - BEGAN < 40 * 60 + run.REFUSED_S + 60


def test_a_setting_that_is_switched_to_and_fro_is_told_once_an_hour():
    readings = itertools.count()
    values = lambda: {"work_mem": replace(MEMORY, value=str(4 + 60 * (next(readings) % 2)))}  # noqa: E731
    seen, _ = watched(Server(), minutes=130, settings=values)
    texts = [event.text for event in seen.told.events]
    assert texts == 2 * ["work_mem was changed from 4kB to 64kB", "work_mem was changed from 64kB to 4kB"] + texts[4:]
    assert len(texts) == 6, "in the first, the second and the third hour"


def test_a_setting_that_is_another_each_minute_fills_neither_memory_nor_store_and_pushes_out_nothing_else(monkeypatch):
    most, minutes = (MOST_EVENTS, 1500) if NIGHT else (200, 300)
    monkeypatch.setattr(telling, "MOST_EVENTS", most)
    readings = itertools.count()
    server = Server(factors=slow(1, 8.0))
    values = lambda: {"work_mem": replace(MEMORY, value=str(next(readings)))}  # noqa: E731
    seen, _ = watched(server, minutes=minutes, settings=values)
    whats = [event.what for event in seen.told.events]
    assert (len(whats), whats.count(WatchEventKind.SLOWER)) == (most, 1)
    assert seen.told.told > minutes - 100
    _, found = result(seen)
    assert found.title.startswith("In ")
    assert f"at least 1 statement became slower and {most - 1} setting changes were made" in found.title
    assert any(note.startswith(f"Of {seen.told.told} events {most} are kept") for note in found.notes)


def test_what_is_new_is_told_once_and_whole_though_more_comes_at_once_than_is_kept():
    told = Told(60.0, KEYS, lambda: NAMES)
    for number in range(500):
        told.note(WatchEventKind.SLOWER, BEGAN, f"old {number}")
    before = told.told
    for number in range(700):
        told.note(WatchEventKind.SETTING, BEGAN, f"new {number}")
    assert [event.text for event in told.since(before)] == [f"new {number}" for number in range(200, 700)]
    assert len(told.events) == MOST_EVENTS


def test_what_is_faster_again_says_against_when():
    told = Told(60.0, KEYS, lambda: NAMES)
    one = told.step(Slowdown(1, 0.5, 30, 0.2, is_back=True), 40, BEGAN)
    assert one.text.startswith("statement -22 of web in shop takes 0.5 times as long as when it was slower (20 %")
    whole = told.step(Slowdown(None, 0.8, 30, 1.0, is_back=True), 40, BEGAN)
    assert whole.text == "the statements as a whole take 0.8 times as long as when they were slower"


def test_of_a_server_that_became_slower_as_a_whole_no_statement_is_counted():
    seen, _ = watched(Server())
    seen.told.step(Slowdown(None, 2.0, 30, 1.0), 40, BEGAN + 2400.0)
    assert result(seen)[1].title == "In 40:00 min the server as a whole became slower"


def test_ctrl_c_is_the_end_of_a_watch_and_no_failure():
    seen, _ = watched(Server(stop_at=12))
    _, found = result(seen)
    assert found.readings == 10
    assert (found.word, found.exit_code) == ("too short", ExitCode.NOT_RESOLVED)


def test_new_statements_are_noted_once():
    def without(one):
        return replace(
            one, ids=one.ids[:2], **{name: getattr(one, name)[:2] for name in
            ("calls", "exec_ms", "sd_ms", "plans", "plan_ms", "rows", "since", "blocks")},
        )  # fmt: skip

    seen, _ = watched(Server(tampered=dict.fromkeys(range(1, 28), without)))
    [event] = seen.told.events
    assert event.what is WatchEventKind.DEPLOYED
    assert "not there before" in event.text


def test_a_load_of_our_own_role_is_refused():
    with pytest.raises(EnvironmentUnsuitable, match="of the role that pgdyno has here"):
        watched(Server(own=1.0))


def test_values_that_may_be_secret_are_not_told():
    before = {"archive_command": SettingSeen("cp", hidden=True), "wal_buffers": SettingSeen("512", "8kB")}
    after = {"archive_command": SettingSeen("curl -u me:secret", hidden=True), "jit": SettingSeen("off")}
    assert changed(before, after) == [
        "archive_command was changed", "jit was set", "wal_buffers was taken away",
    ]  # fmt: skip
    assert str(before["wal_buffers"]) == "512 x 8kB"


def test_a_setting_whose_values_are_not_told_is_said_to_be_back_where_it_was():
    readings = itertools.count()
    texts = {False: SettingSeen("stderr", hidden=True), True: SettingSeen("csvlog", hidden=True)}
    values = lambda: {"log_destination": texts[5 < next(readings) < 9]}  # noqa: E731
    seen, _ = watched(Server(), settings=values)
    assert [one.text for one in seen.told.events] == ["log_destination was changed", "log_destination was changed back"]
    _, found = result(seen)
    assert "2 setting changes were made" in found.title


def test_minus_one_is_no_time_and_no_size():
    before, after = (SettingSeen(value, "ms") for value in ("-1", "250"))
    assert changed({"log_min_duration_statement": before}, {"log_min_duration_statement": after}) == [
        "log_min_duration_statement was changed from -1 to 250ms"
    ]


def test_the_page_and_the_stored_result_say_the_same():
    seen, _ = watched(Server(factors=slow(1, 8.0)))
    study, found = result(seen)
    assert isinstance(found, WatchResult)
    assert result_from_json(StudyKind.WATCH, plain(found)) == found
    report = compose(StudyRecord(replace(study, result=found), []))
    assert "1 statement became slower" in report.title
    assert "most likely another plan" in render_html(report)
    assert "laboratory" not in render_html(report)
    assert render(report) is not None


def test_a_setting_that_was_accepted_long_ago_is_proposed_for_another_look():
    facts, day = make_facts(18), 86_400.0
    in_force = facts.row("work_mem").setting + "kB"

    def record(at, action=ChangeAction.APPLY, knob="work_mem", new=in_force):
        return ChangeRecord(at, "me", action, "db1", "e", "s", "r", knob, "64MB", new, "study-of-may")

    [said] = proposals([record(BEGAN - 200 * day)], "db1", facts, BEGAN)
    assert "study-of-may" in said
    assert "pgdyno live --b 'work_mem=64MB'" in said
    for changes, target in (
        ([record(BEGAN - 20 * day)], "db1"),
        ([record(BEGAN - 200 * day)], "another"),
        ([record(BEGAN - 200 * day), record(BEGAN - 199 * day, ChangeAction.ROLLBACK)], "db1"),
        ([record(BEGAN - 200 * day, new="1GB")], "db1"),
        ([record(BEGAN - 200 * day, knob="shared_buffers")], "db1"),
    ):
        assert proposals(changes, target, facts, BEGAN) == ()


class Churning(Server):
    """Beside the three forty new statements come with each reading; in every thirtieth all but those are gone."""

    def __init__(self, **more):
        super().__init__(**more)
        self._reader = StatementReader(None)
        self.keys = self._reader.keys
        self.release = self._reader.release
        for key in KEYS:
            self._reader._number((key.database, key.role, key.queryid, key.toplevel))

    def statements(self):
        one = super().statements()
        block = range(self.reading - self.reading % 30, self.reading + 1)
        made = [self._reader._number((5, 6, 100 * n + place, True)) for n in block for place in range(40)]
        order = np.argsort(ids := np.array([0, 1, 2, *made]))
        columns = ("calls", "exec_ms", "sd_ms", "plans", "plan_ms", "rows", "since", "blocks")
        rest = {"calls": 1.0, "exec_ms": 1.0, "rows": 1.0, "since": np.nan}
        more = {name: np.append(getattr(one, name), np.full(len(made), rest.get(name, 0.0)))[order] for name in columns}
        return replace(one, ids=ids[order], **more)


def test_a_load_that_makes_new_statements_all_day_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(run, "MOST_GONE", 100)
    server = Churning(factors=slow(1, 2.0, since=250))
    seen, _ = watched(server, minutes=300)
    assert len(server.keys) < 40 * 80, "of 12,000 that there were"
    assert len(seen.first_seen) < 40 * 80
    (told,) = [one for one in seen.told.events if one.what is WatchEventKind.SLOWER]
    assert told.queryid == "-22"


@pytest.mark.requirement("R-TUN-09")
def test_another_number_of_sessions_at_work_proposes_another_search_or_what_was_found_with_as_many(monkeypatch):
    def found(name, sessions, settings, **fields):
        monkeypatch.setitem(offers, name, Offered(settings))
        reference = replace(WATCHED.reference, active_median=sessions)
        result = replace(WATCHED, study=name, reference=reference)
        study = replace(make_study(StudyKind.LIVE), id=name, state=StudyState.COMPLETE, result=result, environment="e")
        return replace(study, **fields)

    offers: dict[str, Offered] = {}
    monkeypatch.setattr(type(kind_of(StudyKind.LIVE)), "offered", lambda _self, study: offers[study.id])
    alone, many = found("alone", 1.0, {"work_mem": "1GB"}), found("many", 9.0, {"work_mem": "16MB"})
    server = Server()
    server.active = 10
    seen, _ = watched(server)
    assert seen.at_work == 10.0
    [said] = other_profile([alone], "e", seen.at_work)
    assert said.startswith("the settings of study alone were found with 1 session at work, and 10 are at work now")
    assert "pgdyno live --search" in said
    [said] = other_profile([alone, many], "e", seen.at_work)
    assert "Study many found work_mem = 16MB with 9 sessions: pgdyno live --b 'work_mem=16MB'" in said
    for studies, environment, at_work in (([alone], "e", 1.0), ([alone], "e", 3.0), ([many], "e", 10.0),
                                          ([alone], "other", 10.0), ([alone], "e", None), ([], "e", 10.0)):  # fmt: skip
        assert other_profile(studies, environment, at_work) == ()
    unfinished, nothing = replace(alone, state=StudyState.FAILED), found("none", 1.0, {})
    assert other_profile([unfinished, nothing], "e", 10.0) == ()
