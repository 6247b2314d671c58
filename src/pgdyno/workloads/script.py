"""A pgbench script with its weight: one of pgbench's own, or a text that is written into the run's directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pgdyno.owner.durable import open_fresh

BUILTIN_STATEMENTS = {
    "tpcb-like": "three updates (accounts, tellers, branches), a select and an insert into history, in one transaction",
    "simple-update": "as tpcb-like without the updates of tellers and branches",
    "select-only": "one select of an account by its primary key",
}
"""What pgbench's own scripts do, in its words' meaning: `-N` keeps the insert into history."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of a mix. `text` is None for one that is built into pgbench; `weight` is its share of the mix."""

    name: str
    weight: int = 1
    text: str | None = None

    def argument(self) -> list[str]:
        """Return pgbench's option for this script, whose text is a file of the directory it is run in (see `write`)."""
        if self.text is None:
            return ["-b", f"{self.name}@{self.weight}"]
        return ["-f", f"{self.name}.sql@{self.weight}"]

    def write(self, directory: Path) -> None:
        """Write the text into the directory, so that it stays with the run; nothing to do for a built-in."""
        if self.text is not None:
            with open_fresh(directory / f"{self.name}.sql") as file:
                file.write(self.text.encode())


def packaged_script(name: str, **names: str) -> str:
    """Return a script of this package with its `{placeholders}` replaced. Values must be checked identifiers."""
    text = (resources.files("pgdyno.workloads") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    return text


def fingerprint(name: str, parameters: Mapping[str, object], texts: Sequence[str]) -> str:
    """Return 16 hexadecimal digits that change when anything that is run changes."""
    content = json.dumps([name, dict(parameters), list(texts)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
