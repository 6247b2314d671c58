"""The knob policy: which parameters may be touched, and the one place that says no.

Reads `data/policy.toml`, an allow-list. Every search space, recommendation and configuration of a user passes
through here; `values.py` has the spelling of single values.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources

from pgdyno.errors import EnvironmentUnsuitable, PolicyError, UsageError
from pgdyno.knobs.values import canonical_text
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts, SettingFact
from pgdyno.model.linux import COUNTERPARTS, LINUX_KNOBS, is_linux_knob


class Durability(StrEnum):
    """What a parameter puts at risk, from nothing but speed (A) to committed data (X)."""

    A = "A"
    B = "B"
    C = "C"
    X = "X"

    @property
    def meaning(self) -> str:
        """Return the class in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Durability.A: "performance only",
    Durability.B: "memory or availability",
    Durability.C: "recovery time or replication",
    Durability.X: "can lose or corrupt committed data, or break recovery or replication",
}


class SearchPolicy(StrEnum):
    """Whether a search may move a parameter. NEVER covers class X and what is not a performance setting."""

    DEFAULT = "default"
    OPT_IN = "opt-in"
    MANUAL = "manual"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy says about one parameter. `durability` is None when it is not a performance setting."""

    name: str
    durability: Durability | None
    search: SearchPolicy
    why: str

    @property
    def settable(self) -> bool:
        """Return True when a person may set it in an experiment."""
        return self.search is not SearchPolicy.NEVER


@dataclass(frozen=True, slots=True)
class Policy:
    """The whole policy: a ruling for each parameter that it knows, by name; `capture` are what only a capture sets."""

    rulings: Mapping[str, Ruling] = field(default_factory=dict)
    standby_ordered: frozenset[str] = frozenset()
    capture: frozenset[str] = frozenset()


@cache
def load_policy() -> Policy:
    """Load the policy that is shipped with the package."""
    return parse_policy(resources.files("pgdyno.knobs").joinpath("data/policy.toml").read_text("utf-8"))


def parse_policy(text: str) -> Policy:
    """Read a policy; raises UsageError on anything but the documented form, so that a slip cannot open a door."""
    document = tomllib.loads(text)
    unknown = set(document) - {"rule", "standby_ordered", "capture"}
    if unknown:
        raise UsageError(f"policy: unknown key {', '.join(sorted(unknown))}")
    rulings: dict[str, Ruling] = {}
    for rule in document["rule"]:
        for ruling in _rulings(rule):
            if ruling.name in rulings:
                raise UsageError(f'policy: parameter "{ruling.name}" is ruled twice')
            rulings[ruling.name] = ruling
    capture = frozenset(document.get("capture", ()))
    logging = {name for name, ruling in rulings.items() if ruling.durability is None}
    risky = sorted(capture - logging)
    if risky:
        raise UsageError(f"policy: a capture sets logging alone, and not {', '.join(risky)}")
    return Policy(rulings, frozenset(document.get("standby_ordered", ())), capture)


def _rulings(rule: Mapping[str, object]) -> Iterable[Ruling]:
    names, klass, why = rule.get("names"), rule.get("class"), rule.get("why")
    if not isinstance(names, list) or not isinstance(why, str) or not why:
        raise UsageError(f"policy: a rule needs class, why and names, and has {', '.join(rule)}")
    if klass not in (*Durability, "none"):
        raise UsageError(f'policy: class "{klass}" is not one of A, B, C, X, none')
    durability = None if klass == "none" else Durability(str(klass))
    if durability in (None, Durability.X):
        if "search" in rule:
            raise UsageError(f'policy: class "{klass}" is never searched, so it takes no "search"')
        search = SearchPolicy.NEVER
    else:
        search = SearchPolicy(str(rule.get("search")))
        if search is SearchPolicy.NEVER:
            raise UsageError(f'policy: class "{klass}" needs search = default, opt-in or manual')
    return [Ruling(str(name), durability, search, why) for name in names]


def ruling_of(name: str) -> Ruling | None:
    """Return what the policy says about a parameter, in any spelling of its case; None when it is unknown to it."""
    rulings = load_policy().rulings
    return rulings.get(name) or _by_folded_name().get(name.casefold())


@cache
def _by_folded_name() -> Mapping[str, Ruling]:
    return {name.casefold(): ruling for name, ruling in load_policy().rulings.items()}


def class_x_set_in(text: str) -> str | None:
    """Return the parameter of class X that a statement or a command sets, in whatever form; None when none."""
    match = _sets_class_x().search(text)
    return match[1].lower() if match else None


@cache
def _sets_class_x() -> re.Pattern[str]:
    names = [name for name, ruling in load_policy().rulings.items() if ruling.durability is Durability.X]
    # An undo may RESET one: that takes a value away and sets none.
    return re.compile(rf"""\b({"|".join(map(re.escape, names))})\b["']?\s*(?:=|\s\bTO\b)""", re.IGNORECASE)


def class_of(name: str) -> Durability | None:
    """Return the durability class; None when the policy does not know it or it is not a performance setting."""
    ruling = ruling_of(name)
    return ruling.durability if ruling else None


def worst_class(names: Iterable[str]) -> Durability | None:
    """Return the worst durability class among these parameters, for the label beside a number."""
    return max((klass for klass in map(class_of, names) if klass is not None), default=None)


def check_settings(settings: Mapping[str, str], facts: Facts, *, disposable_measurement: bool = False) -> Configuration:
    """Return these settings as a configuration in canonical text, the spelling in which equal values are equal.

    Raises PolicyError for a knob that the policy refuses (class X unless `disposable_measurement`, see `refuse`),
    UsageError for an unknown knob (with the nearest names), a fixed one, a value out of the server's own range
    (`pg_settings`; of a Linux knob the kernel's) or not among its words, and for both of two counterparts;
    EnvironmentUnsuitable for a Linux knob that cannot be changed on this machine, and for a knob of the server that
    something outranks what we would set (`Facts.obstacles`).
    """
    known = {*facts.settings, *LINUX_KNOBS}
    checked: dict[str, str] = {}
    for given, value in settings.items():
        name = given if given in known else _as_spelt(given, known)
        refuse(name, known=known, disposable_measurement=disposable_measurement)
        if name in checked:
            raise UsageError(f'knob "{name}" is set twice', hint="Leave one of the lines out.")
        if COUNTERPARTS.get(name) in checked:
            raise UsageError(
                f'knobs "{COUNTERPARTS[name]}" and "{name}" are counterparts: the kernel keeps the last one only',
                hint="Set one of the two.",
            )
        checked[name] = canonical_text(_changeable(name, facts), value)
    return Configuration.of(checked)


def _as_spelt(given: str, known: Collection[str]) -> str:
    folded = given.casefold()
    return next((name for name in known if name.casefold() == folded), given)


def _changeable(name: str, facts: Facts) -> SettingFact:
    row, kernel = facts.row(name), facts.kernel.get(name)
    if (obstacle := facts.obstacles.get(name)) is not None:
        raise EnvironmentUnsuitable(
            f"{name} cannot be set here: it {obstacle.reason}",
            detail="Nothing was changed.",
            hint=f"{obstacle.remedy.rstrip('.;')}, or leave this knob out.",
        )
    if row is not None and (kernel is None or kernel.obstacle is None):
        return row
    assert is_linux_knob(name), "a parameter of the server has a row"
    reason = "the kernel was not read" if kernel is None else kernel.obstacle or str(kernel.value)
    raise EnvironmentUnsuitable(
        f'Linux knob "{name}" cannot be changed here',
        detail=f"{reason[0].upper()}{reason[1:]}.",
        hint="Leave it out; pgdyno knobs host says what can be changed on this machine.",
    )


def refuse(name: str, *, known: Collection[str] = (), disposable_measurement: bool = False) -> None:
    """Raise unless the policy lets a person set this parameter.

    Raises PolicyError for class X (unless `disposable_measurement`: then a measurement on a sandbox marked
    disposable may touch it, and the caller labels every number with `worst_class`), for what is not a performance
    setting and for what the policy does not know; UsageError with the nearest name when `known`, the names that the
    server has, is given and lacks it.
    """
    ruling = ruling_of(name)
    if ruling is not None and not ruling.settable:
        _refuse_never(ruling, disposable_measurement)
    if known and name not in known:
        raise UsageError(f'unknown knob "{name}"', hint=nearest_hint(name, known))
    if ruling is None:
        raise PolicyError(
            f'knob "{name}" is unknown to the policy, so it is not tunable',
            hint="Run `pgdyno knobs list` for the knobs that pgdyno may touch.",
        )


def _refuse_never(ruling: Ruling, disposable_measurement: bool) -> None:
    if ruling.durability is not Durability.X:
        raise PolicyError(
            f'knob "{ruling.name}" is not a performance setting',
            detail=f"It {_clause(ruling.why)}.",
            hint="Leave it out; pgdyno knobs list shows the knobs that may be set.",
        )
    if not disposable_measurement:
        raise PolicyError(
            f'knob "{ruling.name}" is of class X and is refused, whatever the flags',
            detail=f"{ruling.why[0].upper()}{ruling.why[1:]}.",
            hint=f"Leave it out; pgdyno knobs show {ruling.name} says why.",
        )


def _clause(why: str) -> str:
    verbs = ("changes ", "ends ", "decides ")
    return why if why.startswith(verbs) else f"concerns this: {why}"


def nearest_hint(name: str, known: Collection[str]) -> str:
    """Return a hint with the names that come nearest to a misspelt one."""
    if "," in name:
        return "Give the flag again for each name."
    near = difflib.get_close_matches(name.casefold(), sorted(known), n=3, cutoff=0.7)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return "Run `pgdyno knobs list` for the names."
