"""A table whose own setting turns autovacuum off is found on a real server, and in order once it is reset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advise_command import findings
from fix_postgres import find_build
from pgdyno.sandbox.sandbox import Sandbox
from server_image import eventually

pytestmark = pytest.mark.pg
FILL = "INSERT INTO public.\"Left out\" SELECT i, repeat('x', 200) FROM generate_series(1, 60000) AS i"


@pytest.mark.parametrize("build", ["embedded-18", "npm-13"])
def test_a_table_without_autovacuum_is_a_finding_until_it_is_reset(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path, build: str
) -> None:
    sandbox = make_sandbox(f"left-out-{build}", bin_dir=find_build(build))
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute('CREATE TABLE public."Left out" (id int, a text) WITH (autovacuum_enabled = false)')
    postgres.execute("CREATE TABLE public.other (id int) WITH (autovacuum_enabled = on)")
    postgres.execute(FILL)
    postgres.execute('DELETE FROM public."Left out" WHERE id % 2 = 0')
    dead = "SELECT n_dead_tup AS dead FROM pg_stat_user_tables WHERE relname = 'Left out'"
    eventually(lambda: int(str(postgres.fetch(dead)[0]["dead"])) >= 20_000, "the dead rows are counted")
    found = findings(tmp_path, postgres.conninfo, "--window", "1")["autovacuum-tables"]
    assert (found["answer"], found["severity"]) == ("finding", "warning"), found
    assert "public.Left out" in str(found["title"])
    statement = str(found["proposed"]).removeprefix("by hand: ").partition(";")[0]
    assert statement == 'ALTER TABLE "public"."Left out" RESET (autovacuum_enabled)'
    postgres.execute(statement)
    assert findings(tmp_path, postgres.conninfo, "--window", "1")["autovacuum-tables"]["answer"] == "ok"
