"""What a replay came to, from the records of its engines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import EnvironmentUnsuitable, GuardTripped, PgdynoError
from pgdyno.model.replay_comparison import Cause, ErrorLine, Errors, Limits
from pgdyno.model.results.replay import GUARD, KeysKept, ReplayResult
from pgdyno.model.study import Study
from pgdyno.replay.captured import Taped
from pgdyno.stats.replay_fidelity import Schedule, judge_fidelity
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.words import UNLIKE
from pgdyno.trace.engine.tally import COMPLETE, RunTally
from pgdyno.trace.outcome import Records, classes, ended_statements
from pgdyno.trace.outcome_file import pauses_of
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import AnswerClass, TraceMeta

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_AT_ONCE = 20_000
_TIMES = ("due_us", "sent_us", "done_us", "injector_us", "gate_us", "server_us")


def result_of(
    study: Study, meta: TraceMeta, options: ReplayOptions, taped: Taped, tally: RunTally, files: Iterable[Records],
    limits: Limits, wanted_s: float, engine: str,
) -> ReplayResult:  # fmt: skip
    """Return what the records say.

    `study` is that of the replay, `meta` the facts of its trace, and `options` what was asked for. `taped` is what was
    on the tape, `tally` what the engine counted until the end, and `files` has the records of each process of the
    engine. `limits` are what the run must keep to count, `wanted_s` is how many seconds the tape should have taken, and
    `engine` says which engine it was, and why. Raises EnvironmentUnsuitable where nothing was answered, with the
    reasons; GuardTripped where a guard ended it first.
    """
    answers = dict.fromkeys(AnswerClass, 0)
    times, lines = {name: _Times(taped.statements) for name in _TIMES}, dict[tuple[str, str, str], int]()
    failed = list[NDArray[np.bool_]]()
    for records in files:
        found = classes(records)
        for name, count in zip(*np.unique(found, return_counts=True), strict=True):
            answers[AnswerClass(name)] += int(count)
        is_sent = ended_statements(records)
        _count_errors(records[is_sent], found[is_sent], lines)
        for name, column in times.items():
            column.add(records[name][is_sent])
        failed.append(records["sqlstate"][is_sent] != b"")
    sent = {name: column.all() for name, column in times.items()}
    if not sent["due_us"].size:
        raise _unanswered(tally)
    errors = Errors(
        expected=answers[AnswerClass.EXPECTED],
        lines=tuple(
            ErrorLine(answer, captured, came, Cause.UNEXPECTED, count, "")
            for (answer, captured, came), count in sorted(lines.items(), key=lambda item: -item[1])
        ),
        has_control=False,
    )
    schedule = Schedule(
        due=sent["due_us"], injector=sent["injector_us"], gate=sent["gate_us"], server=sent["server_us"],
        think=_think(taped, options.speed), statements=taped.statements, sent=int(sent["due_us"].size),
        refused=max(taped.refused - sum(meta.refused.get(one, 0) for one in (Barred.OURS, Barred.WRITES)), 0),
        left_out=meta.refused.get(Barred.WRITES, 0), pauses=pauses_of(tally),
    )  # fmt: skip
    fidelity = judge_fidelity(schedule, errors, meta.transactions, limits)
    level, timed = meta.captured_level * options.speed, ~np.concatenate(failed)
    return ReplayResult(
        study=study.id,
        environment=study.environment,
        trace=str(options.trace.absolute()),
        outcome=str(options.output.absolute()),
        engine=engine,
        speed=options.speed,
        level=level,
        clock=options.clock.value,
        order=options.order.value,
        gated=taped.gated,
        stalls=tally.stalls,
        ended=tally.ended,
        answers={name.value: count for name, count in answers.items()},
        fidelity=fidelity,
        reasons=dict(tally.reasons),
        keys=_keys(meta, taped, tally),
        cpu_s=tally.cpu_s,
        wanted_s=wanted_s,
        pauses=schedule.pauses,
        took_s=float(sent["done_us"].max()) / 1e6,
        service_ms=_quantiles((sent["done_us"] - sent["sent_us"])[timed]),
        response_ms=_quantiles((sent["done_us"] - sent["due_us"])[timed]),
    )


def _unanswered(tally: RunTally) -> PgdynoError:
    """Return the error of a run of which no statement was answered: why it ended, and why sessions could not be had."""
    why = "; ".join(tally.reasons) or None
    if tally.ended.startswith(GUARD):
        return GuardTripped(f"{tally.ended}, before a statement was answered", detail=why)
    ended = "" if tally.ended == COMPLETE else f" before the run ended: {tally.ended}"
    return EnvironmentUnsuitable(
        f"no statement was answered{ended}",
        detail=why,
        hint="Fix that and run it again." if why else "See the server's log; --check lists what would fail.",
    )


def _keys(meta: TraceMeta, taped: Taped, tally: RunTally) -> KeysKept | None:
    keys = taped.keys
    if not keys.captured and not meta.keys_unplaced:
        return None
    return KeysKept(
        captured=keys.captured,
        without=dict(keys.without),
        unplaced=meta.keys_unplaced,
        named=keys.named,
        learned=tally.keys_learned,
        sent=tally.keys_sent,
        unknown=tally.keys_unknown,
        left={why: count for why, count in keys.left.items() if count},
    )


class _Times:
    """Times in 32 bits, while they fit: a run may have tens of millions."""

    def __init__(self, most: int) -> None:
        self._values: NDArray[Any] = np.empty(most, np.int32)
        self._count = 0

    def add(self, values: NDArray[Any]) -> None:
        """Append some."""
        if not np.array_equal(values.astype(self._values.dtype), values):
            self._values = self._values.astype(np.int64)
        end = self._count + len(values)
        self._values[self._count : end] = values
        self._count = end

    def all(self) -> NDArray[Any]:
        """Return those that were appended."""
        return self._values[: self._count]


def _think(taped: Taped, speed: float) -> NDArray[Any]:
    """Return the captured pauses at the speed of the replay."""
    captured, found = np.frombuffer(taped.think_us, np.int64), _Times(len(taped.think_us))
    for at in range(0, len(captured), _AT_ONCE):
        found.add((captured[at : at + _AT_ONCE] / speed).astype(np.int64))
    return found.all()


def _count_errors(records: Records, found: NDArray[Any], lines: dict[tuple[str, str, str], int]) -> None:
    differs = np.isin(found, UNLIKE)
    unlike = records[differs]
    for answer, captured, came in zip(found[differs], unlike["expected"], unlike["sqlstate"], strict=True):
        key = (str(answer), bytes(captured).decode(), bytes(came).decode())
        lines[key] = lines.get(key, 0) + 1


def _quantiles(micros: NDArray[Any]) -> dict[str, float]:
    if not micros.size:
        return {}
    values = np.quantile(micros, list(_QUANTILES.values()))
    return {name: float(value) / 1000 for name, value in zip(_QUANTILES, values, strict=True)}
