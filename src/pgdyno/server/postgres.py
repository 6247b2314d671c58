"""SQL sessions with one server. The only module of this package that imports psycopg's connection machinery.

Every statement of pgdyno goes through here; other modules take psycopg only for `psycopg.sql` and its error classes.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import LiteralString, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError, UsageError, naming
from pgdyno.model.shapes import shaped
from pgdyno.outside.secret_words import SECRETS, UNMARKED
from pgdyno.server.wary_cursor import WaryCursor

T = TypeVar("T")
Query = LiteralString | sql.SQL | sql.Composed
Params = Sequence[object] | Mapping[str, object] | None
CONNECT_TIMEOUT_S = 10
_OWN_NAMES = "-csearch_path=pg_catalog,pg_temp"
"""A startup option, which goes before what ALTER DATABASE and ALTER ROLE set: whoever owns a database cannot put views,
functions or operators of theirs in the place of the system's, to be run with the rights of our role."""
_NO_OPTIONS = "unsupported startup parameter"
"""What PgBouncer says of it."""
_URI_PASSWORD = re.compile(r"(://[^:/@\s]*:)(\S*)(?=@)")
_KEY_PASSWORD = re.compile(rf"((?:{'|'.join(SECRETS)})\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]*)", re.IGNORECASE)
_SQL_PASSWORD = re.compile(
    r"(password\s+)(?:(?:e|u&)?'(?:[^'\\]|''|\\.)*'?|\$(\w*)\$.*?(?:\$\2\$|\Z))", re.IGNORECASE | re.DOTALL
)
"""As CREATE ROLE takes it; of a text that was cut off the rest."""
_HINTS = (
    ("password authentication failed", "Put the right password into ~/.pgpass or PGPASSWORD."),
    ("no password supplied", "Put the password into ~/.pgpass or PGPASSWORD."),
    ("authentication failed", "Name another user in --target, or allow this one in pg_hba.conf."),
    ("no pg_hba.conf entry", "Allow this user and this host in pg_hba.conf, then reload."),
    ("too many clients", "End some sessions or raise max_connections."),
    ("remaining connection slots", "End some sessions or raise max_connections."),
    ("starting up", "Wait until the server has recovered, then try again."),
    ("failed to resolve host", "Check the host name in --target."),
    ("could not translate host name", "Check the host name in --target."),
    ("definition of service", "Check the service name and PGSERVICEFILE."),
    ("does not exist", "Name a role and a database that exist: --target 'user=... dbname=...'."),
)
_REFUSES_US = ("authentication", "password", "pg_hba.conf", "not permitted to log in", "does not exist")
_PEER = re.compile(r'[Pp]eer authentication failed for user "([^"]+)"')
_QUOTED = re.compile(r'"[^"]*"')
_DOWN_HINT = "Check that the server runs, and the host and port of --target (a socket's folder is a host too)."


def redact(text: str, conninfo: str = "") -> str:
    """Return the text with every password of a URI, a key=value string or a statement replaced by `***`.

    libpq also quotes a password alone, when it cannot decode it: those of `conninfo` are replaced wherever they are.
    """
    if "=" not in text and ":" not in text and "password" not in text.lower():
        return _without_quoted(text, conninfo) if conninfo else text  # most texts by far: no pattern can be in it
    hidden = _KEY_PASSWORD.sub(r"\1***", _URI_PASSWORD.sub(r"\1***", text))
    return _without_quoted(_SQL_PASSWORD.sub(r"\1***", hidden), conninfo)


def _without_quoted(text: str, conninfo: str) -> str:
    """Return the text without the passwords of a connection string, which libpq may quote alone."""
    found = [*_URI_PASSWORD.findall(conninfo), *_KEY_PASSWORD.findall(conninfo)]
    for secret in sorted((value.strip("'") for _, value in found), key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def refuses_us(error: ConnectError) -> bool:
    """Tell whether a server that is up refuses this very role, which waiting or a restart does not change.

    Only where its messages are English; names in quotes do not count.
    """
    reason = _QUOTED.sub("", error.detail or "").lower()
    return any(words in reason for words in _REFUSES_US)


def secret_keywords() -> frozenset[str]:
    """Return libpq's options that are secrets, by their keywords."""
    options = pq.Conninfo.get_defaults()
    return frozenset((*UNMARKED, *(option.keyword.decode() for option in options if option.dispchar == b"*")))


def secret_variables() -> frozenset[str]:
    """Return the environment variables in which libpq looks for secrets, such as PGPASSWORD."""
    options = pq.Conninfo.get_defaults()
    return frozenset(option.envvar.decode() for option in options if option.envvar and option.dispchar == b"*")


def refuse_secrets(conninfo: str, what: str) -> dict[str, str]:
    """Return what a string of a file says, by libpq's keywords. Raises UsageError where a secret is in it."""
    with naming(what):
        found = Postgres(conninfo).parameters
    if secret := sorted(secret_keywords() & found.keys()):
        raise UsageError(f"{what} has a {secret[0]} in it", hint="Put it into ~/.pgpass: files of plans are shared.")
    return found


class Postgres:
    """A server as libpq names it: a URI or key=value string, completed by PG* variables, service and .pgpass.

    Holds no connection, so it survives restarts; every call opens its own. `name` replaces the label where the way
    to the server (a tunnel) is not what a person calls it. Its sessions find the system's objects alone by their bare
    names; `as_load` leaves them the search_path that the load has. Raises UsageError on a string that libpq cannot
    parse.
    """

    def __init__(self, conninfo: str, *, name: str | None = None, as_load: bool = False) -> None:
        try:
            self._options = [option for option in pq.Conninfo.parse(conninfo.encode()) if option.val is not None]
        except psycopg.OperationalError as error:
            raise UsageError(
                "the connection string cannot be read",
                detail=redact(str(error), conninfo).strip(),
                hint="Write it as libpq does: --target 'host=db1 dbname=app user=dba' or postgresql://dba@db1/app.",
            ) from error
        self.conninfo = conninfo
        self._name = name
        self._as_load = as_load
        self._version = 0

    @classmethod
    def reached(cls, conninfo: str, word: str) -> Postgres:
        """Return a server that takes a session; `word` is the argument that names it. Errors as `connect`."""
        with naming(word):
            found = cls(conninfo)
            found.connect().close()
        return found

    def __repr__(self) -> str:
        return f"Postgres({self.label})"

    @property
    def parameters(self) -> dict[str, str]:
        """Return what the string itself names, by libpq's keywords, the password among them."""
        return {option.keyword.decode(): option.val.decode() for option in self._options if option.val is not None}

    @cached_property
    def label(self) -> str:
        """Return the server's name for people and for the store, without a password: `user@host:port/dbname`."""
        if self._name is not None:
            return self._name
        given = {o.keyword.decode(): o.val.decode() for o in pq.Conninfo.get_defaults() if o.val is not None}
        given |= self.parameters
        if "service" in given and "host" not in self.parameters:
            return f"service {given['service']}"
        where = f"{given.get('host') or given.get('hostaddr') or 'local'}:{given.get('port', '5432')}"
        user = f"{given['user']}@" if "user" in given else ""
        return f"{user}{where}/{given.get('dbname') or given.get('user', '')}"

    def for_load(self, name: str) -> Postgres:
        """Return the same server with the database of a load, where bare names mean what they mean to the load."""
        return Postgres(make_conninfo(self.conninfo, dbname=name), name=self._name, as_load=True)

    def in_database(self, name: str) -> Postgres:
        """Return the same server with another database, where the system's objects alone are found by bare names."""
        return Postgres(make_conninfo(self.conninfo, dbname=name), name=self._name)

    def secrets(self) -> tuple[Mapping[str, str], bool]:
        """Return libpq's secret options as a session really gets them, and whether the server asked for a password.

        They come from the string, PGPASSWORD, a service or the password file. Opens a session: errors as `connect`.
        For the memory of a process of ours alone (see watch.py).
        """
        with self.connect() as connection:
            options = {one.keyword.decode(): one.val.decode() for one in connection.pgconn.info if one.val}
            used = {name: options[name] for name in secret_keywords() & options.keys()}
            password = connection.info.password
            return used | ({"password": password} if password else {}), connection.pgconn.used_password

    def with_secrets(self, secrets: Mapping[str, str]) -> Postgres:
        """Return the same server with the secrets that `secrets` returned, in this process or another."""
        return Postgres(make_conninfo(self.conninfo, **secrets), name=self._name, as_load=self._as_load)

    def environment(self, dbname: str | None = None, *, whole: bool = False, host: str = "") -> dict[str, str]:
        """Return the variables that make a libpq program (pgbench, psql) connect to this server.

        The password travels as PGPASSWORD only; an argument list never holds it. `whole` is for a program that runs as
        another account, who cannot read our password file: what is found there is put in, for `host` where the program
        goes by another way than we do. Errors as `connect`.
        """
        variables = {
            option.envvar.decode(): option.val.decode()
            for option in self._options
            if option.envvar is not None and option.val is not None
        }
        if whole and "PGPASSWORD" not in variables:
            way = Postgres(make_conninfo(self.conninfo, host=host)) if host else self
            with way.connect() as connection:
                found = connection.info.password
            variables |= {"PGPASSWORD": found} if found else {}
            variables.pop("PGPASSFILE", None)
        return variables | ({"PGDATABASE": dbname} if dbname is not None else {})

    def connect(self, dbname: str | None = None) -> psycopg.Connection[DictRow]:
        """Open a session: autocommit, rows as dictionaries. Raise ConnectError with libpq's reason.

        Use it as a context manager to close it. The session shows as `pgdyno` in `pg_stat_activity`.
        """
        given = self.parameters
        extra: dict[str, str | int] = {} if "application_name" in given else {"application_name": "pgdyno"}
        if "connect_timeout" not in given:
            extra["connect_timeout"] = CONNECT_TIMEOUT_S
        if dbname is not None:
            extra["dbname"] = dbname
        if self._as_load:
            return self._open(extra)
        if "service" in given or "PGSERVICE" in os.environ:  # which may have options that ours would hide
            connection = self._open(extra)
            connection.execute("SET search_path = pg_catalog, pg_temp")
            return connection
        options = f"{given.get('options') or os.environ.get('PGOPTIONS', '')} {_OWN_NAMES}".lstrip()
        try:
            return self._open({**extra, "options": options})
        except ConnectError as error:
            if _NO_OPTIONS not in (error.detail or ""):
                raise
        connection = self._open(extra)
        try:
            _require_own_names(connection, self.label)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, extra: Mapping[str, str | int]) -> psycopg.Connection[DictRow]:
        try:
            connection = psycopg.connect(
                make_conninfo(self.conninfo, **extra), autocommit=True, row_factory=dict_row, cursor_factory=WaryCursor
            )
        except psycopg.OperationalError as error:
            raise _connect_error(self.label, redact(str(error), self.conninfo)) from error
        self._version = connection.info.server_version
        return connection

    def major(self) -> int:
        """Return the server's major version, as the latest session was told it; opens one where there was none."""
        if not self._version:
            self.connect().close()
        return self._version // 10_000

    def fetch(self, query: Query, params: Params = None, dbname: str | None = None) -> list[dict[str, object]]:
        """Run one query in a session of its own and return its rows.

        Raises ConnectError when there is no session, and EnvironmentUnsuitable, caused by psycopg's error, when the
        server refuses the query.
        """
        with self.connect(dbname) as connection, query_errors(self.label):
            return list(connection.execute(query, params).fetchall())

    def execute(self, query: Query, params: Params = None, dbname: str | None = None) -> None:
        """Run one statement in a session of its own, outside of a transaction block. Errors as `fetch`."""
        with self.connect(dbname) as connection, query_errors(self.label):
            connection.execute(query, params)

    def answers(self) -> bool:
        """Tell whether a server answers at all: accepting, refusing us, or still starting; pg_isready's question."""
        given = {} if "connect_timeout" in self.parameters else {"connect_timeout": CONNECT_TIMEOUT_S}
        ping = pq.PGconn.ping(make_conninfo(self.conninfo, **given).encode())
        return ping in (pq.Ping.OK, pq.Ping.REJECT)

    def wait_ready(
        self,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wait until the server accepts a session, or is up and refuses this role (`refuses_us`).

        Raise the last ConnectError when the time is over.
        """
        deadline = clock() + timeout_s
        while True:
            try:
                self.connect().close()
                return
            except ConnectError as error:
                if refuses_us(error):
                    return
                if clock() >= deadline:
                    raise
                sleep(0.1)


def _require_own_names(connection: psycopg.Connection[DictRow], label: str) -> None:
    """Raise ConnectError where a schema is searched before the system's, which is first unless a path names it.

    For a pooler that lets us not say which: to set it there could reach the sessions of others.
    """
    row = connection.execute("SHOW search_path").fetchone()
    path = [name.strip().strip('"') for name in str(row["search_path"] if row else "").split(",")]
    if "pg_catalog" in path[1:]:
        raise ConnectError(
            f"\"{label}\" would make us use other users' objects instead of the system's",
            detail=f"Its search_path is {', '.join(path)}, and the pooler passes no options on.",
            hint="Connect to the server itself, or let the pooler pass options on.",
        )


@contextmanager
def query_errors(label: str) -> Iterator[None]:
    """Turn psycopg's errors in the block into ours, see `query_error`, the original kept as the cause."""
    try:
        yield
    except psycopg.Error as error:
        raise query_error(label, error) from error


def query_error(label: str, error: psycopg.Error) -> PgdynoError:
    """Return our error for psycopg's: ConnectError when the session was lost, else EnvironmentUnsuitable."""
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return EnvironmentUnsuitable(f'"{label}" does not answer as PostgreSQL', detail=redact(str(error)))
    if error.sqlstate is None or error.sqlstate[:3] in ("57P", "08P") or error.sqlstate.startswith("08"):
        return ConnectError(f'the session with "{label}" was lost', detail=redact(str(error)).strip(), hint=_DOWN_HINT)
    message = error.diag.message_primary or str(error)
    return EnvironmentUnsuitable(
        f'"{label}" refused a statement: {redact(message)}',
        detail=error.diag.message_detail,
        hint=error.diag.message_hint,
    )


def row_as(kind: type[T], row: Mapping[str, object], label: str) -> T:
    """Return a row as a dataclass of its columns. Raises EnvironmentUnsuitable where it is not one."""
    try:
        return shaped(kind, row, "a row", strict=False)
    except ValueError as error:
        raise query_error(label, psycopg.DataError(str(error))) from error


def _peer_hint(reason: str) -> str | None:
    """Return what to type where a server lets in only the account that a role is called after."""
    found = _PEER.search(reason)
    if found is None:
        return None
    account = shlex.quote(found.group(1))
    return f"Run it as that account: sudo -u {account} pgdyno ...; or name a user in --target that has a password."


def _connect_error(label: str, text: str) -> ConnectError:
    reason = text.strip()
    hint = _peer_hint(reason) or next((hint for words, hint in _HINTS if words in reason), _DOWN_HINT)
    return ConnectError(f'cannot connect to "{label}"', detail=reason, hint=hint)
