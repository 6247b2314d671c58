"""Did a replay keep its schedule? Lateness by who caused it, and what voids a run. Pure.

Lateness is sent less due, of three parts: the *injector* was not ready, the *gates* of an order between sessions were
closed, or the *server* had not answered the statement before. Only the injector and the gates can void a run: a slow
server is what is measured, and its lateness is in the response time from the due moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.model.replay_comparison import Errors, Fidelity, Lateness, Limits, ReplayPause
from pgdyno.stats.arrays import Integers
from pgdyno.units import agreeing, digits_text, plural, seconds_text


@dataclass(frozen=True, slots=True)
class Schedule:
    """What was sent when, in microseconds: one element a sent row, and of think times one a pause.

    `statements` counts what the trace wants sent, without the `refused` and without what writes and was `left_out` as
    asked, and `sent` what was. `think` are captured pauses of more than 0 between an answer and the next statement of
    its session, at the speed of the replay. `pauses` are those of the run, by which `due` was shifted.
    """

    due: Integers
    injector: Integers
    gate: Integers
    server: Integers
    think: Integers
    statements: int
    sent: int
    refused: int
    left_out: int = 0
    pauses: tuple[ReplayPause, ...] = ()


def injector_limit_ms(think_ms: float | None, limits: Limits) -> float:
    """Return the largest p99 of the injector's lateness: a part of the think time, at least 2 and at most 100 ms."""
    part = 0.0 if think_ms is None else think_ms * limits.injector_of_think_percent / 100
    return min(max(limits.injector_ms, part), limits.injector_most_ms)


def judge_fidelity(schedule: Schedule, errors: Errors, transactions: int, limits: Limits) -> Fidelity:
    """Return whether the run counts, with every reason why it does not; too few `transactions` are only a warning.

    `schedule` is what was due and sent, `errors` are the answers that differ from the captured ones, and `limits` were
    fixed beforehand.
    """
    think = float(np.median(schedule.think)) / 1000 if schedule.think.size else None
    limit = injector_limit_ms(think, limits)
    parts = {"injector": schedule.injector, "gate": schedule.gate, "server": schedule.server}
    lateness = tuple(_lateness(part, values) for part, values in parts.items())
    off = _rate_off(schedule)
    return Fidelity(
        invalid=tuple(_invalid(schedule, errors, lateness[0].p99, limit, off, limits)),
        warnings=_warnings(schedule, transactions, limits),
        statements=schedule.statements,
        refused=schedule.refused,
        sent=schedule.sent,
        lateness=lateness,
        injector_limit_ms=limit,
        think_ms=think,
        rate_off_percent=off,
        limits=limits,
    )


def _invalid(
    schedule: Schedule, errors: Errors, injector_p99: float, limit: float, off: float | None, limits: Limits
) -> list[str]:
    found = list[str]()
    if schedule.pauses:
        found.append(f"the run {paused_text(schedule.pauses)}")
    sent, wanted = schedule.sent, schedule.statements
    if not wanted or 100 * sent < limits.sent_percent * wanted:
        found.append(f"{sent:,} of {wanted:,} statements were sent, less than {limits.sent_percent:g} %")
    if injector_p99 > limit:
        found.append(f"the injector was late: p99 {digits_text(injector_p99)} ms, more than {digits_text(limit)} ms")
    if off is not None and off > limits.rate_percent:
        found.append(
            f"the schedule took {off:.2f} % longer by the injector or the gates, more than {limits.rate_percent:g} %"
        )
    if sent and 100 * errors.unexpected > limits.error_percent * sent:
        found.append(
            f"{errors.unexpected:,} answers of {sent:,} are not the captured ones, more than {limits.error_percent:g} %"
        )
    if 100 * schedule.refused > limits.refused_percent * (wanted + schedule.refused):
        found.append(
            f"{schedule.refused:,} of {wanted + schedule.refused:,} statements are refused, "
            f"more than {limits.refused_percent:g} %"
        )
    return found


def paused_text(pauses: Sequence[ReplayPause]) -> str:
    """Say how long a run was paused, and why it cannot count: `was paused once, ...`."""
    times = "once" if len(pauses) == 1 else plural(len(pauses), "time")
    took = seconds_text(sum(one.seconds for one in pauses))
    return f"was paused {times}, {took} in all: the server rested, its caches and background work are not the capture's"


def _warnings(schedule: Schedule, transactions: int, limits: Limits) -> tuple[str, ...]:
    found = list[str]()
    if schedule.left_out:
        told = agreeing(schedule.left_out, "statement", "was", "were")
        found.append(f"The trace was cut to what reads: {told} left out.")
    if transactions < limits.certification:
        found.append(f"{transactions:,} transactions are fewer than the {limits.certification:,} of a certification.")
    return tuple(found)


def _lateness(part: str, micros: Integers) -> Lateness:
    if not micros.size:
        return Lateness(part, 0.0, 0.0, 0.0)
    half, late = np.quantile(micros, (0.5, 0.99))
    return Lateness(part, float(half) / 1000, float(late) / 1000, float(micros.max()) / 1000)


def _rate_off(schedule: Schedule) -> float | None:
    """Return in per cent how much longer it took to send all, without what the server is to blame for."""
    if not schedule.due.size:
        return None
    first, last = int(schedule.due.min()), int(schedule.due.max())
    end = int((schedule.due + schedule.injector.astype(np.int64) + schedule.gate).max())
    span = last - first - 1e6 * sum(one.seconds for one in schedule.pauses)
    return 100 * (end - last) / span if span > 0 else None
