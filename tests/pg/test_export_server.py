"""What the exports write is what a real server reads."""

from __future__ import annotations

import os
from dataclasses import replace

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor_case import make_host
from pgdyno.export import emit
from pgdyno.export.quoting import alter_system_set
from pgdyno.model.finding import Answer, Change, ChangeKind, Depth, Finding, RuleGroup
from pgdyno.model.inventory import Inventory, ServerInventory
from pgdyno.outside.quoting import conf_line, identifier, literal
from pgdyno.server import snapshot
from pgdyno.targets.inspect import read_facts
from server_image import eventually

pytestmark = pytest.mark.pg
CHANGES = {
    "work_mem": "16MB",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "checkpoint_completion_target": "0.8",
    "shared_buffers": "64MB",
    "search_path": 'app, "Odd, Name", public',
    "autovacuum_naptime": "2min",
}


def advice_for(sandbox):
    facts = read_facts(sandbox.target())
    server = ServerInventory(facts.server.version, facts.server.version_num, settings=facts.settings)
    changes = tuple(Change(ChangeKind.POSTGRESQL, name, value) for name, value in CHANGES.items())
    finding = Finding("a-rule", Answer.FINDING, RuleGroup.GENERAL, Depth.BASIC, "It is so", changes=changes)
    return [finding], Inventory(make_host(), server)


def settings_now(sandbox):
    with as_a_load(sandbox).connect() as connection:
        return snapshot.read_settings(connection, label="test")


def as_a_load(sandbox):
    return sandbox.target().postgres.for_load("postgres")


def run(sandbox, script):
    with as_a_load(sandbox).connect() as connection:
        for line in script.splitlines():
            if line and not line.startswith("--"):
                connection.execute(line)


@pytest.mark.requirement("R-ADV-06", "R-SAF-06")
def test_the_server_reads_the_fragment_without_an_error(any_postgres):
    findings, inventory = advice_for(any_postgres)
    text = emit(findings, inventory, "postgresql.conf")["pgdyno-advice.conf"]
    path = any_postgres.data_directory / "pgdyno-advice.conf"
    main = any_postgres.data_directory / "postgresql.conf"
    before = main.read_bytes()
    path.write_text(text)
    path.chmod(0o644)
    main.write_bytes(before + b"include 'pgdyno-advice.conf'\n")
    try:
        rows = any_postgres.target().postgres.fetch(
            "SELECT name, setting, error FROM pg_file_settings WHERE sourcefile = %s", [str(path)]
        )
    finally:
        main.write_bytes(before)
        path.unlink()
    assert {row["name"]: row["setting"] for row in rows} == CHANGES
    errors = {row["name"]: row["error"] for row in rows if row["error"]}
    assert set(errors) <= {"shared_buffers"}, errors  # which is right, and waits for a restart


@pytest.mark.requirement("R-ADV-06", "R-ADV-07")
def test_alter_system_and_its_undo_leave_the_server_as_it_was(any_postgres):
    run(any_postgres, "ALTER SYSTEM SET work_mem = '5MB';\nSELECT pg_reload_conf();")
    try:
        _wait(any_postgres, "work_mem", "5120")
        before = settings_now(any_postgres)
        findings, inventory = advice_for(any_postgres)
        files = emit(findings, inventory, "alter-system")
        run(any_postgres, files["pgdyno-advice.sql"])
        _wait(any_postgres, "work_mem", "16384")
        assert settings_now(any_postgres)["search_path"].setting == CHANGES["search_path"]
        run(any_postgres, files["pgdyno-advice.undo.sql"])
        _wait(any_postgres, "work_mem", "5120")
        assert _without_lines(settings_now(any_postgres)) == _without_lines(before)
    finally:
        run(any_postgres, "ALTER SYSTEM RESET work_mem;\nSELECT pg_reload_conf();")


@pytest.mark.requirement("R-STO-07")
def test_the_ddl_of_a_tablespace_and_its_undo_run(sandbox18):
    place = sandbox18.data_directory.parent / "hot tables"
    place.mkdir(mode=0o700)
    owner = sandbox18.data_directory.stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    name, table = identifier("Hot Tables"), identifier("Stock")
    ddl = Change(
        ChangeKind.DDL,
        commands=(
            f"CREATE TABLESPACE {name} LOCATION {literal(str(place))};",
            f"ALTER TABLE {table} SET TABLESPACE {name};",
        ),
        undo=(f"ALTER TABLE {table} SET TABLESPACE pg_default;", f"DROP TABLESPACE {name};"),
    )
    finding = Finding("hot", Answer.FINDING, RuleGroup.GENERAL, Depth.BASIC, "It is hot", changes=(ddl,))
    files = emit([finding], advice_for(sandbox18)[1], "ddl")
    spaces = "SELECT spcname FROM pg_tablespace WHERE spcname = 'Hot Tables'"
    run(sandbox18, f"CREATE TABLE {table} (id int);")
    try:
        run(sandbox18, files["pgdyno-advice-ddl.sql"])
        assert sandbox18.target().postgres.fetch(spaces)
        run(sandbox18, files["pgdyno-advice-ddl.undo.sql"])
        assert not sandbox18.target().postgres.fetch(spaces)
    finally:
        run(sandbox18, f"DROP TABLE {table};")
        place.rmdir()


def _without_lines(found):
    return {name: replace(state, sourceline=None) for name, state in found.items()}


def _wait(sandbox, name, value):
    eventually(lambda: settings_now(sandbox)[name].setting == value, f"{name} is {value}")


LINES = "SELECT setting FROM pg_file_settings WHERE name = 'cluster_name' ORDER BY seqno"
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT)
def test_quoting_is_what_the_server_reads(sandbox18, text):
    with sandbox18.target().postgres.connect() as connection:
        row = connection.execute(f"SELECT {literal(text)} AS text".encode()).fetchone()
        assert row["text"] == text
        row = connection.execute("SELECT quote_ident(%s) AS quoted", [text]).fetchone()
        quoted = row["quoted"]
        assert identifier(text) in (quoted, f'"{quoted}"')


def test_a_value_with_backslashes_and_quotes_survives_both_ways(sandbox18):
    odd = "a\\b'c\"d"
    with sandbox18.target().postgres.connect() as connection:
        connection.execute(alter_system_set("cluster_name", odd))
        try:
            row = connection.execute(LINES).fetchall()[-1]
            assert row["setting"] == odd
        finally:
            connection.execute("ALTER SYSTEM RESET cluster_name")
    path = sandbox18.data_directory / "postgresql.conf"
    before = path.read_bytes()
    path.write_bytes(before + conf_line("cluster_name", odd).encode() + b"\n")
    try:
        rows = sandbox18.target().postgres.fetch(LINES)
    finally:
        path.write_bytes(before)
    assert rows[-1]["setting"] == odd


def test_an_unknown_parameter_is_refused_by_the_server_as_such(sandbox18):
    with sandbox18.target().postgres.connect() as connection, pytest.raises(psycopg.Error, match="unrecognized"):
        connection.execute(alter_system_set("no_such_parameter", "1"))
