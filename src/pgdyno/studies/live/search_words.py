"""What a search on a live load came to, in words; the verdict's own words are those of the rule. Pure."""

from __future__ import annotations

from pgdyno.model.results.live import LiveReference, LiveSearch
from pgdyno.model.verdict import Word
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import TONES, change_text, range_text, sentence, settings_text
from pgdyno.units import digits_text, plural

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
    return Judgement(f"Keep your settings: {why}", KEEP, Tone.NEUTRAL, why, code)


def uncured(reference: LiveReference, search: LiveSearch, cores: object) -> tuple[str, ...]:
    """Return a note where the server was saturated and would still be so with the fastest configuration tried.

    By Little's law sessions at work are proportional to the time that the same calls take. Nothing where `cores` are
    not known, there was a core for each session at work half of the time, or nothing was measured.
    """
    tried = [one.ratio for one in search.candidates if one.ratio is not None]
    tried += [one.verdict.interval.ratio for one in search.finals if one.verdict is not None]
    if not isinstance(cores, int) or reference.active_median <= cores or not tried:
        return ()
    least = min(1.0, *tried) * reference.active_median
    if least <= cores:
        return ()
    return (
        f"the server is saturated, and no setting that was tried cures that: half of the time "
        f"{digits_text(reference.active_median, 2)} sessions or more were at work on {plural(cores, 'core')}, and with "
        f"the fastest configuration that was measured it would be about {digits_text(least, 2)}. Fewer sessions at a "
        "time (a connection pool), cheaper statements or more cores help: see pgdyno advise",
    )
