"""What a scalability study would do and came to, in words; a level is always a per cent of production. Pure."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import ExitCode
from pgdyno.model.results.scale import ClientCurve, Constancy, LawFigure, LevelCheck, LevelFigures, ScaleResult
from pgdyno.model.verdict import Metric
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import number_text, range_text
from pgdyno.stats.ratios import signed
from pgdyno.studies.scale.plan import ScalePlan, is_even
from pgdyno.units import digits_text, plural, seconds_text

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
        title += f"; ended early: {result.ended}"
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


def plan_lines(plan: ScalePlan, target: str, max_seconds: float, stop_file: Path | None) -> list[str]:
    """Return the plan: levels with hardware and load, the criterion, the order, then undo, outage and bounds.

    `target` names the servers, for people. The runs of `plan` end after `max_seconds` seconds at the latest, or when
    `stop_file` exists; None stands for no such file.
    """
    wanted, longest_s = plan.criterion, plan.runs * plan.run_s
    lines = [f"plan {plan.name}: {plural(len(plan.levels), 'level')} of {plan.workload} on {target}"]
    for level in plan.levels:
        mark = ", the reference" if level.percent == plan.reference else ""
        lines.append(f"  level {level.name} %: {plan.load_text(level)} on {level.hardware}{mark}")
    if plan.connections:
        told = ", ".join(map(str, plan.connections))
        lines.append(f"  client curve: {plural(told, 'connection')} in a closed loop on {plan.curve.hardware}")
    within = "" if wanted.within_ms is None else f", an answer after {wanted.within_ms:g} ms counts as a failure"
    lines.append(
        f"criterion: against the reference, success rate within {100 * wanted.success:g} %, "
        f"{wanted.metric.label} within {100 * wanted.response:g} %, path length within {100 * wanted.path:g} %{within}"
    )
    for repetition in range(1, plan.repetitions + 1):
        lines.append(f"  repetition {repetition}: {', '.join(spec.arm for spec in plan.specs(repetition))}")
    lines.append(
        f"load:   {plural(plan.runs, 'run')}, {seconds_text(longest_s)} under load, "
        f"{plural(plan.most_clients, 'connection')} at "
        "most; runs that are disturbed or unsteady are repeated; loading data comes on top"
    )
    if len(plan.targets) > 1:
        lines.append("servers: each has a study of its own, in one order of runs; only one is under load at a time")
    bound = any(level.cpus or level.memory_bytes for level in (*plan.levels, plan.curve))
    lines.append(
        "undo:   the limits on the server's CPUs and memory are in the undo bundle first; they are removed "
        "at the end, on Ctrl-C, and by the watchdog after a kill (pgdyno rollback)"
        if bound
        else "undo:   nothing on the server is changed but pgdyno's own databases, which are dropped"
    )
    lines.append(
        "outage: none, no restart; the limits also hold for other users of the server"
        if bound
        else "outage: none, no setting is touched"
    )
    stop = f", or when {stop_file} exists" if stop_file is not None else ""
    lines.append(f"ends:   after {seconds_text(max_seconds)} at the latest{stop}; what was measured by then is judged")
    return lines
