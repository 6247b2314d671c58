"""What rehearsals of smaller sizes say of the full one, and of its window; which earlier ones the store has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.results.migrate import AFTERWARDS, EarlierRehearsal, MigrateResult, MigrationPhase
from pgdyno.model.study import Study, StudyKind
from pgdyno.stats.size_forecast import NoForecast, ScaledRun, SizeForecast, forecast_size
from pgdyno.store.catalogue import Store
from pgdyno.units import bytes_text, plural, seconds_text

_NOTHING_S = 0.001
SORTING = frozenset({MigrationPhase.INDEXES.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalForecast:
    """The forecast, or why there is none, beside the window that it has to fit."""

    studies: tuple[str, ...]
    window_s: float | None
    forecast: SizeForecast | None
    reason: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 where the whole interval fits into the window, 1 where none of it does, 3 where it is open."""
        if self.forecast is None:
            return ExitCode.NOT_RESOLVED
        if self.window_s is None:
            return ExitCode.OK if self.forecast.is_narrow else ExitCode.NOT_RESOLVED
        if self.forecast.high_s <= self.window_s:
            return ExitCode.OK
        return ExitCode.FINDINGS if self.forecast.low_s > self.window_s else ExitCode.NOT_RESOLVED

    def lines(self) -> Iterator[str]:
        """Return it in words, a line each."""
        if self.forecast is None:
            yield f"no forecast: {self.reason}"
            return
        found = self.forecast
        ends = f"{seconds_text(found.low_s)} to {seconds_text(found.high_s)}"
        yield (
            f"{bytes_text(found.size)} take {seconds_text(found.seconds)}, "
            f"{found.confidence:.0%} interval {ends}, a factor of {found.factor:.2f}"
        )
        yield f"model: {found.model}"
        for one in found.phases:
            if one.seconds < _NOTHING_S:
                continue
            beside = "" if one.phase in found.chain else ", beside others"
            yield f"  {one.phase}: {seconds_text(one.seconds)}, {seconds_text(one.fixed_s)} of it fixed{beside}"
        if not found.is_narrow:
            yield f"the interval is wider than a factor of 1.5: {_remedy(found)}, or rehearse a larger size"
        if self.window_s is not None:
            words = {ExitCode.OK: "fits", ExitCode.FINDINGS: "does not fit"}.get(self.exit_code, "may or may not fit")
            yield f"window {seconds_text(self.window_s)}: it {words}"


def _remedy(found: SizeForecast) -> str:
    """Return how often to rehearse for a narrow interval."""
    if not found.wanted:
        return "these rehearsals scatter too much, find out why"
    times = found.wanted // found.runs
    return f"make it {plural(found.wanted, 'rehearsal')}, {times} times as many, if they scatter alike"


def forecast_of(results: Sequence[MigrateResult], size: float, window_s: float | None = None) -> RehearsalForecast:
    """Return what these rehearsals say of `size` bytes on the source. Raises UsageError where one cannot count."""
    runs = list[ScaledRun]()
    for one in results:
        if one.total_s is None or one.source_bytes is None:
            raise UsageError(f'rehearsal "{one.study}" did not finish, or its size is not known')
        seconds = {  # one that is left out hands on
            phase.phase.value: phase.seconds or 0.0 for phase in one.phases if phase.phase not in AFTERWARDS
        }
        runs.append(ScaledRun(one.source_bytes, seconds))
    ways = {(one.mover, one.jobs, one.source_version, one.target_version) for one in results}
    if len(ways) > 1:
        found: SizeForecast | NoForecast = NoForecast(
            "the rehearsals are not alike: "
            + "; ".join(f"{m}, {plural(j, 'job')}, {a} to {b}" for m, j, a, b in sorted(ways))
        )
    else:
        first = results[0].phases if results else ()
        after = {p.phase.value: {o.value for o in p.after} for p in first if p.phase not in AFTERWARDS}
        found = forecast_size(runs, size, after=after or None, sorting=SORTING)
    return RehearsalForecast(
        studies=tuple(one.study for one in results),
        window_s=window_s,
        forecast=found if isinstance(found, SizeForecast) else None,
        reason=found.reason if isinstance(found, NoForecast) else "",
    )


def rehearsals_before(store: Store, study: Study, fingerprint: str) -> tuple[EarlierRehearsal, ...]:
    """Return the whole rehearsals of this plan that were begun before this one, the earliest first."""
    found = []
    for one in store.studies():
        result = one.told(MigrateResult) if one.kind is StudyKind.MIGRATE else None
        if result is None or one.id == study.id or result.fingerprint != fingerprint or result.total_s is None:
            continue
        if one.created_at < study.created_at:
            found.append(
                EarlierRehearsal(
                    study=one.id, began_at=one.created_at, total_s=result.total_s, jobs=result.jobs,
                    source_bytes=result.source_bytes, exit_code=int(result.exit_code),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.began_at))


def full_size(store: Store, result: MigrateResult, size: int) -> tuple[str, ...]:
    """Return in lines what this rehearsal and those that are like it say of the full size, or why nothing.

    Alike are those of the plan's name, by the same mover between the same versions, so many at a time: their databases
    may be called otherwise, for each has a size of its own.
    """
    told = [one.told(MigrateResult) for one in store.studies() if one.kind is StudyKind.MIGRATE]
    whole = [one for one in told if one is not None and one.total_s is not None and one.study != result.study]
    alike = [one for one in (*whole, result) if _likeness(one) == _likeness(result)]
    return tuple(forecast_of(alike, size, result.window_s).lines())


def _likeness(one: MigrateResult) -> tuple[object, ...]:
    steps = frozenset((phase.phase, phase.after) for phase in one.phases)
    return one.plan, one.mover, one.jobs, one.source_version, one.target_version, steps
