"""What a control adds to an error of what it asks: its own words first, and the hint of who knew what to do."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from pgdyno.control import CommandControl, PatroniControl, SystemdControl
from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.migration.mover import MoveItem
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.server.patroni_api import Member

HINT = "Do this, and it works."
LEADER = Member(name="a", role="leader", state="running", host="a", port=5432, api_url="http://a:8008")


def refuses(*_: Any, **__: Any) -> NoReturn:
    raise EnvironmentUnsuitable("it was refused", detail="for a reason", hint=HINT)


SERVER: Any = SimpleNamespace(fetch=refuses, label="db")
RUNNER: Any = SimpleNamespace(run=refuses)
API: Any = SimpleNamespace(members=lambda: (LEADER,), reload=refuses, pending_restart=refuses)


def systemd(runner: Any) -> SystemdControl:
    return SystemdControl(runner, SERVER, "db.service")


SHOWN: Any = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=0, stdout="CanReload=no", stderr=""))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (systemd(SHOWN).reload, "has no ExecReload"),
        (lambda: systemd(RUNNER)._systemctl("restart", "db.service"), "cannot restart unit"),
        (PatroniControl(API, SERVER).reload, 'member "a" could not be reloaded'),
        (lambda: PatroniControl(API, SERVER)._waits(LEADER), 'cannot ask member "a"'),
        (CommandControl(("restart-it",), RUNNER, SERVER).reload, 'server "db" could not be reloaded'),
    ],
)
def test_who_refuses_says_what_to_do(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(RestartError, match=said) as caught:
        ask()
    assert caught.value.hint == HINT
    assert "for a reason" in (caught.value.detail or "")


def test_an_item_that_fails_hands_on_what_to_do() -> None:
    watch: Any = SimpleNamespace(began=lambda _: None, failed=lambda *_: None)
    with pytest.raises(EnvironmentUnsuitable, match="table shop: it was refused") as caught:
        in_pool([MoveItem("shop", "table")], 1, refuses, lambda: "", watch)
    assert (caught.value.detail, caught.value.hint) == ("for a reason", HINT)
