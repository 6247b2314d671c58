"""A tuner by SQL alone, with the least rights, beside a live study that goes through files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from test_live_switch import as_found

from live_driver import short_study
from live_load import planted_load
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.undo.apply import Session
from pgdyno.undo.server_lock import ServerInUse

pytestmark = [pytest.mark.pg, pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine repeats studies
B = {"work_mem": "64MB"}


@contextmanager
def least_tuner(sandbox: Sandbox) -> Iterator[str]:
    """Give the way in of a role that may set work_mem by SQL, and read no file of the server."""
    postgres = sandbox.target().postgres
    reads = "pg_catalog.pg_show_all_file_settings(), pg_catalog.pg_reload_conf()"
    with postgres.connect() as session:
        session.execute("CREATE ROLE least_tuner LOGIN IN ROLE pg_monitor")
        session.execute("GRANT SELECT ON pg_catalog.pg_file_settings TO least_tuner")
        session.execute(f"GRANT EXECUTE ON FUNCTION {reads} TO least_tuner")  # type: ignore[arg-type]
        session.execute("GRANT ALTER SYSTEM ON PARAMETER work_mem TO least_tuner")
        try:
            yield make_conninfo(postgres.conninfo, user="least_tuner")
        finally:
            session.execute("DROP OWNED BY least_tuner")
            session.execute("DROP ROLE least_tuner")


def test_a_tuner_by_sql_that_may_read_no_file_is_refused_while_it_switches(
    sandbox18: Sandbox, pgdyno_home: Path, tmp_path: Path
) -> None:
    """What it set would be in force over both arms: the lock in the data directory is hidden from it."""
    refused: list[str] = []

    def second(text: str) -> None:
        if text.startswith("after 1 pair"):
            with pytest.raises(ServerInUse, match="another session") as error:
                Session.begin(open_sql_only(way), study="second", undo_root=tmp_path / "undo")
            refused.append(str(error.value.detail))

    with as_found(sandbox18), least_tuner(sandbox18) as way, planted_load(sandbox18.target().postgres, {"64MB": 0.4}):
        told = short_study(sandbox18.target(), B, announce=second, max_pairs=4)
        assert told.switch is not None
        assert told.switch.verdict is not None
        assert len(refused) == 1
        assert f"Session {told.switch.session} of role" in refused[0]
        with Session.begin(open_sql_only(way), study="second", undo_root=tmp_path / "undo"):
            pass  # what it holds goes with it
