"""What is said of two platforms: every sentence from the rows, none of them a verdict. Pure."""

from __future__ import annotations

from pgdyno.model.environment import same_environment
from pgdyno.model.facts import Unknown
from pgdyno.model.platform import Denominator, Matchup, PlatformComparison, PlatformRow, Ratio
from pgdyno.report.wording import capital
from pgdyno.stats.ratios import rounded
from pgdyno.store.codec import to_json
from pgdyno.units import plural


def title(comparison: PlatformComparison) -> str:
    """Say the headline with its denominator, and whether another denominator turns the order round."""
    a, b, best = comparison.a.name, comparison.b.name, comparison.best
    if comparison.invalid:
        return f"The comparison of {a} and {b} is invalid: {comparison.invalid[0]}"
    if best is None:
        return f"Nothing of {a} and {b} can be compared"
    head = headline(best)
    known = [one for one in best.ratios if isinstance(one.ratio, float) and not one.is_estimate]
    turned = [one for one in known if (number(one) > 1) is not (number(head) > 1) and number(one) != 1]
    also = f"; but {said(turned[0])}: the order depends on the denominator" if turned else ""
    by = capital(head.denominator.value)
    noise = ", within the scatter of the runs" if is_scatter(head) else ""
    return f"{by}, {a} does {rounded(number(head))} times what {b} does, each at its own best{noise}{also}"


def is_scatter(ratio: Ratio) -> bool:
    """Tell whether repeated runs scatter more than the platforms differ by this ratio."""
    return ratio.interval is not None and ratio.interval.lo <= 1 <= ratio.interval.hi


def headline(best: Matchup) -> Ratio:
    """Return the ratio that is named first: per core where the cores of both are known, else in total."""
    core = best.by(Denominator.CORE)
    return core if isinstance(core.ratio, float) else best.by(Denominator.TOTAL)


def caution_sentences(comparison: PlatformComparison) -> tuple[str, ...]:
    """Say what weakens the figures of a comparison that is valid."""
    a, b, found = comparison.a, comparison.b, []
    if comparison.unchecked:
        names = ", ".join(comparison.unchecked)
        found.append(f"not known of both, so that nobody could see whether they agree: {names}")
    if same_environment(a.environment, b.environment):
        found.append(f"both were measured in environment {a.environment}: these are two moments of one platform")
    if any(row.durability == "X" for row in (*a.rows, *b.rows)):
        found.append(
            "rows marked [X] were measured with settings that can lose committed data: a measurement, no advice"
        )
    if comparison.best is None:
        return tuple(found)
    head = headline(comparison.best)
    interval = head.interval
    if interval is None:
        found.append("there is no interval, because one side or both have a single run of a load")
    elif is_scatter(head):
        found.append(
            f"the runs scatter more than the platforms differ: {interval.confidence * 100:g} % interval "
            f"[{rounded(interval.lo)}, {rounded(interval.hi)}]"
        )
    return tuple(found)


def equal_load_sentences(comparison: PlatformComparison) -> tuple[str, ...]:
    """Say what came of each load that both platforms had, and which of them is past its best there."""
    shown = (Denominator.CORE, Denominator.THREAD, Denominator.TOTAL)
    found = []
    for one in comparison.equal:
        figures = ", ".join(said(one.by(name)) for name in shown if isinstance(one.by(name).ratio, float))
        past = f"; this is past the best of {' and of '.join(one.past_best)}" if one.past_best else ""
        found.append(f"At equal load, {place_text(comparison, one)}: {figures or 'no ratio is known'}{past}.")
    return tuple(found)


def place_text(comparison: PlatformComparison, matchup: Matchup) -> str:
    """Write a load, with the configuration and mode where the rows have several."""
    return ", ".join([*kind_names(comparison, matchup), load_text(matchup.a)])


def kind_names(comparison: PlatformComparison, matchup: Matchup) -> list[str]:
    """Return the configuration and the mode of a matchup, each where the rows have several."""
    return [
        word
        for word, every in (
            (matchup.a.configuration, {row.configuration for row in comparison.a.rows}),
            (matchup.a.mode, {row.mode for row in comparison.a.rows}),
        )
        if len(every) > 1
    ]


def headroom_sentences(comparison: PlatformComparison) -> tuple[str, ...]:
    """Say how much CPU each platform had left at its best row."""
    if comparison.best is None:
        return ()
    sides = ((comparison.a, comparison.best.a), (comparison.b, comparison.best.b))
    return tuple(
        f"{platform.name} used {rounded(row.cpu_pct)} % of its CPU at its best, {load_text(row)}: "
        f"{rounded(100 - row.cpu_pct)} % was left."
        if row.cpu_pct is not None
        else f"How much CPU {platform.name} had left at its best is unknown: CPU % was not recorded."
        for platform, row in sides
    )


def unknown_sentences(matchup: Matchup) -> tuple[str, ...]:
    """Say why a ratio is not known."""
    return tuple(
        f"{capital(one.denominator.value)} is unknown ({one.ratio.reason})."
        for one in matchup.ratios
        if isinstance(one.ratio, Unknown)
    )


def comparison_json(comparison: PlatformComparison) -> dict[str, object]:
    """Return the comparison as one JSON object, with the sentences of the page; what is not known says why."""
    said = {
        "title": title(comparison),
        "sentences": [*equal_load_sentences(comparison)],
        "headroom": [*headroom_sentences(comparison)],
        "cautions": [*caution_sentences(comparison)],
    }
    values = to_json(comparison)
    assert isinstance(values, dict), "a dataclass becomes an object"
    return {"valid": not comparison.invalid, **said, **values}


def said(one: Ratio) -> str:
    """Write a ratio with its denominator: `per core 2.72 times`."""
    return f"{one.denominator.value} {rounded(number(one))} times"


def number(one: Ratio) -> float:
    """Return the ratio, 1 where it is not known."""
    return one.ratio if isinstance(one.ratio, float) else 1.0


def load_text(row: PlatformRow) -> str:
    """Write a load as the sources do: instances times clients."""
    each = plural(row.clients, "client")
    return each if row.instances == 1 else f"{plural(row.instances, 'instance')} of {each}"
