"""Evidence of a server on another host, through a real sshd: its log, its counters, and the host below it."""

from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo

from advisor_case import make_host, make_server
from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.model.evidence import HostActivity, LogEvidence, Statistics
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import gather
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import opened_host
from pgdyno.targets.target import Target

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow]


server = pytest.fixture(foreign_debian)


def test_log_and_host_are_read_by_the_agent(server: Target, sshd: Sshd) -> None:
    server.postgres.execute("CHECKPOINT")
    parameters = server.postgres.parameters
    dsn = make_conninfo(
        "", host=parameters["host"], port=parameters["port"], user=parameters["user"], dbname="postgres"
    )
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        target = host.target(dsn)
        facts = host.facts()
        inventory = Inventory(make_host(), make_server(15, changed={}, in_recovery=facts.server.in_recovery))
        found = gather(target, inventory, window_s=1.0)
    assert isinstance(found.statistics, Statistics)
    assert isinstance(found.host, HostActivity)
    assert isinstance(found.log, LogEvidence)
    assert found.log.starts.get("requested", 0) >= 1
