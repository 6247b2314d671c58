"""Which kind of study has which result: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.bench import BenchResult
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.results.matrix import MatrixResult
from pgdyno.model.results.noise import NoiseResult
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.results.selftest import SelftestResult
from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.results.sweep import SweepResult
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import StudyKind

RESULTS: Mapping[StudyKind, type[StudyResult]] = {
    StudyKind.BENCH: BenchResult,
    StudyKind.AB: AbResult,
    StudyKind.TUNE: TuneResult,
    StudyKind.MATRIX: MatrixResult,
    StudyKind.STAIRCASE: StaircaseResult,
    StudyKind.SWEEP: SweepResult,
    StudyKind.NOISE: NoiseResult,
    StudyKind.SELFTEST: SelftestResult,
    StudyKind.IMPORTED: ImportedResult,
}
