"""A live study whose server is on another host, behind a real sshd: its restarts happen there, and are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_remote_session import Found

from file_window import now_open
from fix_sshd import Sshd
from foreign_server import foreign_debian
from live_driver import short_study
from live_load import planted_load
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import RemoteHost, opened_host
from pgdyno.studies.live.run import SwitchPlan
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
    plans: list[SwitchPlan] = []
    said: list[str] = []

    def approve(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return True

    def announce(text: str) -> None:
        said.append(text)
        if text.startswith("after 1 pair"):
            assert server.postgres.fetch("SHOW shared_buffers") == [{"shared_buffers": "48MB"}]
            Path(plans[0].stop_file).touch()

    with planted_load(server.postgres, {"48MB": 0.4}, knob="shared_buffers"):
        told = short_study(
            target, {"shared_buffers": "48MB"}, period_s=6.0, wash_s=2.0, max_pairs=4, windows=(now_open(),),
            approve=approve, announce=announce,
        )  # fmt: skip
    assert told.switch is not None
    assert told.switch.restarts == 2, said
    assert "stop file" in told.switch.stopped, said
    found.assert_again()
