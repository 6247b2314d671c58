"""The agent as it is sent to a host: that of `remote.agent`, and what the guards watch there."""

from __future__ import annotations

from pgdyno.probes.guards.distant import to_json
from pgdyno.probes.guards.reader import HostReader
from pgdyno.remote import agent
from pgdyno.remote.desk import Desk


def main() -> int:
    """Run the agent; see `remote.agent.main`."""
    return agent.main(add_probes)


def add_probes(desk: Desk) -> None:
    """Let the desk answer `guards`: memory and volumes of the opened server's host."""
    readers: list[HostReader] = []

    def guards(_: object) -> object:
        if not readers:
            readers.append(HostReader(desk.target))
        return to_json(*readers[0].read())

    desk.calls["guards"] = guards
