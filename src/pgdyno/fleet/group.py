"""Several load generators that run as one: a `RunningLoad` that begins, watches, ends and adds up all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.fleet.limits import remove_limits, throttled_pct
from pgdyno.fleet.merge import Part, merge
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.protocol import LoadReading, RunningLoad
from pgdyno.workloads.result import CountBins, LoadResult, sum_bins


class GroupLoad:
    """A `RunningLoad` of several. `cgroups` are removed when all have ended."""

    def __init__(
        self,
        loads: Sequence[RunningLoad],
        plan: LoadPlan,
        *,
        scale: int | None = None,
        cgroups: Sequence[Path] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loads = tuple(loads)
        self._plan = plan
        self._scale = scale
        self._cgroups = tuple(cgroups)
        self._began_at = clock()

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes of all load generators."""
        return tuple(pid for load in self._loads for pid in load.pids)

    def poll(self) -> bool:
        """Return True once all have ended. Asks every one, so that each is waited for."""
        running = [load for load in self._loads if not load.poll()]
        return not running

    def wait(self, seconds: float, alarm: int | None = None) -> bool:
        """Wait at most so long for the end of one that still runs. Return True once all have ended."""
        running = next((load for load in self._loads if not load.poll()), None)
        if running is not None:
            running.wait(seconds, alarm)
        return self.poll()

    def live(self) -> LoadReading | None:
        """Return the latest readings added up, None until every one that still runs has one.

        The latency is weighted by throughput; the p99 is that of the worst generator, which the whole cannot exceed.
        """
        running = [not load.poll() for load in self._loads]
        every = [load.live() for load in self._loads]
        readings = [reading for reading in every if reading is not None]
        now = [reading for reading, runs in zip(every, running, strict=True) if reading is not None and runs]
        if len(now) < sum(running) or not now:
            return None
        tps = sum(reading.tps for reading in now)
        weighted = sum(reading.tps * reading.latency_ms for reading in now)
        tails = [reading.p99_ms for reading in now if reading.p99_ms is not None]
        return LoadReading(
            t=max(reading.t for reading in now),
            tps=tps,
            latency_ms=weighted / tps if tps else max(reading.latency_ms for reading in now),
            p99_ms=max(tails, default=None),
            transactions=sum(reading.transactions for reading in readings),
            failed=sum(reading.failed for reading in readings),
        )

    def series(self) -> CountBins | None:
        """Return the series added up over the time of which all of them have told, None until then."""
        known = [bins for load in self._loads if (bins := load.series()) is not None]
        return sum_bins(known) if len(known) == len(self._loads) else None

    def let_end(self) -> None:
        """Tell all of them that their time is over."""
        for load in self._loads:
            load.let_end()

    def terminate(self) -> None:
        """End all of them at once, by force if need be."""
        for load in self._loads:
            load.terminate()
        remove_limits(self._cgroups)

    def finish(self) -> LoadResult:
        """Wait for all and return what came of them together. See `RunningLoad.finish`."""
        parts: list[Part] = []
        failures: list[WorkloadError] = []
        throttled: float | None = None
        try:
            for instance, load in enumerate(self._loads):
                try:
                    parts.append(Part(instance, load.finish()))
                except WorkloadError as error:
                    failures.append(error)
                    parts.append(Part(instance, None, error.detail or error.message))
            throttled = throttled_pct(self._cgroups)
        finally:
            self.terminate()
        failures.sort(key=lambda error: not isinstance(error, ScriptError))
        if failures and (len(failures) == len(parts) or isinstance(failures[0], ScriptError)):
            raise failures[0]  # what the other generators did is no use: a repetition would fail alike
        return merge(parts, self._plan, began_at=self._began_at, scale=self._scale, throttled_pct=throttled)
