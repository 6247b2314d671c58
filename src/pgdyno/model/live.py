"""What a running study is doing now, as frozen dataclasses: written once a second, read by the dashboard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any

from pgdyno.model.person.live_question import LiveDesk
from pgdyno.model.replay_comparison import Lateness
from pgdyno.model.shapes import Named, shaped
from pgdyno.model.verdict import Metric

SILENT_S = 15.0
"""A study that has written nothing for this long has no process left that runs it, or one that hangs."""
SILENT, KILLED = "silent", "killed"
"""What is shown for `running` where nobody writes the study's row any more; of one that left nothing to undo."""


@dataclass(frozen=True, slots=True)
class LivePoint:
    """One second of a load and of the server's host. A figure that is not known is None, never a zero.

    `t` is seconds since the epoch. `cpu_pct` is the busy time of all CPUs, `memory_pct` what new programs could not
    have of the machine's memory, both in percent; `iops` counts reads and writes of all whole disks a second,
    `disk_mb_per_s` their megabytes (10^6 bytes). `active` is sessions at work.
    """

    t: float
    tps: float | None = None
    p99_ms: float | None = None
    cpu_pct: float | None = None
    memory_pct: float | None = None
    iops: float | None = None
    disk_mb_per_s: float | None = None
    active: float | None = None

    def shortened(self) -> LivePoint:
        """Return the point as a strip can show it: tenths of a second, and five digits of a figure.

        To be asked once, when the point is made: the board is written each second with all points.
        """
        return LivePoint(round(self.t, 1), *(_short(figure) for figure in _figures(self)[1:]))

    def to_text(self) -> str:
        """Return the point's row as JSON. To be asked once, when the point is made, as `shortened`."""
        return json.dumps(_figures(self))


class Colour(StrEnum):
    """The state of a guard. Every display shows the word, so that none relies on colour alone."""

    OFF = "off"
    GREEN = "green"
    AMBER = "amber"
    RED = "red"


@dataclass(frozen=True, slots=True)
class LiveIndicator:
    """A guard's indicator: its name, its colour as a word, and the reading with its limit."""

    name: str
    colour: str
    text: str


@dataclass(frozen=True, slots=True)
class LiveNotice:
    """A line that must stay to be read, such as a guard that tripped; `t` is seconds since the epoch."""

    t: float
    text: str


@dataclass(frozen=True, slots=True)
class LiveReplay:
    """How far a replay is. Of its `statements` so many are due by now and sent; times in ms.

    `unlike` answers differ from the captured ones. Of what is on file `answered` counts statements, and `lateness` is
    theirs by who caused it; `answers` counts records by class, connects and disconnects included. `response_ms` is how
    long the last answers took from their due moments, on average, and `captured_ms` what was due in that time in the
    capture. `paused_s` says for how long it has been paused, None where it is not, and `busy` how many sessions do not
    rest.
    """

    statements: int
    due: int
    sent: int
    answered: int
    unlike: int
    late_ms: float
    """The largest by the injector, of what was sent."""
    answers: Mapping[str, int]
    lateness: tuple[Lateness, ...] = ()
    response_ms: float | None = None
    captured_ms: float | None = None
    paused_s: float | None = None
    busy: int = 0


class JsonText(str):
    """JSON that is written as it is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Live:
    """A study under way. `at` is when this was written; `host` and `pid` name the process that runs it.

    `start_ticks`, `boot_id` and `namespace` (of process numbers) tell that process from every other one, and `uptime`
    is when this was written by CLOCK_BOOTTIME of that host, which nobody can set; earlier versions wrote none of them.
    `run` is the trial's id in the store, `number` counts the study's trials from 1. `elapsed_s` of `duration_s` are of
    the load, None between loads. `place` is which trial of how many, in words; `left_s` how long this part of the study
    will still take, from `at`. `best` is the best figure of `metric`, the one that was asked for. `desk` says what a
    live study asks a person, and for which requests it looks.
    """

    study: str
    at: float
    began_at: float
    host: str
    pid: int
    run: int | None = None
    number: int = 0
    role: str = ""
    arm: str = ""
    phase: str = ""
    elapsed_s: float | None = None
    duration_s: float | None = None
    best: float | None = None
    metric: str = Metric.THROUGHPUT.value
    place: str = ""
    left_s: float | None = None
    indicators: Annotated[tuple[LiveIndicator, ...], Named("lamps")] = ()
    notices: tuple[LiveNotice, ...] = ()
    points: tuple[LivePoint, ...] = ()
    start_ticks: int = 0
    boot_id: str = ""
    namespace: str = ""
    uptime: float = 0.0
    desk: LiveDesk | None = None
    replay: LiveReplay | None = None

    def is_silent(self, now: float) -> bool:
        """Return whether nothing was heard of the study for longer than a living one is silent."""
        return now - self.at > SILENT_S

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values; points are rows in the order of `POINT_COLUMNS`, which keeps them short."""
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        # `asdict` copies deeply, at a third of what a board's row costs each second
        del values["indicators"]
        values["lamps"] = [{"name": one.name, "colour": one.colour, "text": one.text} for one in self.indicators]
        values["notices"] = [{"t": one.t, "text": one.text} for one in self.notices]
        values["points"] = [_figures(point) for point in self.points]
        values["desk"] = None if self.desk is None else asdict(self.desk)
        values["replay"] = None if self.replay is None else asdict(self.replay)
        return values

    def to_text(self, points: Sequence[str]) -> JsonText:
        """Return `to_json` as text, where the points' own texts were made before."""
        values = replace(self, points=()).to_json()
        del values["points"]
        return JsonText(f'{json.dumps(values)[:-1]}, "points": [{", ".join(points)}]}}')

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Live:
        """Rebuild what `to_json` gave; what a newer pgdyno added is left out. Raises ValueError for anything else."""
        try:
            rows = shaped(list[list[Any]], values.get("points", ()), "points")
            points = tuple(LivePoint(*row[: len(POINT_COLUMNS)]) for row in rows)
            return replace(shaped(cls, {**values, "points": ()}, "it", strict=False), points=points)
        except (TypeError, ValueError) as error:
            raise ValueError(f"not the state of a study: {error}") from error


POINT_COLUMNS = tuple(field.name for field in fields(LivePoint))
"""The order of a point's figures in JSON."""
_figures = attrgetter(*POINT_COLUMNS)


def _short(value: float | None) -> float | None:
    """Round to what a strip can show: five digits. A whole number is written as one, at a third of the cost."""
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short
