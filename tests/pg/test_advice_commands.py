"""Every command that advise prints is run as it is printed: none of them is refused for how it was written."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from advise_command import run
from fix_postgres import NIGHT, kept_servers
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.pg
COMMAND = re.compile(r"^\s*(pgdyno \w+\b.*?)(?:  .*)?$", re.MULTILINE)
STATES: dict[str, tuple[str, ...]] = {
    "as-made": (),
    "fsync-off": ("fsync = off", "full_page_writes = off"),
    "autovacuum-off": ("autovacuum = off",),
    "waits-for-a-restart": ("shared_buffers = '100MB'",),
}
BUILDS = ("embedded-18", "debian-15")
EVERYTHING = [(build, state) for build in BUILDS for state in STATES]
PUSH = [(BUILDS[0], "as-made"), (BUILDS[0], "fsync-off"), (BUILDS[1], "autovacuum-off"),
        (BUILDS[1], "waits-for-a-restart")]  # fmt: skip
"""Each state on one build, and both builds."""


@pytest.fixture(scope="module")
def servers(server_home: Path) -> Iterator[Callable[[str], Sandbox]]:
    with kept_servers("commands", server_home) as of:
        yield of


@pytest.fixture(params=BUILDS)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Sandbox]) -> Sandbox:
    """A server of this file alone, whose state the tests change by reloads."""
    return servers(request.param)


def printed(text: str) -> list[list[str]]:
    return [shlex.split(command)[1:] for command in COMMAND.findall(text)]


@pytest.mark.parametrize(("server", "state"), EVERYTHING if NIGHT else PUSH, indirect=["server"])
def test_no_printed_command_is_refused(server: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       state: str) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    postgres = server.target().postgres
    postgres.execute("ALTER SYSTEM RESET ALL")
    for setting in STATES[state]:
        postgres.execute(f"ALTER SYSTEM SET {setting}")
    postgres.execute("SELECT pg_reload_conf()")
    verbs = told(tmp_path, postgres.conninfo)
    if state == "waits-for-a-restart":  # what is in the files comes first, before anything else is put there
        assert {"apply", "experiment"}.isdisjoint(verbs), verbs


def told(home: Path, dsn: str, *flags: str) -> list[str]:
    """Run every command that is printed on a page of advice, as it is printed; return their verbs."""
    code, text, errors = run(home, "advise", "--target", dsn, *flags)
    assert code in (0, 1), errors
    commands = printed(text.split("\nNext", 1)[1])
    assert any("--explain" in words for words in commands), text
    for words in commands:
        asks = words[0] in ("experiment", "apply")  # they print their plan and ask; somebody says no
        code, _, errors = run(home, *words, answer=b"n\n" if asks else None)
        assert code in ((130,) if asks else (0, 1)), f"{shlex.join(words)}: exit code {code}: {errors}"
        assert ("Continue?" in errors) is asks, errors
    return [words[0] for words in commands]


@pytest.mark.parametrize("server", BUILDS if NIGHT else BUILDS[1:], indirect=True)
def test_a_role_that_may_only_look_is_told_what_it_lacks(server: Sandbox, tmp_path: Path) -> None:
    """It was told to experiment and to apply, and both were refused."""
    postgres = server.target().postgres
    postgres.execute("ALTER SYSTEM RESET ALL")
    postgres.execute("SELECT pg_reload_conf()")
    postgres.execute("CREATE ROLE looker LOGIN IN ROLE pg_monitor")
    looker = make_conninfo(postgres.conninfo, user="looker")
    verbs = told(tmp_path, looker)
    assert {"experiment", "apply"}.isdisjoint(verbs)
    assert verbs[-2:] == ["privileges", "advise"]
    by_sql = told(tmp_path, looker, "--sql-only")  # which refused to look where nothing could be set
    assert {"experiment", "apply"}.isdisjoint(by_sql)


@pytest.mark.parametrize("server", BUILDS if NIGHT else BUILDS[:1], indirect=True)
def test_what_only_a_window_showed_is_proposed_with_that_window(server: Sandbox, tmp_path: Path) -> None:
    """Without it apply and experiment asked counters since their reset, and the rule had nothing to say."""
    postgres = server.target().postgres
    postgres.execute("ALTER SYSTEM RESET ALL")
    postgres.execute("SELECT pg_reload_conf()")
    _, text, errors = run(tmp_path, "advise", "--target", postgres.conninfo, "--window", "2")
    acting = [words for words in printed(text.split("\nNext", 1)[1]) if words[0] in ("apply", "experiment")]
    assert acting, errors
    assert all(words[words.index("--window") + 1] == "2" for words in acting)


@pytest.mark.parametrize("server", BUILDS if NIGHT else BUILDS[1:], indirect=True)
def test_the_page_of_an_idle_server_is_short_and_starts_with_nothing_for_a_load(server: Sandbox, tmp_path: Path):
    postgres = server.target().postgres
    postgres.execute("ALTER SYSTEM RESET ALL")
    postgres.execute("SELECT pg_reload_conf()")
    for row in postgres.fetch("SELECT datname::text AS name FROM pg_database WHERE datallowconn"):
        # What the tests before made of a server that is minutes old may be more than none.
        postgres.execute("SELECT pg_stat_reset()", dbname=str(row["name"]))
    _, text, _ = run(tmp_path, "advise", "--target", postgres.conninfo)
    _, whole, _ = run(tmp_path, "advise", "--target", postgres.conninfo, "--all")
    _, document, _ = run(tmp_path, "advise", "--target", postgres.conninfo, "--json")
    assert "load: none was seen" in text, text[:2000]
    assert len(text) * 3 < len(whole)
    waiting = {one["rule"] for one in json.loads(document)["findings"] if one["waits_for_load"]}
    told = re.findall(r"^  \d+  \[\w+\] (\S+)", text, re.MULTILINE)
    assert told
    assert waiting.isdisjoint(told)
    assert waiting.isdisjoint(json.loads(document)["summary"]["best"])


@pytest.mark.parametrize("server", BUILDS if NIGHT else BUILDS[:1], indirect=True)
@pytest.mark.parametrize("rule", ["fsync", "autovacuum", "full-page-writes"])
def test_apply_does_not_call_in_force_what_is_not(server: Sandbox, tmp_path: Path, rule: str) -> None:
    postgres = server.target().postgres
    for name in ("fsync", "autovacuum", "full_page_writes"):
        postgres.execute(f"ALTER SYSTEM SET {name} = off")
    postgres.execute("SELECT pg_reload_conf()")
    code, _, errors = run(tmp_path, "apply", "--target", postgres.conninfo, rule, "--dry-run")
    assert code == 2
    assert "in force already" not in errors
    assert "by hand" in errors
    assert f"--explain {rule}" in errors
