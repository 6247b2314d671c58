"""The frugal part of what a search found: few settings, little memory; by the model alone, no trial is spent.

Whether the model was right is for the proof to say, in whose blocks both run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.knobs.dimension import Value
from pgdyno.knobs.memory import AMOUNTS
from pgdyno.knobs.space import configuration_to_point, point_to_configuration
from pgdyno.model.configuration import Configuration
from pgdyno.optimizer.frugal import reduce
from pgdyno.studies.tune.search import Search
from pgdyno.units import bytes_text

HEADROOM = 1.2
"""shared_buffers of so many times the data hold all of them, with the catalogs and what is dirty or being read in."""
IDLE = "it showed no effect where a part of what was found was measured"
NOTHING = 0.005
"""Less than this share of the gain is told as nothing."""


@dataclass(frozen=True, slots=True)
class FrugalWinner:
    """What is left of a winner, why each setting that is not among it went, and in words what amounts were lowered.

    `rest` are the settings that are to be left out together.
    """

    settings: Configuration
    dropped_because: Mapping[str, str]
    lowered: tuple[str, ...]
    rest: tuple[str, ...] = ()


def frugal(
    search: Search,
    found: Configuration,
    *,
    most: int,
    refused: Collection[Configuration] = (),
    needed: Sequence[str] = (),
    idle: Collection[str] = (),
    whole: bool = False,
) -> FrugalWinner:
    """Return the frugal part of a configuration that was found: `most` parts to measure, none of what was `refused`.

    The model learns from the trials of `search`, whose constraints hold for each part of `found`. At least one setting
    stays; constraints may keep more of them than can be measured, and where they let none go, what is returned may be
    one that was refused. Settings that are `needed`, because a vetoed proof showed it, go last, and those that are
    `idle` at once where the constraints let them. Settings that failed together in a proof are not proposed with other
    values: what they lack, or should lack, is another setting. With `whole` only what is surely no loss goes.
    """
    asked = found.without(*idle)
    if not asked or not search.accepts(asked):
        asked = found
    space, facts, data = search.space, search.laboratory.facts, _data_bytes(search)
    amounts = {name: math.inf for name in AMOUNTS if name in found}
    if "shared_buffers" in amounts and data is not None:
        amounts["shared_buffers"] = HEADROOM * data / facts.server.block_size

    failed = [frozenset(trial.spec.configuration) for trial in search.failed]

    def is_possible(point: Mapping[str, Value]) -> bool:
        settings = point_to_configuration(space, point)
        return search.accepts(settings) and settings not in refused and frozenset(settings) not in failed

    left = reduce(
        space.dimensions,
        search.history(),
        configuration_to_point(space, asked, facts),
        noise_sd=search.noise_sd,
        most=most,
        needed=needed,
        amounts=amounts,
        tolerance=0.0 if whole else search.options.tolerance,
        surely=whole,
        is_possible=is_possible,
    )
    settings = point_to_configuration(space, left.point)
    because = {name: IDLE for name in found if name not in asked}
    because |= {name: _because(share, name in left.forced, len(settings)) for name, share in left.dropped.items()}
    lowered = (_lowered(name, found, settings, data) for name in left.lowered if name in settings)
    return FrugalWinner(settings, because, tuple(lowered), tuple(name for name in left.rest if name in settings))


def lacking(part: Configuration, found: Configuration) -> list[str]:
    """Return the settings of a configuration that was found which a part of it lacks or has another value of."""
    return [name for name in found if part.get(name) != found[name]]


def _because(share: float, forced: bool, measured: int) -> str:
    if forced:
        return (
            f"the model expects about {100 * share:.0f} % of the gain from it, and only {measured} could be measured "
            "one by one"
        )
    if share < NOTHING:
        return "the model expects nothing of it"
    return f"the model expects no more than {math.ceil(100 * share)} % of the gain from it"


def _lowered(name: str, found: Configuration, settings: Configuration, data: float | None) -> str:
    known = f"; the data are {bytes_text(data)}" if data is not None and name == "shared_buffers" else ""
    instead = f"{settings[name]} and not {found[name]}, as the search found it"
    return f"{name} is {instead}: more is not expected to do anything{known}"


def _data_bytes(search: Search) -> float | None:
    """Return the size of the load's database, the largest that a trial of the search saw; None where none told it."""
    outcomes = [trial.outcome for trial in (*search.baselines, *search.trials)]
    return max((one.counters.get("database_bytes", 0.0) for one in outcomes if one is not None), default=0.0) or None
