"""Exports: only what changes, each with its undo, nothing of class X, nothing that the kernel does not have.

A few lines past 400: every format is held to the same promises, which are read side by side.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import make_host, make_server
from pgdyno.errors import UsageError
from pgdyno.knobs.fragment import parse_conf
from pgdyno.knobs.policy import Durability, load_policy
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, ProofState, RuleGroup
from pgdyno.model.inventory import BlockDevice, Inventory, LogicalVolume, Place, Purpose
from pgdyno.report.export import FORMATS, emit

PG, LINUX, BLOCK = ChangeKind.POSTGRESQL, ChangeKind.LINUX, ChangeKind.BLOCK
SYSCTLS = {"vm.dirty_bytes": "0", "vm.dirty_ratio": "20", "vm.swappiness": "60", "vm.nr_hugepages": "0"}


def finding(*changes, rule="a-rule", title="It is too small", **fields):
    values = {"answer": Answer.FINDING, "group": RuleGroup.THROUGHPUT, "depth": Depth.BASIC, "title": title}
    return Finding(rule=rule, changes=changes, **{**values, **fields})


def pg(knob, value, current=None):
    return Change(PG, knob, value, current)


def sysctl(knob, value, current=None):
    return Change(LINUX, knob, value, current)


def inventory(*, host=None, server=None):
    return Inventory(host or make_host(sysctls=SYSCTLS), server or make_server(), taken_at="2026-01-31T10:00:00Z")


def settings_in(text):
    return [line for line in text.split("\n") if line and not line.startswith(("#", "--"))]


@pytest.mark.requirement("R-ADV-06")
def test_the_fragment_has_what_changes_and_its_undo_what_was_found():
    server = make_server(changed={"work_mem": "8192"})
    files = emit([finding(pg("effective_cache_size", "8GB", "4GB"), pg("work_mem", "16MB"))], inventory(server=server),
                 "postgresql.conf")  # fmt: skip
    assert parse_conf(files["pgdyno-advice.conf"]) == {"effective_cache_size": "8GB", "work_mem": "16MB"}
    assert parse_conf(files["pgdyno-advice.undo.conf"]) == {"work_mem": "8MB"}
    assert "effective_cache_size stood at its default" in files["pgdyno-advice.undo.conf"]
    head = files["pgdyno-advice.conf"]
    assert "2026-01-31T10:00:00Z" in head
    assert "PostgreSQL 18.0" in head
    assert "# a-rule: effective_cache_size 4GB -> 8GB. It is too small" in head


def test_what_is_in_force_already_is_not_written():
    assert emit([finding(pg("effective_cache_size", "4096MB"))], inventory(), "postgresql.conf") == {}


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize("format", FORMATS)
def test_class_x_is_never_emitted(format):
    forbidden = [name for name, ruling in load_policy().rulings.items() if ruling.durability is Durability.X]
    findings = [finding(pg(name, "off"), pg(name.upper(), "off"), pg("work_mem", "8MB")) for name in forbidden]
    for text in emit(findings, inventory(), format).values():
        for line in settings_in(text):
            assert not any(name in line.lower() for name in forbidden), line


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize(
    "command",
    [
        "ALTER SYSTEM SET fsync = off;",
        'ALTER SYSTEM SET "full_page_writes" TO off;',
        "ALTER DATABASE app SET Synchronous_Commit=off;",
        "pg_ctl restart -o '-c autovacuum=off'",
    ],
)
@pytest.mark.parametrize("kind", [ChangeKind.DDL, ChangeKind.COMMAND, ChangeKind.MANUAL])
def test_class_x_does_not_come_in_by_a_statement_either(kind, command):
    harmless = "ALTER TABLE t SET (autovacuum_enabled = off);"
    advice = [finding(Change(kind, commands=(command,))), finding(Change(kind, commands=(harmless,)))]
    for format in FORMATS:
        for text in emit(advice, inventory(), format).values():
            assert command not in text
    name = "pgdyno-advice-ddl.sql" if kind is ChangeKind.DDL else "pgdyno-advice.sh"
    texts = {**emit(advice, inventory(), "ddl"), **emit(advice, inventory(), "commands")}
    assert harmless in texts[name]
    assert "which is of class X" in texts[name]


@pytest.mark.parametrize("odd", ["a.b\nfsync", "work mem", "x'; y", 'dm"', "$(reboot)"])
def test_a_name_that_is_none_is_left_out(odd):
    advice = [finding(pg(odd, "1"), sysctl(odd, "1"), Change(BLOCK, "scheduler", "none", device=odd))]
    for format in FORMATS:
        for text in emit(advice, inventory(), format).values():
            assert [line for line in settings_in(text) if line not in ("#!/bin/sh", "set -eu")] == []


@pytest.mark.requirement("R-SAF-03")
def test_a_value_that_the_server_would_refuse_is_left_out_with_the_reason():
    text = emit([finding(pg("work_mem", "4kB"), pg("effective_cache_size", "2GB"))], inventory(), "postgresql.conf")
    assert parse_conf(text["pgdyno-advice.conf"]) == {"effective_cache_size": "2GB"}
    assert re.search(r"# left out: .*work_mem.*outside of this server's range", text["pgdyno-advice.conf"])


def test_a_removed_parameter_is_left_out():
    text = emit([finding(pg("stats_temp_directory", "'/x'"), pg("work_mem", "8MB"))], inventory(), "alter-system")
    assert "stats_temp_directory" not in "".join(settings_in(text["pgdyno-advice.sql"]))
    assert "this server has no such parameter" in text["pgdyno-advice.sql"]


def test_what_was_refuted_here_is_left_out():
    refuted = finding(pg("work_mem", "8MB"), state=ProofState.REFUTED)
    assert emit([refuted], inventory(), "postgresql.conf") == {}


def test_two_rules_on_one_knob_give_one_line_and_a_comment():
    text = emit([finding(pg("work_mem", "8MB")), finding(pg("work_mem", "16MB"), rule="other")], inventory(),
                "postgresql.conf")["pgdyno-advice.conf"]  # fmt: skip
    assert parse_conf(text) == {"work_mem": "8MB"}
    assert "left out: other: work_mem = 16MB: a-rule proposes 8MB before it" in text


def test_alter_system_resets_what_was_not_in_auto_conf():
    fact = make_server().settings["work_mem"]
    auto = replace(fact, setting="8192", source="configuration file", sourcefile="/d/postgresql.auto.conf")
    main = replace(make_server().settings["random_page_cost"], setting="3", source="configuration file",
                   sourcefile="/d/postgresql.conf")  # fmt: skip
    server = make_server(extra={"work_mem": auto, "random_page_cost": main})
    changes = finding(pg("work_mem", "16MB"), pg("random_page_cost", "1.1"), pg("effective_cache_size", "2GB"))
    undo = settings_in(emit([changes], inventory(server=server), "alter-system")["pgdyno-advice.undo.sql"])
    assert undo == [
        "ALTER SYSTEM SET work_mem = '8MB';",
        "ALTER SYSTEM RESET random_page_cost;",
        "ALTER SYSTEM RESET effective_cache_size;",
        "SELECT pg_reload_conf();",
    ]


def test_a_list_of_libraries_is_written_word_by_word():
    change = finding(pg("shared_preload_libraries", "pg_stat_statements, auto_explain"))
    sql = emit([change], inventory(), "alter-system")["pgdyno-advice.sql"]
    assert "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements', 'auto_explain';" in sql
    assert "after a restart: shared_preload_libraries" in sql


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


def with_volume():
    return make_host(
        sysctls=SYSCTLS,
        devices=(
            BlockDevice("sda", "disk", scheduler="bfq", read_ahead_kb=128),
            BlockDevice("dm-0", "lvm", ("sda",), read_ahead_kb=512),
        ),
        volumes=(LogicalVolume("vg-db", "data", read_ahead="auto", effective_read_ahead_kb=512),),
        places=(Place(Purpose.DATA, "/data", stack=("dm-0", "sda"), disks=frozenset({"sda"})),),
    )


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


def yaml_tree(text):
    """Read the YAML that the exports write: nested mappings of JSON values, two spaces a level."""
    root: dict[str, object] = {}
    levels = [(-1, root)]
    for line in settings_in(text):
        indent = len(line) - len(line.lstrip())
        key, _, value = line.strip().partition(":")
        while levels[-1][0] >= indent:
            levels.pop()
        key = json.loads(key) if key.startswith('"') else key
        if value.strip():
            levels[-1][1][key] = json.loads(value)
        else:
            levels[-1][1][key] = {}
            levels.append((indent, levels[-1][1][key]))
    return root


def test_patroni_and_cloudnativepg():
    server = make_server(changed={"work_mem": "8192"})
    advice = [finding(pg("effective_cache_size", "8GB"), pg("work_mem", "16MB"), pg("shared_preload_libraries", "a, b"),
                      sysctl("vm.swappiness", "0", "60"))]  # fmt: skip
    known = inventory(server=server)
    patroni = emit(advice, known, "patroni")
    parameters = {"effective_cache_size": "8GB", "work_mem": "16MB", "shared_preload_libraries": "a, b"}
    assert yaml_tree(patroni["pgdyno-advice.patroni.yaml"]) == {"postgresql": {"parameters": parameters}}
    undo = yaml_tree(patroni["pgdyno-advice.patroni.undo.yaml"])["postgresql"]["parameters"]
    assert undo == {"effective_cache_size": None, "work_mem": "8MB", "shared_preload_libraries": None}
    cnpg = yaml_tree(emit(advice, known, "cloudnativepg")["pgdyno-advice.cnpg.yaml"])["spec"]["postgresql"]
    assert cnpg == {
        "shared_preload_libraries": ["a", "b"],
        "parameters": {"effective_cache_size": "8GB", "work_mem": "16MB"},
    }


@pytest.mark.requirement("R-ADV-06")
@pytest.mark.parametrize("format", ["postgresql.conf", "alter-system", "patroni", "cloudnativepg", "ansible"])
def test_change_and_undo_name_what_waits_for_a_restart(format):
    files = emit([finding(pg("work_mem", "16MB"), pg("shared_buffers", "1GB"))], inventory(), format)
    assert len(files) == 2
    for text in files.values():
        note = next(line for line in text.splitlines() if "In force after a restart" in line)
        assert "shared_buffers" in note
        assert "work_mem" not in note
    assert "after a restart" not in "".join(emit([finding(pg("work_mem", "16MB"))], inventory(), format).values())


@pytest.mark.requirement("R-KRN-01")
@pytest.mark.parametrize("format", ["sysctl", "ansible", "tuned"])
def test_a_pool_says_that_it_may_fall_short_and_that_the_server_takes_it_at_its_start(format):
    text = next(iter(emit([finding(sysctl("vm.nr_hugepages", "100", "0"))], inventory(), format).values()))
    assert "compare HugePages_Total of /proc/meminfo. The server takes them at its start" in text
    other = next(iter(emit([finding(sysctl("vm.swappiness", "10", "60"))], inventory(), format).values()))
    assert "HugePages_Total" not in other


@pytest.mark.requirement("R-STO-07", "R-STO-03", "R-STO-09")
def test_ddl_and_commands_carry_their_undo_in_reverse():
    ddl = Change(ChangeKind.DDL,
                 commands=("CREATE TABLESPACE hot LOCATION '/hot';", "ALTER TABLE t SET TABLESPACE hot;"),
                 undo=("ALTER TABLE t SET TABLESPACE pg_default;", "DROP TABLESPACE hot;"))  # fmt: skip
    wal = Change(ChangeKind.COMMAND, commands=("mv /data/pg_wal /wal/pg_wal", "ln -s /wal/pg_wal /data/pg_wal"),
                 undo=("rm /data/pg_wal", "mv /wal/pg_wal /data/pg_wal"))  # fmt: skip
    volume = Change(ChangeKind.COMMAND, commands=("lvcreate -i 2 -L 10G -n hot vg",), undo=("lvremove vg/hot",))
    files = emit([finding(ddl), finding(wal), finding(volume)], inventory(), "ddl")
    assert settings_in(files["pgdyno-advice-ddl.sql"]) == list(ddl.commands)
    assert settings_in(files["pgdyno-advice-ddl.undo.sql"]) == list(ddl.undo)
    scripts = emit([finding(wal), finding(volume)], inventory(), "commands")
    assert settings_in(scripts["pgdyno-advice.sh"]) == ["set -eu", *wal.commands, *volume.commands]
    assert settings_in(scripts["pgdyno-advice.undo.sh"]) == ["set -eu", *volume.undo, *wal.undo]


def test_an_unknown_format_is_refused():
    with pytest.raises(UsageError, match='"xml" is not a format'):
        emit([], inventory(), "xml")


@given(title=st.text(), value=st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_nothing_breaks_out_of_its_line(title, value):
    advice = [finding(pg("work_mem", "8MB"), pg("search_path", value), sysctl("vm.swappiness", value), title=title)]
    known = inventory()
    conf = emit(advice, known, "postgresql.conf").get("pgdyno-advice.conf", "")
    assert {line.split(" = ")[0] for line in settings_in(conf)} <= {"work_mem", "search_path"}
    lines = settings_in(emit(advice, known, "sysctl")["90-pgdyno-advice.conf"])
    assert len(lines) <= 1
    tree = yaml_tree(emit(advice, known, "patroni")["pgdyno-advice.patroni.yaml"])
    assert tree["postgresql"]["parameters"].get("search_path", value) == value


@pytest.mark.parametrize("format", FORMATS)
def test_every_file_has_its_undo_and_a_head(format):
    changes = finding(pg("work_mem", "8MB"), sysctl("vm.swappiness", "0", "60"),
                      sysctl("transparent_hugepage.enabled", "never", "always"), sysctl("block.scheduler", "none"),
                      Change(ChangeKind.DDL, commands=("SELECT 1;",)))  # fmt: skip
    files = emit([changes], inventory(host=with_volume()), format, date="2026-02-03")
    assert any("undo" in name for name in files)
    assert any("undo" not in name for name in files)
    for text in files.values():
        assert "date: 2026-02-03" in text
        assert "a-rule" in text
