"""pg_settings and postgresql.conf from files, so that a server that cannot be asked can be judged."""

from __future__ import annotations

import csv
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captured import LOOSE, server_of
from facts_from_params import settings_of
from pgdyno.errors import UsageError
from pgdyno.inventory import settings_file
from pgdyno.inventory.inspection import inspect_capture
from pgdyno.inventory.server_values import server_values
from pgdyno.inventory.settings_file import parse_conf, parse_settings, version_number
from pgdyno.model.facts import SUPPORTED_MAJORS, SettingFact, Unknown

ROWS = [
    {
        "name": "shared_buffers",
        "setting": "16384",
        "unit": "8kB",
        "vartype": "integer",
        "context": "postmaster",
        "source": "configuration file",
        "boot_val": "16384",
        "pending_restart": "t",
    },
    {
        "name": "wal_level",
        "setting": "replica",
        "unit": "",
        "vartype": "enum",
        "context": "postmaster",
        "source": "default",
        "boot_val": "replica",
        "pending_restart": "f",
    },
]
ALIGNED = """      name      | setting | unit |       source
----------------+---------+------+--------------------
 shared_buffers | 16384   | 8kB  | configuration file
 wal_level      | replica |      | default
(2 rows)
"""


def as_csv() -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ROWS[0].keys())
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue()


@pytest.mark.requirement("R-INV-13")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        as_csv(),
        ALIGNED,
        "name|setting|unit|source\nshared_buffers|16384|8kB|configuration file\nwal_level|replica||default\n",
    ],
)
def test_pg_settings_in_every_form(text: str) -> None:
    found = parse_settings(text)
    assert (found["shared_buffers"].setting, found["shared_buffers"].unit) == ("16384", "8kB")
    assert found["shared_buffers"].source == "configuration file"
    assert (found["wal_level"].setting, found["wal_level"].unit) == ("replica", None)


def test_names_and_values_alone_are_enough() -> None:
    found = parse_settings('{"work_mem": "4MB", "fsync": "on"}')
    assert (found["fsync"].vartype, found["fsync"].source) == ("bool", "unknown")


@pytest.mark.parametrize("text", ["", "nothing", "[]", "[1]", "a,b\n1,2\n"])
def test_a_file_without_settings_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_settings(text)


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_the_defaults_of_a_version_are_those_of_real_servers(major: int) -> None:
    found = parse_conf("work_mem = 1GB\n", major * 10_000)
    real = settings_of(major)
    assert real.keys() - found.keys() <= {
        *("config_file", "data_directory", "hba_file", "ident_file", "data_checksums", "data_directory_mode"),
        *("huge_pages_status", "in_hot_standby", "lc_collate", "lc_ctype", "num_os_semaphores", "server_encoding"),
        *("server_version", "server_version_num", "shared_memory_size", "shared_memory_size_in_huge_pages"),
        *("ssl_library", "wal_segment_size"),
    }
    assert found["work_mem"].setting == str(1024 * 1024)
    for name, fact in found.items():
        if name != "work_mem":
            assert (fact.boot_val or "") == (real[name].boot_val or "")
            assert (fact.unit, fact.vartype, fact.context) == (real[name].unit, real[name].vartype, real[name].context)


def test_lines_of_a_configuration_file() -> None:
    text = """
# shared_buffers = 1GB
shared_buffers = 2GB   # the last line counts
shared_buffers 4GB
include_dir 'conf.d'
log_line_prefix = '%m ''quoted'' # not a comment'
checkpoint_timeout = 15min
autovacuum = off
random_page_cost = 1.1
edb_dynatune = 66
Work_Mem = '64MB'
"""
    found = parse_conf(text, 170_000)
    assert (found["shared_buffers"].setting, found["shared_buffers"].sourceline) == ("524288", 4)
    assert found["log_line_prefix"].setting == "%m 'quoted' # not a comment"
    assert found["checkpoint_timeout"].setting == "900"
    assert (found["autovacuum"].setting, found["random_page_cost"].setting) == ("off", "1.1")
    assert found["edb_dynatune"].setting == "66"
    assert found["work_mem"].setting == "65536"
    assert "include_dir" not in found


@pytest.mark.parametrize(("line", "is_strange"), [
    ("[[[[", True), ("\udcff\udcfe", True), ("work_mem", True), ("work_mem = 1MB 2MB", True), ("work_mem = '1MB", True),
    ("", False), ("  # a comment", False), ("work_mem=1MB#x", False), ("work_mem'1MB'", False),
    ("include 'x.conf'", False),
])  # fmt: skip
def test_a_file_that_no_server_would_take_is_refused_with_the_line(line: str, is_strange: bool, tmp_path: Path) -> None:
    """All of it would be passed over, and the defaults judged as if the server had them."""
    conf = tmp_path / "postgresql.conf"
    conf.write_text(f"shared_buffers = 1GB\n{line}\n", errors="surrogateescape")
    expected = pytest.raises(UsageError, match="line 2: this is no setting") if is_strange else nullcontext()
    with expected:
        inspect_capture(None, conf=conf, version="17")


@given(st.text())
def test_no_configuration_file_makes_it_fail(text: str) -> None:
    parse_conf(text, 160_000)


@pytest.mark.parametrize(
    ("text", "number"), [("16", 160000), ("14.4", 140004), ("9.5.7", 90507), ("9.6", 90600), ("14.4.0", 140004)]
)
def test_versions_as_people_write_them(text: str, number: int) -> None:
    assert version_number(text) == number


def test_a_word_is_no_version() -> None:
    with pytest.raises(UsageError, match="is not a version"):
        version_number("sixteen")


@pytest.mark.parametrize("folder", ["s390x-qemu-6.1", "s390x-qemu-6.1-lvm", "ppc64le-qemu-6.1", "x86_64-vm-6.18"])
def test_loose_outputs_and_a_file_of_settings_make_an_inventory(folder: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.csv"
    settings.write_text(as_csv())
    server = server_of(inspect_capture(LOOSE / folder, settings=settings, version="16"))
    assert (server.major, server.settings["shared_buffers"].setting) == (16, "16384")
    conf = tmp_path / "postgresql.conf"
    conf.write_text("shared_buffers = 1GB\n")
    server = server_of(inspect_capture(LOOSE / folder, conf=conf, version="9.5"))
    assert (server.major, set(server.settings)) == (9, {"shared_buffers"})
    with pytest.raises(UsageError, match="needs --pg-version"):
        inspect_capture(LOOSE / folder, conf=conf)


def row(name, setting, source, boot):
    return SettingFact(name, setting, "kB", "integer", "user", source, boot_val=boot, reset_val=setting)


@pytest.mark.parametrize("source", ["user", "database", "database user", "client", "session"])
def test_value_of_our_own_session_is_replaced_by_the_servers(source):
    mine = {"work_mem": row("work_mem", "1048576", source, "4096")}
    lines = [{"name": "work_mem", "setting": "8MB", "sourcefile": "/etc/a.conf", "sourceline": 9}]
    in_file = server_values(mine, [*lines, {**lines[0], "setting": "16MB"}])
    fact = in_file.settings["work_mem"]
    assert (fact.setting, fact.source, fact.sourcefile, in_file.hidden) == (
        "16384",
        "configuration file",
        "/etc/a.conf",
        {},
    )
    built_in = server_values(mine, []).settings["work_mem"]
    assert (built_in.setting, built_in.source) == ("4096", "default")
    nobody_tells = server_values(mine, Unknown("permission denied for view pg_file_settings"))
    assert "work_mem" not in nobody_tells.settings
    assert "pg_file_settings" in nobody_tells.hidden["work_mem"]


def test_what_every_client_sets_and_what_the_server_has_stays():
    facts = {
        "application_name": replace(row("application_name", "x", "client", ""), unit=None, vartype="string"),
        "work_mem": row("work_mem", "8192", "configuration file", "4096"),
    }
    found = server_values(facts, Unknown("not asked"))
    assert (dict(found.settings), dict(found.hidden)) == (facts, {})


def test_a_name_of_another_version_costs_a_look_at_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of all versions were made for it: 25 ms of an old server's file."""
    made, whole = list[str](), settings_file.setting_of_row
    monkeypatch.setattr(settings_file, "setting_of_row", lambda row: (made.append(str(row["name"])), whole(row))[1])
    found = parse_conf("shared_buffers = 1GB\nsort_mem = 4MB\nmy.name = 1\n", 90507)
    assert (found["shared_buffers"].setting, found["shared_buffers"].unit) == ("131072", "8kB")
    assert (found["sort_mem"].unit, found["my.name"].unit) == (None, None)
    assert made == ["shared_buffers"]
