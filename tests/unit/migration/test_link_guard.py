"""The process that takes a replication away: nothing is made on the source before it can do its work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.movers.logical_link import LinkGuard, ReplicationLink
from pgdyno.server.postgres import Postgres


class Side:
    """A server that is never asked."""

    conninfo = "host=/nowhere dbname=shop"

    def secrets(self) -> tuple[Mapping[str, str], bool]:
        return {}, False

    def with_secrets(self, secrets: Mapping[str, str]) -> Side:
        return self


LINK = ReplicationLink("pgdyno_migrate_x", cast(Postgres, Side()), cast(Postgres, Side()))


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true"])
def test_a_guard_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(EnvironmentUnsuitable, match="does not start"):
        LinkGuard(LINK)


def test_a_guard_ends_when_it_is_let_go() -> None:
    LinkGuard(LINK).release()
