"""What a study of two arms on a live load came to, in words; the verdict's own words are those of the rule. Pure."""

from __future__ import annotations

from pgdyno.model.results.live import LiveSwitch
from pgdyno.model.verdict import Word
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import TONES, change_text, range_text, sentence
from pgdyno.units import plural

REJECTED = "rejected"
"""The ending of a study whose plan a person turned down."""


def judgement(switch: LiveSwitch) -> Judgement:
    """Return what a study of two arms came to, in words; those of the verdict are the rule's."""
    verdict, code = switch.verdict, switch.exit_code
    if switch.ending == REJECTED:
        return Judgement(f"No verdict: {switch.stopped}", REJECTED, Tone.UNSURE, REJECTED, code)
    if verdict is None or (switch.is_restored and verdict.word in (Word.NOT_RESOLVED, Word.EQUIVALENT)):
        because = switch.stopped or next(iter(switch.against), f"the study ended: {switch.ending}")
        title = f"No verdict: {because}"
        return Judgement(title, Word.NOT_RESOLVED.value, Tone.UNSURE, because, code)
    if switch.says_nothing:
        return Judgement(f"Not tested: {switch.not_tested}", Word.NOT_RESOLVED.value, Tone.UNSURE, "not tested", code)
    title = sentence(verdict, "B", "A")
    if switch.against:
        more = f", and {plural(len(switch.against) - 1, 'more reason')}" if len(switch.against) > 1 else ""
        title += f"; not to be accepted: {switch.against[0]}{more}"
    elif switch.stopped:
        title += f"; it ended early: {switch.stopped}"
    said = f"{verdict.metric.label} {change_text(verdict.interval.ratio)} {range_text(verdict.interval)}"
    tone = Tone.BAD if switch.against and verdict.word is Word.BETTER else TONES[verdict.word]
    return Judgement(title, verdict.word.value, tone, said, code)
