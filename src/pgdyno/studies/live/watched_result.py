"""What a watched baseline says of a server: lengths of periods, the body, what the counters leave out. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from pgdyno.model.facts import Facts
from pgdyno.model.results.live import (
    RESOLVABLE,
    UNRESOLVABLE,
    LivePeriod,
    LiveReference,
    LiveResult,
    LiveStatement,
)
from pgdyno.model.study import Study
from pgdyno.probes.statements import StatementKey
from pgdyno.stats.body_index import (
    LEAST_COVERED,
    MOST_NEW,
    PeriodCounts,
    StatementBody,
    StatementReference,
    body_of,
    counts,
    reference_of,
)
from pgdyno.stats.period_choice import (
    LEAST_CALLS,
    LENGTHS,
    USUAL_S,
    PeriodNoise,
    chosen,
    effects_within,
    period_noise,
)
from pgdyno.stats.second_metrics import MOST_VISIBLE
from pgdyno.stats.sequential import Design
from pgdyno.stats.statement_deltas import StatementDeltas
from pgdyno.studies.live.checking import watch_notes
from pgdyno.studies.live.reference import STEP_S, Watched
from pgdyno.studies.live.words import held
from pgdyno.units import agreeing, digits_text

ENOUGH_S = 600.0
"""A shorter reference says little of a real server."""
MOST_LISTED = 30
LONG = 4
"""A statement that takes more than a period's fourth is counted whole at its end, in whichever period that is."""
POOLED = 0.5
FEW_WAL_BYTES = 16.0
"""Of WAL for each call of a statement: the shortest record of a changed row has more than 50."""


def live_result(
    study: Study,
    facts: Facts,
    seen: Watched,
    keys: Sequence[StatementKey],
    names: tuple[Mapping[int, str], Mapping[int, str]],
    *,
    around: Sequence[str] = (),
    elapsed_s: float,
    is_restarted: bool = False,
) -> LiveResult:
    """Return what a watched baseline says; `around` are notes on what else was found there.

    `seen` is what was read of the baseline. `keys` identify its statements in the order of their numbers there, and
    `names` are (databases, roles), both from oid to name. `study` gives its id and environment, `facts` of server and
    host go into the notes, and `elapsed_s` is how many seconds the study has taken. Where arms come by restarts
    (`is_restarted`), no session keeps a plan from one to the other.
    """
    design, size = Design(), len(keys)
    reference = reference_of(seen.whole, size)
    parts = [counts(one, size) if isinstance(one, StatementDeltas) else None for one in seen.steps]
    noises = _noises(parts, reference)
    best = chosen(noises, design)
    shown = best or _usual(noises)
    body = body_of(reference, shown.period_s - shown.wash_s if shown else USUAL_S)
    listed = _statements(reference, body, keys, names, shown.period_s if shown else USUAL_S)
    return LiveResult(
        study=study.id,
        title=_title(best, shown, reference, design),
        word=UNRESOLVABLE if best is None else RESOLVABLE,
        reference=_reference(seen, reference, size),
        periods=tuple(LivePeriod(**asdict(one), effects=effects_within(one, design)) for one in noises),
        period_s=None if best is None else best.period_s,
        body=tuple(one for one in listed if one.weight is not None)[:MOST_LISTED],
        beside=tuple(one for one in listed if one.weight is None)[:MOST_LISTED],
        confidence=design.confidence,
        notes=(
            *_notes(facts, seen, reference, shown, size),
            *(() if is_restarted else _kept_plans(seen)),
            *watch_notes(facts, is_restarted=is_restarted),
            *around,
        ),
        environment=study.environment,
        elapsed_s=elapsed_s,
    )


def _noises(parts: Sequence[PeriodCounts | None], reference: StatementReference) -> list[PeriodNoise]:
    if reference.seconds <= 0:
        return []
    return [period_noise(parts, STEP_S, reference, length) for length in LENGTHS if length / STEP_S <= len(parts) / 2]


def _usual(noises: Sequence[PeriodNoise]) -> PeriodNoise | None:
    return next((one for one in noises if one.period_s == USUAL_S), noises[-1] if noises else None)


def _title(best: PeriodNoise | None, shown: PeriodNoise | None, reference: StatementReference, design: Design) -> str:
    if best is not None:
        hour = effects_within(best, design, (60,))[0].effect
        assert hour is not None, "a length without an effect is not chosen"
        effect = digits_text(100 * hour, 2)
        return f"An hour on this load shows effects from {effect} % on, in periods of {best.period_s:g} s"
    return f"This load cannot be resolved: {_lack(shown, reference)}"


def _lack(shown: PeriodNoise | None, reference: StatementReference) -> str:
    """Say which of the conditions of a claim is missing, the first one first."""
    if shown is None or reference.calls.sum() == 0:
        return "no statement of others ended while it was watched"
    if shown.calls < LEAST_CALLS:
        need = shown.period_s * LEAST_CALLS / max(shown.calls, 1e-9)
        return (
            f"{shown.calls:.0f} calls in a period of {shown.period_s:g} s; {LEAST_CALLS} would take {need / 60:.0f} min"
        )
    if shown.covered < LEAST_COVERED:
        return held(shown.covered, shown.period_s, reference)
    if shown.pair_sd is None:
        return "too few neighbouring periods could be compared; watch it for longer"
    return f"equal periods differ by {100 * shown.pair_sd:.0f} %, which hides every effect below a doubling for an hour"


def _reference(seen: Watched, reference: StatementReference, size: int) -> LiveReference:
    seconds = reference.seconds or 1.0
    totals, counted = float(reference.time_ms.sum()), seen.sessions
    active = sorted(one.active for one in counted)
    span_s = len(seen.steps) * STEP_S or 1.0
    return LiveReference(
        seconds=reference.seconds,
        steps=len(seen.steps),
        void=seen.void,
        statements=int((reference.calls > 0).sum()),
        entries=seen.entries,
        calls_a_second=float(reference.calls.sum()) / seconds,
        commits_a_second=max(0.0, seen.last.commits - seen.first.commits) / span_s,
        statement_ms_a_second=totals / seconds,
        own_share=seen.own_share,
        new_share=float(reference.time_ms[seen.known : size].sum()) / totals if totals > 0 else 0.0,
        visible=_visible(seen, totals / seconds * span_s),
        sessions=statistics.fmean(one.sessions for one in counted) if counted else 0.0,
        active_median=statistics.median(active) if active else 0.0,
        active_most=active[-1] if active else 0,
        old_share=_old_share(seen),
        oldest_s=max((one.oldest_s for one in counted), default=0.0),
        computing_median=statistics.median(one.computing for one in counted) if counted else None,
    )


def _visible(seen: Watched, statement_ms: float) -> float | None:
    """Return the statements' time over that in which sessions were at work; the rest is commits and the client.

    None where sessions have not reported their time, as those do not whose statements touch no relation.
    """
    first, last = seen.first.active_ms, seen.last.active_ms
    if first is None or last is None or last <= first:
        return None
    share = statement_ms / (last - first)
    return share if share <= MOST_VISIBLE else None


def _only_reads(seen: Watched, reference: StatementReference) -> bool:
    """Tell whether the load leaves no more WAL than hints and the server's own notes make."""
    calls, wal = float(reference.calls.sum()), seen.last.wal_bytes - seen.first.wal_bytes
    return calls > 0 and 0 <= wal < FEW_WAL_BYTES * calls


def _old_share(seen: Watched) -> float:
    """Return the share of sessions that lived through the whole reference: poolers, and cached plans."""
    last = seen.sessions[-1] if seen.sessions else None
    return last.old / last.sessions if last is not None and last.sessions else 0.0


def _statements(
    reference: StatementReference,
    body: StatementBody,
    keys: Sequence[StatementKey],
    names: tuple[Mapping[int, str], Mapping[int, str]],
    period_s: float,
) -> list[LiveStatement]:
    databases, roles = names
    weights = dict(zip(body.ids.tolist(), body.weights.tolist(), strict=True))
    shares, means, cvs = reference.shares, reference.mean_ms, reference.cv
    ran = [number for number in np.argsort(-shares).tolist() if reference.calls[number] > 0]
    return [
        LiveStatement(
            queryid=str(keys[number].queryid),
            database=databases.get(keys[number].database, str(keys[number].database)),
            role=roles.get(keys[number].role, str(keys[number].role)),
            share=float(shares[number]),
            weight=weights.get(number),
            calls=float(reference.calls[number]) * period_s / reference.seconds,
            mean_ms=float(means[number]),
            cv=float(cvs[number]) if np.isfinite(cvs[number]) else None,
        )
        for number in ran
    ]


def _notes(
    facts: Facts, seen: Watched, reference: StatementReference, shown: PeriodNoise | None, size: int
) -> list[str]:
    found = []
    if len(seen.steps) * STEP_S < ENOUGH_S:
        found.append("The reference is too short for a real server: watch it for at least 10 minutes, better 30.")
    if seen.void:
        lost = "; ".join(f"{count} times {cause}" for cause, count in seen.void.items())
        found.append(f"Readings that do not count: {lost}.")
    visible = _visible(seen, float(reference.time_ms.sum()) * len(seen.steps) / max(1, len(seen.whole)))
    share = (
        "" if visible is None else f" Statements explain {100 * visible:.0f} % of the time that sessions were at work."
    )
    found.append(
        "The time of a commit is in no counter of a statement: what commit_delay, wal_buffers, wal_compression or the "
        f"disk of the WAL do is not visible here.{share}"
    )
    cores, busy = facts.host.cores, sorted(one.computing for one in seen.sessions)
    if isinstance(cores, int) and busy and busy[len(busy) // 2] > cores:
        found.append(
            f"Half of the time more processes computed or waited for a CPU than there are CPUs ({cores}): on a "
            "saturated server everything waits for everything, and effects are hard to tell. Look for quieter hours."
        )
    if _only_reads(seen, reference):
        found.append(
            "This load hardly writes. What is found under it holds for reads: under writes checkpoints and WAL come "
            "in as well, and it has to be measured again."
        )
    if shown is not None:
        slow = (reference.mean_ms > 1000 * shown.period_s / LONG) & (reference.calls > 0)
        if slow.any():
            slow_pct = 100 * float(reference.shares[slow].sum())
            found.append(
                f"{agreeing(int(slow.sum()), 'statement', 'takes', 'take')} longer than a fourth of a period on "
                f"average ({slow_pct:.0f} % of the time): so long a call counts whole, at its end, and is in no claim."
            )
    total = float(reference.time_ms.sum())
    new = float(reference.time_ms[seen.known : size].sum()) / total if total else 0.0
    if new > MOST_NEW:
        found.append(
            f"Statements that were not there at first took {100 * new:.0f} % of the time: tables made anew, IN lists "
            "of changing length, or a deployment. Pairs with more than 5 % of it would not count."
        )
    return found


def _kept_plans(seen: Watched) -> tuple[str, ...]:
    share = _old_share(seen)
    if share <= POOLED:
        return ()
    return (
        f"{100 * share:.0f} % of the sessions were there before and stayed: their cached generic plans do not notice a "
        "reload before they connect again.",
    )
