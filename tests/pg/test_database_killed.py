"""A process that is killed while it copies a database leaves one that the next run and `pgdyno cleanup` know."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.replay.copy_proof import ReplayTarget
from pgdyno.replay.template_database import TemplateDatabase
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.new_database import unfinished_databases
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from warm_program import RunningText, run_pgdyno

pytestmark = pytest.mark.pg
KNOWN = cast(ReplayTarget, None)
KILLED = """
import os, signal, sys
from types import SimpleNamespace
from pgdyno.replay import template_database
from pgdyno.server.postgres import Postgres
clone = template_database.clone_database
def killed(*given):
    clone(*given)
    os.kill(os.getpid(), signal.SIGKILL)
template_database.clone_database = killed
template_database.TemplateDatabase("template1", "shop").restore(SimpleNamespace(postgres=Postgres(sys.argv[1])), None)
"""


def kill_a_restore(postgres: Postgres, home: Path) -> str:
    with RunningText(KILLED, postgres.conninfo, PGDYNO_HOME=str(home)) as running:
        assert running.wait(120) == -signal.SIGKILL, running.stderr.read()
    (left,) = unfinished_databases(postgres)
    assert not left.maker.is_alive()
    return left.name


def databases(postgres: Postgres) -> set[str]:
    rows = postgres.fetch("SELECT datname::text AS name FROM pg_catalog.pg_database WHERE datname <> 'pgdyno_observer'")
    return {str(row["name"]) for row in rows} - {"postgres", "template0", "template1"}


def test_a_killed_copy_is_known_to_the_next_restore_and_to_cleanup(
    make_sandbox: Callable[..., Sandbox], pgdyno_home: Path
) -> None:
    sandbox = make_sandbox("killed-copy")
    sandbox.start()
    target = sandbox.target()
    postgres = target.postgres
    restore = TemplateDatabase("template1", "shop")
    first = kill_a_restore(postgres, pgdyno_home)
    assert databases(postgres) == {first}, "what is called shop is ours from its first instant"
    listed = run_pgdyno("cleanup", "--target", postgres.conninfo, "--dry-run", "--json", PGDYNO_HOME=str(pgdyno_home))
    left = {one["name"]: one for one in json.loads(listed.stdout)["left"]}
    assert left[first]["about"] == "its making was interrupted"
    done = run_pgdyno("cleanup", "--target", postgres.conninfo, "--only", "database", "--yes",
                      PGDYNO_HOME=str(pgdyno_home))  # fmt: skip
    assert f"dropped {first}" in done.stdout
    kill_a_restore(postgres, pgdyno_home)
    for _ in range(2):
        restore.check(target, KNOWN)
        restore.restore(cast(Target, SimpleNamespace(postgres=postgres)), KNOWN)
        assert databases(postgres) == {"shop"}
    assert unfinished_databases(postgres) == []
