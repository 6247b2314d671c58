"""Whether host and server are left to us: what a look sees, and what it makes of it."""

from types import SimpleNamespace

import pytest

from pgdyno.errors import ConnectError
from pgdyno.linux.host_texts import HostTexts
from pgdyno.model.facts import Unknown
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.reading import parse_host, unread_host
from pgdyno.studies.session.exclusive import Activity, ExclusiveLimits, busy_sessions, disturbance, look, unknowns

pytestmark = pytest.mark.requirement("R-EXP-10")
QUIET = Activity(3.0, {"sda": 0.2}, 0)
STAT = "cpu {busy} 0 0 1000 0 0 0 0\ncpu0 0 0 0 0\nctxt 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
DISK = "8 0 sda 1 0 {sectors} 1 1 0 0 1 0 1 1\n252 0 dm-0 1 0 {sectors} 1 1 0 0 1 0 1 1\n"


def reading(t, busy_ticks=0, sectors=0, own_s=0.0):
    texts = {"stat": STAT.format(busy=busy_ticks), "diskstats": DISK.format(sectors=sectors)}
    return parse_host(t, CpuShares(0.0, 0.0, own_s), HostTexts(texts, {}, frozenset({"sda", "dm-0"}), 100, 4096))


def looked(first, last):
    readings = iter([first, last])
    return look(None, seconds=10, reader=lambda: next(readings), sleep=lambda _: None)


def test_a_quiet_machine_disturbs_nobody():
    assert disturbance(QUIET, ExclusiveLimits()) is None
    assert unknowns(QUIET) is None


@pytest.mark.parametrize(
    ("activity", "said"),
    [
        (Activity(53.0, {}, 0), "foreign CPU is 53 % of a core, above 15 %"),
        (Activity(0.0, {"sda": 0.1, "sdb": 40.0}, 0), "sdb moves 40.0 MB/s, above 5 MB/s"),
        (Activity(0.0, {}, 2), "2 sessions of others are not idle, more than 0"),
    ],
)
def test_each_kind_of_foreign_work_is_named_with_its_limit(activity, said):
    assert disturbance(activity, ExclusiveLimits()) == said


def test_all_that_disturbs_is_named():
    assert disturbance(Activity(99.0, {"sda": 99.0}, 9), ExclusiveLimits()).count(";") == 2


def test_a_look_sees_foreign_cpu_without_our_own_and_disks_without_those_above_them():
    seen = looked(reading(0.0), reading(10.0, busy_ticks=600, sectors=40960, own_s=1.0))
    assert seen.cpu_pct == pytest.approx(50.0)
    assert seen.disks == {"sda": pytest.approx(2.0)}
    assert seen.sessions == 0


def test_what_cannot_be_read_is_unknown_and_told():
    seen = looked(unread_host(0.0, "no /proc"), unread_host(10.0, "no /proc"))
    assert disturbance(seen, ExclusiveLimits()) is None
    assert "foreign CPU is unknown: no /proc" in unknowns(seen)


def test_sessions_that_hide_their_state_are_unknown():
    def server(busy, hidden):
        return SimpleNamespace(fetch=lambda query: [{"busy": busy, "hidden": hidden}])

    assert busy_sessions(server(2, 0)) == 2
    assert isinstance(busy_sessions(server(0, 3)), Unknown)


def test_a_server_that_is_not_there_is_unknown():
    def refused(query):
        raise ConnectError("no session")

    assert busy_sessions(SimpleNamespace(fetch=refused)) == Unknown("no session")
