"""How a live study is run: what its flags say, and what of it a study that goes on was begun with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from pgdyno.errors import UsageError
from pgdyno.model.guard import GuardPlan
from pgdyno.model.person.operator_request import Operators
from pgdyno.model.shapes import shaped
from pgdyno.model.study import Study, StudyKind
from pgdyno.stats.period_choice import SWITCH_S, USUAL_S
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.switchback import GUARD_REST_S
from pgdyno.undo.watch import Deadlines
from pgdyno.units import seconds_text

DAY_S = 24 * 3600.0
MOST_DAYS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How a live study is run: how long the server is watched first, how long all may take, and how it is judged.

    `period_s` stands for the length that the reference would choose, `wash_s` for the usual wash-out. The server is
    left alone `not_during` these times of the day, HH:MM-HH:MM. Where there are `windows` of that form, B may need a
    restart, and the server is restarted in these alone. Requests of `operators` are looked for in the store.
    """

    reference_s: float
    budget_s: float
    seed: int
    design: Design = field(default_factory=Design)
    guards: GuardPlan = field(default_factory=lambda: GuardPlan(trips=1))
    watch: Deadlines = field(default_factory=Deadlines)
    period_s: float | None = None
    wash_s: float | None = None
    guard_rest_s: float = GUARD_REST_S
    not_during: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    operators: Operators | None = None

    @property
    def oldest_s(self) -> float:
        """Return how old a reference may be for a study to go on with it; one in windows goes on from night to night.

        What of the load has changed since is looked at before, and each pair compares with its own A.
        """
        return DAY_S * (MOST_DAYS if self.windows else 1)

    def anew(self, seed: int) -> LiveOptions:
        """Return the same for a study of another day, whose reference chooses the length of its periods itself."""
        return replace(self, seed=seed, wash_s=self.wash_s if self.windows else None)


def earlier_study(store: Store, name: str, fits: Callable[[], Callable[[Study], bool]] | None = None) -> Study:
    """Return the live study of this id; `last` is the newest that changed a server. Raises UsageError for another.

    Where a server was named, `fits` is asked, for `last` alone, for what tells of a study whether it is of that one.
    """
    found: Iterable[Study] = store.studies() if name == "last" else (store.study(name),)
    if name == "last" and fits is not None:
        found = filter(fits(), found)
    study = next((one for one in found if one.kind is StudyKind.LIVE and "seed" in one.asked), None)
    if study is None:
        none = f'"{name}" is not a live study that compared or searched'
        if fits is not None and name == "last":
            none = "the store has no live study of this server that compared or searched"
        raise UsageError(none, hint="Start one: pgdyno live --search.")
    return study


def cost_of_periods(options: LiveOptions) -> tuple[str, ...]:
    """Return what periods cost that somebody chose who knew no load."""
    if options.period_s is None or options.wash_s is None:
        return ()
    if options.windows:
        return ()
    chosen, usual = (3600 / (2 * (one + SWITCH_S)) for one in (options.period_s, USUAL_S))
    return (
        f"Periods of {seconds_text(options.period_s)} were requested, of which {seconds_text(options.wash_s)} do not "
        f"count: an hour holds {chosen:.1f} pairs of them, and {usual:.0f} of the usual {USUAL_S:g} s.",
    )


def options_of(
    study: Study,
    budget_s: float | None = None,
    watch: Deadlines | None = None,
    operators: Operators | None = None,
) -> LiveOptions:
    """Return the options that a study was begun with, to go on with it; `watch` and `operators` are those of today.

    `budget_s` is how long it may take from now on, None what it was begun with.
    """
    begun = shaped(LiveOptions, study.asked, "the options", strict=False)
    return replace(
        begun,
        budget_s=begun.budget_s if budget_s is None else budget_s,
        watch=watch or Deadlines(),
        operators=operators,
    )
