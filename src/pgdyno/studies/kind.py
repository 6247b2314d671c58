"""What code that studies share asks of a kind of study: one object a kind, in the folder of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pgdyno.model.results.parts import Compared
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Verdict
from pgdyno.report.judgement import Judgement, SideNames

if TYPE_CHECKING:
    from pgdyno.model.live import Live
    from pgdyno.report.sections import Block, Report
    from pgdyno.report.study_record import StudyRecord

Named = tuple[str, int | None]
"""How a run is called in the flight recorder, and its number."""
NO_VERDICT = "it has no verdict"


@dataclass(frozen=True, slots=True)
class Offered:
    """What a study offers for keeping: settings that it proved better; or `withheld`, a clause: why it offers none."""

    settings: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = None
    withheld: str = ""


class Kind:
    """A kind of study. Nothing of what follows has to be said, but it needs a page: without one it cannot be defined.

    That is `KIND_page` in `page.py` of its folder, or its own `page`.
    """

    sides = SideNames("B", "A")
    """How the two sides of its comparison are called."""
    resumed_by = ""
    """The verb whose --resume goes on with it; empty where such a study is begun again."""
    has_sessions = True
    """It may change settings, in sessions that pgdyno rollback lists and ends."""
    compares = False
    """Its verdicts are about the metric: an open loop would fix that for all sides."""
    beside_others = False
    """It measures interleaved pairs, which are fair beside others: a run that stands alone there is not."""
    sizes_data = False
    """Its data are measured before and after each run."""
    are_alike = False
    """All of its runs have the same settings: what fails in one is not theirs."""
    stands_alone = False
    """Each of its runs is a figure of the server: clients and platforms are compared by them."""
    counts_trials = True
    """Its load comes in trials; else it is one run, which says itself how far it is."""
    offers = False
    """It may end with settings that are offered for keeping."""

    def __init_subclass__(cls) -> None:
        folder = cls.__module__.rpartition(".")[0]
        if cls.page is Kind.page and (not folder or find_spec(f"{folder}.page") is None):
            raise TypeError(f"{cls.__name__} has no page")

    def page(self, record: StudyRecord) -> Report:
        """Return the report, of an unfinished study too; what draws it is imported here, with the first report."""
        kind = record.study.kind.value
        report: Report = getattr(import_module(f"pgdyno.studies.{kind}.page"), f"{kind}_page")(record)
        return report

    def may_change(self, study: Study) -> bool:
        """Tell whether this study may have changed settings, which pgdyno rollback would restore."""
        return self.has_sessions

    def continued_by(self, study: Study) -> str:
        """Return the verb whose --resume goes on with this study; empty where it is begun again."""
        return self.resumed_by

    def after_kill(self, study: Study) -> str:
        """Return what is left of a study that was killed, and needs nothing to be restored: a clause."""
        return "its server is as it was found"

    def under_way(self, live: Live) -> tuple[Block, ...]:
        """Return what its page shows beside its card while it runs, by its row on the live board."""
        return ()

    def judged(self, study: Study) -> Judgement | None:
        """Return what the study came to; None where only its page says it, or while it has no result."""
        return None

    def offered(self, study: Study) -> Offered:
        """Return what a finished study of a kind that `offers` has to keep."""
        return Offered(withheld=NO_VERDICT)

    def conservative(self, study: Study) -> Offered:
        """Return the leanest of what it proved better: what it offers, where it knows no leaner one."""
        return self.offered(study)

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return the runs that the flight recorder shows: by default those that stand for the two sides."""
        result = study.told(Compared)
        if result is None:
            return []
        sides = ((self.sides.reference, result.baseline), (self.sides.subject, result.winner))
        return [(name, side.run) for name, side in sides if side is not None]

    def looked_at(self, study: Study, trials: Sequence[Trial]) -> list[Trial]:
        """Return the runs beside those of the recorder of which it is told what held them back."""
        return []
