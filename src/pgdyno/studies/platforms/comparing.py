"""Compare two platforms by their rows: every denominator, at equal load and each at its own best. Pure.

Runs of two machines cannot be interleaved, so no verdict's word is ever said here: a ratio is stated, with an interval
from the scatter of repeated runs where both sides have them, and all that is unlike is listed beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.facts import Unknown
from pgdyno.model.platform import (
    Denominator,
    Difference,
    Matchup,
    Platform,
    PlatformComparison,
    PlatformRow,
    Ratio,
)
from pgdyno.model.verdict import Interval
from pgdyno.stats.paired import ratio_interval
from pgdyno.stats.ratios import per

CONFIDENCE = 0.95
CONFIGURATION = "configuration"
MUST_AGREE = ("workload", "data set", "driver", "period", CONFIGURATION)


def compare_platforms(a: Platform, b: Platform, *, own_settings: bool = False) -> PlatformComparison:
    """Return what the rows of A and B allow to say, A over B.

    `own_settings` accepts that each platform has settings of its own: they are then listed as unlike.
    """
    shared = [what for what in a.same if what in b.same]
    differing = [(what, a.same[what], b.same[what]) for what in shared if a.same[what] != b.same[what]]
    accepted = {what for what in shared if own_settings and what.startswith(CONFIGURATION)}
    invalid = [
        f"{what} differs: {left} on {a.name}, {right} on {b.name}"
        for what, left, right in differing
        if what not in accepted
    ]
    equal = _equal_loads(a, b)
    best = _best(a, b)
    if best is None:
        invalid.append("the two have no row of the same configuration and mode")
    elif not equal:
        invalid.append("no load was measured on both platforms")
    listed = [Difference(what, left, right) for what, left, right in differing if what in accepted]
    return PlatformComparison(
        a=a,
        b=b,
        best=None if invalid else best,
        equal=() if invalid else equal,
        unlike=(*listed, *_unlike(a, b, best)),
        invalid=tuple(invalid),
        unchecked=tuple(what for what in MUST_AGREE if what not in shared),
    )


def best_row(rows: Sequence[PlatformRow]) -> PlatformRow:
    """Return the row of the highest throughput; the smaller load where two are equal."""
    return max(rows, key=lambda row: (row.tps, -row.connections))


def _equal_loads(a: Platform, b: Platform) -> tuple[Matchup, ...]:
    there = {row.load: row for row in b.rows}
    shared = [(row, there[row.load]) for row in a.rows if row.load in there]
    shared.sort(key=lambda rows: (rows[0].configuration, rows[0].mode, rows[0].connections, rows[0].instances))
    return tuple(_matchup(a, b, left, right) for left, right in shared)


def _best(a: Platform, b: Platform) -> Matchup | None:
    """Match the best rows of the configuration and mode in which the two together did most."""
    kinds = {row.kind for row in a.rows} & {row.kind for row in b.rows}
    unsafe = {row.kind for row in (*a.rows, *b.rows) if row.durability == "X"}
    pairs = [(best_row(_of(a, kind)), best_row(_of(b, kind))) for kind in sorted(kinds - unsafe or kinds)]
    if not pairs:
        return None
    left, right = max(pairs, key=lambda rows: rows[0].tps * rows[1].tps)
    return _matchup(a, b, left, right)


def _of(platform: Platform, kind: tuple[str, str]) -> list[PlatformRow]:
    return [row for row in platform.rows if row.kind == kind]


def _matchup(a: Platform, b: Platform, left: PlatformRow, right: PlatformRow) -> Matchup:
    past = tuple(
        platform.name
        for platform, row in ((a, left), (b, right))
        if best_row(_of(platform, row.kind)).connections < row.connections
    )
    scatter = ratio_interval(left.throughputs, right.throughputs, CONFIDENCE)
    ratios = [_ratio(one, (a, left), (b, right), scatter) for one in Denominator]
    return Matchup(left, right, tuple(one for one in ratios if one is not None), past)


def _ratio(
    denominator: Denominator,
    first: tuple[Platform, PlatformRow],
    second: tuple[Platform, PlatformRow],
    scatter: Interval | None,
) -> Ratio | None:
    if denominator is Denominator.PRICE and first[0].price is None and second[0].price is None:
        return None
    left, right = (units(denominator, platform, row) for platform, row in (first, second))
    a = left if isinstance(left, Unknown) else per(first[1].tps, left)
    b = right if isinstance(right, Unknown) else per(second[1].tps, right)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        who, why = (first[0], a) if isinstance(a, Unknown) else (second[0], b)
        return Ratio(denominator, a, b, Unknown(f"{who.name}: {why.reason if isinstance(why, Unknown) else ''}"))
    if b == 0:
        return Ratio(denominator, a, b, Unknown(f"{second[0].name} did nothing"))
    ratio = a / b
    if scatter is None:
        return Ratio(denominator, a, b, ratio)
    scale = ratio / scatter.ratio
    interval = Interval(ratio, scatter.lo * scale, scatter.hi * scale, scatter.confidence)
    return Ratio(denominator, a, b, ratio, interval)


def units(denominator: Denominator, platform: Platform, row: PlatformRow) -> float | Unknown:
    """Return what a row's throughput is divided by; unknown with the reason where it was not told."""
    match denominator:
        case Denominator.TOTAL:
            return 1.0
        case Denominator.CORE:
            return platform.cores
        case Denominator.THREAD:
            return platform.threads if row.threads is None else row.threads
        case Denominator.SOCKET:
            return platform.sockets
        case Denominator.VCPU:
            return platform.vcpus
        case Denominator.BUSY_CORE:
            if row.cpu_pct is None:
                return Unknown("CPU % was not recorded")
            return platform.cores if isinstance(platform.cores, Unknown) else platform.cores * row.cpu_pct / 100
        case Denominator.PRICE:
            return Unknown("no price was given") if platform.price is None else platform.price


def _unlike(a: Platform, b: Platform, best: Matchup | None) -> list[Difference]:
    names = [*a.unlike, *(name for name in b.unlike if name not in a.unlike)]
    found = [Difference(name, a.unlike.get(name), b.unlike.get(name)) for name in names]
    counts = [
        Difference(name, _count(left), _count(right))
        for name, left, right in (
            ("cores", a.cores, b.cores),
            ("threads", a.threads, b.threads),
            ("sockets", a.sockets, b.sockets),
            ("vCPUs", a.vcpus, b.vcpus),
        )
    ]
    if best is not None:
        left, right = (None if row.cpu_pct is None else f"{row.cpu_pct:.2f} %" for row in (best.a, best.b))
        counts.append(Difference("CPU used at the best row", left, right))
    return [one for one in (*counts, *found) if one.a != one.b]


def _count(value: int | Unknown) -> str | None:
    return None if isinstance(value, Unknown) else str(value)
