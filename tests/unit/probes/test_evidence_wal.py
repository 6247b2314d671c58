"""How much WAL a load makes, from whatever tells it best, and which device takes it."""

from __future__ import annotations

import pytest
from test_evidence_statistics import numbers

from advisor_case import MB, make_host, make_server
from pgdyno.model.evidence import (
    Checkpoint,
    DeviceActivity,
    LogEvidence,
    Statistics,
    Window,
)
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory, Place, Purpose
from pgdyno.probes.evidence.wal_rate import log_rate, wal_rate


def checkpoint(at: int, megabytes: int, cause: str = "wal") -> Checkpoint:
    moment = f"2026-11-21 19:{15 + at // 60}:{at % 60:02} UTC"
    return Checkpoint(moment, cause, 1, 0.1, total_s=0.0, distance_bytes=megabytes * MB)


INVENTORY = Inventory(make_host(), make_server())
LOG = LogEvidence(("a",), 9, checkpoints=(checkpoint(0, 99), checkpoint(30, 60), checkpoint(60, 120)))
GUIDE = (DeviceActivity("edb_logs_enc", write_kb_s=345965.6), DeviceActivity("edb_data_enc", write_kb_s=1.0))


@pytest.mark.requirement("R-PG-01")
def test_wal_rate_takes_the_best_source():
    sampled = numbers(wal_bytes_s=5e6)
    assert wal_rate(sampled, LOG, GUIDE, INVENTORY)[0] == 5e6
    since = Statistics(Window(1e6, "since the statistics were reset"), wal_bytes_s=100.0)
    rate, source = wal_rate(since, LOG, GUIDE, INVENTORY)
    assert (rate, "log" in source) == (4 * MB, True)
    rate, source = wal_rate(since, Unknown("no log"), GUIDE, INVENTORY, wal_device="/dev/mapper/edb_logs_enc")
    assert (rate, "edb_logs_enc" in source) == (345965.6 * 1024, True)
    rate, source = wal_rate(since, Unknown("no log"), GUIDE, INVENTORY)
    assert isinstance(rate, Unknown)
    assert "idle times" in rate.reason
    quiet = numbers(wal_bytes_s=1e3)
    assert wal_rate(quiet, LOG, GUIDE, INVENTORY)[0] == 4 * MB
    assert isinstance(wal_rate(Unknown("x"), Unknown("y"), Unknown("z"), INVENTORY)[0], Unknown)


@pytest.mark.requirement("R-PG-01")
@pytest.mark.parametrize("cause", ["wal", "requested"])
def test_idle_time_before_a_load_does_not_thin_the_rate_of_its_wal(cause: str) -> None:
    load = [checkpoint(1000 + 20 * number, 400, cause) for number in range(4)]
    rates = [log_rate([checkpoint(980, 99), *load], 60), log_rate([checkpoint(0, 99), *load], 60)]
    assert rates == [20 * MB, 20 * MB]


@pytest.mark.parametrize("cause", ["wal", "requested"])
@pytest.mark.parametrize("idle_s", [0, 900])
def test_a_burst_of_seconds_is_no_rate_that_a_value_could_come_from(cause: str, idle_s: int) -> None:
    """One UPDATE of two seconds at 48MB made "raise max_wal_size to 24GB", half of the disk."""
    burst = [checkpoint(idle_s + at, 40, cause) for at in range(3)]
    rate = log_rate([checkpoint(0, 99), *burst], 30)
    assert isinstance(rate, Unknown)
    assert rate.reason == "the log's checkpoints show 2.0 s of WAL at load, too short to tell a rate"
    timed = [checkpoint(idle_s + 300, 300, "time"), checkpoint(idle_s + 600, 600, "time")]
    assert log_rate([checkpoint(0, 99), *burst, *timed], 30) == 2 * MB
    assert log_rate([checkpoint(0, 99), *burst], 2) == 40 * MB


def test_what_is_a_burst_is_a_share_of_checkpoint_timeout() -> None:
    """Unknown, as in a capture without its server, it is taken to be the default."""
    log = LogEvidence(("a",), 9, checkpoints=tuple(checkpoint(20 * number, 400) for number in range(3)))
    long = Inventory(make_host(), make_server(changed={"checkpoint_timeout": "1800"}))
    blind = Inventory(make_host(), Unknown("no server in it"))
    rates = [wal_rate(Unknown("x"), log, Unknown("z"), one)[0] for one in (INVENTORY, long, blind)]
    assert [rates[0], rates[2]] == [20 * MB, 20 * MB]
    assert isinstance(rates[1], Unknown)
    assert "40 s of WAL at load" in rates[1].reason


def test_wal_device_is_known_from_its_place_unless_it_holds_the_data_too():
    def inventory(data: str) -> Inventory:
        wal = Place(Purpose.WAL, "/wal", stack=("edb_logs_enc", "sda"))
        return Inventory(make_host(places=(Place(Purpose.DATA, "/data", stack=(data,)), wal)), make_server())

    nothing = Unknown("x")
    assert wal_rate(nothing, nothing, GUIDE, inventory("sdb"))[0] == 345965.6 * 1024
    shared = wal_rate(nothing, nothing, (DeviceActivity("sda", write_kb_s=5.0),), inventory("sda"))[0]
    assert isinstance(shared, Unknown)
