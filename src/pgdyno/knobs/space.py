"""The search space: which knobs a tuning may move on this server with this kind of trial, and why not the others.

Pure. Three sources meet here: the policy (may it be moved at all), the catalogue (where it is worth moving) and the
server's own `pg_settings` (what it takes). Nothing of class X, and nothing that the policy does not know, can pass:
dimensions are made from catalogue knobs only, and the catalogue refuses to load any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pgdyno.errors import PolicyError, UsageError
from pgdyno.knobs.budget import TrialBudget, unmet_need
from pgdyno.knobs.catalogue import Catalogue, Knob, TakesEffect
from pgdyno.knobs.constraints import check
from pgdyno.knobs.current import overridden
from pgdyno.knobs.dimension import Dimension, Value
from pgdyno.knobs.linux import cannot_be_set, is_idle, load_linux_catalogue
from pgdyno.knobs.policy import SearchPolicy, load_policy, nearest_hint, refuse, ruling_of
from pgdyno.knobs.ranges import make_dimension
from pgdyno.knobs.rules import rules_of_thumb, value_nearest
from pgdyno.knobs.values import canonical_text
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import COUNTERPARTS, LINUX_KNOBS, is_linux_knob

_UNSEARCHABLE_CONTEXTS = ("internal", "backend", "superuser-backend")
_SHRINKING = ("work_mem", "maintenance_work_mem", "temp_buffers", "shared_buffers")
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A knob of the catalogue that is not in the space, and why: one clause, as in `work_mem: <reason>`."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The dimensions of a search, in the order of the catalogue, and what was left out."""

    dimensions: tuple[Dimension, ...]
    excluded: tuple[Exclusion, ...]

    def __getitem__(self, name: str) -> Dimension:
        for dimension in self.dimensions:
            if dimension.name == name:
                return dimension
        raise KeyError(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of the knobs that are searched."""
        return tuple(dimension.name for dimension in self.dimensions)

    def default_point(self) -> dict[str, Value]:
        """Return the baseline: every knob as the server has it."""
        return {dimension.name: dimension.default for dimension in self.dimensions}


def build_space(
    catalogue: Catalogue,
    facts: Facts,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    only: Collection[str] | None = None,
    reload_only: bool = False,
    linux: bool = False,
    budget: TrialBudget,
) -> SearchSpace:
    """Return the search space of this server for this kind of trial; each dimension's default is the current value.

    `catalogue` has the knobs and their order, `facts` have the server's values and ranges; what a trial of this
    `budget` could not show is left out. `include` adds opt-in knobs (None adds none), `only` takes these alone (None
    takes all), `exclude` takes knobs out, `reload_only` takes out what needs a restart. `linux` adds the Linux knobs of
    the host; without it only those are searched that `include` or `only` names. Raises PolicyError when a named knob is
    never searched (class X, not a performance setting, unknown to the policy, or to be set by hand only) and UsageError
    when no knob has that name, or for both of two counterparts.
    """
    for name in (*(include or ()), *(only or ())):
        _check_searchable(name, catalogue, facts)
    for name in exclude:
        if name not in catalogue and name not in facts.settings and not is_linux_knob(name):
            raise UsageError(f'unknown knob "{name}"', hint=nearest_hint(name, [*catalogue]))
    wanted = frozenset(include or ()) | frozenset(only or ())
    _refuse_both_counterparts(wanted)
    dimensions: list[Dimension] = []
    excluded: list[Exclusion] = []
    for knob in (*catalogue.values(), *_linux_knobs(wanted, whole=linux)):
        unsuitable = _unsuitable_linux if is_linux_knob(knob.name) else _unsuitable
        reason = _chosen_out(knob, wanted, exclude, only) or unsuitable(knob, facts, budget, reload_only)
        made = reason or make_dimension(knob, facts, budget)
        if isinstance(made, Dimension):
            dimensions.append(made)
        else:
            excluded.append(Exclusion(knob.name, made))
    return SearchSpace(tuple(dimensions), tuple(excluded))


def point_to_configuration(space: SearchSpace, point: Mapping[str, Value]) -> Configuration:
    """Return a point as settings; knobs at their current value are left out, so the baseline is empty."""
    settings: dict[str, str] = {}
    for dimension in space.dimensions:
        value = point.get(dimension.name, dimension.default)
        if value == dimension.default:  # most of the knobs of most of the candidates that a search looks at
            continue
        text = dimension.to_text(dimension.clip(value))
        if text != dimension.to_text(dimension.default):
            settings[dimension.name] = text
    return Configuration.of(settings)


def configuration_to_point(space: SearchSpace, configuration: Configuration, facts: Facts) -> dict[str, Value]:
    """Return settings as a whole point: knobs that are not among them stay at their current value.

    Raises UsageError when a knob of the configuration is not in the space, because the point would not be it.
    """
    strangers = sorted(set(configuration) - set(space.names()))
    if strangers:
        raise UsageError(
            f"not in the search space: {', '.join(strangers)}",
            hint=f"pgdyno knobs show {strangers[0]} says why; --include NAME adds one.",
        )
    point = space.default_point()
    for name, text in configuration.items():
        dimension = space[name]
        row = facts.row(name)
        assert row is not None, "a dimension was made from it"
        point[name] = dimension.clip(dimension.from_text(canonical_text(row, text)))
    return point


def starting_points(
    space: SearchSpace, facts: Facts, *, connections: int, read_only: bool
) -> list[Mapping[str, Value]]:
    """Return up to two whole points: a cautious one and a bold one, each inside of the joint constraints.

    The knobs of `space` are moved by rules of thumb on the memory, cores and disk in `facts`. `connections` is the
    number of sessions that memory is counted for, and `read_only` says that the load writes nothing. The list is empty
    where memory or cores are unknown or where the rules come to the current values.
    """
    points: list[Mapping[str, Value]] = []
    for bold in (False, True):
        rules = rules_of_thumb(facts, connections=connections, read_only=read_only, bold=bold)
        point = _fit(space, _placed(space, rules), facts, connections)
        if point is not None and point != space.default_point() and point not in points:
            points.append(point)
    return points


def _check_searchable(name: str, catalogue: Catalogue, facts: Facts) -> None:
    known = {*catalogue, *facts.settings, *LINUX_KNOBS}
    refuse(name, known=known)
    ruling = ruling_of(name)
    if ruling is not None and ruling.search is SearchPolicy.MANUAL:
        raise PolicyError(
            f'knob "{name}" is never searched: {ruling.why}',
            hint="Try values of it by hand with `pgdyno experiment --ab`.",
        )
    if name not in catalogue and not is_linux_knob(name):
        raise UsageError(f'knob "{name}" is not in the catalogue', hint=nearest_hint(name, [*catalogue]))


def _chosen_out(
    knob: Knob, wanted: frozenset[str], exclude: Collection[str], only: Collection[str] | None
) -> str | None:
    if knob.name in exclude:
        return "excluded by --exclude"
    if knob.search is SearchPolicy.MANUAL:
        return "set by hand only: " + _why(knob)
    if only is not None and knob.name not in wanted:
        return "not among the knobs chosen"
    if knob.search is SearchPolicy.OPT_IN and knob.name not in wanted:
        return "only with --include: " + _why(knob)
    return None


def _why(knob: Knob) -> str:
    ruling = ruling_of(knob.name)
    return ruling.why if ruling else "unknown to the policy"


def _unsuitable(knob: Knob, facts: Facts, budget: TrialBudget, reload_only: bool) -> str | None:
    fact = facts.settings.get(knob.name)
    if fact is None:
        return f"PostgreSQL {facts.server.major} does not have it, or does not show it to this user"
    if fact.context in _UNSEARCHABLE_CONTEXTS:
        return f"cannot be changed for running sessions (context {fact.context})"
    if reload_only and fact.context == "postmaster":
        return "needs a restart, and only reloads are allowed"
    if (obstacle := facts.obstacles.get(knob.name)) is not None:
        return obstacle.reason
    place = overridden(fact)
    if place is not None:
        return f"is set {place}, which no configuration file overrides"
    if knob.name in load_policy().standby_ordered and (facts.server.in_recovery or facts.server.standbys != 0):
        count = "this server is one" if facts.server.in_recovery else f"their number is {facts.server.standbys}"
        return f"a standby must not have less of it, and {count}"
    return unmet_need(knob.needs, budget, facts)


def _linux_knobs(wanted: Collection[str], *, whole: bool) -> list[Knob]:
    """Return the Linux knobs to consider: all of them, or those that are named; never both of two counterparts."""
    return [
        knob
        for knob in load_linux_catalogue().values()
        if knob.name in wanted or (whole and COUNTERPARTS.get(knob.name) not in wanted)
    ]


def _refuse_both_counterparts(wanted: Collection[str]) -> None:
    for name in sorted(wanted):
        if COUNTERPARTS.get(name) in wanted:
            raise UsageError(
                f'knobs "{name}" and "{COUNTERPARTS[name]}" are counterparts: the kernel keeps the last one only',
                hint="Search one of the two.",
            )


def _unsuitable_linux(knob: Knob, facts: Facts, budget: TrialBudget, reload_only: bool) -> str | None:
    if reload_only and knob.takes_effect is TakesEffect.RESTART:
        return "shows at a restart of PostgreSQL, and only reloads are allowed"
    obstacle = cannot_be_set(knob.name, facts) or is_idle(knob.name, facts)
    return obstacle or unmet_need(knob.needs, budget, facts)


def _placed(space: SearchSpace, rules: Mapping[str, float | str]) -> dict[str, Value]:
    """Return the default point with the rules laid over it, each as near as its dimension allows."""
    return {d.name: value_nearest(d, rules[d.name]) if d.name in rules else d.default for d in space.dimensions}


def _fit(space: SearchSpace, point: dict[str, Value], facts: Facts, connections: int) -> Mapping[str, Value] | None:
    """Return the point, halving its memory until the constraints accept it; other knobs that they name go back."""
    for _ in range(_HALVINGS):
        refusal = check(point_to_configuration(space, point), facts, connections=connections)
        if refusal is None:
            return point
        named = [name for name in refusal.knobs if name in point]
        sizes = [name for name in _SHRINKING if name in named and point[name] != space[name].default]
        if sizes:
            point[sizes[0]] = _halved(space[sizes[0]], point[sizes[0]])
        else:
            point |= {name: space[name].default for name in named}
    return None


def _halved(dimension: Dimension, value: Value) -> Value:
    half = dimension.nearest_level(float(value) / 2)
    return half if half != value else dimension.default
