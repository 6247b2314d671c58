"""What a replay is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.model.guard import GuardPlan
from pgdyno.model.trial import check_speed
from pgdyno.trace.engine.plan import Clock
from pgdyno.trace.gates import Order


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """A replay; `speed` is that of the trace's schedule, 2.0 sends it in half of the time."""

    trace: Path
    output: Path
    """The outcome's folder, made by the run."""
    speed: float = 1.0
    clock: Clock = Clock.SCHEDULE
    order: Order = Order.SESSION
    processes: int = 1
    engine: str | None = None
    """`python` or `compiled`; None: the compiled one where it can."""
    max_seconds: float | None = None
    """None: twice the schedule and a minute."""
    stop_file: Path | None = None
    pause_file: Path | None = None
    """The run pauses while it is there."""
    users: Mapping[str, str] = field(default_factory=dict)
    databases: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of each session at its begin."""
    stand_in: str | None = None
    error_limit_percent: float = 1.0
    guards: GuardPlan = field(default_factory=GuardPlan)
    source_identifier: str | None = None
    """Of a trace that does not say it."""
    data_of: str | None = None
    """A server that holds what the target should hold at the end, as libpq names it; None: data are not compared."""


def level_speed(level: float, captured_level: float) -> float:
    """Return the speed at which a load captured at one level of production's rate is sent at another.

    Levels in per cent: two hours that are the 60 % level are sent 1.667 times as fast for 100 %, in 72 minutes.
    """
    speed = level / captured_level if captured_level > 0 else 0.0
    check_speed(speed, f"level {level:g} of a trace of level {captured_level:g}")
    return speed
