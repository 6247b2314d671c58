"""Exports: only what changes, each with its undo, nothing of class X, nothing that the kernel does not have."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import make_server
from export_case import BLOCK, finding, inventory, pg, settings_in, sysctl, with_volume
from pgdyno.errors import UsageError
from pgdyno.export import FORMATS, emit
from pgdyno.knobs.fragment import parse_conf
from pgdyno.knobs.policy import Durability, load_policy
from pgdyno.model.finding import OF_STUDY, Change, ChangeKind, ProofState


@pytest.mark.requirement("R-ADV-06")
def test_the_fragment_has_what_changes_and_its_undo_what_was_found():
    server = make_server(changed={"work_mem": "8192"})
    files = emit([finding(pg("effective_cache_size", "8GB", "4GB"), pg("work_mem", "16MB"))], inventory(server=server),
                 "postgresql.conf")  # fmt: skip
    assert parse_conf(files["pgdyno-advice.conf"]) == {"effective_cache_size": "8GB", "work_mem": "16MB"}
    assert parse_conf(files["pgdyno-advice.undo.conf"]) == {"work_mem": "8MB"}
    assert "effective_cache_size was at its default" in files["pgdyno-advice.undo.conf"]
    head = files["pgdyno-advice.conf"]
    assert "2026-01-31T10:00:00Z" in head
    assert "PostgreSQL 18.0" in head
    assert "# a-rule: effective_cache_size 4GB -> 8GB. It is too small" in head


@pytest.mark.parametrize("form", ["postgresql.conf", "alter-system", "patroni", "cloudnativepg", "ansible"])
def test_a_winner_that_was_kept_can_be_exported_and_its_undo_does_not_set_it_again(form):
    """It is for the configuration management, or for the next server; what was there before it is not known here."""
    kept = finding(pg("work_mem", "8MB", "8MB"), rule="20261127-live-1", origin=OF_STUDY)
    server = make_server(changed={"work_mem": "8192"})
    files = emit([kept], inventory(server=server), form)
    assert files, form
    texts = list(files.values())
    assert any("8MB" in line for line in settings_in(texts[0]))
    assert "work_mem = 8MB, which is in force already" in texts[0]
    if len(texts) > 1:
        assert not [line for line in settings_in(texts[1]) if "8MB" in line], texts[1]


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


@pytest.mark.parametrize(
    ("form", "line", "before"),
    [
        ("conf", "work_mem = '16MB'", ()),
        ("patroni", '    work_mem: "16MB"', ("    work_mem: null",)),
        ("cloudnativepg", '      work_mem: "16MB"', ("      work_mem: null",)),
    ],
)
def test_a_file_says_what_alter_system_outranks_and_how_that_comes_back(form, line, before):
    """The lines were included, and the server went on with what postgresql.auto.conf has."""
    fact = make_server().settings["work_mem"]
    auto = replace(fact, setting="8192", source="configuration file", sourcefile="/d/postgresql.auto.conf")
    given = inventory(server=make_server(extra={"work_mem": auto}))
    change, undo = emit([finding(pg("work_mem", "16MB"))], given, form).values()
    assert "# work_mem is set by ALTER SYSTEM, which outranks this file: ALTER SYSTEM RESET work_mem;" in change
    assert settings_in(change)[-1] == line
    assert "ALTER SYSTEM SET work_mem = '8MB';" in undo
    assert tuple(one for one in settings_in(undo) if "work_mem" in one) == before, "no file had a line of it"


def test_a_list_of_libraries_is_written_word_by_word():
    change = finding(pg("shared_preload_libraries", "pg_stat_statements, auto_explain"))
    sql = emit([change], inventory(), "alter-system")["pgdyno-advice.sql"]
    assert "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements', 'auto_explain';" in sql
    assert "after a restart: shared_preload_libraries" in sql


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


@pytest.mark.parametrize(
    ("format", "change"), [("sysctl", sysctl("vm.swappiness", "0", "60")), ("postgresql.conf", pg("work_mem", "8MB"))]
)
def test_a_value_that_is_to_be_measured_first_carries_its_mark(format, change):
    marked = emit([finding(change, state=ProofState.NEEDS_TEST)], inventory(), format)
    plain = emit([finding(change)], inventory(), format)
    lines = next(iter(marked.values())).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{change.knob} ="))
    assert lines[at - 1].startswith(f"# {change.knob}: needs-test")
    assert "needs-test" not in "".join(plain.values())


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_marks_what_is_to_be_measured_first(format):
    changes = (pg("work_mem", "8MB"), sysctl("vm.swappiness", "0", "60"),
               sysctl("transparent_hugepage.enabled", "never", "always"), sysctl("block.scheduler", "none"),
               Change(ChangeKind.DDL, commands=("SELECT 1;",)))  # fmt: skip
    texts = emit([finding(*changes, state=ProofState.NEEDS_TEST)], inventory(host=with_volume()), format)
    assert texts
    for text in texts.values():
        assert "needs-test" in text


def test_what_only_a_load_could_justify_is_marked_where_none_was_seen():
    waiting = replace(finding(sysctl("vm.dirty_bytes", "536870912")), waits_for_load=True)
    for one, is_marked in ((waiting, True), (replace(waiting, waits_for_load=False), False)):
        text = emit([one], inventory(), "sysctl")["90-pgdyno-advice.conf"]
        assert ("for a load, and none was seen here" in text) is is_marked
