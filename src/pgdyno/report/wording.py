"""Numbers and verdicts in words: every sentence that claims something is made here from a measured value.

Pure. Ratios are B over A; a change of less than a doubling is told in percent, beyond that as a multiple.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from pgdyno.model.trial import LatencySummary, Role, TrialState
from pgdyno.model.verdict import FAR, Interval, Metric, Verdict, Word
from pgdyno.units import digits_text, first_text


class Tone(StrEnum):
    """How good the news is; always shown beside a word, never by colour alone."""

    GOOD = "good"
    BAD = "bad"
    NEUTRAL = "neutral"
    UNSURE = "unsure"


TONES = {
    Word.BETTER: Tone.GOOD,
    Word.WORSE: Tone.BAD,
    Word.EQUIVALENT: Tone.NEUTRAL,
    Word.NOT_RESOLVED: Tone.UNSURE,
}
ROLE_NAMES = {
    Role.BASELINE: "baseline",
    Role.SEARCH: "search",
    Role.CONFIRM: "proof",
    Role.PRUNE: "pruning",
    Role.EFFECT: "effect of one setting",
    Role.RIVAL: "rival",
    Role.ARM: "run",
    Role.CELL: "cell",
}
STRATEGIES = {
    "start": "a rule of thumb",
    "spread": "far from those tried",
    "local": "near the best so far",
    "model": "by the model",
    "anything": "any that was not tried",
}
"""Why a search tries a point, by the origin of its suggestion."""
PROVED = {"winner": "the winner", "found": "all that was found"}
CLIMBED = {"before": "without the step", "after": "with the step"}
"""What the arms of a proof and of a staircase's step are called for people."""
STATE_MEANINGS = {
    TrialState.RUNNING: "begun and not ended: it runs, or was killed",
    TrialState.COMPLETE: "measured and used",
    TrialState.DISTURBED: "measured while something else used the CPU; not used",
    TrialState.UNSTEADY: "never became steady; not used",
    TrialState.PARTIAL: "measured without all of its load generators; not used",
    TrialState.VOID: "the configuration was not in force, or the data broke their conditions; not used",
    TrialState.FAILED: "the server or the load failed",
    TrialState.REFUSED: "refused before it cost anything",
    TrialState.ABANDONED: "interrupted",
}
DURABILITY_MEANINGS = {
    "A": "A: performance only",
    "B": "B: memory or availability",
    "C": "C: recovery time or replication",
    "X": "X: can lose committed data",
}
CONTEXT_MEANINGS = {
    "postmaster": "restart",
    "sighup": "reload",
    "superuser": "reload",
    "user": "reload",
    "backend": "reload, new sessions",
    "superuser-backend": "reload, new sessions",
    "kernel": "root on the host",
}
NOT_MEASURED = "not measured"


def gained_text(metric: Metric) -> str:
    """Name what grows as a metric gets better: its inverse where less is better."""
    return metric.label if metric.higher_is_better else f"1 / {metric.label}"


def number_text(value: float | None) -> str:
    """Write a figure for people: thousands separated, three significant digits below a thousand."""
    if value is None:
        return NOT_MEASURED
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if 0 < abs(value) < 0.001:
        return "under 0.001"
    return f"{value:.3g}"


def metric_text(metric: Metric, value: float | None) -> str:
    """Write a figure with its unit and, where the unit does not tell, what it is of: `418 tps`, `p99 20.5 ms`."""
    return f"{metric.short} {quantity_text(value, metric.unit)}".lstrip()


def purpose_text(role: str, arm: str) -> str:
    """Say in plain words why a trial is run, from its role and the name of its arm."""
    name = ROLE_NAMES[Role(role)] if role in {*Role} else role
    if arm in ("", role, name, "bench"):
        return name
    if arm in STRATEGIES and role == Role.SEARCH:
        return f"{name}, {STRATEGIES[arm]}"
    if role in (Role.CONFIRM, Role.EFFECT):
        return f"proof, {PROVED.get(arm, arm)}"
    arm = CLIMBED.get(arm, arm)
    return arm if arm.startswith(f"{name} ") else f"{name} {arm}"


def rounded_text(value: float | None, digits: int = 2) -> str:
    """Write a figure of a table with so many decimals, rounded half up as people do; empty when it was not measured.

    2.675 comes as 2.68: what counts is the number as it is written, not its nearest binary fraction.
    """
    if value is None or not math.isfinite(value):
        return ""
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,f}"


def quantity_text(value: float | None, unit: str) -> str:
    """Write a figure with its unit, or say that it was not measured."""
    return NOT_MEASURED if value is None else f"{number_text(value)} {unit}"


def change_text(ratio: float) -> str:
    """Write a ratio as a change: `+11.8 %`, or `3.11x` from a doubling on."""
    return f"{digits_text(ratio)}x" if ratio >= 2 else f"{(ratio - 1) * 100:+.3g} %".replace("-", "−")


def range_text(interval: Interval) -> str:
    """Write the bounds of an interval in the form that `change_text` gives its estimate."""
    if interval.ratio >= 2 or not interval.is_closed:
        return interval.bounds_text()
    bounds = [(bound - 1) * 100 for bound in (interval.lo, interval.hi)]
    low, high = (f"{bound:+,.0f}" if abs(bound) >= 1000 else f"{bound:+.3g}" for bound in bounds)
    if interval.hi > FAR:
        return f"[{low} %, over {FAR:,}x]".replace("-", "−")
    return f"[{low}, {high}] %".replace("-", "−")


def bare_range_text(interval: Interval) -> str:
    """Write the bounds of an interval as ratios."""
    return interval.bounds_text()


def latency_text(latency: LatencySummary | None) -> str:
    """Write the percentiles of a run on one line; empty when they were not measured."""
    if latency is None:
        return ""
    named = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99, "p99.9": latency.p999, "max": latency.max}
    return f"{', '.join(f'{name} {number_text(value)}' for name, value in named.items())} ms"


def share_text(interval: Interval) -> str:
    """Write a ratio as a share of the whole: `102 % [83.5, 126]`."""
    return f"{digits_text(interval.ratio * 100)} % [{digits_text(interval.lo * 100)}, {digits_text(interval.hi * 100)}]"


def difference_text(interval: Interval, metric: Metric) -> str:
    """Say in words what an interval of a ratio shows of its subject."""
    if interval.lo <= 1 <= interval.hi:
        return "no difference is shown"
    return "that is better" if (interval.lo > 1) is metric.higher_is_better else "that is worse"


def sentence(verdict: Verdict, subject: str, reference: str) -> str:
    """Return the verdict's own sentence with a capital letter."""
    return capital(verdict.sentence(subject, reference))


def capital(text: str) -> str:
    """Return the text with its first letter large and the rest as it was."""
    return text[:1].upper() + text[1:]


def settings_text(settings: Mapping[str, str]) -> str:
    """Write a configuration on one line; the baseline is `as found`."""
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or "as found"


_NUMBER = re.compile(r"\d[\d.,]*")


_PROCESSES = re.compile(r"[^:;,]+ \(process 0\) 0 %(?:,[^:;,]+ \(process 0\) 0 %)*")
"""Who took the CPU, of a text whose numbers are all 0."""


def told_once(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts in their order; of those that are alike the first, with how many are like it.

    Alike are those that differ in numbers alone, or in which processes they name for the same.
    """
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_PROCESSES.sub("", _NUMBER.sub("0", text)), []).append(text)
    return tuple(first_text(same, "more like it") for same in alike.values())
