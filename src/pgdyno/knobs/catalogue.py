"""The knob catalogue: what is worth searching, in which range, what a trial needs to judge it, and why it matters.

Reads `data/postgresql.toml` and joins it with the policy, which alone decides class and search. Context, unit, minimum,
maximum and words are not here: they come from the running server's `pg_settings`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from types import MappingProxyType

from pgdyno.errors import UsageError
from pgdyno.knobs.expressions import Expression, parse
from pgdyno.knobs.policy import Durability, SearchPolicy, ruling_of
from pgdyno.model.tables import read_table, toml_of
from pgdyno.units import plural

_MOST_CYCLES = 10
_LEAST_WHY, _LEAST_SOURCE = 60, 10


class Group(StrEnum):
    """What a knob is about."""

    MEMORY = "memory"
    WAL = "wal"
    CHECKPOINT = "checkpoint"
    PLANNER = "planner"
    PARALLEL = "parallel"
    IO = "io"
    VACUUM = "vacuum"
    BACKGROUND = "background"
    CONNECTIONS = "connections"
    WRITEBACK = "writeback"
    CPU = "cpu"


class Scale(StrEnum):
    """How the values of a knob lie: `enum` covers booleans too."""

    LOG = "log"
    LINEAR = "linear"
    ENUM = "enum"


class TakesEffect(StrEnum):
    """When a Linux knob is felt by PostgreSQL. None of them needs a reload, or a reboot of the host."""

    AT_ONCE = "at once"
    NEW_FILES = "new files"
    RESTART = "restart"

    @property
    def meaning(self) -> str:
        """Return it in words."""
        return {
            TakesEffect.AT_ONCE: "at once",
            TakesEffect.NEW_FILES: "for files that are opened afterwards: in new sessions",
            TakesEffect.RESTART: "at the next start of PostgreSQL",
        }[self]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a trial must offer before a knob can show its effect; a trial without it does not search the knob."""

    warm_cache: bool = False
    """A warm-up before the window: a cold cache measures the disk."""
    write_load: bool = False
    """Transactions that write."""
    checkpoint_cycles: int = 0
    """Whole checkpoint cycles inside of the window."""
    vacuum_cycles: int = 0
    """Rounds of autovacuum inside of the window, on tables that keep their bloat between trials."""
    analyze: bool = False
    """Tables analyzed again after the change."""
    connections: int = 0
    """At least so many concurrent sessions."""
    huge_page_pool: bool = False
    """Huge pages reserved by the kernel."""
    more_sessions_than_cores: bool = False
    """Sessions that compete for processors: with one for each core the scheduler has nothing to decide."""

    def sentences(self) -> tuple[str, ...]:
        """Return the needs in words, for documentation."""
        named = (
            (self.warm_cache, "a warm cache"),
            (self.write_load, "a load that writes"),
            (self.checkpoint_cycles, f"{self.checkpoint_cycles} checkpoint cycles in the measured window"),
            (self.vacuum_cycles, f"{plural(self.vacuum_cycles, 'round')} of autovacuum in the measured window"),
            (self.analyze, "tables analyzed again after the change"),
            (self.connections, f"at least {self.connections} concurrent sessions"),
            (self.huge_page_pool, "a pool of huge pages reserved by the kernel"),
            (self.more_sessions_than_cores, "more concurrent sessions than cores"),
        )
        return tuple(text for needed, text in named if needed)


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob of the catalogue. `low`, `high` are expressions over facts; `special` are values in base units.

    `choices` narrows the server's own words; empty means all of them.
    """

    name: str
    durability: Durability
    search: SearchPolicy
    group: Group
    scale: Scale
    low: Expression | None
    high: Expression | None
    special: tuple[float, ...]
    choices: tuple[str, ...]
    needs: Needs
    why: str
    source: str
    interactions: tuple[str, ...]
    takes_effect: TakesEffect | None = None
    """When a Linux knob is felt; None for PostgreSQL's parameters, whose context the server tells."""

    def range_text(self) -> str:
        """Return the range as the catalogue writes it, for people."""
        if self.low is None or self.high is None:
            return " | ".join(self.choices) or f"the {'server' if self.takes_effect is None else 'kernel'}'s words"
        special = "".join(f", or {value:g}" for value in self.special)
        return f"{self.low.text} .. {self.high.text}{special}"


Catalogue = Mapping[str, Knob]
"""Knobs by their names, in the order of the file; it cannot be changed."""


@dataclass(frozen=True, slots=True)
class _KnobRow:
    """One table of the file, before it is trusted."""

    group: Group
    scale: Scale
    why: str
    source: str
    low: str | None = None
    high: str | None = None
    special: tuple[float, ...] = ()
    choices: tuple[str, ...] = ()
    needs: Needs = field(default_factory=Needs)
    interactions: tuple[str, ...] = ()
    takes_effect: TakesEffect | None = None


@cache
def load_catalogue() -> Catalogue:
    """Load the catalogue that is shipped with the package."""
    return parse_catalogue(resources.files("pgdyno.knobs").joinpath("data/postgresql.toml").read_text("utf-8"))


def parse_catalogue(text: str, beside: Collection[str] = ()) -> Catalogue:
    """Read a catalogue and join it with the policy; `beside` are knobs of another one that interactions may name.

    Raises UsageError, naming knob and field, on a table that does not fit the schema, and on a knob that the policy
    does not know or never lets a search move.
    """
    knobs = {name: _knob(name, table) for name, table in toml_of(text, "knob catalogue").items()}
    for knob in knobs.values():
        for other in knob.interactions:
            if other not in knobs and other not in beside:
                raise UsageError(f'knob catalogue: {knob.name}: interacts with "{other}", which is not in it')
    return MappingProxyType(knobs)


def _knob(name: str, table: object) -> Knob:
    where = f"knob catalogue: {name}"
    if isinstance(table, dict):
        table = {key: value for key, value in table.items() if key != "kernel"}  # which model.linux reads
    row = read_table(_KnobRow, table, where)
    if wrong := _wrong(row):
        raise UsageError(f"{where}: {wrong}")
    ruling = ruling_of(name)
    if ruling is None or ruling.durability is None or not ruling.settable:
        raise UsageError(f"{where}: the policy does not let anyone tune it")
    return Knob(
        name=name,
        durability=ruling.durability,
        search=ruling.search,
        group=row.group,
        scale=row.scale,
        low=_parsed(row.low, f"{where}: low"),
        high=_parsed(row.high, f"{where}: high"),
        special=tuple(map(float, row.special)),
        choices=row.choices,
        needs=row.needs,
        why=" ".join(row.why.split()),
        source=row.source,
        interactions=row.interactions,
        takes_effect=row.takes_effect,
    )


def _wrong(row: _KnobRow) -> str:
    """Return what of a row does not fit together, empty where all does."""
    numeric = row.scale is not Scale.ENUM
    if numeric != (row.low is not None and row.high is not None):
        return "a log or linear scale needs low and high, an enum has neither"
    if numeric and row.choices:
        return "choices are for the enum scale"
    if not numeric and row.special:
        return "special values are for the log and linear scales"
    if not (0 <= row.needs.checkpoint_cycles <= _MOST_CYCLES and 0 <= row.needs.vacuum_cycles <= _MOST_CYCLES):
        return f"a trial has 0 to {_MOST_CYCLES} cycles"
    if row.needs.connections < 0:
        return "connections cannot be fewer than none"
    if len(row.why) < _LEAST_WHY or len(row.source) < _LEAST_SOURCE:
        return f"why has at least {_LEAST_WHY} characters, source {_LEAST_SOURCE}"
    return ""


def _parsed(text: str | None, where: str) -> Expression | None:
    if text is None:
        return None
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from error
