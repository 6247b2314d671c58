"""A load that would reach another server by way of the target is not sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import sql

from made_trace import made_trace
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.run import prepare

pytestmark = pytest.mark.pg
DATABASE = "far_away"
FOREIGN = """
CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE public.item (id int, n int, label text) SERVER elsewhere"""
VIEW = "ALTER FOREIGN TABLE public.item RENAME TO far; CREATE VIEW public.item AS SELECT * FROM public.far"
PARTITION = """
DROP VIEW public.item; CREATE TABLE public.item (id int, n int, label text) PARTITION BY LIST (id);
ALTER TABLE public.item ATTACH PARTITION public.far DEFAULT"""
LOCAL = "DROP SERVER elsewhere CASCADE"


@pytest.mark.requirement("R-SAF-09")
def test_what_a_foreign_table_is_behind_is_refused_until_its_server_is_gone(sandbox18: Sandbox, tmp_path: Path) -> None:
    target = sandbox18.target()
    postgres, user = target.postgres, target.postgres.parameters["user"]
    trace = made_trace(tmp_path / "t.parquet", seconds=1.0, user=user, database=DATABASE)
    asked = ReplayOptions(trace, tmp_path / "x")
    postgres.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    try:
        for made in (FOREIGN, VIEW, PARTITION):
            postgres.execute(made, dbname=DATABASE)
            with pytest.raises(EnvironmentUnsuitable, match='the server "elsewhere", by the foreign table "item"'):
                prepare(target, asked)
        postgres.execute(LOCAL, dbname=DATABASE)
        assert prepare(target, asked).meta.statements == 40
    finally:
        postgres.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
