"""A case: the inventory and the evidence of one target, with the questions that rules ask of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pgdyno.advisor.judgement import CannotTell
from pgdyno.errors import UsageError
from pgdyno.knobs.expressions import Quantity
from pgdyno.knobs.values import number_of
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.inventory import HostInventory, Inventory, ServerInventory

T = TypeVar("T")


class Missing(Exception):
    """A fact that a judge needs is unknown; the engine turns it into the answer `unknown`."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason

    def answer(self) -> CannotTell:
        """Return the judgement."""
        return CannotTell(f"{self.what} is unknown ({self.reason})")


@dataclass(frozen=True, slots=True)
class Case:
    """One target as the rules see it.

    `earlier` holds the values that rules before this one propose (knob to text), so that what depends on them is
    computed from what will be, not from what is.
    """

    inventory: Inventory
    evidence: Evidence
    earlier: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> HostInventory:
        """Return the host."""
        return self.inventory.host

    @property
    def server(self) -> ServerInventory:
        """Return the server. Raises Missing when nothing is known of it."""
        return known(self.inventory.server, "the server")

    def row(self, name: str) -> SettingFact:
        """Return a row of pg_settings. Raises Missing when this server or capture does not have it."""
        fact = self.server.settings.get(name)
        if name in self.server.hidden:
            raise Missing(name, self.server.hidden[name])
        if fact is None:
            raise Missing(name, "this server does not show such a setting")
        return fact

    def has(self, name: str) -> bool:
        """Return True when the server has such a setting."""
        server = self.inventory.server
        return not isinstance(server, Unknown) and (name in server.settings or name in server.hidden)

    def text(self, name: str) -> str:
        """Return a setting as pg_settings shows it. Raises Missing."""
        return self.row(name).setting

    def overrides(self, name: str) -> tuple[str, ...]:
        """Return what roles and databases set in place of the server's value: `role app: 1GB`."""
        found = self.server.overrides
        if isinstance(found, Unknown):
            return ()
        return tuple(f"{who}: {given[name]}" for who, given in found.items() if name in given)

    def number(self, name: str) -> float:
        """Return a numeric setting: bytes for memory, seconds for time, else the bare number; -1 stays -1.

        Raises Missing when the server does not have it, or its value is none that it takes (a file can say anything).
        """
        fact = self.row(name)
        try:
            number = number_of(fact)
            if number < 0:
                if fact.min_val is not None and number < float(fact.min_val):
                    raise Missing(name, f'its value "{fact.setting}" is below what the server takes')
                return number
            quantity = Quantity.of_setting(number, fact.unit)
        except UsageError as error:
            raise Missing(name, f'its value "{fact.setting}" is not a number') from error
        if not math.isfinite(number):
            raise Missing(name, f'its value "{fact.setting}" is not a number')
        return quantity.value / 1e6 if quantity.kind == "time" else quantity.value

    def is_default(self, name: str) -> bool:
        """Return True when the setting stands at the built-in default (boot value). Raises Missing."""
        fact = self.row(name)
        if fact.boot_val is None:
            return fact.source == "default"
        return fact.setting == fact.boot_val or fact.source == "default"

    def sysctl(self, name: str) -> str:
        """Return a sysctl as text. Raises Missing with the reason."""
        sysctls = known(self.host.kernel.sysctls, "sysctl")
        if name not in sysctls:
            raise Missing(name, "this kernel does not have it, or it could not be read")
        return sysctls[name]

    def sysctl_number(self, name: str) -> int:
        """Return a sysctl that is a whole number, 0 or more. Raises Missing."""
        text = self.sysctl(name).strip()
        if not (text.isascii() and text.isdecimal()):
            raise Missing(name, f'its value "{text}" is not a whole number')
        return int(text)


def known(value: T | Unknown, what: str) -> T:
    """Return a fact. Raises Missing with its reason when it is unknown."""
    if isinstance(value, Unknown):
        raise Missing(what, value.reason)
    return value
