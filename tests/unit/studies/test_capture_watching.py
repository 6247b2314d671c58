"""What ends a capture: time, size, a stop, a guard, its disk, and what others set; whatever comes first."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.guard import Absent, Failed
from pgdyno.model.guard_table import CAPTURE_GUARDS
from pgdyno.probes.guards.volumes import Volume
from pgdyno.studies.capture.plan import CaptureOptions
from pgdyno.studies.capture.watching import CaptureWatch
from pgdyno.targets.server_log import LogFile
from pgdyno.trial.guard_settings import guard_plan
from pgdyno.trial.sentry import GuardBreached
from simulated_live_world import breached

MB, GB = 1 << 20, 1 << 30


class Server:
    """A server that logs 1 MB a second, its guards, its clock and those who meddle, all in one."""

    def __init__(self, seconds=600.0, max_bytes=10 * GB, guards=()):
        self.now, self.stops_at, self.sets_at, self.trips_at = 0.0, 1e9, 1e9, 1e9
        self.promised, self.told, self.said = [], [], []
        self.room = Absent("it is on the data volume")
        self.watch_ = CaptureWatch(
            options=CaptureOptions(seconds=seconds, max_bytes=max_bytes, guards=guard_plan(guards, 1, CAPTURE_GUARDS)),
            expect=lambda doing, within: self.promised.append((self.now, within)),
            sentry=self, is_stopped=lambda: self.now >= self.stops_at, files=self.files, free=lambda: self.room,
            logging=lambda: {"log_destination": "stderr" if self.now >= self.sets_at else "csvlog"},
            seen=lambda files, rate: self.told.append((sum(one.size for one in files), rate)),
            announce=self.said.append, clock=lambda: self.now, sleep=self.sleep,
        )  # fmt: skip

    def sleep(self, seconds):
        self.now += seconds

    def files(self):
        size = int(MB * self.now)
        return [LogFile("/log/1.csv", size // 2, 0.0), LogFile("/log/2.csv", size - size // 2, 1.0)]

    @contextmanager
    def watch(self):
        yield

    interrupting = watch

    def check(self):
        if self.now >= self.trips_at:
            raise GuardBreached(breached("disk"))

    def ends(self):
        return self.watch_.until_its_end()


@pytest.mark.requirement("R-SAF-12")
def test_it_ends_when_its_time_is_over_and_not_later() -> None:
    server = Server(seconds=90.1)
    assert server.ends() == "time"
    assert server.now == pytest.approx(90.1)


@pytest.mark.requirement("R-SAF-12")
def test_it_ends_within_a_second_of_its_size() -> None:
    server = Server(max_bytes=50 * MB)
    assert server.ends() == "size"
    assert 50 <= server.now <= 51.1


@pytest.mark.requirement("R-SAF-12")
def test_it_ends_when_somebody_asks_for_it() -> None:
    server = Server()
    server.stops_at = 7.0
    assert server.ends() == "stopped"
    assert server.now == pytest.approx(7.0)


def test_a_guard_ends_it() -> None:
    server = Server()
    server.trips_at = 5.0
    with pytest.raises(GuardBreached):
        server.ends()
    assert server.now == pytest.approx(5.0)


def test_a_setting_that_it_relies_on_and_somebody_changed_ends_it_by_name() -> None:
    server = Server()
    server.sets_at = 33.0
    assert server.ends() == "somebody else has set log_destination to stderr"
    assert server.now <= 43.1


@pytest.mark.parametrize(("free", "guards", "trips"), [
    (Volume(2 * GB, 100 * GB, Path("/log")), (), True),
    (Volume(6 * GB, 100 * GB, Path("/log")), (), False),
    (Volume(6 * GB, 100 * GB, Path("/log")), ("log-disk=7GB",), True),
    (Volume(1, 100 * GB, Path("/log")), ("log-disk=off",), False),
])  # fmt: skip
def test_a_log_disk_that_fills_up_ends_it(free: Volume, guards: tuple[str, ...], *, trips: bool) -> None:
    server = Server(seconds=5.0, guards=guards)
    server.room = free
    if not trips:
        assert server.ends() == "time"
        return
    with pytest.raises(GuardBreached) as tripped:
        server.ends()
    assert tripped.value.breach.name == "log-disk"


def test_a_log_disk_that_cannot_be_read_counts_as_harm() -> None:
    server = Server()
    server.room = Failed("the disk is gone")
    with pytest.raises(
        EnvironmentUnsuitable, match="the free space on the log's disk cannot be read: the disk is gone"
    ):
        server.ends()


def test_the_watchdog_is_promised_a_sign_of_life_each_second_for_a_minute() -> None:
    server = Server(seconds=20.0)
    server.ends()
    moments = [at for at, _ in server.promised]
    assert max(b - a for a, b in itertools.pairwise(moments)) <= 1.25
    assert {within for _, within in server.promised} == {60.0}


def test_progress_tells_size_rate_and_the_time_left() -> None:
    server = Server(seconds=200.0)
    server.ends()
    assert server.told[-1][1] == pytest.approx(MB, rel=0.01)
    assert server.said[0] == "10 MB of log, 60 MB a minute; 3:10 min left"
    assert len(server.said) == 4
