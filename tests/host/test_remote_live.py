"""A live study whose server is on another host, behind a real sshd: its restarts happen there, and are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_remote_session import Found

from fix_sshd import Sshd
from foreign_server import foreign_debian
from live_driver import stopped_bundle
from live_load import planted_load
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import RemoteHost, opened_host
from pgdyno.targets.target import Target

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow]
server = pytest.fixture(foreign_debian)
ON_A_CLUSTER = (
    "pg/test_patroni_live.py::test_a_bundle_that_needs_restarts_is_compared_on_the_cluster_and_taken_back_on_both_nodes"
)


@pytest.fixture
def host(sshd: Sshd) -> Iterator[RemoteHost]:
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as made:
        yield made


@pytest.mark.night(ON_A_CLUSTER)
@pytest.mark.requirement("R-TUN-06")
def test_a_bundle_that_needs_restarts_is_compared_over_ssh_and_taken_back(
    host: RemoteHost, server: Target, pgdyno_home: Path
) -> None:
    server.postgres.execute("ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements")
    assert server.control is not None
    server.control.restart()
    found, target = Found(server), host.target(server.postgres.conninfo)
    with planted_load(server.postgres, {"48MB": 0.4}, knob="shared_buffers"):
        stopped_bundle(
            target,
            {"shared_buffers": "48MB"},
            lambda: server.postgres.fetch("SHOW shared_buffers") == [{"shared_buffers": "48MB"}],
        )
    found.assert_again()
