"""Fixtures that give places for stores, of every kind that a store has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store


@pytest.fixture(scope="session")
def store_template(sandbox18: Sandbox) -> str:
    """Name a database with an empty store, built by Alembic; the stores of tests are copies of it.

    It goes with its server.
    """
    name = "store_template"
    sandbox18.target().postgres.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]  # a name of our own
    Store.open(_url(sandbox18, name)).close()
    return name


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A function that returns the URL of a new, empty store at every call; all of one kind, removed at the end."""
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path / uuid4().hex}.db"
        return
    sandbox, template = request.getfixturevalue("sandbox18"), request.getfixturevalue("store_template")
    postgres = sandbox.target().postgres
    names: list[str] = []

    def create() -> str:
        names.append(f"store_{uuid4().hex[:12]}")
        postgres.execute(f"CREATE DATABASE {names[-1]} TEMPLATE {template}")
        return _url(sandbox, names[-1])

    yield create
    for name in names:
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _url(sandbox: Sandbox, database: str) -> str:
    given = sandbox.target().postgres.environment()
    place = f"host={quote(given['PGHOST'], safe='')}&port={given['PGPORT']}"
    return f"postgresql://{given['PGUSER']}@/{database}?{place}"
