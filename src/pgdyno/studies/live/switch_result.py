"""What the pairs of a live study come to, as the typed result: statements, states, and what speaks against B. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pgdyno.model.guard import GuardKind
from pgdyno.model.results.live import LiveBreach, LiveChange, LivePair, LiveResult, LiveSwitch
from pgdyno.model.verdict import Interval
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.body_index import LEAST_COVERED, StatementReference, added
from pgdyno.stats.veto import OWN_SCATTER
from pgdyno.studies.live.arms import Arms
from pgdyno.studies.live.course.outcome import WORST_TAIL, LiveOutcome
from pgdyno.studies.live.words import held, judgement
from pgdyno.trial.live_cycle import LiveEnding
from pgdyno.units import digits_text, plural

NORMAL_95 = 1.96
MOST_LISTED = 50
SECOND = {
    "active_ms": ("database time", "ms"),
    "cpu_ms": ("server CPU", "ms"),
    "temp_bytes": ("temporary files", "bytes"),
    "wal_bytes": ("WAL", "bytes"),
    "blocks_read": ("blocks read", "blocks"),
    "device_requests": ("disk requests of the host", "requests"),
}
"""Each figure of `stats.body_index.ServerUse`: what people call it, and its unit."""
VETOED, VANISHED, SUSPECTED, WATCHED, NOT_WATCHED = "vetoed", "vanished", "suspected", "watched", "not watched"
_RESTORED = {LiveEnding.TOO_MANY_STOPS, LiveEnding.NOT_IN_FORCE, LiveEnding.LEFT_TO_WATCHDOG}


def switched(told: LiveResult, switch: LiveSwitch, elapsed_s: float) -> LiveResult:
    """Return the result of the reference with what came of its two arms."""
    said = judgement(switch)
    return replace(told, switch=switch, title=said.title, word=said.word, elapsed_s=elapsed_s)


def switch_of(
    arms: Arms,
    outcome: LiveOutcome,
    reference: StatementReference,
    keys: Sequence[StatementKey],
    names: tuple[Mapping[int, str], Mapping[int, str]],
    *,
    seed: int,
    session: str,
    not_tested: str = "",
) -> LiveSwitch:
    """Return what came of two arms; `not_tested` as in `LiveSwitch`.

    `arms` has the settings of A and B, `outcome` what their pairs came to. `reference` is the watched baseline, `keys`
    identify its statements in the order of its arrays, and `names` are (databases, roles), both from oid to name.
    `seed` drew the order of the arms in each pair; `session` names the undo session, empty where none began.
    """
    changes = statement_changes(outcome, reference, keys, names)
    unwatched = [one for one in changes if one.state == NOT_WATCHED]
    running = outcome.running or (None,) * len(outcome.pairs)
    return LiveSwitch(
        a=dict(arms.a),
        b=dict(arms.b),
        before=dict(arms.before),
        ending=outcome.ending.value,
        period_s=outcome.period_s,
        wash_s=outcome.wash_s,
        seed=seed,
        verdict=outcome.verdict,
        pairs=tuple(
            LivePair(
                number=number,
                ratio=math.exp(pair.log_ratio),
                work=math.exp(pair.work_log_ratio),
                first=first,
                interval=interval,
            )
            for number, (pair, first, interval) in enumerate(
                zip(outcome.pairs, outcome.orders, running, strict=True), 1
            )
        ),
        lost=dict(outcome.lost),
        covered=outcome.covered,
        tail=outcome.tail,
        second=outcome.second,
        statements=changes[:MOST_LISTED],
        unwatched=len(unwatched),
        unwatched_share=sum(one.share for one in unwatched),
        breaches=tuple(
            LiveBreach(guard=one.name, kind=one.kind.value, at=one.at, words=one.words) for one in outcome.breaches
        ),
        stopped=outcome.stopped,
        against=(*_slower(outcome, reference, keys), *_against(outcome, changes, reference)),
        is_restored=_is_restored(outcome),
        session=session,
        not_tested=not_tested,
        plans=outcome.plans,
    )


def statement_changes(
    outcome: LiveOutcome,
    reference: StatementReference,
    keys: Sequence[StatementKey],
    names: tuple[Mapping[int, str], Mapping[int, str]],
) -> tuple[LiveChange, ...]:
    """Return every statement of the reference over all pairs: those to look at first, then by their share.

    `outcome` has the judged pairs with their vetoes. `keys` identify the statements of `reference` in the order of its
    arrays; `names` are (databases, roles), both from oid to name; an oid without a name is shown as it is.
    """
    databases, roles = names
    size = reference.calls.size
    none = np.zeros(size)
    a = added([pair[0] for pair in outcome.kept]) if outcome.kept else None
    b = added([pair[1] for pair in outcome.kept]) if outcome.kept else None
    calls_a, time_a = (none, none) if a is None else (a.calls, a.time_ms)
    calls_b, time_b = (none, none) if b is None else (b.calls, b.time_ms)
    scores = dict(zip(outcome.veto.ids.tolist(), (outcome.veto.score / outcome.veto.bound).tolist(), strict=True))
    shares, cvs, found = reference.shares, reference.cv, []
    for number in np.flatnonzero(reference.calls > 0).tolist():
        state = NOT_WATCHED if number not in scores else SUSPECTED if scores[number] > 0.5 else WATCHED
        state = VETOED if number in outcome.vetoed else VANISHED if number in outcome.vanished else state
        ratio = _ratio(
            (float(calls_a[number]), float(time_a[number])),
            (float(calls_b[number]), float(time_b[number])),
            float(cvs[number]),
            len(outcome.kept),
        )
        found.append(
            LiveChange(
                queryid=str(keys[number].queryid),
                database=databases.get(keys[number].database, str(keys[number].database)),
                role=roles.get(keys[number].role, str(keys[number].role)),
                share=float(shares[number]),
                calls_a=float(calls_a[number]),
                calls_b=float(calls_b[number]),
                ratio=ratio,
                state=state,
            )
        )
    order = (VETOED, VANISHED, SUSPECTED)
    return tuple(sorted(found, key=lambda one: (one.state not in order, -one.share)))


def _ratio(a: tuple[float, float], b: tuple[float, float], cv: float, pairs: int) -> Interval | None:
    """Return the ratio of two means by calls and time; its interval holds what a mean moves by itself, too."""
    (calls_a, time_a), (calls_b, time_b) = a, b
    if not (calls_a > 0 and calls_b > 0 and time_a > 0 and time_b > 0 and math.isfinite(cv)):
        return None
    middle = (time_b / calls_b) / (time_a / calls_a)
    spread = math.sqrt(cv**2 * (1 / calls_a + 1 / calls_b) + 2 * OWN_SCATTER**2 / pairs)
    reach = math.exp(NORMAL_95 * spread)
    return Interval(middle, middle / reach, middle * reach, 0.95)


def _is_restored(outcome: LiveOutcome) -> bool:
    """Tell whether something else than its verdict, its time or a person ended the study."""
    if outcome.ending is LiveEnding.STOPPED:
        return not outcome.is_asked
    blamed = any(one.kind is GuardKind.CONFIGURATION for one in outcome.breaches)
    dead = outcome.ending is LiveEnding.NOTHING_LEFT and blamed
    return outcome.ending in _RESTORED or bool(outcome.vetoed) or dead


def _calls_text(one: LiveChange) -> str:
    """Return the calls of the pairs that were judged; what vanished may have left none to be judged."""
    return f": {one.calls_b:.0f} calls, {one.calls_a:.0f} under A" if one.calls_a else ""


def _slower(outcome: LiveOutcome, reference: StatementReference, keys: Sequence[StatementKey]) -> Iterator[str]:
    """Say of each vetoed statement by how much, in the pairs that the veto rests on: it may be slow since a while."""
    pairs = len(outcome.kept)
    for number in sorted(outcome.vetoed, key=lambda one: -float(reference.shares[one])):
        slower = outcome.vetoed[number]
        latest = "latest" if slower.pairs == 1 else f"latest {slower.pairs}"
        since = f" in the {latest} of {plural(pairs, 'pair')}" if slower.pairs < pairs else ""
        yield f"statement {keys[number].queryid} takes {digits_text(slower.factor)} times as long under B{since}"


def _against(outcome: LiveOutcome, changes: Sequence[LiveChange], reference: StatementReference) -> tuple[str, ...]:
    """Say what else than a vetoed statement forbids to accept B, as `LiveOutcome.is_acceptable` judges it."""
    found = [
        f"statement {one.queryid} hardly ends under B{_calls_text(one)}; a cancelled statement is counted nowhere"
        for one in changes
        if one.state == VANISHED
    ]
    found += [str(one) for one in outcome.breaches]
    if outcome.tail is not None and outcome.tail.lo > WORST_TAIL:
        found.append(f"what is in no body took {outcome.tail} of its time under A")
    found += [
        f"{SECOND[one.name][0]} took {one.verdict.interval} of that under A: look at commits, locks and timeouts"
        for one in outcome.second
        if one.is_worse and one.verdict is not None
    ]
    if outcome.covered < LEAST_COVERED:
        found.append(held(outcome.covered, outcome.period_s, reference))
    return tuple(found)
