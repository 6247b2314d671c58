"""What a load generator passes before it begins: limits of CPU and memory, and a gate that opens for all at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.owner.account import Account
from pgdyno.workloads import held_start


@dataclass(frozen=True, slots=True)
class StartGate:
    """A gate: the ends of two pipes that the child inherits, the CPUs that it may use (empty: all), its cgroups."""

    ready_fd: int
    go_fd: int
    cpus: tuple[int, ...] = ()
    cgroups: tuple[Path, ...] = ()

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that the child must inherit."""
        return (self.ready_fd, self.go_fd)

    def wrap(self, argv: Sequence[str], account: Account | None = None) -> list[str]:
        """Return the argument list that waits at the gate and then becomes `argv`, under the same process id.

        With an `account` it gives up root's rights before it says that it is ready.
        """
        words = [sys.executable, "-I", "-S", str(Path(held_start.__file__)), str(self.ready_fd), str(self.go_fd)]
        limits = [",".join(map(str, self.cpus)), "" if account is None else account.numbers]
        return [*words, *limits, *map(str, self.cgroups), "--", *argv]
