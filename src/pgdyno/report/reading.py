"""Read the JSON of `Study.result` back into typed values; what a kind of study does not have is None or empty.

Pure. A value of the wrong shape counts as absent: a report of an old or unfinished study must still be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.model.study import Effect, Unmeasured
from pgdyno.model.verdict import Interval, Metric, Verdict, Word


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object with typed access to its members."""

    members: Mapping[str, object]

    def number(self, name: str) -> float | None:
        """Return a number, or None; a boolean is not a number."""
        value = self.members.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def whole(self, name: str) -> int | None:
        """Return an integer, or None."""
        value = self.number(name)
        return None if value is None else int(value)

    def text(self, name: str) -> str:
        """Return a text; empty when it is absent."""
        value = self.members.get(name)
        return "" if value is None or isinstance(value, Mapping | list) else str(value)

    def flag(self, name: str) -> bool:
        """Return True only when the member is the JSON value true."""
        return self.members.get(name) is True

    def child(self, name: str) -> Fields:
        """Return a member object; an empty one when it is absent."""
        value = self.members.get(name)
        return Fields(value if isinstance(value, Mapping) else {})

    def children(self, name: str) -> tuple[Fields, ...]:
        """Return the objects of a member list."""
        return tuple(Fields(item) for item in self._items(name) if isinstance(item, Mapping))

    def count(self, name: str) -> int:
        """Return how many members a list has, 0 where it is missing."""
        return len(self._items(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a member list; one text counts as a list of one."""
        value = self.members.get(name)
        return (value,) if isinstance(value, str) and value else tuple(str(item) for item in self._items(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers; what is none is left out."""
        return tuple(one for one in self._items(name) if isinstance(one, int) and not isinstance(one, bool))

    def settings(self, name: str) -> Mapping[str, str]:
        """Return a member object of texts, such as the settings of a configuration."""
        return {str(key): str(value) for key, value in self.child(name).members.items()}

    def bounds(self, name: str) -> tuple[float, float] | None:
        """Return a list of two numbers, the lower one first, or None."""
        values = [float(item) for item in self._items(name) if isinstance(item, int | float)]
        return (values[0], values[1]) if len(values) == 2 else None

    def _items(self, name: str) -> Sequence[object]:
        value = self.members.get(name)
        return value if isinstance(value, list | tuple) else ()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison as the result tells it; `run` is the trial that stands for it in the recorder."""

    settings: Mapping[str, str]
    throughput: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    server_cpu_ms_per_tx: float | None
    run: int | None

    def value(self, metric: Metric) -> float | None:
        """Return the figure of one metric."""
        return {
            Metric.THROUGHPUT: self.throughput,
            Metric.LATENCY_P50: self.p50,
            Metric.LATENCY_P95: self.p95,
            Metric.LATENCY_P99: self.p99,
            Metric.SERVER_CPU: self.server_cpu_ms_per_tx,
        }[metric]


@dataclass(frozen=True, slots=True)
class PairReading:
    """One interleaved pair: its block and the runs of its two sides, with their figures of the study's metric."""

    block: str
    a: float | None
    b: float | None
    a_run: int | None
    b_run: int | None


def interval_of(fields: Fields) -> Interval | None:
    """Read a ratio with its interval; None when either is absent."""
    ratio, bounds = fields.number("ratio"), fields.bounds("ci")
    return None if ratio is None or bounds is None else Interval(ratio, *bounds, fields.number("confidence") or 0.95)


def open_interval_of(fields: Fields) -> Interval | None:
    """Read a ratio whose interval may have no upper end, as after too few pairs: there it is infinite."""
    ratio, ends = fields.number("ratio"), fields.members.get("ci")
    if ratio is not None and isinstance(ends, list | tuple) and len(ends) == 2 and ends[1] is None:
        return Interval(ratio, float(ends[0] or 0.0), math.inf, fields.number("confidence") or 0.95)
    return interval_of(fields)


def verdict_of(fields: Fields, interval: Interval | None = None) -> Verdict | None:
    """Read a verdict object; None when it lacks its word, metric or interval, which may be given."""
    interval = interval or interval_of(fields)
    if interval is None or fields.text("word") not in {*Word} or fields.text("metric") not in {*Metric}:
        return None
    return Verdict(
        word=Word(fields.text("word")),
        interval=interval,
        pairs=fields.whole("pairs") or 0,
        metric=Metric(fields.text("metric")),
        smallest_effect=fields.number("smallest_effect") or 0.0,
        more_pairs=fields.whole("more_pairs"),
    )


def open_verdict_of(fields: Fields) -> Verdict | None:
    """Read a verdict whose interval may have no upper end, as after too few pairs."""
    return verdict_of(fields, open_interval_of(fields))


def measured_only_baseline(result: Fields) -> bool:
    """Return True for a tune that had nothing to compare: no configuration but the baseline was measured."""
    return result.flag("keep") and not result.child("verdict").members


def verdicts_of(result: Fields) -> tuple[Verdict, ...]:
    """Return the verdicts on the metrics that are not the study's own."""
    return tuple(verdict for item in result.children("others") if (verdict := verdict_of(item)) is not None)


def side_of(fields: Fields) -> Side:
    """Read `baseline`, `winner`, `a` or `b`, or a whole bench result."""
    latency = fields.child("latency_ms")
    return Side(
        settings=fields.settings("settings"),
        throughput=fields.number("throughput") or fields.number("tps"),
        p50=latency.number("p50"),
        p95=latency.number("p95"),
        p99=latency.number("p99"),
        server_cpu_ms_per_tx=fields.number("server_cpu_ms_per_tx"),
        run=fields.whole("run"),
    )


def sides_of(result: Fields) -> tuple[Side, Side]:
    """Return reference and subject of a comparison; of an A/B experiment A and B."""
    return side_of(result.child("baseline")), side_of(result.child("winner"))


def effects_of(result: Fields, confidence: float) -> tuple[Effect, ...]:
    """Return the effects of the retained settings, the largest first."""
    found = []
    for item in result.children("effects"):
        ratio, bounds = item.number("ratio"), item.bounds("ci")
        if ratio is not None and ratio > 0 and bounds is not None:
            found.append(
                Effect(
                    knob=item.text("knob"),
                    before=item.text("from"),
                    after=item.text("to"),
                    interval=Interval(ratio, *bounds, item.number("confidence") or confidence),
                    why=item.text("why"),
                    durability=item.text("durability"),
                    context=item.text("context"),
                )
            )
    return tuple(sorted(found, key=lambda effect: -abs(math.log(effect.interval.ratio))))


def unmeasured_of(result: Fields) -> tuple[Unmeasured, ...]:
    """Return the retained settings whose own effect was not measured."""
    return tuple(
        Unmeasured(*(item.text(name) for name in ("knob", "from", "to", "why", "durability", "context")))
        for item in result.children("unmeasured")
    )


def pairs_of(result: Fields) -> tuple[PairReading, ...]:
    """Return the pairs behind the verdict: of the confirmation, or of an A/B experiment."""
    items = result.child("confirmation").children("pairs") or result.children("pairs")
    return tuple(
        PairReading(item.text("block"), item.number("a"), item.number("b"), item.whole("a_run"), item.whole("b_run"))
        for item in items
    )
