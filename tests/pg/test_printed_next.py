"""What verbs print to be typed next is run as it is printed: none of it is refused (that of advice: its own test)."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from advise_command import run
from calm_load import SCRIPT, WINDOW
from fix_postgres import find_build
from pgdyno.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.pg, pytest.mark.usefixtures("pgdyno_home")]
PRINTED = re.compile(r"(?:^|: |  )(pgdyno [a-z]+ [^\n]*)$", re.MULTILINE)
CALM = ("-w", "custom", "-c", "1", *WINDOW)


def followed(home: Path, *words: str) -> Iterator[str]:
    """Run a verb, then each command at the end of a line of its output; yield these."""
    code, text, errors = run(home, *words)
    assert code == 0, errors
    for command in PRINTED.findall(text):
        code, _, errors = run(home, *shlex.split(command)[1:])
        assert code == 0, f"{command}: exit code {code}: {errors}"
        yield command


@pytest.fixture
def server(make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """A server whose collector runs, so that its load can be captured."""
    sandbox = make_sandbox("printed-next", bin_dir=find_build("debian-15"))
    sandbox.start()
    postgres = sandbox.target().postgres
    for setting in ("logging_collector = on", "max_wal_size = '2GB'"):
        postgres.execute(f"ALTER SYSTEM SET {setting}")
    control = sandbox.target().control
    assert control is not None
    control.restart()
    return sandbox


def test_what_is_printed_to_be_typed_next_is_taken(
    server: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dsn = make_conninfo(server.target().postgres.conninfo, dbname="postgres")
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SELECT 1")
        words = ("capture", "start", "--target", dsn, "--yes", "--for", "2s", "--output", "a folder")
        assert [one.split()[1:3] for one in followed(tmp_path, *words)] == [["trace", "build"]]
    (trace,) = tmp_path.glob("*.parquet")
    assert not list(followed(tmp_path, "trace", "show", str(trace)))
    applied = list(followed(tmp_path, "apply", "--target", dsn, "effective-cache-size", "--yes"))
    assert [one.split()[1] for one in applied] == ["rollback"]
    shutil.copy(SCRIPT, tmp_path / "calm.sql")  # too few transactions for a busy machine's unevenness to be seen in
    benched = list(followed(tmp_path, "bench", "--target", dsn, *CALM, "--script", "calm.sql"))
    assert [one.split()[1] for one in benched] == ["report", "report"]
    assert (tmp_path / "report.html").exists()
