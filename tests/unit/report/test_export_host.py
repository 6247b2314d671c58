"""Exports of Linux knobs: as sysctl, udev, systemd and TuneD files, each with its undo."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from advisor_case import make_host
from export_case import BLOCK, SYSCTLS, finding, inventory, settings_in, sysctl, with_volume
from pgdyno.export import emit
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind
from pgdyno.model.inventory import LogicalVolume


@pytest.mark.requirement("R-KRN-09", "R-VER-10")
def test_only_sysctls_of_this_kernel_are_written():
    changes = finding(sysctl("vm.swappiness", "0", "60"), sysctl("kernel.sched_migration_cost_ns", "50000"),
                      sysctl("kernel.sched_migration_cost", "50000"))  # fmt: skip
    files = emit([changes], inventory(), "sysctl")
    assert settings_in(files["90-pgdyno-advice.conf"]) == ["vm.swappiness = 0"]
    assert settings_in(files["90-pgdyno-advice.undo.conf"]) == ["vm.swappiness = 60"]
    for name in ("kernel.sched_migration_cost_ns", "kernel.sched_migration_cost"):
        assert f"# not written: {name}: this kernel does not have it" in files["90-pgdyno-advice.conf"]


def test_counterparts_are_not_both_written_and_the_undo_writes_the_one_that_was_in_force():
    changes = finding(sysctl("vm.dirty_bytes", "536870912", "0"), sysctl("vm.dirty_ratio", "10", "20"))
    files = emit([changes], inventory(), "sysctl")
    assert settings_in(files["90-pgdyno-advice.conf"]) == ["vm.dirty_bytes = 536870912"]
    assert settings_in(files["90-pgdyno-advice.undo.conf"]) == ["vm.dirty_ratio = 20"]


def test_sysctls_that_could_not_be_read_are_listed_only():
    host = make_host()
    host = replace(host, kernel=replace(host.kernel, sysctls=Unknown("no right")))
    files = emit([finding(sysctl("vm.swappiness", "0"))], inventory(host=host), "sysctl")
    assert settings_in(files["90-pgdyno-advice.conf"]) == []
    assert "unknown (no right)" in files["90-pgdyno-advice.conf"]


@pytest.mark.requirement("R-ADV-06")
def test_the_sysctl_file_parses(tmp_path):
    text = emit([finding(sysctl("vm.swappiness", "1", "60"))], inventory(), "sysctl")["90-pgdyno-advice.conf"]
    path = tmp_path / "90.conf"
    path.write_text(text)
    try:
        done = subprocess.run(["sysctl", "--dry-run", "-p", str(path)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        done = None
    if done is not None and "dry-run" not in done.stderr:
        assert done.returncode == 0, done.stderr
    assert all(re.fullmatch(r"[a-z_.0-9]+ = \S.*", line) for line in settings_in(text))


def on_debugfs():
    host = make_host(sysctls=SYSCTLS)
    place = "/sys/kernel/debug/sched/migration_cost_ns"
    return replace(host, kernel=replace(host.kernel, migration_interface=place, migration_cost_ns=500000))


@pytest.mark.requirement("R-SCH-09")
def test_debugfs_is_kept_by_a_unit_and_never_by_sysctl():
    advice = [finding(sysctl("kernel.sched_migration_cost_ns", "50000", "500000"))]
    files = emit(advice, inventory(host=on_debugfs()), "systemd")
    unit = files["pgdyno-advice-kernel.service"]
    assert "echo 50000 > /sys/kernel/debug/sched/migration_cost_ns" in unit
    assert "echo 500000 > /sys/kernel/debug/sched/migration_cost_ns" in files["pgdyno-advice-systemd.undo.sh"]
    assert settings_in(emit(advice, inventory(host=on_debugfs()), "sysctl")["90-pgdyno-advice.conf"]) == []


def test_thp_and_governor_go_to_tmpfiles_and_smt_to_a_unit():
    advice = [finding(sysctl("transparent_hugepage.enabled", "never", "always"), sysctl("cpu.governor", "performance"),
                      sysctl("cpu.smt", "4", "8"))]  # fmt: skip
    files = emit(advice, inventory(), "systemd")
    assert settings_in(files["pgdyno-advice-tmpfiles.conf"]) == [
        "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never",
        "w /sys/devices/system/cpu/cpufreq/policy*/scaling_governor - - - - performance",
    ]
    assert "ppc64_cpu --smt=4" in files["pgdyno-advice-kernel.service"]
    undo = files["pgdyno-advice-systemd.undo.sh"]
    assert "ppc64_cpu --smt=8" in undo
    assert "echo always > /sys/kernel/mm/transparent_hugepage/enabled" in undo
    assert subprocess.run(["sh", "-n"], input=undo, text=True, check=False).returncode == 0


def test_a_scheduled_vacuum_becomes_a_timer():
    change = Change(ChangeKind.COMMAND, "schedule", "Sun *-*-* 02:00:00", commands=("vacuumdb --all --analyze",))
    files = emit([finding(change)], inventory(), "systemd")
    assert "OnCalendar=Sun *-*-* 02:00:00" in files["pgdyno-vacuum.timer"]
    assert "ExecStart=vacuumdb --all --analyze" in files["pgdyno-vacuum.service"]
    assert "systemctl disable --now pgdyno-vacuum.timer" in files["pgdyno-advice-systemd.undo.sh"]
    assert emit([finding(change)], inventory(), "commands") == {}


def test_a_scheduled_vacuum_that_a_finding_names_in_words_becomes_a_timer():
    words = "The same by systemd: systemd-run --on-calendar='*-*-* 03:30:00' --uid=postgres vacuumdb --all --analyze"
    files = emit([finding(rule="autovacuum-off", alternatives=("Or less of it.", words))], inventory(), "systemd")
    assert "OnCalendar=*-*-* 03:30:00" in files["pgdyno-vacuum.timer"]
    assert "ExecStart=vacuumdb --all --analyze\n" in files["pgdyno-vacuum.service"]
    assert "autovacuum-off" in files["pgdyno-vacuum.timer"]


@pytest.mark.requirement("R-STO-24")
def test_read_ahead_is_given_for_lvm_and_blockdev_in_sectors():
    changes = finding(Change(BLOCK, "read_ahead_kb", "0", "512", device="vg-db/data"),
                      Change(BLOCK, "read_ahead_kb", "64", "128", device="sda"))  # fmt: skip
    files = emit([changes], inventory(host=with_volume()), "commands")
    assert settings_in(files["pgdyno-advice.sh"])[1:] == [
        "lvchange --readahead 0 /dev/vg-db/data",
        "blockdev --setra 0 /dev/vg-db/data",
        "blockdev --setra 128 /dev/sda",
    ]
    assert settings_in(files["pgdyno-advice.undo.sh"])[1:] == [
        "blockdev --setra 256 /dev/sda",
        "lvchange --readahead auto /dev/vg-db/data",
        "blockdev --setra 1024 /dev/vg-db/data",
    ]


@pytest.mark.requirement("R-STO-24")
@pytest.mark.parametrize(("value", "written"), [("512", "auto"), ("256", "512")])
def test_what_lvm_gives_by_itself_is_left_to_lvm(value, written):
    volume = LogicalVolume("vg", "data", 4, 64 << 10, read_ahead="0", effective_read_ahead_kb=0)
    host = replace(with_volume(), volumes=(volume,))
    files = emit(
        [finding(Change(BLOCK, "read_ahead_kb", value, "0", device="vg/data"))], inventory(host=host), "commands"
    )
    assert f"lvchange --readahead {written} /dev/vg/data" in files["pgdyno-advice.sh"]
    assert "lvchange --readahead 0 /dev/vg/data" in files["pgdyno-advice.undo.sh"]


def test_udev_rules_name_the_devices_of_the_server():
    changes = finding(sysctl("block.scheduler", "none", "bfq"), sysctl("block.read_ahead_kb", "64", "512"))
    files = emit([changes], inventory(host=with_volume()), "udev")
    rules = settings_in(files["90-pgdyno-advice.rules"])
    assert [re.findall(r'KERNEL=="([^"]+)", ATTR\{queue/(\w+)\}="(\w+)"', rule)[0] for rule in rules] == [
        ("sda", "scheduler", "none"),
        ("dm-0", "read_ahead_kb", "64"),
    ]
    assert "match ENV{ID_SERIAL}" in files["90-pgdyno-advice.rules"]
    undo = settings_in(files["90-pgdyno-advice.undo.rules"])
    assert 'ATTR{queue/scheduler}="bfq"' in undo[0]
    assert 'ATTR{queue/read_ahead_kb}="512"' in undo[1]
    for rule in rules + undo:
        assert re.fullmatch(r'(?:[A-Z]+(?:\{[^}]+\})?(?:==|=)"[^"]*"(?:, |$))+', rule), rule


def test_tuned_profile():
    host = with_volume()
    host = replace(host, kernel=replace(host.kernel, tuned_profile="throughput-performance"))
    changes = finding(sysctl("vm.swappiness", "0", "60"), sysctl("transparent_hugepage.enabled", "never"),
                      sysctl("block.scheduler", "none"), sysctl("kernel.gone", "1"))  # fmt: skip
    files = emit([changes], inventory(host=host), "tuned")
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",), strict=True)
    parser.read_string(files["pgdyno/tuned.conf"])
    assert parser["main"]["include"] == "throughput-performance"
    assert dict(parser["sysctl"]) == {"vm.swappiness": "0"}
    assert parser["vm"]["transparent_hugepages"] == "never"
    assert dict(parser["disk_pgdyno_0"]) == {"type": "disk", "devices": "sda", "elevator": "none"}
    assert "tuned-adm profile throughput-performance" in files["pgdyno/undo.sh"]
