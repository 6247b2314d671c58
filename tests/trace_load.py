"""A small load whose every statement is known, to hold traces of its log against.

Six sessions, one after another: simple and extended protocol, prepared statements, NULLs, quotes, lines, unicode,
savepoints, expected errors in each phase, a reconnect. `run_load` returns what was sent, in order, by session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from psycopg import pq

TRICKY = "it's $2 = 'x', $3 = NULL\n\tnext, \"quoted\", ünïcode ☃, back\\slash"


@dataclass
class Sent:
    """One statement as the client knows it."""

    session: str
    sql: str
    params: list[str | None] | None = None
    name: str | None = None
    """Of the prepared statement; empty for the unnamed, None for the simple protocol."""
    sqlstate: str | None = None
    is_parse: bool = False


@dataclass
class Client:
    """A session that writes down what it sends; by libpq alone, so that nothing else is sent."""

    conninfo: str
    name: str
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pg = pq.PGconn.connect(f"{self.conninfo} application_name={self.name}".encode())
        assert self.pg.status == pq.ConnStatus.OK, self.pg.get_error_message()

    def simple(self, sql: str) -> None:
        self._keep(self.pg.exec_(sql.encode()), Sent(self.name, sql))

    def extended(self, sql: str, *params: str | None) -> None:
        found = self.pg.exec_params(sql.encode(), [None if p is None else p.encode() for p in params])
        self._keep(found, Sent(self.name, sql, list(params) or None, ""))

    def prepare(self, name: str, sql: str) -> None:
        self._keep(self.pg.prepare(name.encode(), sql.encode()), Sent(self.name, sql, None, name, is_parse=True))
        self._texts = {**getattr(self, "_texts", {}), name: sql}

    def prepared(self, name: str, *params: str | None) -> None:
        found = self.pg.exec_prepared(name.encode(), [None if p is None else p.encode() for p in params])
        self._keep(found, Sent(self.name, self._texts[name], list(params) or None, name))

    def close(self) -> None:
        self.pg.finish()

    def _keep(self, result: Any, sent: Sent) -> None:
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        sent.sqlstate = None if state is None else state.decode()
        self.sent.append(sent)


def run_load(conninfo: str, *, rounds: int = 2) -> list[Sent]:
    """Send the load; the database gets a table `things`, which is dropped first."""
    sent = list[Sent]()
    first = Client(conninfo, "setup")
    for sql in ("drop table if exists things", "create table things (id int primary key, word text, amount numeric)"):
        first.simple(sql)
    first.close()
    sent += first.sent
    for load in (_simple, _extended, _prepared, _errors, _transactions):
        for turn in range(rounds):
            client = Client(conninfo, f"{load.__name__[1:]}-{turn}")
            load(client, turn)
            client.close()
            sent += client.sent
    return sent


def _simple(client: Client, turn: int) -> None:
    base = 1000 * turn
    client.simple(f"insert into things values ({base + 1}, 'it''s; \"two\"\n  lines, statement: x', 1.5)")
    client.simple(f"select *\nfrom things\n\twhere id = {base + 1} -- duration: 1 ms  statement: no")
    client.simple("select 1; select 2")
    client.simple("")
    client.simple("prepare p (int) as select $1 + 1")
    client.simple("execute p (4)")
    client.simple("select 'ünïcode ☃'")


def _extended(client: Client, turn: int) -> None:
    base = 1000 * turn
    client.extended("insert into things values ($1, $2, $3)", str(base + 10), TRICKY, None)
    client.extended("insert into things\nvalues ($1, $2, $3)", str(base + 11), "", "2.5")
    client.extended("select count(*) from things")
    client.extended("select word from things where id = $1", str(base + 10))
    client.extended("select $1::text, $2::text", "...", "parameters: $1 = 'x'")
    client.extended("select $1::text", "x" * 60)


def _prepared(client: Client, turn: int) -> None:
    base = 1000 * turn
    client.prepare("get/one", "select * from things where id = $1")
    client.prepare("S_2", "update things set amount = $2 where id = $1")
    for number in (1, 10, 11):
        client.prepared("get/one", str(base + number))
        client.prepared("S_2", str(base + number), None if number == 1 else "7")
    client.simple("deallocate all")


def _errors(client: Client, turn: int) -> None:
    client.simple("select 1/0")
    client.simple("selec 1")
    client.simple("select * from nothing_of_this_name")
    client.extended("select 1 / $1::int", "0")
    client.extended("select * from nothing_of_that_name where x = $1", "1")
    client.extended("insert into things values ($1, $2, 0)", str(1000 * turn + 10), "twice, 'quoted'")
    client.prepare("twice", "insert into things values ($1, 'x', 0)")
    client.prepared("twice", str(1000 * turn + 10))
    client.simple("do $$ begin raise exception 'mine' using errcode = 'P0042'; end $$")


def _transactions(client: Client, turn: int) -> None:
    base = 1000 * turn + 20
    client.simple("begin")
    client.extended("insert into things values ($1, 'a', 1)", str(base))
    client.simple("savepoint s")
    client.extended("insert into things values ($1, 'a', 1)", str(base))
    client.simple("select 1")
    client.simple("rollback to savepoint s")
    client.extended("update things set word = $1 where id = $2", "b", str(base))
    client.simple("commit")
    client.simple("begin")
    client.simple("select 1/0")
    client.simple("rollback")
    client.simple("select 2")
    client.extended("begin isolation level serializable")
    client.simple(f"delete from things where id = {base}")
    client.extended("commit")
