"""The agent as it is sent to a host: that of `remote.agent`, and what the guards watch there."""

from __future__ import annotations

from pgdyno.probes.guards.reader import HostReader
from pgdyno.remote import agent
from pgdyno.remote.dispatcher import Dispatcher


def main() -> int:
    """Run the agent; see `remote.agent.main`."""
    return agent.main(add_probes)


def add_probes(dispatcher: Dispatcher) -> None:
    """Let the dispatcher answer `guards`: memory and volumes of the opened server's host."""
    readers: list[HostReader] = []

    def guards(_: object) -> object:
        if not readers:
            readers.append(HostReader(dispatcher.target))
        return readers[0].read()

    dispatcher.calls["guards"] = guards
