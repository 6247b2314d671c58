"""What counts as being in force, and what names the settings of a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.knobs.catalogue import TakesEffect
from pgdyno.knobs.linux import load_linux_catalogue
from pgdyno.model.configuration import Configuration
from pgdyno.model.linux import SEEN_AT_START
from pgdyno.routes.file_check import FileLine, FileReading
from pgdyno.server.effectiveness import Observed, argument_for, needs_restart, same_value, shortfalls, unexpected
from pgdyno.server.snapshot import SettingDifference, SettingState, differences, fingerprint
from pgdyno.units import format_quantity

DROPIN = Path("/pg/pgdyno.conf")


def setting(
    name: str, value: str, vartype: str = "integer", unit: str | None = None, context: str = "sighup", line: int = 4
) -> SettingState:
    return SettingState(
        name, value, None, unit, vartype, context, "x", "configuration file", str(DROPIN), line, pending_restart=False
    )


@pytest.mark.parametrize(
    ("asked", "in_force", "vartype", "unit", "same"),
    [
        ("8MB", "8192", "integer", "kB", True),
        ("8192", "8192", "integer", "kB", True),
        ("8MB", "8193", "integer", "kB", False),
        ("4GB", "524288", "integer", "8kB", True),
        ("30.1GB", "31563776", "integer", "kB", False),
        ("30.1GB", "31561728", "integer", "kB", True),  # 30822 MB: rounded to the next smaller unit
        ("1.5h", "90", "integer", "min", True),
        ("0600", "0600", "integer", None, True),
        ("0.9", "0.9", "real", None, True),
        ("0.9", "0.91", "real", None, False),
        ("2ms", "2", "real", "ms", True),
        ("on", "on", "bool", None, True),
        ("TRUE", "on", "bool", None, True),
        ("of", "off", "bool", None, True),
        ("o", "on", "bool", None, False),
        ("on", "off", "bool", None, False),
        ("PGLZ", "pglz", "enum", None, True),
        ("on", "pglz", "enum", None, True),
        ("on", "off", "enum", None, False),
        ("off", "off", "enum", None, True),
        ("off", "pglz", "enum", None, False),
        ("lz4", "pglz", "enum", None, False),
        ("a, b", "a,b", "string", None, True),
        ("a", "b", "string", None, False),
        ("abc", "1", "integer", None, False),
    ],
)
def test_same_value(asked: str, in_force: str, vartype: str, unit: str | None, same: bool) -> None:
    assert same_value(asked, setting("x", in_force, vartype, unit)) is same


@given(st.integers(1, 2**40), st.sampled_from(["B", "kB", "8kB", "MB", "ms", "s", "min"]))
def test_the_canonical_text_of_a_value_is_that_value(value: int, unit: str) -> None:
    state = setting("x", str(value), unit=unit)
    assert same_value(format_quantity(value, unit), state)
    assert not same_value(format_quantity(value + 1, unit), state)


def test_nothing_is_short_when_all_is_in_force() -> None:
    assert (
        shortfalls(Configuration.of({"work_mem": "8MB"}), {"work_mem": setting("work_mem", "8192", unit="kB")}, DROPIN)
        == []
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"setting": "4096"}, "8MB was read, but 4MB is in force"),
        ({"pending_restart": True}, "waits for a restart"),
        ({"sourcefile": "/pg/postgresql.auto.conf", "sourceline": 3}, "overridden by /pg/postgresql.auto.conf line 3"),
        ({"source": "database", "sourcefile": None}, "overridden by ALTER DATABASE app SET"),
        ({"source": "user", "sourcefile": None}, 'overridden by ALTER ROLE "DBA" SET'),
        ({"source": "database user", "sourcefile": None}, 'ALTER ROLE "DBA" IN DATABASE app SET'),
        ({"source": "command line", "sourcefile": None}, "overridden by the argument -c work_mem=6MB of the server"),
        ({"source": "client", "sourcefile": None}, "overridden by the connection's own options"),
        ({"source": "default", "sourcefile": None}, "overridden by default"),
    ],
)
def test_what_is_not_in_force_is_named(change: dict[str, object], words: str) -> None:
    state = replace(setting("work_mem", "8192", unit="kB"), **change)  # type: ignore[arg-type] # fields by name, one table
    observed = Observed(role="DBA", database="app", arguments=("postgres", "-D", "/pg", "-c", "work_mem=6MB"))
    (sentence,) = shortfalls(Configuration.of({"work_mem": "8MB"}), {"work_mem": state}, DROPIN, observed)
    assert words in sentence
    assert sentence.startswith("work_mem")


def test_a_knob_that_the_server_does_not_have() -> None:
    assert shortfalls(Configuration.of({"io_method": "worker"}), {}, DROPIN) == [
        "io_method is not a setting of this server"
    ]


def test_a_value_that_the_server_computes() -> None:
    computed = replace(setting("wal_buffers", "512", unit="8kB"), source="override", sourcefile=None)
    assert shortfalls(Configuration.of({"wal_buffers": "-1"}), {"wal_buffers": computed}, DROPIN) == []
    assert shortfalls(Configuration.of({"wal_buffers": "4MB"}), {"wal_buffers": computed}, DROPIN) != []


def test_huge_pages_must_be_got() -> None:
    settings = {
        "huge_pages": setting("huge_pages", "on", "enum"),
        "huge_pages_status": setting("huge_pages_status", "off", "enum"),
    }
    asked = Configuration.of({"huge_pages": "on"})
    assert "huge_pages_status is off" in shortfalls(asked, settings, DROPIN)[0]
    settings["huge_pages_status"] = setting("huge_pages_status", "on", "enum")
    assert shortfalls(asked, settings, DROPIN) == []


@pytest.mark.parametrize(
    ("knob", "value", "observed", "words"),
    [
        ("huge_pages", "on", Observed(huge_pages=False), "lies in ordinary pages"),
        ("huge_pages", "on", Observed(huge_pages=True), None),
        ("huge_pages", "try", Observed(huge_pages=False), None),
        ("io_method", "worker", Observed(io_workers=0), "no I/O worker runs"),
        ("io_method", "worker", Observed(io_workers=3), None),
        ("io_method", "worker", Observed(), None),
        ("io_method", "io_uring", Observed(io_rings=0), "no io_uring open"),
        ("io_method", "io_uring", Observed(io_rings=120), None),
        ("io_method", "sync", Observed(io_workers=0, io_rings=0), None),
        ("io_method", "sync", Observed(io_workers=3), "are in use"),
    ],
)
def test_what_the_kernel_and_the_processes_say(knob: str, value: str, observed: Observed, words: str | None) -> None:
    found = shortfalls(Configuration.of({knob: value}), {knob: setting(knob, value, "enum")}, DROPIN, observed)
    assert found == [] if words is None else words in found[0]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("-D /pg -c shared_buffers=1GB", "-c shared_buffers=1GB"),
        ("-cshared_buffers=1GB -D /pg", "-cshared_buffers=1GB"),
        ("--shared-buffers=1GB --work_mem=2MB", "--shared-buffers=1GB"),
        ("-B 16384 -c max_connections=9", "-B 16384"),
        ("-B16384", "-B16384"),
        ("-B 16384 -c Shared_Buffers=2GB", "-c Shared_Buffers=2GB"),
        ("-D /pg -c work_mem=1MB", None),
        ("-c", None),
        ("", None),
    ],
)
def test_the_very_argument_is_named(arguments: str, shown: str | None) -> None:
    assert argument_for("shared_buffers", arguments.split()) == shown


def test_only_a_change_of_a_postmaster_knob_needs_a_restart() -> None:
    settings = {"a": setting("a", "1", context="postmaster"), "b": setting("b", "1")}
    one, two = Configuration.of({"a": "1", "b": "1"}), Configuration.of({"a": "1", "b": "2"})
    assert needs_restart(one, two, settings) == []
    assert needs_restart(one, one, settings) == []
    assert needs_restart(Configuration(), one, settings) == ["a"]
    assert needs_restart(one, Configuration.of({"b": "1"}), settings) == ["a"]


def test_of_linux_knobs_only_the_pool_of_huge_pages_needs_a_restart() -> None:
    every = Configuration.of(dict.fromkeys(load_linux_catalogue(), "1"))
    assert needs_restart(Configuration(), every, {}) == ["vm.nr_hugepages"]
    told = [name for name, knob in load_linux_catalogue().items() if knob.takes_effect is TakesEffect.RESTART]
    assert set(told) == SEEN_AT_START
    assert needs_restart(every, Configuration(), {}) == ["vm.nr_hugepages"]
    assert needs_restart(every, every, {}) == []


def test_that_huge_pages_are_used_is_expected_only_where_a_pool_was_made_for_them() -> None:
    off = setting("huge_pages_status", "off", "enum", context="internal")
    found = [SettingDifference("huge_pages_status", off, replace(off, setting="on"))]
    assert unexpected(found, Configuration.of({"vm.nr_hugepages": "100"})) == []
    assert (
        len(unexpected(found, Configuration())) == len(unexpected(found, Configuration.of({"vm.swappiness": "1"}))) == 1
    )


def test_the_fingerprint_follows_what_is_set() -> None:
    base = setting("work_mem", "8192")
    port = replace(setting("port", "5433"), name="port")
    folder = replace(setting("data_directory", "/a", "string"), category="File Locations")
    ours = replace(setting("application_name", "pgdyno", "string"), source="client")
    default = replace(base, name="other", setting="1", boot_val="1")
    assert fingerprint([base, port, folder, ours, default]) == fingerprint([base])
    assert fingerprint([replace(base, setting="8193")]) != fingerprint([base])
    assert fingerprint([replace(base, source="database")]) == fingerprint([base])


def test_differences_see_value_source_place_and_wait() -> None:
    base = setting("a", "1")
    for change in ({"setting": "2"}, {"source": "default"}, {"sourceline": 5}, {"pending_restart": True}):
        after = replace(base, **change)  # type: ignore[arg-type] # fields by name, one table
        (difference,) = differences({"a": base}, {"a": after})
        assert difference.name == "a"
        assert str(difference).startswith("a: was 1")
    assert differences({"a": base}, {"a": base}) == ()
    assert [str(difference) for difference in differences({"a": base}, {})] == [
        "a: was 1 (/pg/pgdyno.conf line 4), is absent"
    ]


def test_what_our_own_session_sets_is_no_difference() -> None:
    before = replace(setting("TimeZone", "UTC", "string"), source="client")
    assert differences({"TimeZone": before}, {"TimeZone": replace(before, setting="CET")}) == ()


def line(name: str | None, value: str, number: int, file: Path = DROPIN, error: str | None = None) -> FileLine:
    return FileLine(str(file), number, name, value, applied=error is None, error=error)


def test_a_wait_for_a_restart_is_told_from_a_rejection() -> None:
    words = "setting could not be applied"
    waiting = replace(setting("shared_buffers", "16384", context="postmaster"), pending_restart=True)
    reading = FileReading(
        (line("shared_buffers", "64MB", 4, error=words), line("max_connections", "abc", 5, error=words)),
        {"shared_buffers": waiting, "max_connections": setting("max_connections", "100", context="postmaster")},
    )
    assert [found.name for found in reading.rejected()] == ["max_connections"]


def test_a_knob_that_was_taken_out_is_no_rejection_but_an_edit() -> None:
    words = 'parameter "max_connections" cannot be changed without restarting the server'
    gone = FileReading((FileLine(None, None, None, None, applied=False, error=words),), {})
    assert gone.rejected() == []
    assert gone.unread() == [f"taken out of the files: {words}"]


def test_a_later_line_elsewhere_overrides_and_a_later_line_of_ours_does_not() -> None:
    auto = Path("/pg/postgresql.auto.conf")
    lines = (
        line("Work_Mem", "1MB", 4),
        line("work_mem", "8MB", 5),
        line("a", "1", 6),
        line("work_mem", "9MB", 3, auto),
    )
    (pair,) = FileReading(lines, {}).overridden(DROPIN)
    assert [found.sourceline for found in pair] == [5, 3]


def test_edits_that_are_not_in_force_are_seen() -> None:
    loaded = setting("a", "1")
    assert FileReading((line("a", "1", 4),), {"a": loaded}).unread() == []
    assert "in force is 1" in FileReading((line("a", "2", 4),), {"a": loaded}).unread()[0]
    assert FileReading((line("a", "1", 7),), {"a": loaded}).unread() != []
    assert "no longer in the file" in FileReading((), {"a": loaded}).unread()[0]
    assert "syntax error" in FileReading((line(None, "", 9, error="syntax error"),), {}).unread()[0]
    outranked = replace(loaded, source="command line", sourcefile=None, sourceline=None)
    assert FileReading((line("a", "2", 4),), {"a": outranked}).unread() == []
    assert FileReading((line("custom.placeholder", "2", 4),), {}).unread() == []


@pytest.mark.parametrize("name", ["primary_conninfo", "archive_command", "jwt.secret"])
def test_an_edit_of_what_may_be_a_secret_is_told_without_it(name: str) -> None:
    before = replace(setting("a", "old sesame"), name=name)
    (told,) = FileReading((line(name, "new sesame", 4),), {name: before}).unread()
    assert name in told
    assert "sesame" not in told
    assert line(name, "new sesame", 4).words == f"{name} = (not shown)"
    assert line("work_mem", "8MB", 4).words == "work_mem = 8MB"
