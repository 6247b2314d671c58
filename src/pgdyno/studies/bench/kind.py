"""What is special to a bench."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.bench import BenchResult, RunRecord
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial, TrialState
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import number_text, quantity_text
from pgdyno.studies.kind import Kind, Named
from pgdyno.units import plural


class BenchKind(Kind):
    """Runs of one configuration."""

    sizes_data = True
    are_alike = True
    stands_alone = True

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return the run at the top."""
        result = study.told(BenchResult)
        return [] if result is None else [("the run", result.top.figures.run)]

    def judged(self, study: Study) -> Judgement | None:
        """Return the figures of the last run that was used, or why none was."""
        result = study.told(BenchResult)
        if result is None:
            return None
        if not result.usable:
            last = result.unused[-1].figures
            return Judgement(
                f"No usable measurement: {last.why_not}",
                last.state.value,
                Tone.UNSURE,
                "no run was used",
                result.exit_code,
                f"bench {study.id} has no usable measurement: {last.why_not}",
            )
        used = result.usable[-1].figures
        p99 = f", p99 {quantity_text(used.latency_ms.p99, 'ms')}" if used.latency_ms is not None else ""
        nopm = used.counters.get("nopm")
        orders = "" if nopm is None else f"{number_text(nopm)} NOPM (not TPC-C), "
        figures = f"{orders}{plural(number_text(used.tps), 'transaction')} per second{p99}"
        which = "one run" if len(result.usable) == 1 else f"the last of {len(result.usable)} runs"
        told = f"; {_unused_text(result.unused)}" if result.unused else ""
        return Judgement(
            f"{figures}: {which}, no comparison{told}",
            "",
            Tone.NEUTRAL,
            f"{orders}{number_text(used.tps)} tps{told}",
            result.exit_code,
        )


def _unused_text(unused: Sequence[RunRecord]) -> str:
    """Say how many runs were not used, and how they ended: `1 run was not used (disturbed)`."""
    words = (
        "without a figure" if run.figures.state is TrialState.COMPLETE else run.figures.state.value for run in unused
    )
    states = ", ".join(dict.fromkeys(words))
    return f"{plural(len(unused), 'run')} {'was' if len(unused) == 1 else 'were'} not used ({states})"


KIND = BenchKind()
