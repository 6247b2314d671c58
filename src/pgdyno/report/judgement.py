"""What a study came to: one object from which headline, exit code, JSON, alert and dashboard speak. Pure.

A figure is in a headline only where it rests on a run that was used; what was measured and not used is named as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import Compared, RunsBesideOthers
from pgdyno.model.study import Study, StudyState
from pgdyno.model.verdict import Verdict
from pgdyno.report.wording import TONES, Tone, change_text, range_text, sentence

_STATE_TONES = {StudyState.FAILED: Tone.BAD, StudyState.INTERRUPTED: Tone.UNSURE}


@dataclass(frozen=True, slots=True)
class SideNames:
    """How the two sides of a comparison are called."""

    subject: str
    reference: str


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


def standing(study: Study) -> Judgement:
    """Return how a study stands, which is no answer."""
    tone = _STATE_TONES.get(study.state, Tone.UNSURE)
    code = ExitCode.OK if study.result is None else study.result.exit_code
    return Judgement(f"No verdict: {standing_text(study)}", study.state.value, tone, code=code)


def standing_text(study: Study) -> str:
    """Return how a study stands as a sentence."""
    return "the study failed" if study.state is StudyState.FAILED else f"the study is {study.state.value}"


def compared(result: Compared, verdict: Verdict, names: SideNames) -> Judgement:
    """Return the judgement of one side against the other."""
    said = f"{verdict.metric.label} {change_text(verdict.interval.ratio)} {range_text(verdict.interval)}"
    title = f"{sentence(verdict, names.subject, names.reference)}{company_text(result.beside_others)}"
    return Judgement(title, verdict.word.value, TONES[verdict.word], said, result.exit_code)


def company_text(company: RunsBesideOthers | None) -> str:
    """Return what makes an answer less certain, empty on a machine that was left to its study."""
    if company is None:
        return ""
    return f"; less certain, as others used the machine in {company.runs} of {company.of} runs"
