"""Whether the restart budget of a tune has room for more trials, with what later phases need kept apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pgdyno.model.configuration import Configuration
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.trial.laboratory import Laboratory


def restarts_left(laboratory: Laboratory, options: TuneOptions) -> int | None:
    """Return how many restarts the tune may still make, None without a bound.

    Goes by the budget that the study began with, so that a resumed one decides the same.
    """
    budget = options.restart_budget
    return None if budget is None or budget.limit is None else budget.limit - laboratory.restarts.used


def has_restarts(
    laboratory: Laboratory, options: TuneOptions, configurations: Collection[Configuration], *, keep: int = 0
) -> bool:
    """Tell whether `configurations` may run once each, in any order, so that `keep` restarts are left.

    `laboratory` counts the restarts until now, and `options` has the budget that bounds them; without a bound the
    answer is True.
    """
    left = restarts_left(laboratory, options)
    return left is None or laboratory.restarts.most(configurations) + keep <= left


def room_for(laboratory: Laboratory, options: TuneOptions, arms: Mapping[str, Configuration]) -> Callable[[int], bool]:
    """Return what tells whether so many trials, a run of each arm, still have their time and their restarts."""

    def has_room(trials: int) -> bool:
        watch = laboratory.stopwatch
        return (watch is None or watch.has_room(trials)) and has_restarts(laboratory, options, tuple(arms.values()))

    return has_room


def arms_with_restarts(
    laboratory: Laboratory, options: TuneOptions, configurations: Collection[Configuration]
) -> int | None:
    """Return how many arms such as these the fewest blocks of a proof have restarts for; None without a bound."""
    left = restarts_left(laboratory, options)
    if left is None or laboratory.restarts.most(configurations) < 2:
        return None
    return left // options.confirm_min
