"""Progress on stderr: one live line on a terminal, plain lines elsewhere. Implements `trial.laboratory.Watcher`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.model.trial import Trial, TrialSpec
    from pgdyno.probes.sampler import Sampler
    from pgdyno.workloads.protocol import LoadReading

REDRAW_S = 0.5


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
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._clock = clock
        self._live = self._stream.isatty() and not quiet
        self._began = clock()
        self._drawn = 0.0
        self._label = ""
        self._best: float | None = None
        self.expected_trials: int | None = None

    def announce(self, text: str) -> None:
        """Write one line that stays."""
        if not self._quiet:
            self._clear()
            self._stream.write(f"[{seconds_text(self._clock() - self._began):>9}] {text}\n")
            self._stream.flush()

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
        bar = "#" * round(16 * done) + "-" * (16 - round(16 * done))
        text = f"{self._label} {bar} {seconds_text(elapsed_s)} of {seconds_text(duration_s)}"
        if load is not None:
            text += f"  tps {load.tps:,.0f}  lat {load.latency_ms:.2f} ms"
            text += f"  p99 {load.p99_ms:.2f} ms" if load.p99_ms is not None else ""
        text += "".join(f"  {name} {value}" for name, value in sampler.reading().items())
        if self._best is not None:
            text += f"  best {self._best:,.1f}"
        self._draw(text)

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
            self._stream.write(f"\r\x1b[2K{text[: _width(self._stream)]}")
            self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[2K")


def _width(stream: TextIO) -> int:
    import shutil

    return max(20, shutil.get_terminal_size().columns - 1)
