"""What is special to a staircase."""

from __future__ import annotations

from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement, SideNames, company_text
from pgdyno.report.wording import TONES, Tone, change_text, range_text, sentence
from pgdyno.studies.kind import Kind
from pgdyno.units import plural


def judgement(state: str, result: StaircaseResult) -> Judgement:
    """Return the verdict on all kept steps together, else how far it came; `state` is how its study stands."""
    title, word, tone, said = _words(state, result)
    return Judgement(f"{title}{company_text(result.beside_others)}", word, tone, said, result.exit_code)


def _words(state: str, result: StaircaseResult) -> tuple[str, str, Tone, str]:
    verdict, kept = result.verdict, plural(len(result.kept_steps), "step")
    if result.unfinished:
        return f"Not finished: the staircase is {state}, {result.unfinished}", state, Tone.UNSURE, ""
    if verdict is not None and verdict.interval.is_closed:
        said = f"{verdict.metric.label} {change_text(verdict.interval.ratio)} {range_text(verdict.interval)}, {kept}"
        title = sentence(verdict, "the kept configuration", "the baseline")
        return title, verdict.word.value, TONES[verdict.word], said
    if result.stage == "sandbox":
        found = plural(len(result.candidates), "candidate")
        return f"Sandbox stage: {found} for the large environment", "candidates", Tone.NEUTRAL, found
    if result.kept_steps:
        return f"{kept} kept, without a proof of the whole", "", Tone.UNSURE, f"{kept} kept, unproved together"
    why = result.stopped or "no step was kept"
    return f"Keep your configuration: {why}", "keep", Tone.NEUTRAL, why


class StaircaseKind(Kind):
    """Steps on top of each other, each kept or not."""

    sides = SideNames("all kept", "the baseline")
    resumed_by = "experiment"
    compares = True
    beside_others = True

    def judged(self, study: Study) -> Judgement | None:
        """Return what the kept steps bought together."""
        result = study.told(StaircaseResult)
        return None if result is None else judgement(study.state.value, result)


KIND = StaircaseKind()
