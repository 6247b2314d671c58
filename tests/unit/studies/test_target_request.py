"""How a server is asked for: through Patroni, by SQL alone, or by its files; kept for a resume without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.studies.session.target_request import TargetRequest

REQUESTS = [
    TargetRequest(),
    TargetRequest(dsn="host=db1", restart_command=("ssh", "db1", "restart"), sql_only=True),
    TargetRequest(
        dsn="user=dba",
        patroni=("https://db1:8008", "https://db2:8008"),
        patroni_auth=Path("/run/auth"),
        patroni_ca=Path("/run/ca.pem"),
        patroni_cert=Path("/run/own.pem"),
    ),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_the_same_after_the_store(request_: TargetRequest) -> None:
    assert TargetRequest.from_json(json.loads(json.dumps(request_.to_json()))) == request_


def test_a_request_of_an_older_store_has_neither() -> None:
    values = TargetRequest(dsn="host=db1").to_json()
    for name in ("patroni", "patroni_auth", "patroni_ca", "patroni_cert", "sql_only"):
        del values[name]
    assert TargetRequest.from_json(values) == TargetRequest(dsn="host=db1")


def test_the_api_is_the_one_that_was_named() -> None:
    assert TargetRequest(dsn="").patroni_api() is None
    api = REQUESTS[2].patroni_api()
    assert api is not None
    assert (api.endpoints, api.auth_file) == (REQUESTS[2].patroni, Path("/run/auth"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dsn": "", "patroni": ("http://a:8008",), "sql_only": True}, "--sql-only cannot be used"),
        ({"dsn": "", "patroni": ("http://a:8008",), "restart_command": ("x",)}, "--restart-command cannot be used"),
        ({"sql_only": True}, "--sql-only needs a server"),
    ],
)
def test_what_excludes_each_other_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TargetRequest(**values)  # type: ignore[arg-type]  # by name
