"""What a comparison or a search on a live load came to, in words; the words of verdicts are of the rule. Pure."""

from __future__ import annotations

import math

from pgdyno.model.results.live import LiveReference, LiveSearch, LiveSwitch
from pgdyno.model.verdict import Word
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import TONES, change_text, range_text, sentence, settings_text
from pgdyno.stats.body_index import StatementReference
from pgdyno.stats.period_choice import FEWEST_PAIRS, LENGTHS, covering_s, wash_of
from pgdyno.units import digits_text, plural, seconds_text

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


def held(covered: float, period_s: float, reference: StatementReference) -> str:
    """Return that too little of the time is in a body for a claim, and which periods would hold enough of it.

    A statement that runs rarely, or whose calls scatter as widely as those that wait for a lock, is told by long
    periods alone, and these must have neighbours in the reference.
    """
    said = (
        f"the statements that a period of {seconds_text(period_s)} resolves hold {100 * covered:.0f} % of the time, at "
        "least half is needed"
    )
    counted_s = covering_s(reference)
    if not math.isfinite(counted_s):
        return f"{said}; how the calls of the others scatter is not known"
    longer = next((one for one in LENGTHS if one > period_s and one - wash_of(one) >= counted_s), None)
    if longer is None:
        return f"{said}, which periods of {seconds_text(counted_s + wash_of(counted_s))} would hold"
    least_s = (FEWEST_PAIRS + 1) * longer
    watch = f"; watch it for {seconds_text(least_s)} or more" if reference.seconds < least_s else ""
    return f"{said}, which periods of {seconds_text(longer)} would hold{watch}"


KEEP = "keep"
FOUND, AS_IT_IS = "what was found", "the server as it is"


def search_judgement(search: LiveSearch) -> Judgement:
    """Return what came of a search: what is offered, or that the settings stay."""
    winner, code = search.winner, search.exit_code
    if winner is not None and winner.verdict is not None:
        words = sentence(winner.verdict, FOUND, AS_IT_IS)
        title = f"{settings_text(winner.b)}: {words[:1].lower()}{words[1:]}"
        said = f"{winner.verdict.metric.label} {change_text(winner.verdict.interval.ratio)}"
        said += f" {range_text(winner.verdict.interval)}"
        return Judgement(title, winner.verdict.word.value, TONES[winner.verdict.word], said, code)
    if search.is_restored:
        return Judgement(f"No verdict: {search.stopped}", Word.NOT_RESOLVED.value, Tone.UNSURE, search.stopped, code)
    tried = [one for one in search.candidates if one.pairs]
    if not tried:
        return Judgement(f"No candidate was measured: {search.stopped}", KEEP, Tone.UNSURE, search.stopped, code)
    shown = f"{plural(len(search.finals), 'finalist')} of {plural(len(tried), 'candidate')}"
    why = f"none of {shown} was confirmed" if search.finals else f"none of {plural(len(tried), 'candidate')} stood out"
    if early := next((one.stopped for one in reversed(search.finals) if one.stopped), ""):
        why += f"; it ended early: {early}"
    return Judgement(f"Keep your settings: {why}", KEEP, Tone.NEUTRAL, why, code)


def uncured(reference: LiveReference, search: LiveSearch, cores: object) -> tuple[str, ...]:
    """Return a note where CPUs were saturated and would still be so with the fastest configuration tried.

    By Little's law processes that compute are proportional to the time that the same calls take; those that wait for
    locks, disks or clients are none of them. Nothing where `cores` or their number are not known, there was a core for
    each of them half of the time, or nothing was measured.
    """
    tried = [one.ratio for one in search.candidates if one.ratio is not None]
    tried += [one.verdict.interval.ratio for one in search.finals if one.verdict is not None]
    computing = reference.computing_median
    if not isinstance(cores, int) or computing is None or computing <= cores or not tried:
        return ()
    least = min(1.0, *tried) * computing
    if least <= cores:
        return ()
    return (
        f"the CPUs are saturated, and no setting that was tried cures that: half of the time "
        f"{digits_text(computing, 2)} processes or more computed or waited for a CPU on {plural(cores, 'core')}, and "
        f"with the fastest configuration that was measured it would be about {digits_text(least, 2)}. Fewer sessions "
        "at a time (a connection pool), cheaper statements or more cores help: see pgdyno advise",
    )
