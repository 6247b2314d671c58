"""Where our observing session sits, on servers that have no database of its own for it."""

from __future__ import annotations

import pytest

from pgdyno.errors import ConnectError
from pgdyno.probes.observer import Observer

FAILED = 'connection failed: connection to server on socket "/run/.s.PGSQL.5432" failed: '


class Server:
    """Refuses one database with a message; any other gets its name for a session."""

    def __init__(self, says: str) -> None:
        self.says, self.asked = says, list[str]()

    def connect(self, database: str) -> str:
        self.asked.append(database)
        if database == "pgdyno_observer":
            raise ConnectError("no session", detail=FAILED + self.says)
        return database


@pytest.mark.parametrize(
    "says",
    [
        'FATAL:  database "pgdyno_observer" does not exist',
        "FATAL:  Datenbank »pgdyno_observer« existiert nicht",
        'ВАЖНО:  база данных "pgdyno_observer" не существует',
        'FATAL:  permission denied for database "pgdyno_observer"',
    ],
)
def test_it_sits_in_another_database_where_its_own_is_not_there_in_whatever_language(says: str) -> None:
    observer = Observer(Server(says), "app")  # type: ignore[arg-type]  # all that is asked of it
    assert str(observer._connect()) == "postgres"


def test_a_server_that_is_down_is_not_asked_twice() -> None:
    server = Server("Connection refused")
    with pytest.raises(ConnectError):
        Observer(server, "app")._connect()  # type: ignore[arg-type]  # as above
    assert server.asked == ["pgdyno_observer"]
