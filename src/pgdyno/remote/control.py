"""Power over a server on another host: the agent's own control does it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.model.shapes import shaped
from pgdyno.remote import wire

if TYPE_CHECKING:
    from pgdyno.remote.client import AgentClient


@dataclass(frozen=True, slots=True)
class RemoteControl:
    """A `restart.Control` of another host, which raises what is raised there."""

    client: AgentClient

    def start(self) -> None:
        """Start the server and wait; see `Control.start`."""
        self._do("start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it and wait; see `Control.stop`."""
        self._do("stop", mode)

    def restart(self) -> None:
        """Restart it; see `Control.restart`."""
        self._do("restart")

    def reload(self) -> None:
        """Make it read its files again; see `Control.reload`."""
        self._do("reload")

    def is_running(self) -> bool:
        """Tell whether it runs."""
        answer = self._do("is_running")
        with wire.understood("the host"):
            return shaped(bool, wire.mapping(answer)["running"])

    def _do(self, action: str, mode: str = "fast") -> object:
        return self.client.call("control", {"action": action, "mode": mode})
