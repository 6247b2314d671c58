"""Settings of a target while it is loaded: refused by their line before anything begins, in force, and put back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, PolicyError, UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, KernelFact
from pgdyno.model.linux import BACKGROUND_BYTES, LINUX
from pgdyno.studies.migrate import works
from pgdyno.studies.migrate.file import parse_plan
from pgdyno.studies.migrate.prepare import _load_settings
from pgdyno.studies.migrate.works import LoadSettings

HEAD = """\
version = 1
[migration]
name = "shop"
source = "host=old dbname=shop"
folder = "/srv/dumps"
[load]
"""


def facts() -> Facts:
    knob = LINUX[BACKGROUND_BYTES]
    fact = KernelFact(BACKGROUND_BYTES, "0", vartype="integer", unit=knob.unit, minimum=0, maximum=1 << 60)
    return replace(make_facts(18), kernel={BACKGROUND_BYTES: fact})


def settled(load: str, head: str = HEAD) -> Configuration:
    return _load_settings(parse_plan(head + load), facts(), "shop.toml")


def test_parameters_and_linux_knobs_are_taken_in_their_canonical_text() -> None:
    found = settled(f'MAX_WAL_SIZE = "4096MB"\n"{BACKGROUND_BYTES}" = "64MB"')
    assert dict(found) == {"max_wal_size": "4GB", BACKGROUND_BYTES: str(64 << 20)}
    assert [*found.linux()] == [BACKGROUND_BYTES]
    whole = HEAD.replace("[load]", "load_restart = true\n[load]")
    assert dict(settled('shared_buffers = "1GB"', whole)) == {"shared_buffers": "1GB"}


@pytest.mark.parametrize(
    ("load", "kind", "words"),
    [
        ('jit = "off"\nfsync = "off"', PolicyError, 'line 8: load: knob "fsync"'),
        ('max_wal_sise = "1GB"', UsageError, 'line 7: load: unknown knob "max_wal_sise"'),
        ('max_wal_size = "much"', UsageError, "line 7: load: "),
        ('shared_buffers = "1GB"', UsageError, "line 7: load: shared_buffers comes into force by a restart alone"),
        ('"vm.swappiness" = 1', EnvironmentUnsuitable, 'line 7: load: Linux knob "vm.swappiness" cannot be changed'),
    ],
)
def test_what_cannot_be_in_force_is_refused_with_its_line(load: str, kind: type[PgdynoError], words: str) -> None:
    with pytest.raises(kind) as caught:
        settled(load)
    assert caught.value.message.startswith(f"shop.toml: {words}")
    assert caught.value.hint


@dataclass
class Server:
    """A server and its kernel, whose settings a session of nobody else changes; `stuck` are not put back."""

    now: dict[str, str] = field(default_factory=lambda: {"max_wal_size": "1GB", BACKGROUND_BYTES: "0"})
    stuck: bool = False
    asked: list[str] = field(default_factory=list)

    def fetch(self, _query: str, params: list[list[str]]) -> list[dict[str, object]]:
        return [{"name": name, "value": self.now[name]} for name in params[0] if name in self.now and "." not in name]

    def apply(self, configuration: Configuration, *, restart: str) -> None:
        self.asked.append(restart)
        if configuration or not self.stuck:
            self.now |= dict(configuration) or {"max_wal_size": "1GB", BACKGROUND_BYTES: "0"}


@pytest.mark.requirement("R-MIG-08")
@pytest.mark.parametrize("stuck", [False, True])
def test_they_are_read_back_and_put_back_on_server_and_host(stuck: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(stuck=stuck)

    def read(_target: object) -> Any:
        return SimpleNamespace(kernel={name: SimpleNamespace(value=value) for name, value in server.now.items()})

    monkeypatch.setattr(works, "read_facts", read)
    target: Any = SimpleNamespace(postgres=server)
    wanted = Configuration.of({"max_wal_size": "4GB", BACKGROUND_BYTES: "67108864"})
    load = LoadSettings(server, target, wanted, restart=False)  # type: ignore[arg-type]
    load.apply()
    assert load.before == {"max_wal_size": "1GB", BACKGROUND_BYTES: "0"}
    assert load.during == dict(wanted)
    if stuck:
        with pytest.raises(EnvironmentUnsuitable, match=f"still in force: max_wal_size, {BACKGROUND_BYTES}"):
            load.revert()
    else:
        load.revert()
        assert load.after == load.before
    assert server.asked == ["never", "never"]
