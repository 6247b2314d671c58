"""What a measurement depends on and no setting of PostgreSQL changes, its name, and when two are the same. Pure.

Facts and Inventory both have it, made here by one rule. The rule is as old as the first stored study: a store or a
bundle of any version holds names that compare with those of today, so that none is computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.model.shapes import Unknown, inner

_LATER = ("physical_cores", "sockets", "threads_per_core", "data_block_size")
"""Facts that older studies lack: left out of the name of an environment, which they would change for all of them."""
_NOT_OF_HOST = frozenset({"data_disk_free_bytes", *_LATER, "container"})
"""Facts of the host that do not make an environment. A container is told beside the counters; its limits count."""
OF_SERVER = ("version", "block_size", "data_checksums")
"""Facts of the server that do."""
_UNNAMED = frozenset({"", "unknown"})
"""What a study keeps in place of a name where files of others do not tell."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a measurement depends on: values by name, as JSON has them; an unknown one is `{"unknown": reason}`.

    `host` has no free disk space, `kernel` no swap file of pgdyno's own and no knob that this user may not read.
    """

    host: Mapping[str, object]
    server: Mapping[str, object]
    kernel: Mapping[str, str]

    @classmethod
    def of_image(cls, image: Mapping[str, object]) -> Environment:
        """Return the environment of facts in JSON: `host`, `server` and `kernel`, as studies keep them."""
        from pgdyno.model.linux import SWAP_AREA  # reads the table of the knobs

        server = inner(image, "server")
        return cls(
            host={name: value for name, value in inner(image, "host").items() if name not in _NOT_OF_HOST},
            server={name: server.get(name) for name in OF_SERVER},
            kernel={
                name: value
                for name, value in inner(image, "kernel").items()
                if isinstance(value, str) and name != SWAP_AREA
            },
        )

    @property
    def name(self) -> str:
        """Return 12 hex digits that name it; two runs in an unchanged environment share them.

        Why a fact of the host is unknown counts; of the server, only that it is.
        """
        host = {
            name: {"reason": value["unknown"]} if isinstance(value, Mapping) and "unknown" in value else value
            for name, value in self.host.items()
        }
        server = {name: None if isinstance(value, Mapping) else value for name, value in self.server.items()}
        text = json.dumps({"host": host, "server": server, "kernel": self.kernel}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def known(self) -> dict[str, object]:
        """Return what is known of it, by the name that people read."""
        server = {f"PostgreSQL's {name}": value for name, value in self.server.items()}
        found: dict[str, object] = {**self.host, **server, **self.kernel}
        return {name: value for name, value in found.items() if not isinstance(value, Mapping) and value is not None}


def same_environment(a: str | Unknown, b: str | Unknown) -> bool:
    """Tell whether two names are of one environment; a name that is not known is the same as none."""
    return not isinstance(a, Unknown) and a == b and a not in _UNNAMED
