"""What is done in each phase: by the mover, or what every migration has: assessment, settings, validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.assess import assess
from pgdyno.migration.mover import ItemWatch, MoveItem, MovePlace, Mover
from pgdyno.migration.validation import validate
from pgdyno.migration.way_back import SourceSeen, look_at, rehearse_way_back
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.linux import is_linux_knob
from pgdyno.model.results.migrate import FindingWeight, MigrationPhase
from pgdyno.model.shapes import shaped
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo.session import ServerSession

_SHOWN = "SELECT name, pg_catalog.current_setting(name) AS value FROM pg_catalog.pg_settings WHERE name = ANY(%s)"


def shown(target: Target, names: Sequence[str]) -> dict[str, str]:
    """Return these settings as new sessions see them, and Linux knobs as the kernel has them."""
    found = {str(row["name"]): str(row["value"]) for row in target.postgres.fetch(_SHOWN, [list(names)])}
    of_kernel = [name for name in names if is_linux_knob(name)]
    kernel = read_facts(target).kernel if of_kernel else {}
    return found | {name: str(kernel[name].value) for name in of_kernel}


@dataclass(slots=True)
class MoverWork:
    """A phase of the mover."""

    mover: Mover
    phase: MigrationPhase
    place: MovePlace
    lasts: bool = True

    def items(self) -> tuple[MoveItem, ...]:
        """Return its items."""
        return self.mover.items(self.phase, self.place)

    def is_done(self, item: MoveItem) -> bool:
        """Ask the mover."""
        return self.mover.is_done(self.phase, item, self.place)

    def run(self, items: tuple[MoveItem, ...], watch: ItemWatch) -> None:
        """Let the mover do them."""
        self.mover.run(self.phase, items, self.place, watch)


@dataclass(slots=True)
class OneWork:
    """A phase that is one item; `keep` takes what `work` returned."""

    key: str
    work: Callable[[], None]
    lasts: bool = True

    def items(self) -> tuple[MoveItem, ...]:
        """Return the one."""
        return (MoveItem(self.key, self.key),)

    def is_done(self, item: MoveItem) -> bool:
        """Say no: it is done again."""
        return False

    def run(self, items: tuple[MoveItem, ...], watch: ItemWatch) -> None:
        """Do it."""
        for one in items:
            watch.began(one.key)
            self.work()
            watch.ended(one.key)


@dataclass(slots=True)
class LoadSettings:
    """The settings of the target while it is loaded, by one undo session: its end is the target as it was."""

    session: ServerSession
    target: Target
    settings: Configuration
    restart: bool
    before: dict[str, str] = field(default_factory=dict)
    during: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def apply(self) -> None:
        """Bring them into force, and read them back."""
        names = [*self.settings]
        self.before = shown(self.target, names)
        self.session.apply(self.settings, restart="as-needed" if self.restart else "never")
        self.during = shown(self.target, names)

    def revert(self) -> None:
        """Put them back, and see that they are. Raises EnvironmentUnsuitable where one is not."""
        self.session.apply(BASELINE, restart="as-needed" if self.restart else "never")
        self.after = shown(self.target, [*self.settings])
        wrong = [name for name, value in self.before.items() if self.after.get(name) != value]
        if wrong:
            raise EnvironmentUnsuitable(f"settings for the load are still in force: {', '.join(wrong)}")


def works_of(
    mover: Mover,
    phases: Sequence[MigrationPhase],
    place: MovePlace,
    load: LoadSettings | None,
    keep: Callable[[str, object], None],
    kept: Mapping[str, object],
) -> dict[MigrationPhase, MoverWork | OneWork]:
    """Return the work of each phase; `keep` is given what a result has beside times, which `kept` has then.

    `phases` are those that `mover` carries out, in `place`; they replace the common work of the same phase.
    `load` has the settings for the load, None where there are none. `keep` takes a name and a value; `kept` has the
    values by name, also those of earlier runs of a resumed rehearsal.
    """

    def look() -> None:
        if "source" not in kept:  # how it stood before the first of a rehearsal's runs
            keep("source", look_at(place.source.postgres))
        found = assess(place.source, place.target)
        keep("assessment", found)
        stops = [one for one in found if one.weight is FindingWeight.STOPS]
        if stops:
            hints = dict.fromkeys(one.hint for one in stops if one.hint)
            raise EnvironmentUnsuitable(
                "; ".join(f"{one.topic} {one.object}: {one.text}" for one in stops), hint=" ".join(hints) or None
            )

    def check() -> None:
        after = mover.validated(place)
        keep("validation", validate(place.source, after, jobs=place.jobs, halt=place.halt, tell=place.tell))

    def go_back() -> None:
        before = shaped(SourceSeen, kept["source"], "journal")
        keep("back", rehearse_way_back(place.source.postgres, before))

    def apply() -> None:
        assert load is not None, "the phase is left out without settings"
        load.apply()
        keep("before", load.before)
        keep("during", load.during)

    def revert() -> None:
        assert load is not None, "the phase is left out without settings"
        load.revert()
        keep("after", load.after)

    own: dict[MigrationPhase, MoverWork | OneWork] = {
        MigrationPhase.ASSESS: OneWork("assess", look),
        MigrationPhase.CONFIGURATION: OneWork("settings", apply, lasts=False),
        MigrationPhase.RUN_TIME: OneWork("settings", revert),
        MigrationPhase.VALIDATION: OneWork("validation", check),
        MigrationPhase.WAY_BACK: OneWork("way back", go_back),
    }
    return own | {phase: MoverWork(mover, phase, place) for phase in phases}
