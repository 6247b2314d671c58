"""The statistical answer to "is B better than A?", and the words for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from pgdyno.model.shapes import FLAT
from pgdyno.units import digits_text, plural

STRICT_CONFIDENCE, STRICT_MIN_PAIRS = 0.9975, 4
"""The rule where nothing says otherwise for comparisons that are run again and again, night after night: 20 of them
with nothing to find make no claim, with a probability of 95 %."""


class Word(StrEnum):
    """The only words in which a comparison may end. They come from the rule in `stats`, never from a hand."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NOT_RESOLVED = "not resolved"


class Metric(StrEnum):
    """What is compared. The ratio is always B over A; for latency and CPU a ratio below 1 is an improvement."""

    THROUGHPUT = "throughput"
    LATENCY_P50 = "latency_p50"
    LATENCY_P95 = "latency_p95"
    LATENCY_P99 = "latency_p99"
    SERVER_CPU = "server_cpu_ms_per_tx"
    STATEMENT_TIME = "statement_time"
    """Of a live load, as a ratio alone (`stats/body_index.py`): no run has a figure of it."""

    @property
    def higher_is_better(self) -> bool:
        """Return True when a larger value is the better one."""
        return self is Metric.THROUGHPUT

    def better(self, one: float, other: float) -> float:
        """Return the better of two figures."""
        return max(one, other) if self.higher_is_better else min(one, other)

    @property
    def unit(self) -> str:
        """Return the unit of its figures."""
        return "tps" if self is Metric.THROUGHPUT else "ms"

    @property
    def short(self) -> str:
        """Return its name where there is little room; that of throughput is its unit."""
        return _SHORT[self]

    @property
    def label(self) -> str:
        """Return what people call it, in sentences, tables and charts."""
        return _LABELS[self]


_LABELS = {
    Metric.THROUGHPUT: "throughput",
    Metric.LATENCY_P50: "median latency",
    Metric.LATENCY_P95: "p95 latency",
    Metric.LATENCY_P99: "p99 latency",
    Metric.SERVER_CPU: "server CPU per transaction",
    Metric.STATEMENT_TIME: "statement time",
}
RUN_METRICS = tuple(metric for metric in Metric if metric is not Metric.STATEMENT_TIME)
"""What a run has figures of."""
LATENCIES = (Metric.LATENCY_P50, Metric.LATENCY_P95, Metric.LATENCY_P99)


_SHORT = {
    Metric.THROUGHPUT: "",
    Metric.LATENCY_P50: "p50",
    Metric.LATENCY_P95: "p95",
    Metric.LATENCY_P99: "p99",
    Metric.SERVER_CPU: "server CPU/tx",
    Metric.STATEMENT_TIME: "statements",
}


FAR = 1000
"""A bound beyond so many times, or below as small a part, bounds nothing: two or three pairs leave such ones."""


@dataclass(frozen=True, slots=True)
class IntervalForm:
    """An interval in JSON, which has no infinity: an upper end that does not exist is null."""

    ratio: float
    ci: tuple[float, float | None]
    confidence: float


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of a ratio with its confidence interval; `confidence` such as 0.95."""

    FORM: ClassVar = IntervalForm

    ratio: float
    lo: float
    hi: float
    confidence: float

    @property
    def is_closed(self) -> bool:
        """Return True where it has an upper end: too few pairs give none."""
        return math.isfinite(self.hi)

    def form(self) -> IntervalForm:
        """Return it as JSON has it."""
        return IntervalForm(self.ratio, (self.lo, self.hi if self.is_closed else None), self.confidence)

    @classmethod
    def of_form(cls, form: IntervalForm) -> Interval:
        """Return what JSON says."""
        low, high = form.ci
        return cls(form.ratio, low, math.inf if high is None else high, form.confidence)

    def __str__(self) -> str:
        return f"{digits_text(self.ratio)}x {self.bounds_text()}"

    def bounds_text(self) -> str:
        """Write the bounds as ratios; the digits of one that bounds nothing would only look exact."""
        if not self.is_closed:
            return f"[{NO_INTERVAL}]"
        low = "below 0.001" if self.lo < 1 / FAR else digits_text(self.lo)
        high = f"over {FAR:,}" if self.hi > FAR else digits_text(self.hi)
        return f"[{low}, {high}]"


NO_INTERVAL = "no interval yet"
"""What stands for the bounds of too few pairs."""
MOST_SAID = 1000
"""More missing pairs than these are not counted for people: the estimate rests on a handful."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one metric.

    `smallest_effect` is the smallest effect of interest as a ratio distance (0.02 = 2 %): an interval wholly inside
    [1/(1+s), 1+s] is *equivalent*. `more_pairs` estimates, for *not resolved* only, how many more pairs would
    resolve it; None when that cannot be said.
    """

    word: Word
    interval: Annotated[Interval, FLAT]
    pairs: int
    metric: Metric
    smallest_effect: float
    more_pairs: int | None = None

    def sentence(self, subject: str = "B", reference: str = "A") -> str:
        """Return the verdict as one clause for people, for terminal and reports alike."""
        figures = f"{self.metric.label} {self.interval} of {reference}, {plural(self.pairs, 'interleaved pair')}"
        if self.word is Word.NOT_RESOLVED:
            return f"not resolved{self._missing()}: {subject} has {figures}"
        if self.word is Word.EQUIVALENT:
            return f"equivalent within {100 * self.smallest_effect:g} %: {subject} has {figures}"
        return f"{subject} is {self.word.value}: {figures}"

    def _missing(self) -> str:
        if self.more_pairs is None:
            return ""
        if self.more_pairs > MOST_SAID:
            return f" (more than {MOST_SAID:,} more pairs)"
        return f" (about {plural(self.more_pairs, 'more pair')})"
