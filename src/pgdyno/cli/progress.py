"""Progress on stderr: one live line on a terminal, plain lines elsewhere. Implements `trial.watcher.Watcher`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from pgdyno.model.guard import Colour
from pgdyno.model.loading import LoadedShare
from pgdyno.outside.words import printable, styled
from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.model.guard import Lamp
    from pgdyno.model.trial import Trial, TrialSpec
    from pgdyno.probes.sampler import Sampler
    from pgdyno.workloads.protocol import LoadReading

REDRAW_S = 0.5
_BAR = 16
_LAMPS = {Colour.GREEN: ("ok", "32"), Colour.AMBER: ("AMBER", "33"), Colour.RED: ("RED", "31")}
"""A lamp's word, which says it without colour, and its code (ECMA-48 SGR), left out under NO_COLOR."""


class Progress:
    """Says what runs, k of n where n is known, the load's readings, the best so far and the time left.

    `is_best` decides whether a finished trial is worth a line as the best so far; throughput by default. Nothing is
    written when `quiet`.
    """

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = styled(stream or sys.stderr)
        self._quiet = quiet
        self._clock = clock
        self._live = self._stream.isatty() and not quiet
        self._is_coloured = self._live and not os.environ.get("NO_COLOR")
        self._began = clock()
        self._drawn = 0.0
        self._label = ""
        self._best: float | None = None
        self._lamps: Sequence[Lamp] = ()
        self._amber: frozenset[str] = frozenset()
        self._load: tuple[str, float, int] = ("", 0.0, 0)
        self.expected_trials: int | None = None

    def announce(self, text: str) -> None:
        """Write one line that stays; of a load's share a bar on a terminal, elsewhere a line each quarter."""
        if isinstance(text, LoadedShare) and not self._is_new_mark(text):
            self._draw_load(text)
        elif not self._quiet:
            self._clear()
            self._stream.write(f"[{seconds_text(self._clock() - self._began):>9}] {printable(text)}\n")
            self._stream.flush()

    def _is_new_mark(self, share: LoadedShare) -> bool:
        """Tell whether a share becomes a line that stays: at each quarter where there is no bar, and at its end."""
        about, began, mark = self._load
        if share.about != about:
            about, began, mark = share.about, self._clock(), 0
        self._load = (about, began, max(mark, share.mark))
        return share.mark > mark and (not self._live or share.percent >= 100)

    def _draw_load(self, share: LoadedShare) -> None:
        if self._clock() - self._drawn >= REDRAW_S:
            spent = self._clock() - self._load[1]
            left = spent * (100 - share.percent) / max(1, share.percent)
            words = f", about {seconds_text(left)} left" if spent >= REDRAW_S else ""
            self._draw(f"{share.about} {_bar(share.percent / 100)} {share.percent} %{words}")

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Begin the live line of a trial."""
        total = f"/{self.expected_trials}" if self.expected_trials else ""
        self._label = f"trial {number}{total} run {run_id} {spec.role.value}" + (
            f" {spec.arm}" if spec.arm != spec.role else ""
        )
        self._draw(self._label)

    def phase(self, text: str) -> None:
        """Show what the trial does now."""
        self._draw(f"{self._label}: {text}")

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Show how the load goes, at most twice a second and only on a terminal."""
        if not self._live or self._clock() - self._drawn < REDRAW_S:
            return
        done = min(1.0, elapsed_s / duration_s)
        text = f"{self._label} {_bar(done)} {seconds_text(elapsed_s)} of {seconds_text(duration_s)}"
        text += lamps_text(self._lamps)
        if load is not None:
            text += f"  tps {load.tps:,.0f}  lat {load.latency_ms:.2f} ms"
            text += f"  p99 {load.p99_ms:.2f} ms" if load.p99_ms is not None else ""
        text += "".join(f"  {name} {value}" for name, value in sampler.reading().items())
        if self._best is not None:
            text += f"  best {self._best:,.1f}"
        self._draw(text)

    def guards(self, lamps: Sequence[Lamp]) -> None:
        """Keep the lamps for the live line; write a line that stays when one turns amber for the first time."""
        self._lamps = lamps
        for lamp in lamps:
            if lamp.colour is Colour.AMBER and lamp.name not in self._amber:
                self._amber |= {lamp.name}
                self.announce(f"guard {lamp.name} is amber: {lamp.text}")

    def notice(self, text: str) -> None:
        """Write one line that stays."""
        self.announce(text)

    def trial_ended(self, trial: Trial) -> None:
        """Write the trial's line."""
        outcome = trial.outcome
        if outcome is None:
            return
        words = [self._label + ":"]
        if outcome.throughput is not None:
            words.append(f"{outcome.throughput:,.1f} tps")
        if outcome.latency_ms is not None:
            words.append(f"p99 {outcome.latency_ms.p99:.2f} ms")
        if outcome.foreign_cpu_pct is not None:
            words.append(f"foreign CPU {outcome.foreign_cpu_pct:.0f} %")
        if trial.state.value != "complete":
            words.append(f"{trial.state.value}: {outcome.reason}")
        elif outcome.throughput is not None and (self._best is None or outcome.throughput > self._best):
            self._best = outcome.throughput
        self.announce("  ".join(words))

    def _draw(self, text: str) -> None:
        if self._live:
            self._drawn = self._clock()
            shown = printable(text)[: _width(self._stream)]
            self._stream.write(f"\r\x1b[2K{_coloured(shown) if self._is_coloured else shown}")
            self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[2K")


def lamps_text(lamps: Sequence[Lamp]) -> str:
    """Return the guards for the live line: the names of those that are not green, the number of those that are."""
    if not lamps:
        return ""
    bad = [lamp for colour in (Colour.RED, Colour.AMBER) for lamp in lamps if lamp.colour is colour]
    named = [f"{_LAMPS[lamp.colour][0]} {lamp.name}" for lamp in bad]
    green = sum(lamp.colour is Colour.GREEN for lamp in lamps)
    return f"  guards [{', '.join([*named, f'{green} ok'])}]"


def _bar(done: float) -> str:
    return "#" * round(_BAR * done) + "-" * (_BAR - round(_BAR * done))


def _coloured(text: str) -> str:
    """Colour the lamps' words; done last, because codes take no room on the line."""
    before, bracket, rest = text.partition("guards [")
    lamps, end, after = rest.partition("]")
    for word, code in _LAMPS.values():
        lamps = lamps.replace(word, f"\x1b[{code}m{word}\x1b[0m")
    return before + bracket + lamps + end + after


def _width(stream: TextIO) -> int:
    import shutil

    return max(20, shutil.get_terminal_size().columns - 1)
