"""What would refuse to put advice in force from here is known before it is proposed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from advice_example import make_advice, make_finding
from advisor_case import make_server
from pgdyno.errors import ConnectError
from pgdyno.model.advice import Hindrance
from pgdyno.model.finding import Change, ChangeKind, Cost, Finding
from pgdyno.model.inventory import ServerInventory
from pgdyno.server.privileges import RoleState
from pgdyno.studies.advice import acting
from pgdyno.targets.target import Target

ROLE = RoleState("postgres", "app", 180_000, True, True, True, True, True, True, True, "postgres", True, True)
WORK_MEM = make_finding("work-mem", changes=(Change(ChangeKind.POSTGRESQL, "work_mem", "8MB", "4MB"),))


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "read_role", lambda *_: ROLE)


def hindrance(
    server: ServerInventory,
    *,
    directory: Path | None = Path("/data"),
    local: bool = True,
    finding: Finding = WORK_MEM,
    **target_parts: object,
) -> Hindrance:
    parts = {"route": None, "remote": None, "control": None, "directory": directory, "local": local}
    target = SimpleNamespace(postgres=SimpleNamespace(label="db1"), os_user="postgres", **{**parts, **target_parts})
    advice = make_advice(finding)
    advice = replace(advice, inventory=replace(advice.inventory, server=server))
    return acting.hindrance(cast(Target, target), advice, (finding,))


@pytest.mark.usefixtures("role")
def test_nothing_bars_a_superuser_beside_the_servers_files() -> None:
    found = hindrance(make_server(18))
    assert not found.bars("apply", "work-mem")
    assert not found.bars("experiment", "work-mem")


@pytest.mark.usefixtures("role")
@pytest.mark.parametrize(
    ("who", "is_barred"),
    [("all roles", True), ("role postgres", True), ("database app", True), ("role postgres in database app", True),
     ("role other", False), ("database other", False)],
)  # fmt: skip
def test_what_outranks_a_file_for_our_sessions_bars_a_rule(who: str, is_barred: bool) -> None:
    found = hindrance(make_server(18, overrides={who: {"work_mem": "1GB"}}))
    assert found.bars("apply", "work-mem") is is_barred
    assert not found.bars("apply", "shared-buffers")


@pytest.mark.usefixtures("role")
def test_the_servers_command_line_bars_a_rule() -> None:
    server = make_server(18)
    row = replace(server.settings["work_mem"], source="command line")
    found = hindrance(replace(server, settings={**server.settings, "work_mem": row}))
    assert found.rules == {"work-mem": "work_mem is set on the server's command line"}


@pytest.mark.usefixtures("role")
def test_a_setting_that_waits_for_a_restart_bars_all() -> None:
    server = make_server(18)
    row = replace(server.settings["shared_buffers"], pending_restart=True)
    found = hindrance(replace(server, settings={**server.settings, "shared_buffers": row}))
    assert "shared_buffers" in found.whole
    assert found.bars("apply", "work-mem")


@pytest.mark.usefixtures("role")
def test_files_that_are_not_at_hand_bar_all() -> None:
    assert "are not on this host" in hindrance(make_server(18), directory=None, local=False).whole
    assert "run pgdyno as postgres or root" in hindrance(make_server(18), directory=None).whole


@pytest.mark.usefixtures("role")
@pytest.mark.parametrize(
    ("parts", "is_barred"),
    [({"route": "by SQL"}, True), ({"route": "by SQL", "control": "a command"}, False), ({}, False)],
)
def test_a_restart_that_nobody_can_make_bars_a_rule(parts: dict[str, Any], is_barred: bool) -> None:
    """By files it is not known yet: how to restart a server of this host is looked for by who needs it."""
    found = hindrance(make_server(18), finding=replace(WORK_MEM, cost=Cost.RESTART), **parts)
    assert found.bars("apply", "work-mem") is is_barred


@pytest.mark.usefixtures("role")
def test_more_wal_on_a_disk_that_cannot_be_seen_bars_a_rule() -> None:
    """By SQL alone apply refuses it: "max_wal_size = 8GB lets the log grow, and the free disk is unknown"."""
    more = replace(WORK_MEM, changes=(Change(ChangeKind.POSTGRESQL, "max_wal_size", "8GB", "1GB"),))
    assert "max_wal_size" in hindrance(make_server(18), finding=more, route="by SQL", directory=None).rules["work-mem"]
    assert not hindrance(make_server(18), finding=more, route="Patroni's").rules
    assert not hindrance(make_server(18), route="by SQL", directory=None).rules


def test_rights_that_the_role_lacks_are_told_by_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = replace(ROLE, superuser=False, createdb=False)
    monkeypatch.setattr(acting, "read_role", lambda *_: poor)
    found = hindrance(make_server(18))
    assert found.lacks == {"apply": (), "experiment": ("CREATEDB",)}
    assert not found.bars("apply", "work-mem")
    assert found.bars("experiment", "work-mem")


def test_a_server_that_went_away_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> RoleState:
        raise ConnectError('cannot connect to "db1"')

    monkeypatch.setattr(acting, "read_role", gone)
    assert hindrance(make_server(18)).whole == 'cannot connect to "db1"'
