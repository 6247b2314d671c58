"""What two readings say happened in between."""

from dataclasses import replace

import pytest

from pgdyno.model.samples import SampleValue
from pgdyno.probes.happenings import failure_events, host_events, server_events
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.reading import HostCounters
from pgdyno.probes.views import ViewsReading

HOST = HostCounters(
    1.0, CpuShares(0, 0, 0), None, None, {"pswpin": 5, "pswpout": 7, "oom_kill": 1}, None, None, None, {}
)
BASE: dict[str, list[dict[str, SampleValue]]] = {
    "server": [{"started_at": 10.0, "loaded_at": 11.0}],
    "database": [{"deadlocks": 1, "conflicts": 0, "xact_commit": 50}],
    "checkpointer": [{"timed": 1, "requested": 2, "done": 3}],
    "wal": [{"bytes": 100}],
    "activity": [],
}


def server(t: float = 1.0, **changes: list[dict[str, SampleValue]]) -> ViewsReading:
    return ViewsReading(t, {**BASE, **changes}, {})


def kinds(after: ViewsReading) -> list[str]:
    events = server_events(server(), after)
    assert all(event.t == after.t for event in events)
    return [event.kind for event in events]


def test_nothing_happened() -> None:
    assert kinds(server(2.0)) == []
    assert host_events(HOST, replace(HOST, t=2.0)) == []


def test_swap_and_oom_kills() -> None:
    vmstat = {"pswpin": 6, "pswpout": 9, "oom_kill": 3}
    kill, swap = host_events(HOST, replace(HOST, t=2.0, vmstat=vmstat))
    assert (kill.kind, swap.kind, kill.t) == ("oom_kill", "swap", 2.0)
    assert "2 process" in kill.text
    assert "2 pages were swapped out and 1 in" in swap.text


def test_a_kernel_without_the_counters_reports_nothing() -> None:
    assert host_events(replace(HOST, vmstat=None), HOST) == []
    assert host_events(HOST, replace(HOST, vmstat={})) == []


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [("timed", 2, "checkpoint"), ("requested", 4, "checkpoint"), ("done", 4, "checkpoint_done")],
)
def test_checkpoints(column: str, value: int, kind: str) -> None:
    assert kinds(server(2.0, checkpointer=[{**BASE["checkpointer"][0], column: value}])) == [kind]


def test_several_checkpoints_between_two_readings_are_one_event_with_a_count() -> None:
    (event,) = server_events(server(), server(2.0, checkpointer=[{"timed": 1, "requested": 4, "done": 3}]))
    assert event.text.endswith("(2 times)")


def test_a_reload_is_no_restart_and_a_restart_no_reload() -> None:
    assert kinds(server(2.0, server=[{"started_at": 10.0, "loaded_at": 12.0}])) == ["reload"]
    assert kinds(server(2.0, server=[{"started_at": 12.0, "loaded_at": 12.0}])) == ["restart"]


def test_deadlocks_and_resets() -> None:
    assert kinds(server(2.0, database=[{"deadlocks": 2, "conflicts": 0, "xact_commit": 51}])) == ["deadlock"]
    assert kinds(server(2.0, database=[{"deadlocks": 0, "conflicts": 0, "xact_commit": 2}])) == ["stats_reset"]


def test_autovacuum_comes_and_goes() -> None:
    worker: dict[str, SampleValue] = {"backend_type": "autovacuum worker", "sessions": 2}
    busy = server(2.0, activity=[worker])
    assert kinds(busy) == ["autovacuum"]
    assert server_events(busy, busy) == []
    (done,) = server_events(busy, server(3.0))
    assert "done" in done.text


def test_a_reading_without_views_says_nothing() -> None:
    assert server_events(server(), ViewsReading(2.0, {}, {"server": "down"})) == []


def test_a_failure_is_told_once_and_its_end_too() -> None:
    first = failure_events(1.0, {"io": "denied"}, {})
    assert [event.text for event in first] == ["io cannot be read: denied"]
    assert failure_events(2.0, {"io": "denied"}, {"io": "denied"}) == []
    assert [event.text for event in failure_events(3.0, {}, {"io": "denied"})] == ["io can be read again"]
