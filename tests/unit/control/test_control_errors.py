"""What a control could not do is a RestartError, with the hint of whoever knew what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.control.command import CommandControl
from pgdyno.control.patroni import PatroniControl
from pgdyno.control.pg_ctl import PgCtl
from pgdyno.control.pg_ctlcluster import PgCtlCluster
from pgdyno.control.protocol import log_tail
from pgdyno.control.systemd import SystemdControl
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError
from pgdyno.owner.runner import Completed
from pgdyno.server.patroni_api import Member

HINT = "Do this."
LEADER = Member("a", "leader", "running", "db1", 5432, "http://db1:8008")


class Refusing:
    """Stands for a runner, a server and an API that refuse whatever is asked of them."""

    def __init__(self, error: EnvironmentUnsuitable | None = None) -> None:
        self.error = error or EnvironmentUnsuitable("it is refused", detail="for a reason", hint=HINT)

    def members(self) -> tuple[Member, ...]:
        return (LEADER,)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_words: object, **_more: object) -> Any:
            raise self.error

        return refuse


class Cannot:
    """A runner whose systemctl knows units that cannot reload."""

    def run(self, argv: list[str], **_more: object) -> Completed:
        return Completed(tuple(argv), 0, "ActiveState=active\nCanReload=no\n", "")


OTHER: Any = Refusing()
SILENT: Any = Refusing(ConnectError("no answer", detail="for a reason", hint=HINT))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: SystemdControl(OTHER, OTHER, "pg.service").state(), "systemd does not tell the state"),
        (lambda: SystemdControl(OTHER, OTHER, "pg.service").restart(), 'cannot restart unit "pg.service"'),
        (lambda: SystemdControl(Cannot(), OTHER, "pg.service").reload(), "has no ExecReload"),  # type: ignore[arg-type]
        (lambda: PgCtlCluster(OTHER, "15", "main", Path("/nowhere"), None).reload(), "cannot reload cluster"),
        (lambda: CommandControl(("restart",), OTHER, OTHER).reload(), "could not be reloaded"),
        (lambda: PatroniControl(OTHER, OTHER)._waits(LEADER), 'cannot ask member "a"'),
        (lambda: PatroniControl(OTHER, OTHER).reload(), 'member "a" could not be reloaded'),
        (lambda: PatroniControl(SILENT, OTHER).reload(), 'leader "a" could not be reloaded'),
    ],
)
def test_an_error_keeps_the_hint_of_its_cause(act: Callable[[], object], said: str) -> None:
    with pytest.raises(RestartError) as caught:
        act()
    assert said in caught.value.message
    assert caught.value.hint == HINT
    assert "for a reason" in (caught.value.detail or "")


def test_a_reload_of_pg_ctl_s_server_starts_no_program(tmp_path: Path) -> None:
    """It is signalled by us; where none serves the directory, that is said."""
    with pytest.raises(RestartError, match="no server runs") as caught:
        PgCtl(OTHER, Path("/nowhere"), tmp_path, tmp_path / "log").reload()
    assert "it is refused" not in caught.value.message


def test_a_cause_without_a_hint_has_that_of_the_control() -> None:
    error: Any = Refusing(EnvironmentUnsuitable("it took longer than 60 s"))
    with pytest.raises(RestartError) as caught:
        SystemdControl(error, OTHER, "pg.service").restart()
    assert caught.value.hint == "See systemctl status pg.service and journalctl -u pg.service."


SAID = "FATAL:  it did not start\nSTATEMENT:  ALTER ROLE app PASSWORD 'geheim'\n"


class Logs:
    """Stands for the hands on a log, and for a runner of journalctl."""

    def look(self, _path: Path) -> Any:
        return type("Status", (), {"st_size": len(SAID)})

    def read(self, _path: Path, start: int) -> bytes:
        return SAID.encode()[start:]

    def run(self, argv: list[str], **_more: object) -> Completed:
        return Completed(tuple(argv), 0, SAID, "")


def test_the_end_of_a_server_s_log_is_told_without_the_passwords_in_it() -> None:
    logs: Any = Logs()
    for told in (log_tail(Path("/log"), logs, 0), SystemdControl(logs, OTHER, "pg.service")._log_tail()):
        assert told.startswith("FATAL:  it did not start\nSTATEMENT:  ALTER ROLE app PASSWORD ***")
        assert "geheim" not in told


def test_a_password_that_stands_below_its_statement_s_begin_is_not_told_either() -> None:
    class Long(Logs):
        said = "STATEMENT:  ALTER ROLE app PASSWORD\n\t'geheim'\n" + "LOG:  more\n" * 11

        def read(self, _path: Path, start: int) -> bytes:
            return self.said.encode()

        def run(self, argv: list[str], **_more: object) -> Completed:
            return Completed(tuple(argv), 0, self.said, "")

    logs: Any = Long()
    for told in (log_tail(Path("/log"), logs, 0), SystemdControl(logs, OTHER, "pg.service")._log_tail()):
        assert told.splitlines()[1:] == ["LOG:  more"] * 11
        assert "geheim" not in told
