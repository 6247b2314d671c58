"""Connection strings: what is shown of them, what a child program gets, and no password anywhere else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, UsageError
from pgdyno.migration.left_behind import without_secrets
from pgdyno.server.postgres import Postgres, _connect_error, redact, refuse_secrets, row_as, secret_keywords
from pgdyno.server.privileges import RoleState
from pgdyno.studies.session.target_request import TargetRequest

SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=20).map(lambda text: f"Zq{text}9x")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE", "PGPASSWORD", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)


@given(SECRETS)
def test_no_password_in_label_or_repr(secret: str) -> None:
    postgres = Postgres(make_conninfo(host="db1", user="u", dbname="d", password=f"~{secret}~"))
    assert secret not in f"{postgres.label} {postgres!r} {postgres}"


@given(SECRETS)
@example("pa ss'wo\\rd")
def test_the_password_reaches_a_child_by_its_environment(secret: str) -> None:
    postgres = Postgres(make_conninfo(host="db1", port=5433, user="u", dbname="d", password=secret))
    assert postgres.environment("other") == {
        "PGHOST": "db1",
        "PGPORT": "5433",
        "PGUSER": "u",
        "PGDATABASE": "other",
        "PGPASSWORD": secret,
    }
    assert postgres.environment()["PGDATABASE"] == "d"


@given(SECRETS)
def test_redact_hides_every_spelling(secret: str) -> None:
    conninfo = f"postgresql://u:{secret}@h/d"
    for text in (
        f'invalid port in "postgresql://u:{secret}@h:x/d"',
        f"host=h password={secret} port=x",
        f"host=h password = '{secret}' port=x",
        f"postgresql://h/d?password={secret}&sslmode=no",
        f"host=h scram_client_key={secret} scram_server_key = '{secret}' oauth_client_secret={secret}",
        f'invalid percent-encoded token: "{secret}"',
    ):
        assert secret not in redact(text, conninfo)
        assert secret not in redact(text) or text.startswith("invalid percent")


KEYS = {"scram_client_key": "Zq1", "scram_server_key": "Zq2", "oauth_client_secret": "Zq3", "password": "Zq4"}


def test_keys_that_let_in_as_a_password_does_are_kept_nowhere() -> None:
    """libpq 18 does not mark them as secrets."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    conninfo = make_conninfo(host="db1", **{key: value for key, value in KEYS.items() if key in known})
    assert KEYS.keys() <= secret_keywords()
    assert "Zq" not in without_secrets(Postgres(conninfo))
    with pytest.raises(UsageError, match=r"source has a \w+ in it"):
        refuse_secrets(make_conninfo(host="db1", **{min(KEYS.keys() & known): "Zq"}), "source")
    for key, value in KEYS.items():
        assert value not in str(TargetRequest(dsn=f"host=db1 {key}={value}").to_json())


def test_redact_leaves_the_rest_alone() -> None:
    text = 'FATAL:  password authentication failed for user "dba"'
    assert redact(text, "postgresql://dba@db1/app") == text
    text = "ALTER ROLE a PASSWORD NULL VALID UNTIL 'tomorrow'"
    assert redact(text) == text


@given(SECRETS)
@pytest.mark.parametrize(
    "spelling", ["'{}'", "E'\\'{}'", "u&'\\00e4{}'", "'it''s {}'", "$${}$$", "$x$\n{}$x$", "'{} and cut o"]
)
def test_redact_hides_the_password_of_a_statement(spelling: str, secret: str) -> None:
    text = f"+ psql -c ALTER ROLE app ENCRYPTED PASSWORD {spelling.format(secret)}"
    assert secret not in redact(text)
    assert redact(text).startswith("+ psql -c ALTER ROLE app ENCRYPTED PASSWORD ***")


@pytest.mark.parametrize(
    "conninfo", ["nonsense", "host=", "postgresql://u:se%cret@h/d", "hosst=db1 password=se%cret", "host=a 'se%cret"]
)
def test_unreadable_text_is_a_usage_error_without_the_password(conninfo: str) -> None:
    if conninfo == "host=":
        assert Postgres(conninfo).parameters == {"host": ""} or Postgres(conninfo).parameters == {}
        return
    with pytest.raises(UsageError) as caught:
        Postgres(conninfo)
    shown = f"{caught.value} {caught.value.detail} {caught.value.hint}"
    if "password" in conninfo or ":se" in conninfo:
        assert "se%cret" not in shown
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("conninfo", "label"),
    [
        ("host=db1 port=5433 user=dba dbname=app", "dba@db1:5433/app"),
        ("postgresql://dba:x@db1/app", "dba@db1:5432/app"),
        ("host=/run/pg user=dba", "dba@/run/pg:5432/dba"),
        ("hostaddr=10.0.0.1 user=dba dbname=app", "dba@10.0.0.1:5432/app"),
        ("service=lab", "service lab"),
    ],
)
def test_labels(conninfo: str, label: str) -> None:
    assert Postgres(conninfo).label == label


def test_another_database_keeps_the_rest() -> None:
    other = Postgres("postgresql://dba:x@db1:5433/app?sslmode=require").for_load("it's mine")
    assert other.parameters == {
        "user": "dba",
        "password": "x",
        "host": "db1",
        "port": "5433",
        "sslmode": "require",
        "dbname": "it's mine",
    }


def test_waiting_ends_with_the_last_error() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    with pytest.raises(ConnectError, match="cannot connect"):
        Postgres("host=/nonexistent dbname=x").wait_ready(0.3, clock=lambda: now[0], sleep=sleep)
    assert 3 <= len(slept) <= 4


def test_a_server_that_is_not_there_does_not_answer() -> None:
    assert not Postgres("host=/nonexistent dbname=x").answers()


def test_peer_authentication_is_answered_with_the_account() -> None:
    said = 'connection failed: FATAL:  Peer authentication failed for user "postgres"'
    assert (_connect_error("db", said).hint or "").startswith("Run it as that account: sudo -u postgres pgdyno")
    odd = 'FATAL:  Peer authentication failed for user "a b; rm"'
    assert "sudo -u 'a b; rm' pgdyno" in (_connect_error("db", odd).hint or ""), "no word of a server runs by itself"


def test_a_row_that_is_not_of_its_columns_is_the_servers_error() -> None:
    row = {"role": "a", "database": "b", "version": 180_000, "observer": "c"}
    rights = ("superuser", "createdb", "monitor", "file_view", "file_function", "reload", "checkpoint", "connect")
    known = {**row, **dict.fromkeys((*rights, "statements"), False)}
    assert row_as(RoleState, {**known, "more": 1}, "db").version == 180_000
    with pytest.raises(EnvironmentUnsuitable, match='"db" does not answer as PostgreSQL'):
        row_as(RoleState, {**known, "version": "new"}, "db")
