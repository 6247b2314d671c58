"""A captured load as the load of a tune: a server that was crippled is found out by what its users sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calm_load import WINDOW
from fix_postgres import NIGHT, find_build
from made_trace import made_trace
from pgdyno.errors import ExitCode
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from warm_program import run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("cli-studies")]

ROWS = 500_000
"""To look through them all takes far longer than a busy machine lets a statement wait for a processor."""
CRIPPLED = "5000"
"""Of random_page_cost: the one row that a statement reads by its key is looked for among all of them."""
FEW = ["--trials", "2", "--noise-runs", "3", "--pairs", "2", "3", "--only", "random_page_cost", "--reload-only"]


@pytest.mark.timeout(3600)  # as often as it is tried
@pytest.mark.requirement("R-TUN-20", "R-RPL-16")
def test_a_crippled_server_is_tuned_by_the_load_that_was_captured(
    pgdyno_home: Path, make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = make_sandbox("crippled", bin_dir=find_build("embedded-18"))
    sandbox.start()
    target = sandbox.target()
    target.postgres.execute("CREATE DATABASE shop_before")
    target.postgres.execute(
        "CREATE TABLE public.item AS SELECT i AS id, 0 AS n, 'label ' || i AS label"
        f" FROM generate_series(1, {ROWS}) AS g (i); ALTER TABLE public.item ADD PRIMARY KEY (id)",
        dbname="shop_before",
    )
    target.postgres.execute(alter_system(Line("random_page_cost", CRIPPLED)))
    target.postgres.execute("SELECT pg_reload_conf()")
    trace = made_trace(tmp_path / "shop.parquet", sessions=5, seconds=5.0, pause_s=0.5, by_key=True)
    dsn = target.postgres.conninfo
    words = [
        "tune", "--workload", f"replay:{trace}", "-D", "database=shop_before", "-D", "engine=python",
        "-D", f"role={target.postgres.parameters['user']}", "--metric", "server_cpu_ms_per_tx", *WINDOW, *FEW,
        "--target", dsn, "--yes", "--json",
    ]  # fmt: skip

    def told(*more: str) -> tuple[int, str, str]:
        done = run_pgdyno(*words, *more, timeout_s=280, PGDYNO_HOME=str(pgdyno_home))
        return done.returncode, done.stdout, done.stderr

    code, _, said = told()
    assert code == ExitCode.UNSUITABLE, "a server that nobody named"
    assert "is not replayed to" in said
    code, _, said = told("--metric", "throughput")
    assert code == ExitCode.USAGE
    assert "its schedule fixes the throughput" in said
    with opened(TargetRequest(dsn=dsn)) as same:
        allowed = pgdyno_home / "data" / "allowed-targets"
        allowed.parent.mkdir(exist_ok=True)
        allowed.write_text(same.name + "\n")
        allowed.chmod(0o600)
    for _ in range(6):  # on a machine that does much else the load generator may be late in all trials
        code, out, said = told()
        assert code in (ExitCode.OK, ExitCode.NOT_RESOLVED), said
        result = json.loads(out.splitlines()[-1])
        if result["verdict"] is not None and result["verdict"]["word"] == "better":
            break
    assert result["verdict"] is not None, said
    assert result["verdict"]["word"] == "better", said
    assert result["verdict"]["metric"] == "server_cpu_ms_per_tx"
    assert result["verdict"]["ratio"] < 0.5
    assert float(result["winner"]["settings"]["random_page_cost"]) < float(CRIPPLED)
    shown = target.postgres.fetch("SELECT current_setting('random_page_cost') AS cost")
    assert shown == [{"cost": CRIPPLED}], "the server is restored"
    left = target.postgres.fetch("SELECT datname::text AS name FROM pg_database WHERE datname LIKE 'pgdyno%%load'")
    assert left == []

    # Who has no part in the tune replays with the settings that it found and with those that are there, from one state.
    # For long, and of many statements: one in a hundred may be more than 100 ms late, the schedule a hundredth longer.
    patient = made_trace(
        tmp_path / "patient.parquet", sessions=24, seconds=12.0, pause_s=1.2, apart_s=0.05, by_key=True
    )
    pairs = 3 if NIGHT else 1
    replays = [
        "replay", str(patient), "--target", dsn, "--yes", "--engine", "python", "--runs", str(pairs),
        "--user-map", f"app={target.postgres.parameters['user']}", "--database-map", "shop=shop_replay",
        "--restore", "template:shop_before=shop_replay",
        "--versus-set", f"random_page_cost={result['winner']['settings']['random_page_cost']}",
    ]  # fmt: skip
    for attempt in range(6):
        output = str(tmp_path / f"proof-{attempt}.outcome")
        done = run_pgdyno(*replays, "--output", output, timeout_s=280, PGDYNO_HOME=str(pgdyno_home))
        if done.stderr.count(": B is better: ") == pairs:
            break
    assert done.stderr.count(": B is better: ") == pairs, done.stderr
    assert done.returncode == (ExitCode.OK if NIGHT else ExitCode.NOT_RESOLVED), "one pair has no verdict"
