"""Judges of the rules on statements: what the application asks for usually matters more than any setting."""

from __future__ import annotations

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.planned import MEAN_OF_ALL
from pgdyno.model.evidence import Statement
from pgdyno.model.facts import Unknown
from pgdyno.units import percent_text, plural, rate_text

DOMINANT = 0.25
SLOW_MS = 10.0
MANY_READS = 100.0
TINY_MS = 1.0
TINY_ROWS = 1.5
TINY_SHARE = 0.5
TINY_CALLS = 1000
TINY_CALLS_S = 100.0
LEAST_MS = 1000.0
"""A statement that took less than a second in all cannot be why a server is slow."""
OF_THE_TIME = 0.01
LONG_MS = 60_000.0
"""Since a reset that may be months ago a minute is the least."""
_UTILITY = ("create", "alter", "drop", "vacuum", "analyze", "copy", "truncate", "cluster", "reindex", "checkpoint")
_CONTROL = ("begin", "commit", "end", "start transaction", "rollback", "set ", "show ", "savepoint", "release")


def statements_first(case: Case) -> Judgement:
    """Name the statements that take the time where one of them costs more than it should."""
    statements = _statements(case)
    least = _least_ms(case)
    heavy = sorted((one for one in statements if _inefficient(one, least)), key=lambda one: -one.time_share)
    if not heavy:
        return InOrder("No statement takes a quarter of the time with slow calls, spills or many reads.", of_load=True)
    share = sum(one.time_share for one in heavy)
    return Fires(
        current=f"{len(heavy)} statement{'s take' if len(heavy) > 1 else ' takes'} {percent_text(share)} of the time",
        proposed="EXPLAIN (ANALYZE, BUFFERS) of each; an index or another form of the statement",
        values={"share": percent_text(share)},
        evidence=(*(_sentence(one) for one in heavy[:5]), *_since(case)),
    )


def _since(case: Case) -> tuple[str, ...]:
    """Say of sums since a reset that what was done since then does not show in them."""
    counted = case.evidence.statistics
    if isinstance(counted, Unknown) or not counted.window.is_mean_of_all:
        return ()
    return (
        "These are sums since their statistics were reset: an index or a better text that came since then shows only "
        "with --window SECONDS, or after pg_stat_statements_reset().",
    )


def _least_ms(case: Case) -> float:
    """Return the time below which a statement cannot be why a server is slow: a hundredth of a watched window."""
    counted = case.evidence.statistics
    if isinstance(counted, Unknown):
        return LEAST_MS
    if counted.window.is_mean_of_all:
        return LONG_MS
    return max(LEAST_MS, 1000 * OF_THE_TIME * counted.window.seconds)


def _inefficient(one: Statement, least_ms: float) -> bool:
    costly = one.mean_ms >= SLOW_MS or one.reads_per_call >= MANY_READS or one.temp_blocks_per_call > 0
    worth = one.calls * one.mean_ms >= least_ms and not one.query.lower().lstrip().startswith(_UTILITY)
    return one.time_share >= DOMINANT and costly and worth


def _sentence(one: Statement) -> str:
    text = " ".join(one.query.split())
    where = f" in {one.database}" if one.database else ""
    return (
        f"{percent_text(one.time_share)} of the time{where}: {plural(one.calls, 'call')} of {one.mean_ms:.3g} ms, "
        f"{one.rows_per_call:.3g} rows and {one.reads_per_call:.3g} blocks read each: {text[:120]}"
    )


def tiny_requests(case: Case) -> Judgement:
    """Flag a load that mostly consists of very short calls for one row each."""
    counted = case.evidence.tiny_requests
    if isinstance(counted, Unknown):
        return _tiny_of_list(case)
    fact = f"{percent_text(counted.calls_share)} of the calls take less than {TINY_MS:g} ms and touch one row"
    rate = counted.calls_s
    few = counted.calls < TINY_CALLS if isinstance(rate, Unknown) else rate < TINY_CALLS_S
    if counted.calls_share < TINY_SHARE or few:
        return InOrder(f"{fact}: they do not dominate.", of_load=True)
    per_second = "" if isinstance(rate, Unknown) else f", {rate_text(rate)} a second"
    return _tiny(
        counted.calls_share,
        f"{fact}{per_second}; in the server they take {percent_text(counted.time_share)} of the time, "
        "and the round trips come on top.",
    )


def _tiny(share: float, *evidence: str) -> Fires:
    return Fires(
        current=f"{percent_text(share)} of the calls are tiny",
        proposed="fetch and change rows in sets, by arrays, joins or COPY",
        values={"share": percent_text(share)},
        evidence=evidence,
    )


def _tiny_of_list(case: Case) -> Judgement:
    statements = [one for one in _statements(case) if not one.query.lower().lstrip().startswith(_CONTROL)]
    total = sum(one.calls for one in statements)
    tiny = [one for one in statements if one.mean_ms < TINY_MS and one.rows_per_call <= TINY_ROWS]
    calls = sum(one.calls for one in tiny)
    if total == 0 or calls / total < TINY_SHARE or not _many(case, calls):
        text = f"{calls} of {total} calls are tiny (below {TINY_MS:g} ms, one row): they do not dominate."
        return InOrder(text, of_load=True)
    return _tiny(
        calls / total,
        f"{calls} of {total} calls take less than {TINY_MS:g} ms and touch one row: the round trip costs more than "
        "the work.",
        _sentence(max(tiny, key=lambda one: one.calls)),
    )


def _many(case: Case, calls: int) -> bool:
    """Tell whether so many calls are a load. Raises Missing where their rate is a mean over idle times."""
    counted = case.evidence.statistics
    if calls < TINY_CALLS or isinstance(counted, Unknown) or counted.window.seconds <= 0:
        return calls >= TINY_CALLS
    if calls / counted.window.seconds >= TINY_CALLS_S:
        return True
    if counted.window.is_mean_of_all:
        raise Missing("how many tiny calls come in a second at load", MEAN_OF_ALL)
    return False


def _statements(case: Case) -> tuple[Statement, ...]:
    return known(case.evidence.statements, "the list of statements")
