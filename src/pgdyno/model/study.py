"""A study: trials with a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import inner
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.model.verdict import Metric, Verdict

R = TypeVar("R", bound=StudyResult)


class StudyKind(StrEnum):
    """The question that a study asks.

    What kind x comes to is `XResult` in `model/results/x.py`, and that file makes it a kind. What is special to it is
    the object `KIND` in `studies/x/kind.py`. Both are found by its word when the first study of it is met. A kind that
    code calls by name has a line here, which is also its place in lists.
    """

    _ignore_ = "name"

    BENCH = "bench"
    AB = "ab"
    TUNE = "tune"
    MATRIX = "matrix"
    STAIRCASE = "staircase"
    SWEEP = "sweep"
    NOISE = "noise"
    SELFTEST = "selftest"
    LIVE = "live"
    """A server under its users' own load."""
    WATCH = "watch"
    """The same, for days: what became slower."""
    REPLAY = "replay"
    """A captured load, sent again."""
    BATCH = "batch"
    """A chain of jobs: its window, and whether its jobs succeed."""
    SCALE = "scale"
    """Levels of load on hardware in proportion: do they answer alike?"""
    MIGRATE = "migrate"
    """A migration rehearsed in its phases, against its window."""
    IMPORTED = "imported"
    """Runs of another tool, or of another machine's store: read, never measured here."""
    for name in sorted(file.stem for file in (Path(__file__).parent / "results").glob("[!_]*.py")):
        if name.upper() not in vars():
            vars()[name.upper()] = name


STUDY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What every id is: the name of a folder too, and never a path."""
USERS_LOAD = "live"
"""The name of the workload that nobody made: what the server's own users do."""


class StudyState(StrEnum):
    """How a study stands; an interrupted one can be resumed."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETE = "complete"
    FAILED = "failed"


SAMPLES = "-samples"
"""Ends the name of a workload that is none: samples of a host were imported, and its load is unknown."""
VERSION = "pgdyno"
"""Among a study's options: the version of pgdyno that began it, which another one may print the report of."""
PRINTED = "printed"
"""Among a study's options: its rows were printed elsewhere, and nothing else is known of their runs."""

ENDED = "ended"
"""Among a study's options: the error that ended it, which the store keeps and clears with its state."""


def metric_asked(kind: StudyKind, options: Mapping[str, object]) -> Metric:
    """Return the metric among the options of a study; throughput where its kind asks for none."""
    for part in (options, inner(options, kind.value)):
        if part.get("metric") in {*Metric}:
            return Metric(str(part["metric"]))
    return Metric.THROUGHPUT


@dataclass(frozen=True, slots=True)
class Study:
    """A study as the store keeps it.

    `options` holds what the kind needs to go on after a kill (budget, seed, smallest effect, knobs ...), as plain
    JSON values. `environment` is the name of an `Environment`; `facts` a JSON image of the facts at the beginning,
    with no secret in it. `target` is a label without a password.
    """

    id: str
    kind: StudyKind
    name: str
    state: StudyState
    created_at: float
    target: str
    environment: str
    facts: Mapping[str, object]
    workload: WorkloadSpec
    plan: LoadPlan
    options: Mapping[str, object] = field(default_factory=dict)
    result: StudyResult | None = None

    @property
    def metric(self) -> Metric:
        """Return the metric that was asked for; throughput where the kind asks for none."""
        return metric_asked(self.kind, self.options)

    @property
    def asked(self) -> Mapping[str, object]:
        """Return the options of its kind, under the kind's word; empty where it keeps none there."""
        return inner(self.options, self.kind.value)

    def told(self, kind: type[R]) -> R | None:
        """Return the result of this type, None where the study has none yet, or is of another kind."""
        return self.result if isinstance(self.result, kind) else None

    @property
    def ended(self) -> str:
        """Return the error that ended the study before its end; empty where none did, or it is not known."""
        return str(self.options.get(ENDED, ""))

    @property
    def began_by(self) -> str:
        """Return the pgdyno that began it, in words."""
        told = self.options.get(VERSION)
        return f"pgdyno {told}" if isinstance(told, str) else "a pgdyno of unknown version"

    @property
    def is_observed(self) -> bool:
        """Return True when its load was that of the server's own users, which nobody made for it."""
        return self.workload.name == USERS_LOAD

    @property
    def was_read(self) -> bool:
        """Return True when others made its runs, and all that is known of them was read from files."""
        return self.kind is StudyKind.IMPORTED or self.options.get(PRINTED) is True


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A, arms by their names: the verdict on the study's metric first, the others after it."""

    a: str
    b: str
    verdict: Verdict
    others: tuple[Verdict, ...] = ()
    left_out: str = ""
    """The runs that were too thin for the metric, in words; empty where none was."""


def files_of(study: Study) -> list[tuple[str, str]]:
    """Return the files that a study was read from, each with its SHA-256; none for one that was measured here."""
    files = study.options.get("files")
    rows = files if isinstance(files, list | tuple) else ()
    return [(str(one.get("name", "")), str(one.get("sha256", ""))) for one in rows if isinstance(one, Mapping)]


def result_type(kind: StudyKind) -> type[StudyResult]:
    """Return the type of the result of a kind: of `StudyKind.AB` it is `AbResult` in `ab.py`."""
    module = import_module(f"pgdyno.model.results.{kind.value}")
    found: type[StudyResult] = getattr(module, f"{kind.value.capitalize()}Result")
    return found
