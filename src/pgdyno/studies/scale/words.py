"""What a scalability study came to, in words; a level is always a per cent of production. Pure."""

from __future__ import annotations

from pgdyno.errors import ExitCode
from pgdyno.model.results.scale import ClientCurve, Constancy, LawFigure, LevelCheck, LevelFigures, ScaleResult
from pgdyno.model.verdict import Metric
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import number_text, range_text
from pgdyno.stats.ratios import signed
from pgdyno.studies.scale.plan import is_even
from pgdyno.units import digits_text, plural

TONES = {
    Constancy.CONSTANT: Tone.GOOD,
    Constancy.NOT_CONSTANT: Tone.BAD,
    Constancy.NOT_RESOLVED: Tone.UNSURE,
}


def judgement(result: ScaleResult) -> Judgement:
    """Return whether all levels answer as the reference does."""
    told = counts_text(result)
    title = f"{result.plan}: {told} against the {result.reference:g} % level"
    if result.ended:
        title += f"; ended early, as {result.ended}"
    alert = ""
    if result.exit_code is ExitCode.FINDINGS:
        found = [f"{one.percent:g} %" for one in result.levels if one.standing is Constancy.NOT_CONSTANT]
        alert = f"{result.plan}: not constant at the {' and '.join(found)} level{'s' * (len(found) > 1)}"
    return Judgement(title, result.standing.value, TONES[result.standing], told, result.exit_code, alert)


def counts_text(result: ScaleResult) -> str:
    """Count the levels beside the reference by their word."""
    words = [one.standing for one in result.levels if one.percent != result.reference]
    counts = {word: words.count(word) for word in Constancy}
    told = ", ".join(f"{count} {word.value}" for word, count in counts.items() if count)
    return f"{told or 'none'} of {plural(len(words), 'level')}"


def level_sentence(one: LevelFigures, result: ScaleResult) -> str:
    """Say how one level stands, by which criterion, and what limited it."""
    if one.percent == result.reference:
        standing = "" if one.standing is Constancy.CONSTANT else f", {one.standing.value}: {one.reason}"
        said = f"Level {one.percent:g} %: the reference{standing}"
    else:
        deciding = [check for check in one.checks if check.word is one.standing]
        why = one.reason or ", ".join(map(check_text, deciding))
        said = f"Level {one.percent:g} %: {one.standing.value}{f' ({why})' if why else ''}"
    return f"{said}; limited by {one.bottleneck}." if one.bottleneck else f"{said}."


def check_text(one: LevelCheck) -> str:
    """Return a criterion with its ratio, interval and tolerance."""
    if one.ratio is None:
        return f"{one.criterion} not resolved in {plural(one.pairs, 'pair')}"
    return f"{one.criterion} {ratio_text(one)}, tolerance {100 * one.tolerance:g} %"


def ratio_text(one: LevelCheck) -> str:
    """Return how far a figure is from that of the reference, with its interval; too few pairs are told."""
    if one.ratio is None:
        return "too few pairs"
    return f"{signed(100 * (one.ratio.ratio - 1), 1)} % {range_text(one.ratio)}"


def runs_text(result: ScaleResult) -> str:
    """Say how many runs were made and how many qualified, and why the others did not."""
    made, used = sum(one.runs for one in result.levels), sum(len(one.qualified) for one in result.levels)
    others: dict[str, int] = {}
    for one in result.levels:
        for why, count in one.others.items():
            others[why] = others.get(why, 0) + count
    left = f": {', '.join(f'{count} {why}' for why, count in others.items())}" if others else ""
    return f"{plural(made, 'run')} of all levels; {used} qualified and shown, {made - used} counted only{left}."


def response_text(result: ScaleResult) -> str:
    """Return what the response time is."""
    return Metric(result.response).label


def curve_sentences(curve: ClientCurve) -> list[str]:
    """Say where throughput is greatest, whether it declines, and what the laws make of it."""
    peak, last = curve.peak, curve.loads[-1]
    if peak is None or peak.throughput is None:
        return ["No load of the client curve has a qualified run."]
    said = [f"Peak: {number_text(peak.throughput)} tps at {plural(peak.connections, 'connection')}."]
    if last.throughput is not None and last is not peak:
        lost = 100 * (1 - last.throughput / peak.throughput)
        said.append(f"Decline: {lost:.1f} % less at {last.connections}, the most that were run.")
    elif last is peak:
        said.append("No decline within the connections that were run: the most has the greatest throughput.")
    usl, amdahl = curve.usl, curve.amdahl
    if usl is not None and usl.declines:
        said.append(
            f"Universal Scalability Law: peak of {law_text(usl.limit)} tps at "
            f"{plural(law_text(usl.peak), 'connection')}, knee "
            f"at {law_text(usl.knee)}."
        )
    elif usl is not None:
        said.append(
            "Universal Scalability Law: these runs do not show that throughput falls beyond some load (coherency "
            f"{law_text(usl.coherency)})."
        )
    if amdahl is not None and not (usl is not None and usl.declines):
        limit, knee = law_text(amdahl.limit), law_text(amdahl.knee)
        said.append(f"Amdahl's law: a limit of {limit} tps, knee at {plural(knee, 'connection')}.")
    if curve.no_law:
        which = "No law is" if amdahl is None else "The Universal Scalability Law is not"
        said.append(f"{which} fitted: {curve.no_law}.")
    return said


def law_text(one: LawFigure) -> str:
    """Return a figure of a law with its interval; what has no bound is said to have none."""
    return f"{_figure(one.value)} [{_figure(one.lo)}, {_figure(one.hi)}]"


def _figure(value: float | None) -> str:
    return "no bound" if value is None else digits_text(value)


def proportion_text(result: ScaleResult) -> str:
    """Say whether the CPUs of several servers go with the load, as far as they are known."""
    known = {one.percent: one.cpus for one in result.levels if one.cpus is not None}
    hidden = [f"{one.percent:g} %" for one in result.levels if one.cpus is None]
    told = ", ".join(f"{percent:g} % on {cpus:g}" for percent, cpus in known.items())
    if is_even(cpus / percent for percent, cpus in known.items()):
        said = (
            f"Their CPUs go with the load: {told}." if len(known) > 1 else "Whether CPUs go with the load is unknown."
        )
    else:
        said = f"Their CPUs do NOT go with the load, which the plan allows: {told}."
    return f"{said} The CPUs at {', '.join(hidden)} are unknown." if hidden else said
