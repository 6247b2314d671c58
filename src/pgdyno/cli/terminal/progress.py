"""Progress on stderr: one live line on a terminal, plain lines elsewhere. Implements `trial.watcher.Watcher`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from pgdyno.cli.terminal.live_line import CLEAR
from pgdyno.model.live import Colour
from pgdyno.model.loading import LoadedShare
from pgdyno.model.trial import Role, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.outside.words import printable, styled
from pgdyno.report.drawing.line_breaks import wrapped
from pgdyno.report.wording import metric_text, purpose_text
from pgdyno.trial.pace import Outlook
from pgdyno.units import seconds_text

if TYPE_CHECKING:
    from pgdyno.model.guard import Indicator
    from pgdyno.model.trial import Trial, TrialSpec
    from pgdyno.probes.sampler import Sampler
    from pgdyno.workloads.protocol import LoadReading

REDRAW_S = 0.5
_BAR = 16
_INDICATORS = {Colour.GREEN: ("ok", "32"), Colour.AMBER: ("AMBER", "33"), Colour.RED: ("RED", "31")}
"""An indicator's word, which says it without colour, and its code (ECMA-48 SGR), left out under NO_COLOR."""


class Progress:
    """Says what runs, which trial of how many, the load's readings, the best so far and the time left.

    The live line is as wide as the terminal. What does not fit is left out whole, the least important first: a number
    or a name that is cut is a wrong one. Nothing is written when `quiet`.
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
        self._label = self._kept = self._run = ""
        self._outlook = Outlook()
        self._began_s = clock()
        self._purpose = ""
        self._indicators: Sequence[Indicator] = ()
        self._amber: frozenset[str] = frozenset()
        self._load: tuple[str, float, int] = ("", 0.0, 0)

    def announce(self, text: str) -> None:
        """Write one line that stays; of a load's share a bar on a terminal, elsewhere a line each quarter."""
        if isinstance(text, LoadedShare) and not self._is_new_mark(text):
            self._draw_load(text)
        elif not self._quiet:
            self._clear()
            line = f"[{seconds_text(self._clock() - self._began):>9}] {printable(text)}"
            self._stream.write(f"{_wrapped(line, _width(self._stream)) if self._live else line}\n")
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
            words = f"about {seconds_text(left)} left" if spent >= REDRAW_S else ""
            bar = _bar(share.percent / 100)
            self._draw_parts([(1, share.about), (4, bar), (2, f"{share.percent} %"), (3, words)])

    def outlook(self, outlook: Outlook) -> None:
        """Keep which trial of how many it is, the best so far and the time left."""
        self._outlook, self._began_s = outlook, self._clock()

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Begin the live line of a trial."""
        outlook = self._outlook if self._outlook.number else Outlook(number=number)
        self._label = f"trial {outlook.number}" + ("" if outlook.total is None else f"/{outlook.total}")
        self._kept = f"trial {outlook.place} (run {run_id})"
        self._purpose, self._run = purpose_text(spec.role.value, spec.arm), f"run {run_id}"
        self._draw_parts([(1, self._label), (3, self._purpose), (8, self._run)])

    def phase(self, text: str) -> None:
        """Show what the trial does now."""
        self._draw_parts([(1, self._label), (3, self._purpose), (2, text), (4, self._left())])

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Show how the load goes, at most twice a second and only on a terminal."""
        if not self._live or self._clock() - self._drawn < REDRAW_S:
            return
        outlook, metric = self._outlook, self._outlook.metric
        parts = [(1, self._label), (7, self._purpose)]
        parts += [(8, _bar(min(1.0, elapsed_s / duration_s)))]
        parts += [(3, f"{seconds_text(elapsed_s)} of {seconds_text(duration_s)}")]
        if load is not None:
            parts += [(2, f"{load.tps:,.0f} tps")]
            parts += [(3, f"p99 {load.p99_ms:.2f} ms")] if load.p99_ms is not None else []
            parts += [(9, f"mean {load.latency_ms:.2f} ms")]
        if outlook.best is not None:
            parts += [(5, f"best {metric_text(metric, outlook.best)}")]
        parts += [(4, self._left())]
        is_calm = all(indicator.colour in (Colour.GREEN, Colour.OFF) for indicator in self._indicators)
        parts += [(6 if is_calm else 2, indicators_text(self._indicators))]
        parts += [(10, f"{name} {value}") for name, value in sampler.reading().items()]
        self._draw_parts(parts)

    def _left(self) -> str:
        """Say how long this part of the study will still take."""
        if self._outlook.left_s is None:
            return ""
        left = max(0.0, self._outlook.left_s - (self._clock() - self._began_s))
        return f"{'at most ' if self._outlook.at_most else ''}{seconds_text(left)} left"

    def _draw_parts(self, parts: Sequence[tuple[int, str]]) -> None:
        self._draw(fitted([(rank, printable(text)) for rank, text in parts if text], _width(self._stream)))

    def guards(self, indicators: Sequence[Indicator]) -> None:
        """Keep the indicators for the live line; write a line that stays when one turns amber for the first time."""
        self._indicators = indicators
        for indicator in indicators:
            if indicator.colour is Colour.AMBER and indicator.name not in self._amber:
                self._amber |= {indicator.name}
                self.announce(f"guard {indicator.name} is amber: {indicator.text}")

    def notice(self, text: str) -> None:
        """Write one line that stays."""
        self.announce(text)

    def trial_ended(self, trial: Trial) -> None:
        """Write the trial's line."""
        outcome = trial.outcome
        if outcome is None:
            return
        metric = self._outlook.metric
        shown = dict.fromkeys((metric, Metric.THROUGHPUT, Metric.LATENCY_P99))
        figures = [metric_text(one, value) for one in shown if (value := outcome.figure(one)) is not None]
        if outcome.foreign_cpu_pct is not None and trial.state is not TrialState.DISTURBED:  # the reason has it
            figures.append(f"foreign CPU {outcome.foreign_cpu_pct:.0f} % of a core")
        told = ""
        if trial.state is not TrialState.COMPLETE:
            told = f"{trial.state.value}, not used: {outcome.reason}{'; ' if figures else ''}"
        elif trial.spec.role is Role.SEARCH and outcome.figure(metric) == self._outlook.best is not None:
            figures.insert(1, "the best so far")
        self.announce(f"{self._kept}, {self._purpose}: {told}{', '.join(figures)}")

    def _draw(self, text: str) -> None:
        if self._live:
            self._drawn = self._clock()
            shown = printable(text)
            self._stream.write(f"{CLEAR}{_coloured(shown) if self._is_coloured else shown}")
            self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write(CLEAR)


def indicators_text(indicators: Sequence[Indicator]) -> str:
    """Return the guards for the live line: the names of those that are not green, the number of those that are."""
    if not indicators:
        return ""
    bad = [indicator for colour in (Colour.RED, Colour.AMBER) for indicator in indicators if indicator.colour is colour]
    named = [f"{_INDICATORS[indicator.colour][0]} {indicator.name}" for indicator in bad]
    green = sum(indicator.colour is Colour.GREEN for indicator in indicators)
    return f"guards [{', '.join([*named, f'{green} ok'])}]"


def fitted(parts: Sequence[tuple[int, str]], width: int) -> str:
    """Return the parts on one line of so many columns; of those that do not fit the highest rank is left out first.

    The first part is never left out, and only it can be cut, where it alone is too long.
    """
    kept, room = {0}, width - len(parts[0][1])
    for place in sorted(range(1, len(parts)), key=lambda place: (parts[place][0], place)):
        need = len(parts[place][1]) + 2
        if need <= room:
            kept.add(place)
            room -= need
    return "  ".join(parts[place][1] for place in sorted(kept))[:width]


def _wrapped(line: str, width: int) -> str:
    """Break a line that stays between words; a name or number that is longer than a line is left whole."""
    return line if "\n" in line else "\n".join(wrapped(line, max(40, width), indent=" " * 12))


def _bar(done: float) -> str:
    return "#" * round(_BAR * done) + "-" * (_BAR - round(_BAR * done))


def _coloured(text: str) -> str:
    """Colour the indicators' words; done last, because codes take no room on the line."""
    before, bracket, rest = text.partition("guards [")
    indicators, end, after = rest.partition("]")
    for word, code in _INDICATORS.values():
        indicators = indicators.replace(word, f"\x1b[{code}m{word}\x1b[0m")
    return before + bracket + indicators + end + after


def _width(stream: TextIO) -> int:
    import shutil

    return max(20, shutil.get_terminal_size().columns - 1)
