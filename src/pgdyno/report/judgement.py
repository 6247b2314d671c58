"""What a study came to: one object from which headline, exit code, JSON, alert and dashboard speak. Pure.

A figure is in a headline only where it rests on a run that was used; what was measured and not used is named as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.errors import ExitCode
from pgdyno.model.alike import told_once
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import TrialState
from pgdyno.model.verdict import Word
from pgdyno.report.reading import Fields, measured_only_baseline, open_verdict_of, side_of
from pgdyno.report.sections import Tone
from pgdyno.report.side_names import names_of
from pgdyno.report.wording import TONES, change_text, number_text, plural, quantity_text, range_text, sentence

EXIT_CODES: Mapping[Word, ExitCode] = {
    Word.BETTER: ExitCode.OK,
    Word.EQUIVALENT: ExitCode.OK,
    Word.WORSE: ExitCode.FINDINGS,
    Word.NOT_RESOLVED: ExitCode.NOT_RESOLVED,
}
"""What a comparison of B with A ends with."""
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
    result = Fields(study.result or {})
    judge = JUDGES.get(study.kind)
    found = judge(study, result) if judge is not None and result.members else None
    if found is not None:
        return found
    state = study.state.value
    return Judgement(f"No verdict: the study is {state}", state, _STATE_TONES.get(study.state, Tone.UNSURE))


def used_runs(result: Fields) -> tuple[list[Fields], list[Fields]]:
    """Return the runs of a bench that were used and those that were not; older results hold one run and no state."""
    runs = result.children("runs") or (result,)
    used = [run for run in runs if run.text("state") in ("", TrialState.COMPLETE) and side_of(run).throughput]
    return used, [run for run in runs if run not in used]


def _bench(study: Study, result: Fields) -> Judgement | None:
    used, unused = used_runs(result)
    if not used:
        last = unused[-1]
        reason = last.text("reason") or f"the run is {last.text('state')}"
        title = f"No usable measurement: {reason}"
        return Judgement(
            title,
            last.text("state"),
            Tone.UNSURE,
            "no run was used",
            ExitCode.UNSUITABLE,
            f"bench {study.id} has no usable measurement: {reason}",
        )
    side = side_of(used[-1])
    p99 = f", p99 {quantity_text(side.p99, 'ms')}" if side.p99 is not None else ""
    nopm = used[-1].child("counters").number("nopm")
    orders = "" if nopm is None else f"{number_text(nopm)} NOPM (not TPC-C), "
    figures = f"{orders}{number_text(side.throughput)} transactions per second{p99}"
    which = "one run" if len(used) == 1 else f"the last of {len(used)} runs"
    told = f"; {unused_text(unused)}" if unused else ""
    return Judgement(
        f"{figures}: {which}, no comparison{told}",
        "",
        Tone.NEUTRAL,
        f"{orders}{number_text(side.throughput)} tps{told}",
    )


def together_text(result: Fields) -> str:
    """Say that only all that a search found proved better: which of it matters is not known, so it is not offered."""
    best = result.child("search").settings("best")
    return f"{plural(len(best), 'setting')} proved better together, and none of them is explained"


def unused_text(unused: Sequence[Fields]) -> str:
    """Say how many runs were not used, and how they ended: `1 run was not used (disturbed)`."""
    states = ", ".join(dict.fromkeys(run.text("state") or "without a figure" for run in unused))
    return f"{plural(len(unused), 'run')} {'was' if len(unused) == 1 else 'were'} not used ({states})"


def unused_reasons(unused: Sequence[Fields]) -> tuple[str, ...]:
    """Return why runs were not used, those that differ in numbers alone once."""
    return told_once(f"run {run.text('run')}: {run.text('reason') or run.text('state')}" for run in unused)


def _comparison(study: Study, result: Fields) -> Judgement | None:
    verdict = open_verdict_of(result.child("verdict"))
    if verdict is None:
        return None
    code = EXIT_CODES[verdict.word]
    if study.kind is StudyKind.TUNE:  # of a tune a worse candidate is an answer: the baseline stands
        code = ExitCode.NOT_RESOLVED if verdict.word is Word.NOT_RESOLVED else ExitCode.OK
    company = _company(result)
    if result.flag("keep") and verdict.word is not Word.BETTER and result.child("together").text("word") == Word.BETTER:
        title = f"Keep your configuration: {together_text(result)}{company}"
        return Judgement(title, "keep", Tone.UNSURE, "your configuration", ExitCode.NOT_RESOLVED)
    if result.flag("keep"):
        tone = Tone.UNSURE if verdict.word is Word.NOT_RESOLVED else Tone.NEUTRAL
        title = f"Keep your configuration: nothing that was tried proved better{company}"
        return Judgement(title, "keep", tone, "your configuration", code)
    names = names_of(study.kind, keep=False)
    said = f"{verdict.metric.label} {change_text(verdict.interval.ratio)} {range_text(verdict.interval)}"
    title = f"{sentence(verdict, names.subject, names.reference)}{company}"
    return Judgement(title, verdict.word.value, TONES[verdict.word], said, code)


def _company(result: Fields) -> str:
    """Return what makes an answer less certain, empty on a machine that was left to its study."""
    company = result.child("beside_others")
    if not company.members:
        return ""
    return f"; less certain, as others used the machine in {company.whole('runs')} of {company.whole('of')} runs"


def _tune(study: Study, result: Fields) -> Judgement | None:
    if not measured_only_baseline(result):
        return _comparison(study, result)
    said = "no configuration but the baseline was measured"
    return Judgement(f"Not resolved: {said}", Word.NOT_RESOLVED.value, Tone.UNSURE, said, ExitCode.NOT_RESOLVED)


JUDGES: Mapping[StudyKind, Callable[[Study, Fields], Judgement | None]] = {
    StudyKind.BENCH: _bench,
    StudyKind.AB: _comparison,
    StudyKind.TUNE: _tune,
}
"""The kinds that are judged here; the pages of the others have headlines of their own."""
