"""The facts of real servers, as a superuser, as a monitor and as nobody in particular."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.model.facts import Unknown
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.connect import open_target
from pgdyno.targets.inspect import read_facts

pytestmark = pytest.mark.pg


def test_reads_every_setting_of_every_version(any_postgres: Sandbox) -> None:
    target = any_postgres.target()
    facts = read_facts(target)
    rows = {str(row["name"]): row for row in target.postgres.fetch("SELECT * FROM pg_settings")}
    assert facts.settings.keys() == rows.keys()
    for name, fact in facts.settings.items():
        row = rows[name]
        assert (fact.setting, fact.unit, fact.context) == (row["setting"], row["unit"], row["context"])
        assert list(fact.enumvals) == (row["enumvals"] or [])
        assert (fact.min_val, fact.max_val, fact.boot_val) == (row["min_val"], row["max_val"], row["boot_val"])
    assert facts.server.version_num == any_postgres.record.version_num
    assert facts.server.major == any_postgres.record.version_num // 10_000
    assert facts.server.data_directory == str(any_postgres.data_directory)
    assert facts.server.standbys == 0
    assert not facts.server.in_recovery
    assert "pg_stat_statements" in facts.server.extensions
    assert facts.server.data_checksums == (facts.server.major >= 18)


def test_the_host_is_this_machine(sandbox18: Sandbox) -> None:
    host = read_facts(sandbox18.target()).host
    total_kb = next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert host.ram_bytes == int(total_kb) * 1024
    assert isinstance(host.memory_limit_bytes, int)
    assert isinstance(host.ram_bytes, int)
    assert 0 < host.memory_limit_bytes <= host.ram_bytes
    assert host.cores == len(os.sched_getaffinity(0))
    assert isinstance(host.data_disk_free_bytes, int)
    assert isinstance(host.data_filesystem, str)
    assert not isinstance(host.transparent_huge_pages, str) or host.transparent_huge_pages in (
        "always",
        "madvise",
        "never",
    )


def test_two_readings_name_the_same_environment(sandbox18: Sandbox) -> None:
    assert read_facts(sandbox18.target()).environment_hash() == read_facts(sandbox18.target()).environment_hash()


def test_rights_decide_what_is_known(any_postgres: Sandbox) -> None:
    postgres = any_postgres.target().postgres
    postgres.execute("CREATE ROLE facts_nobody LOGIN")
    postgres.execute("CREATE ROLE facts_monitor LOGIN IN ROLE pg_monitor")
    try:
        nobody = read_facts(open_target(make_conninfo(postgres.conninfo, user="facts_nobody")))
        monitor = read_facts(open_target(make_conninfo(postgres.conninfo, user="facts_monitor")))
    finally:
        postgres.execute("DROP ROLE facts_nobody")
        postgres.execute("DROP ROLE facts_monitor")
    assert isinstance(nobody.server.data_directory, Unknown)
    assert "pg_read_all_settings" in nobody.server.data_directory.reason
    assert nobody.server.max_connections == monitor.server.max_connections
    assert monitor.server.data_directory == str(any_postgres.data_directory)
    assert monitor.server.config_file == str(any_postgres.data_directory / "postgresql.conf")
