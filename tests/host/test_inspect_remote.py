"""`pgdyno inspect` of a server on another host: captured there by the agent, read here, and the same."""

from __future__ import annotations

import pytest

from captured import server_of
from fix_sshd import Sshd
from foreign_server import foreign_debian
from pgdyno.inventory.digest import inventory_hash
from pgdyno.inventory.inspection import inspect
from pgdyno.model.inventory import Inventory, Purpose
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostRequest
from pgdyno.remote.host import opened_host
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target

pytestmark = [pytest.mark.host, pytest.mark.pg, pytest.mark.slow]


server = pytest.fixture(foreign_debian)


@pytest.mark.requirement("R-INV-18", "R-INV-15", "R-INV-14")
def test_the_inventory_over_ssh_is_that_of_the_host_itself(server: Target, sshd: Sshd) -> None:
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        target = host.target(server.postgres.conninfo)
        there, again = inspect(target), inspect(target)
    here = inspect(server)
    assert there.origin.startswith("ssh://")
    assert there.environment_name == here.environment_name == read_facts(server).environment_hash()
    assert inventory_hash(there) == inventory_hash(again)  # as that user; root reads more than he may
    assert stable(there) == stable(here)
    assert (server_of(there).same_host, server_of(here).same_host) == (False, True)
    config = str(server_of(there).text("config_file"))
    assert config.endswith("/etc/postgresql.conf")  # beside the data directory, as Debian has it
    assert server_of(there).settings["shared_buffers"] == server_of(here).settings["shared_buffers"]


def stable(inventory: Inventory) -> object:
    host = inventory.host
    places = [host.place(purpose) for purpose in (Purpose.DATA, Purpose.WAL)]
    return host.processor, host.virtualization, host.volumes, places, host.channel_devices, host.adapters
