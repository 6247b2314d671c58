"""What each guard compares with its limit, out of ticks made by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_ticks import GB, a_tick, ticks
from pgdyno.model.guard import Absent, Concurrent, Failed, GuardKind, GuardPlan
from pgdyno.model.guard_table import GUARDS
from pgdyno.model.live import Colour
from pgdyno.probes.guards.memory import OwnKills
from pgdyno.probes.guards.reader import Tick
from pgdyno.probes.guards.server import GuardRow
from pgdyno.trial.guard_history import History, Origin
from pgdyno.trial.guard_quantities import readings, with_clients
from pgdyno.trial.guards import GuardStatus, judge


def value_of(history: History, name: str, concurrent: Concurrent | None = None) -> object:
    (found,) = [reading.value for reading in readings(history, concurrent) if reading.name == name]
    return found


def test_every_guard_has_one_reading_in_the_order_of_the_table() -> None:
    for history in (ticks(a_tick(0)), ticks(a_tick(0, server=Failed("x"), memory=Failed("x"), volumes=Failed("x")))):
        assert [reading.name for reading in readings(history)] == list(GUARDS)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_failing_counts_the_unbroken_end_only(fails: list[bool]) -> None:
    history = ticks(*(a_tick(t, server=Failed("down") if bad else None) for t, bad in enumerate(fails)))
    run = len(fails) - max((t + 1 for t, bad in enumerate(fails) if not bad), default=0)
    assert value_of(history, "readings") == max(0, run - 1)
    breach = judge(readings(history), GuardPlan())["readings"].breach
    assert (breach is not None) == (run - 1 > 2)
    assert breach is None or "the server cannot be read: down" in breach.words


def test_a_volume_that_cannot_be_read_is_not_the_configurations_fault() -> None:
    history = ticks(*(a_tick(t, volumes=Failed("input/output error")) for t in range(5)))
    breach = judge(readings(history), GuardPlan())["readings"].breach
    assert breach is not None
    assert breach.kind is GuardKind.ENVIRONMENT


def test_a_silent_standby_ages_from_the_first_wal_that_it_lacks() -> None:
    """It stops at 300 of WAL; 400 was first seen at second 4."""
    history = ticks(*(a_tick(t, lsn=100 * t, standbys={"s": min(100 * t, 300)}) for t in range(10)))
    assert value_of(history, "replication-lag") == 5.0
    assert value_of(history, "replication-bytes") == 600.0
    idle = ticks(*(a_tick(t, lsn=300, standbys={"s": 300}) for t in range(10)))
    assert value_of(idle, "replication-lag") == 0.0


def test_a_standby_that_is_gone_ages_from_when_it_was_last_seen() -> None:
    seen = [a_tick(t, lsn=100 * t, standbys={"s": 100 * t}) for t in range(4)]
    gone = [a_tick(t, lsn=100 * t) for t in range(4, 9)]
    assert value_of(ticks(*seen, *gone), "replication-lag") == 5.0
    never_back = History(Origin.of(seen[0]), tuple(gone))
    assert value_of(never_back, "replication-lag") == 4.0
    assert isinstance(value_of(ticks(*gone), "replication-lag"), Absent)


def test_what_was_there_before_the_session_is_not_counted() -> None:
    first = a_tick(0, lsn=1000, kills=3, slots=[("old", 100, False), ("dead", None, True)])
    later = a_tick(1, lsn=1500, kills=3, slots=[("old", 100, False), ("dead", None, True)])
    history = History(Origin.of(first), (later,))
    assert [value_of(history, name) for name in ("oom", "slots", "slots-lost")] == [0.0, 500.0, 0.0]
    worse = a_tick(2, lsn=1500, kills=4, slots=[("old", None, True), ("dead", None, True)])
    history = history.then(worse, 60)
    assert [value_of(history, name) for name in ("oom", "slots-lost")] == [1.0, 1.0]
    assert value_of(history, "slots") == 0.0, "one that is lost keeps nothing"


def test_kills_since_boot_are_not_the_session_s_where_its_first_tick_could_not_read_memory() -> None:
    unread = a_tick(0, memory=Failed("no such file"))
    booted = a_tick(1, kills=7, own=OwnKills("/g", 2))
    for history in (History(Origin.of(unread, booted), (unread, booted)), History(Origin.of(unread)).then(booted, 60)):
        assert value_of(history, "oom") == 0.0
        assert value_of(history.then(a_tick(2, kills=8, own=OwnKills("/g", 3)), 60), "oom") == 1.0


def test_wal_from_before_is_not_the_session_s_where_its_first_tick_could_not_read_the_server() -> None:
    unread = a_tick(0, server=Failed("down"))
    slots = [("old", 100, False), ("dead", None, True)]
    first = a_tick(1, lsn=1000, standbys={"far": 300}, slots=slots)
    for history in (History(Origin.of(unread, first), (unread, first)), History(Origin.of(unread)).then(first, 60)):
        names = ("replication-bytes", "slots", "slots-lost")
        assert [value_of(history, name) for name in names] == [0.0, 0.0, 0.0]
        later = history.then(a_tick(2, lsn=1500, standbys={"far": 300}, slots=slots), 60)
        assert [value_of(later, name) for name in names] == [500.0, 500.0, 0.0]


def oom(first: Tick, later: Tick) -> GuardStatus:
    readings_of = readings(History(Origin.of(first), (later,)))
    return judge(readings_of, GuardPlan())["oom"]


@pytest.mark.parametrize(
    ("own", "kills", "colour", "says"),
    [
        (OwnKills("/g", 2), 7, Colour.GREEN, '0 (killed in the server\'s cgroup "/g"), at most 0 is allowed'),
        (OwnKills("/g", 3), 8, Colour.RED, '1 (killed in the server\'s cgroup "/g"), at most 0 is allowed'),
        (OwnKills("/g", 2), 9, Colour.AMBER, '0 (killed in the server\'s cgroup "/g", 2 elsewhere on the host)'),
        (OwnKills("/g", 2), 8, Colour.AMBER, '0 (killed in the server\'s cgroup "/g", 1 elsewhere on the host)'),
        (OwnKills("/g", 3), 9, Colour.RED, '1 (killed in the server\'s cgroup "/g", 1 elsewhere on the host)'),
        (OwnKills("/new", 5), 7, Colour.GREEN, "0 (killed on the whole host, because the server's cgroup is another"),
        (OwnKills("/new", 5), 8, Colour.RED, "1 (killed on the whole host, because the server's cgroup is another"),
        (OwnKills("/g", 0), 8, Colour.RED, "1 (killed on the whole host, because the server's cgroup is another"),
        (Absent("no group"), 8, Colour.RED, "1 (killed on the whole host, because no group)"),
    ],
)
def test_a_kill_is_the_servers_where_its_cgroup_tells_and_else_the_hosts(own, kills, colour, says) -> None:
    indicator = oom(a_tick(0, kills=7, own=OwnKills("/g", 2)), a_tick(1, kills=kills, own=own)).indicator
    assert indicator.colour is colour
    assert indicator.text.startswith(says)


@given(st.lists(st.integers(0, 1 << 30), min_size=2, max_size=30))
def test_temporary_files_count_what_grew_and_never_less_than_nothing(sizes: list[int]) -> None:
    history = ticks(*(a_tick(t, temp_now=size, load=True) for t, size in enumerate(sizes)))
    window = sizes[-6:]
    grown = sum(max(0, after - before) for before, after in pairwise(window))
    assert value_of(history, "temp") == pytest.approx(grown / (len(window) - 1))


@pytest.mark.parametrize("counted_per_s", [0, 60, 100, 250])
def test_a_temporary_file_that_is_seen_and_counted_is_written_once(counted_per_s: int) -> None:
    """The folder shows 100 a second; the server's counter says the same a moment later, or what came and went."""
    each = (a_tick(t, temp_now=100 * t, temp_counted=counted_per_s * t, load=True) for t in range(6))
    assert value_of(ticks(*each), "temp") == pytest.approx(max(100, counted_per_s))


def test_shares_and_counts_belong_to_the_running_load_alone() -> None:
    before = [a_tick(t, commits=0, rollbacks=1000 * t, deadlocks=t) for t in range(3)]
    during = [a_tick(t, commits=95 * t, rollbacks=5 * t, deadlocks=5, load=True) for t in range(3, 8)]
    history = ticks(*before, *during)
    assert value_of(history, "errors") == pytest.approx(5.0)
    assert value_of(history, "deadlocks") == 0.0
    assert isinstance(value_of(ticks(*before), "errors"), Absent)
    few = ticks(*(a_tick(t, commits=0, rollbacks=t, load=True) for t in range(6)))
    assert value_of(few, "errors") == 0.0


@pytest.mark.parametrize(
    ("is_captured", "unlike", "share", "colour"),
    [(True, 0, 0, Colour.GREEN), (True, 9, 9, Colour.RED), (False, 0, 10, Colour.RED)],
)
def test_of_a_captured_load_only_what_its_capture_does_not_have_is_an_error(
    is_captured: bool, unlike: int, share: int, colour: Colour
) -> None:
    """The server counts a tenth of the transactions as rolled back; a captured load did so in its capture."""
    each = (
        a_tick(t, commits=90 * t, rollbacks=10 * t, load=True, answered=(100 - unlike) * t, failed=unlike * t,
               is_captured=is_captured)
        for t in range(6)
    )  # fmt: skip
    history = ticks(*each)
    assert value_of(history, "errors") == pytest.approx(share)
    indicator = judge(readings(history), GuardPlan())["errors"].indicator
    assert indicator.colour is colour
    assert ("unlike the captured ones" in indicator.text) == is_captured


def test_deadlocks_that_the_capture_has_as_well_are_told_and_not_counted() -> None:
    history = ticks(*(a_tick(t, deadlocks=7 + 4 * t, captured_deadlocks=3 * t, load=True) for t in range(6)))
    assert value_of(history, "deadlocks") == 20 - 15
    assert "and 15 as in the capture" in judge(readings(history), GuardPlan())["deadlocks"].indicator.text
    early = ticks(*(a_tick(t, deadlocks=0, captured_deadlocks=t, load=True) for t in range(6)))
    assert value_of(early, "deadlocks") == 0.0, "the server's counter comes later than the answers"


def test_the_load_is_held_against_the_baseline_once_there_is_one() -> None:
    concurrent = Concurrent(throughput=1000, p99_ms=1.0)
    early, late = ticks(a_tick(3, load=True, tps=50.0)), ticks(a_tick(9, load=True, tps=50.0, p99_ms=50.0))
    assert isinstance(value_of(early, "throughput", concurrent), Absent)
    assert isinstance(value_of(late, "throughput"), Absent)
    assert value_of(late, "throughput", concurrent) == pytest.approx(5.0)
    assert value_of(late, "p99", concurrent) == pytest.approx(10.0)  # a baseline below 5 ms counts as 5 ms
    assert value_of(ticks(a_tick(9, load=True, tps=None)), "throughput", concurrent) == 0.0


def test_a_second_without_a_transaction_is_no_slow_configuration_where_each_takes_seconds() -> None:
    idle = ticks(a_tick(9, load=True, tps=0.0, p99_ms=5000.0))
    slow = Concurrent(throughput=0.2, p99_ms=5000.0)
    value = value_of(idle, "throughput", slow)
    assert isinstance(value, Absent)
    assert "0.2 transactions a second" in value.reason
    assert value_of(idle, "p99", slow) == pytest.approx(1.0)
    assert value_of(idle, "throughput", replace(slow, throughput=5.0)) == 0.0


def test_the_loads_own_sessions_are_counted_before_it_runs() -> None:
    tick = a_tick(0, sessions=10, room=100)
    (reading,) = [r for r in readings(ticks(tick)) if r.name == "connections"]
    assert reading.value == pytest.approx(10.0)
    assert with_clients(reading, tick, 85).value == pytest.approx(95.0)
    assert with_clients(reading, tick, 0) == reading
    assert with_clients(replace(reading, name="errors"), tick, 85).value == reading.value


def test_a_history_keeps_no_more_than_it_was_told() -> None:
    history = History(Origin())
    for t in range(100):
        history = history.then(a_tick(t), 10)
    assert [tick.t for tick in history.ticks] == list(range(89, 100))
    assert [tick.t for tick in history.window(5)] == list(range(94, 100))


def named(history: History, name: str) -> tuple[object, str]:
    (found,) = [(reading.value, reading.about) for reading in readings(history) if reading.name == name]
    return found


def test_of_several_standbys_and_slots_the_one_furthest_behind_is_told() -> None:
    """Both near ones keep up; far ones stand still, of which one came later than the session."""
    first = a_tick(0, lsn=1000, standbys={"near": 1000, "far": 700}, slots=[("near", 1000, False), ("far", 600, False)])
    standbys = {"near": 1490, "far": 800, "late": 880}
    slots = [("late", 850, False), ("far", 750, False), ("near", 1490, False)]
    history = ticks(first, a_tick(3, lsn=1500, standbys=standbys, slots=slots))
    assert named(history, "replication-bytes") == (1500.0 - 880, "standby late")
    assert named(history, "slots") == (1500.0 - 850, "slot late")
    later = history.then(a_tick(5, lsn=1510, standbys={**standbys, "near": 1510}, slots=slots), 60)
    assert named(later, "replication-lag") == (5.0, "standby far")


def test_a_standby_that_has_gone_before_a_trial_lacks_all_that_is_written_since_the_session_began() -> None:
    seen = a_tick(0, lsn=1000, standbys={"s": 900})
    gone = History(Origin.of(seen), (a_tick(60, lsn=5000), a_tick(61, lsn=7000)))
    assert value_of(gone, "replication-bytes") == 6000.0


def test_a_standby_that_a_restart_cut_off_lacks_what_was_written_since_it_was_last_there() -> None:
    """It had replayed 5 GB of the trials before; all of it was held against it until it was back, above the limit."""
    session = Origin.of(a_tick(0, lsn=1000, standbys={"s": 900}))
    before = History(session).then(a_tick(50, lsn=5 * GB, standbys={"s": 5 * GB - 200}), 60)
    restarted = History(before.origin).then(a_tick(300, lsn=5 * GB + 4000), 60)
    assert value_of(restarted, "replication-bytes") == 4100.0
    assert value_of(restarted, "replication-lag") == 0.0, "it may take its seconds to come back"
    assert value_of(restarted.then(a_tick(312, lsn=5 * GB + 9000), 60), "replication-lag") == 12.0
    back = restarted.then(a_tick(303, lsn=5 * GB + 5000, standbys={"s": 5 * GB + 5000}), 60)
    assert (value_of(back, "replication-bytes"), value_of(back, "replication-lag")) == (0.0, 0.0)


def test_what_is_written_is_told_of_nine_tenths_of_a_second_and_of_a_server_that_does_not_count() -> None:
    assert value_of(ticks(*(a_tick(t, temp_now=int(100 * t), load=True) for t in (0.0, 0.9))), "temp") == 100.0
    unread = ticks(*(a_tick(t, server=Failed("down"), load=True) for t in (0.0, 2.0)))
    assert value_of(unread, "temp") == 0.0


def test_a_load_whose_database_is_not_counted_fails_by_its_own_word_alone() -> None:
    def uncounted(tick: Tick) -> Tick:
        assert isinstance(tick.server, GuardRow)
        return replace(tick, server=replace(tick.server, load=None))

    for failed, share in ((0, 0.0), (10, 10.0)):
        each = [a_tick(0, load=True), a_tick(2, load=True, answered=90, failed=failed)]
        assert value_of(ticks(*map(uncounted, each)), "errors") == share


def test_deadlocks_of_a_load_that_has_ended_are_told_as_they_were() -> None:
    counts = [a_tick(0, deadlocks=2, load=True), a_tick(1, deadlocks=5, load=True), a_tick(2, deadlocks=9)]
    assert named(ticks(*counts), "deadlocks") == (3.0, "")
