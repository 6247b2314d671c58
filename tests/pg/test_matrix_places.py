"""How a matrix reaches a sandbox by TCP and gives its server CPUs, and that both are taken back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from pgdyno.linux import processes
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.matrix.cell_workload import pin_server
from pgdyno.studies.matrix.run import room_of
from pgdyno.targets.inspect import read_facts

pytestmark = pytest.mark.pg


@pytest.mark.requirement("R-BEN-17")
def test_the_loopback_is_open_by_password_only_and_closed_afterwards(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("loopback")
    sandbox.open_loopback()
    environment = sandbox.target().postgres.environment("postgres")
    port, passfile = environment["PGPORT"], Path(environment["PGPASSFILE"])
    assert stat.S_IMODE(passfile.stat().st_mode) == 0o600
    assert "password" not in sandbox.target().postgres.parameters
    way = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    with psycopg.connect(way, passfile=str(passfile)) as connection:
        assert connection.execute("SELECT host(inet_client_addr())").fetchone() == ("127.0.0.1",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(way, passfile="/dev/null", password="wrong")
    sandbox.close()
    again = make_sandbox("loopback")
    again.start()
    (row,) = again.target().postgres.fetch("SHOW listen_addresses")
    assert row["listen_addresses"] == ""
    assert not passfile.exists()
    assert "127.0.0.1/32 scram" not in (again.data_directory / "pg_hba.conf").read_text()


@pytest.mark.requirement("R-BEN-17")
def test_a_placement_that_leads_to_no_server_is_known_beforehand(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("reached")
    sandbox.open_loopback()
    target = sandbox.target()
    port = target.postgres.environment()["PGPORT"]
    found = room_of(target, read_facts(target), ("socket", "loopback", "127.0.0.1", "127.0.0.9")).placements
    assert found == {"127.0.0.9": f"no PostgreSQL answers on 127.0.0.9, port {port}, from here"}


@pytest.mark.requirement("R-BEN-01")
def test_a_server_runs_on_the_cpus_that_it_was_given(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("pinned")
    sandbox.start()
    target, every = sandbox.target(), os.sched_getaffinity(0)
    postmaster = target.cpu.postmaster()
    assert postmaster is not None
    try:
        for cpus in ({min(every)}, every):
            pin_server(target, tuple(cpus))
            seen = set()
            for pid in (postmaster, *(child.pid for child in processes.children_of(postmaster))):
                with suppress(ProcessLookupError):  # a session, or a worker of autovacuum, that has just ended
                    seen.add(frozenset(os.sched_getaffinity(pid)))
            assert seen == {frozenset(cpus)}
    finally:
        pin_server(target, tuple(every))
