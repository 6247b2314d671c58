"""Fixtures that give places for stores, of every kind that a store has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A function that returns the URL of a new, empty store at every call; all of one kind, removed at the end."""
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path / uuid4().hex}.db"
        return
    postgres = request.getfixturevalue("sandbox18").target().postgres
    names: list[str] = []

    def create() -> str:
        names.append(f"store_{uuid4().hex[:12]}")
        postgres.execute(f"CREATE DATABASE {names[-1]}")
        given = postgres.environment()
        place = f"host={quote(given['PGHOST'], safe='')}&port={given['PGPORT']}"
        return f"postgresql://{given['PGUSER']}@/{names[-1]}?{place}"

    yield create
    for name in names:
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
