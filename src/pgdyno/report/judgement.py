"""What a study came to: one object from which headline, exit code, JSON, alert and dashboard speak. Pure.

A figure is in a headline only where it rests on a run that was used; what was measured and not used is named as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.errors import ExitCode
from pgdyno.model.alike import told_once
from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.bench import BenchResult, RunRecord
from pgdyno.model.results.parts import RunsBesideOthers
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import TrialState
from pgdyno.model.verdict import Verdict, Word
from pgdyno.report.sections import Tone
from pgdyno.report.side_names import names_of
from pgdyno.report.wording import TONES, change_text, number_text, plural, quantity_text, range_text, sentence

_STATE_TONES = {StudyState.FAILED: Tone.BAD, StudyState.INTERRUPTED: Tone.UNSURE}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a study came to.

    `title` is the headline of its report and `word` its verdict, empty where it claims nothing; `said` is the same in
    a few words for a list. `alert` is what somebody has to look at, empty for nothing.
    """

    title: str
    word: str
    tone: Tone
    said: str = ""
    code: ExitCode = ExitCode.OK
    alert: str = ""

    def to_json(self) -> dict[str, object]:
        """Return it as `--json` prints it under the key `judgement`."""
        return {"title": self.title, "word": self.word, "said": self.said, "exit_code": int(self.code)}


def judged(study: Study) -> Judgement:
    """Return the judgement of a study; of a kind with words of its own only how it stands."""
    judge = JUDGES.get(study.kind)
    found = judge(study) if judge is not None else None
    if found is not None:
        return found
    state = study.state.value
    return Judgement(f"No verdict: the study is {state}", state, _STATE_TONES.get(study.state, Tone.UNSURE))


def _bench(study: Study) -> Judgement | None:
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
    figures = f"{orders}{number_text(used.tps)} transactions per second{p99}"
    which = "one run" if len(result.usable) == 1 else f"the last of {len(result.usable)} runs"
    told = f"; {unused_text(result.unused)}" if result.unused else ""
    return Judgement(
        f"{figures}: {which}, no comparison{told}",
        "",
        Tone.NEUTRAL,
        f"{orders}{number_text(used.tps)} tps{told}",
        result.exit_code,
    )


def together_text(result: TuneResult) -> str:
    """Say that only all that a search found proved better: which of it matters is not known, so it is not offered."""
    return f"{plural(len(result.search.best), 'setting')} proved better together, and none of them is explained"


def unused_text(unused: Sequence[RunRecord]) -> str:
    """Say how many runs were not used, and how they ended: `1 run was not used (disturbed)`."""
    words = (
        "without a figure" if run.figures.state is TrialState.COMPLETE else run.figures.state.value for run in unused
    )
    states = ", ".join(dict.fromkeys(words))
    return f"{plural(len(unused), 'run')} {'was' if len(unused) == 1 else 'were'} not used ({states})"


def unused_reasons(unused: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return why runs were not used, those that differ in numbers alone once."""
    runs = (one.figures for one in unused)
    return told_once(f"run {run.run}: {run.reason or run.state.value}" for run in runs)


def _ab(study: Study) -> Judgement | None:
    result = study.told(AbResult)
    return None if result is None or result.verdict is None else _comparison(study, result, result.verdict)


def _comparison(study: Study, result: AbResult | TuneResult, verdict: Verdict) -> Judgement:
    names = names_of(study.kind, keep=False)
    said = f"{verdict.metric.label} {change_text(verdict.interval.ratio)} {range_text(verdict.interval)}"
    title = f"{sentence(verdict, names.subject, names.reference)}{_company(result.beside_others)}"
    return Judgement(title, verdict.word.value, TONES[verdict.word], said, result.exit_code)


def _company(company: RunsBesideOthers | None) -> str:
    """Return what makes an answer less certain, empty on a machine that was left to its study."""
    if company is None:
        return ""
    return f"; less certain, as others used the machine in {company.runs} of {company.of} runs"


def _tune(study: Study) -> Judgement | None:
    result = study.told(TuneResult)
    if result is None:
        return None
    if result.verdict is None:
        said = "no configuration but the baseline was measured"
        return Judgement(f"Not resolved: {said}", Word.NOT_RESOLVED.value, Tone.UNSURE, said, result.exit_code)
    if not result.keep:
        return _comparison(study, result, result.verdict)
    unsure = result.is_only_together or result.verdict.word is Word.NOT_RESOLVED
    why = together_text(result) if result.is_only_together else "nothing that was tried proved better"
    title = f"Keep your configuration: {why}{_company(result.beside_others)}"
    return Judgement(title, "keep", Tone.UNSURE if unsure else Tone.NEUTRAL, "your configuration", result.exit_code)


JUDGES: Mapping[StudyKind, Callable[[Study], Judgement | None]] = {
    StudyKind.BENCH: _bench,
    StudyKind.AB: _ab,
    StudyKind.TUNE: _tune,
}
"""The kinds that are judged here; the pages of the others have headlines of their own."""
