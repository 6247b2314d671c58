"""compare: what can be said of two recorded runs.

Two runs of one interleaved study are compared by all of that study's pairs. Any other two runs were measured at
different times, with whatever the machine did in between: their figures are shown side by side, and the verdict is
*not resolved*, because one pair that is not interleaved proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.parts.pair import Different, PairResult, Setting
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial, TrialState
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.stats.sequential import Design, judge
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.result import run_figures
from pgdyno.studies.platforms.reading import circumstances
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.units import bytes_text, plural

_MOST_DIGITS = 18
"""A number with more is none of a run, in any store."""


def run_meant(store: Store, word: str) -> int:
    """Return the run that a word names: its number, or its study where that has one complete run, as `bench` makes it.

    Raises UsageError where the study has none or several, with their numbers.
    """
    if word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS:
        return int(word)
    study = store.study(word)
    runs = [one.id for one in store.trials(study.id) if one.state is TrialState.COMPLETE]
    if len(runs) == 1:
        return runs[0]
    raise UsageError(
        f'study "{study.id}" has {plural(len(runs), "complete run")}, and compare needs one',
        detail=f"They are {', '.join(map(str, runs))}." if runs else None,
        hint=f"Name a run by its number: pgdyno store show {study.id} lists them."
        if runs
        else f"pgdyno store show {study.id} says why: none can be named, it has to be measured again.",
    )


def compare_runs(store: Store, a_id: int, b_id: int, metric: Metric, design: Design) -> PairResult:
    """Compare run B with run A, by their numbers `a_id` and `b_id` in `store`.

    Judges `metric` by `design`, over all pairs of their study where both are arms of one and share two blocks or more;
    the verdict on any other two runs is *not resolved*. Raises UsageError when either has no usable score or their
    loads differ.
    """
    a, b = store.trial(a_id), store.trial(b_id)
    for trial in (a, b):
        if trial.state is not TrialState.COMPLETE or trial.figure(metric) is None:
            raise UsageError(
                f"run {trial.id} is {trial.state} and has no {metric.label} to compare",
                detail=trial.reason or None,
                hint=f"See pgdyno store show {trial.id}.",
            )
    _require_same_load(store, a, b)
    pairs = _interleaved_pairs(store, a, b, metric)
    if pairs is not None:
        verdict = judge(pairs[0], pairs[1], metric=metric, design=design)
        note = f"all {len(pairs[0])} interleaved pairs of study {a.study_id}"
    else:
        verdict = _unresolved(a, b, metric, design)
        note = "the runs are not interleaved pairs of one study: prove it with pgdyno experiment --ab A.conf B.conf"
    plans = plan_changes(*([store.records(trial.id, PlanRecord)] for trial in (a, b)))
    return PairResult(
        verdict=verdict,
        interleaved=pairs is not None,
        note=note,
        a=run_figures(a),
        b=run_figures(b),
        differences=_differences(a, b),
        plans=tuple(plans),
        environment=_environments(store, a, b),
    )


def _environments(store: Store, a: Trial, b: Trial) -> tuple[Different, ...]:
    """Return what differs beside the configuration: a newer server has other defaults, such as data checksums."""
    if a.study_id == b.study_id:
        return ()
    left, right = (circumstances(store.study(trial.study_id), [trial]) for trial in (a, b))
    names = [*left, *(name for name in right if name not in left)]
    found = (Different(what=name, a=left.get(name, "unknown"), b=right.get(name, "unknown")) for name in names)
    return tuple(one for one in found if one.a != one.b)


def _require_same_load(store: Store, a: Trial, b: Trial) -> None:
    if a.study_id == b.study_id:
        return
    left, right = store.study(a.study_id), store.study(b.study_id)
    if unlike := load_differences(left, right):
        raise UsageError(
            f"run {a.id} and run {b.id} were measured under different loads",
            detail="; ".join(f"{what} {of_a} and {of_b}" for what, of_a, of_b in unlike),
            hint="Compare runs of the same workload, clients, protocol, rate and duration.",
        )


def load_differences(a: Study, b: Study) -> list[tuple[str, str, str]]:
    """Return in which words the loads of two studies differ: what, of A, of B."""
    rows = [(what, *(word(getattr(study.plan, name)) for study in (a, b))) for name, (what, word) in _PLAN.items()]
    if a.workload.fingerprint != b.workload.fingerprint:
        told = [study.workload.description or study.workload.name for study in (a, b)]
        if told[0] == told[1]:
            told = [f"fingerprint {study.workload.fingerprint}" for study in (a, b)]
        rows = [("workload", *told), *rows]
    return [(what, of_a, of_b) for what, of_a, of_b in rows if of_a != of_b]


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _rate(value: float | None) -> str:
    return "not limited" if value is None else f"{value:g}/s"


def _memory(value: int | None) -> str:
    return "not limited" if value is None else bytes_text(value)


def _vcpus(value: float | None) -> str:
    return "not limited" if value is None else f"{value:g}"


_PLAN: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "clients": ("clients", str),
    "jobs": ("threads", str),
    "warmup_s": ("warm-up of at most", _seconds),
    "measure_s": ("measured window", _seconds),
    "protocol": ("protocol", str),
    "rate": ("rate", _rate),
    "connect_each": ("a new connection for each transaction", lambda value: "yes" if value else "no"),
    "reset": ("reset of the data", str),
    "seed": ("seed", lambda value: "drawn" if value is None else str(value)),
    "instances": ("load generators", str),
    "cpus": ("CPUs of the load generators", lambda value: value or "all"),
    "instance_memory_bytes": ("memory of a load generator", _memory),
    "instance_vcpus": ("CPU time of a load generator", _vcpus),
    "host": ("the load's way to the server", lambda value: value or "as the target's"),
}
"""Every field of a plan in words; what differs in any of them is another load."""


def _interleaved_pairs(store: Store, a: Trial, b: Trial, metric: Metric) -> tuple[list[float], list[float]] | None:
    """Return the figures of both arms paired by block, or None where the runs are not arms of one study."""
    study = store.study(a.study_id)
    if a.study_id != b.study_id or a.spec.arm == b.spec.arm:
        return None
    trials = [t for t in store.trials(study.id) if t.state is TrialState.COMPLETE]
    left, right = (
        {t.spec.block: figure for t in trials if _is_arm(t, arm) and (figure := t.figure(metric)) is not None}
        for arm in (a, b)
    )
    blocks = sorted(left.keys() & right.keys())
    if len(blocks) < 2:
        return None
    return [left[block] for block in blocks], [right[block] for block in blocks]


def _is_arm(trial: Trial, arm: Trial) -> bool:
    same = trial.spec.configuration == arm.spec.configuration and trial.spec.role == arm.spec.role
    return same and trial.spec.arm == arm.spec.arm


def _unresolved(a: Trial, b: Trial, metric: Metric, design: Design) -> Verdict:
    x, y = a.figure(metric), b.figure(metric)
    assert x is not None, "checked before"
    assert y is not None, "checked before"
    interval = Interval(y / x, 0.0, float("inf"), design.confidence)
    return Verdict(Word.NOT_RESOLVED, interval, 1, metric, design.smallest_effect, more_pairs=None)


def _differences(a: Trial, b: Trial) -> tuple[Setting, ...]:
    left, right = ({**trial.spec.factors, **dict(trial.spec.configuration.items())} for trial in (a, b))
    names = sorted(set(left) | set(right))
    return tuple(Setting(knob=n, a=left.get(n), b=right.get(n)) for n in names if left.get(n) != right.get(n))
