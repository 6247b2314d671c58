"""Evidence of a captured folder: whole, with missing files, with damaged ones; never a crash or a made-up value."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor_case import make_host, make_server
from evidence_snapshots import FIRST, LAST
from pgdyno.linux.host_texts import HostTexts
from pgdyno.model.evidence import Evidence, HostActivity, LogEvidence
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import evidence_of_capture
from pgdyno.probes.evidence.host_activity import device_activity, host_activity
from pgdyno.probes.evidence.observation import Observation, load, save

DATA = Path(__file__).parents[2] / "data"
INVENTORY = Inventory(make_host(), make_server())
KNOWN_FROM_THE_INVENTORY = {"wal_rate_source", "workload_reason", "kernel_oom_since", "size"}


def texts(written_kb: int, swapped: int = 0, killed: int = 0) -> HostTexts:
    busy = f"cpu  {written_kb} 0 0 {written_kb} 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\n"
    stat = f"{busy}ctxt 5\nprocesses 1\nprocs_running 3\nprocs_blocked 0\n"
    writes = f"{written_kb} 0 {2 * written_kb}"
    disk = f"253 0 dm-0 0 0 0 0 {writes} 10 0 0 0\n8 0 sda 5 0 10 5 {writes} {written_kb} 0 0 0\n"
    return HostTexts(
        {
            "stat": stat,
            "diskstats": disk,
            "meminfo": "MemTotal: 100 kB\n",
            "vmstat": f"pswpin {swapped}\npswpout 0\npgmajfault 0\noom_kill {killed}\n",
            "net/dev": "a\nb\n",
        },
        {"pressure/cpu": "absent", "pressure/memory": "absent", "pressure/io": "absent"},
        frozenset({"sda", "dm-0"}),
        100,
        4096,
    )


def observation() -> Observation:
    seconds = enumerate([100, 100, 100, 500, 500, 500, 900, 900, 900])
    host = [(1000.0 + second, texts(kb, 10 * second, 1)) for second, kb in seconds]
    sample = [{"state": "active", "wait_event_type": None, "wait_event": None, "sessions": 2}]
    return Observation(FIRST, LAST, [sample, sample], host, kernel_log="Out of memory: Killed process 1 (postgres) x\n")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    save(observation(), tmp_path / "evidence")
    (tmp_path / "logs").mkdir()
    shutil.copy(DATA / "pg-logs" / "checkpoints_pg18.log", tmp_path / "logs")
    return tmp_path


@pytest.mark.requirement("R-KRN-21", "R-KRN-22", "R-KRN-08")
def test_whole_capture(capture):
    found = evidence_of_capture(capture, INVENTORY)
    assert found.statistics.commits_s == 2.0
    assert found.concurrency.active_mean == 2.0
    assert found.kernel_oom_kills == 1
    assert isinstance(found.log, LogEvidence)
    assert found.host.swap_in_bytes_s == 10 * 4096
    assert found.host.write_peak_to_mean == pytest.approx(4.0)
    assert found.host.write_idle_share == 0.75
    assert found.host.oom_kills == 0
    assert found.host.run_queue == 3.0
    assert found.wal_rate_bytes_s == 16384.0  # of the window; the log has seconds of WAL at load
    assert [row.device for row in found.devices] == ["dm-0", "sda"]
    assert found.devices[1].write_kb_s == 100.0


@pytest.mark.requirement("R-INV-19")
@pytest.mark.parametrize(
    ("text", "is_known"), [("", False), ("LOG:  40 lines were read by pgdyno, and none of them is kept\n", True)]
)
def test_a_log_that_was_read_and_held_nothing_is_told_from_an_empty_one(capture, text, is_known):
    shutil.rmtree(capture / "logs")
    (capture / "logs").mkdir()
    (capture / "logs" / "server.log").write_text(text)
    log = evidence_of_capture(capture, INVENTORY).log
    assert isinstance(log, LogEvidence) is is_known
    if isinstance(log, LogEvidence):
        assert (log.checkpoints, log.killed_by_9) == ((), 0)
    else:
        assert log.reason == "the log has no lines"


@pytest.mark.requirement("R-INV-20")
def test_one_look_tells_neither_the_bottleneck_nor_how_busy_the_database_is(capture):
    samples = json.loads((capture / "evidence" / "activity.json").read_text())
    assert len(samples) > 1
    (capture / "evidence" / "activity.json").write_text(json.dumps(samples[:1]))
    for path in sorted((capture / "evidence").glob("host_*.json"))[1:]:
        path.unlink()
    found = evidence_of_capture(capture, INVENTORY)
    assert found.concurrency.connected >= 0
    for fact in (found.bottleneck, found.utilization, found.concurrency.active_mean):
        assert isinstance(fact, Unknown)


def test_files_of_other_tools_come_before_our_own_readings(capture):
    shutil.copy(DATA / "iostat" / "iostat_before.txt", capture / "iostat.txt")
    shutil.copy(DATA / "iostat" / "sadf_A.json", capture / "sadf.json")
    found = evidence_of_capture(capture, INVENTORY)
    assert found.devices[0].device == "edb_data_enc"
    assert found.host.window.source == "a sadf file"


def test_iostat_alone_gives_the_rate_of_the_guide(tmp_path):
    shutil.copy(DATA / "iostat" / "iostat_before.txt", tmp_path / "iostat.txt")
    found = evidence_of_capture(tmp_path, INVENTORY, wal_device="edb_logs_enc")
    assert found.wal_rate_bytes_s == 345965.6 * 1024
    assert "iostat file" in found.wal_rate_source
    assert isinstance(found.statistics, Unknown)


@pytest.mark.requirement("R-PG-39")
def test_a_matrix_of_clients_gives_the_knee(capture):
    known = evidence_of_capture(capture, INVENTORY, matrix=((8, 100.0), (32, 400.0), (64, 401.0)))
    assert known.concurrency.knee_clients == 32
    assert isinstance(evidence_of_capture(capture, INVENTORY).concurrency.knee_clients, Unknown)


def test_named_files_need_no_folder():
    found = evidence_of_capture(
        None, INVENTORY, iostat=DATA / "iostat" / "iostat_before.txt", wal_device="/dev/mapper/edb_logs_enc"
    )
    assert found.wal_rate_bytes_s == 345965.6 * 1024
    assert isinstance(found.log, Unknown)
    assert "--log" in found.log.reason


def test_empty_capture_is_unknown_throughout(tmp_path):
    found = evidence_of_capture(tmp_path, INVENTORY)
    for field in fields(Evidence):
        if field.name not in KNOWN_FROM_THE_INVENTORY:
            assert isinstance(getattr(found, field.name), Unknown), field.name


@pytest.mark.parametrize("missing", ["snapshot_1.json", "snapshot_2.json", "activity.json", "host_0001.json"])
def test_missing_file_costs_its_own_part(capture, missing):
    (capture / "evidence" / missing).unlink()
    found = evidence_of_capture(capture, INVENTORY)
    assert found.statistics.window.source.startswith("since" if "snapshot" in missing else "sampled")
    assert isinstance(found.host, HostActivity)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_damaged_snapshot_never_raises(capture, data):
    path = capture / "evidence" / "snapshot_2.json"
    damaged = json.loads(json.dumps(LAST))
    for _ in range(data.draw(st.integers(1, 4))):
        part = damaged
        while isinstance(part, dict | list) and part:
            key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else list(range(len(part)))))
            if not isinstance(part[key], dict | list) or data.draw(st.booleans()):
                part[key] = data.draw(st.sampled_from([None, "x", -1, [], {}, [1], {"a": 1}]))
                break
            part = part[key]
    path.write_text(json.dumps(damaged))
    evidence_of_capture(capture, INVENTORY)


@given(junk=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_instead_of_files_never_raise(capture, junk):
    for path in sorted((capture / "evidence").iterdir())[:4]:
        path.write_bytes(junk)
    evidence_of_capture(capture, INVENTORY)


def test_what_is_saved_is_what_is_read(tmp_path):
    made = observation()
    save(made, tmp_path)
    assert replace(load(tmp_path), host_missing=made.host_missing) == made


def test_one_reading_of_a_host_tells_no_rates():
    readings = observation().readings()[:1]
    assert isinstance(host_activity(readings, INVENTORY), Unknown)
    assert isinstance(device_activity(readings), Unknown)
