"""What smaller rehearsals say of the full size and its window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, MigrationPhase, PhaseTiming
from pgdyno.model.study import StudyKind
from pgdyno.store.catalogue import Store
from pgdyno.studies.migrate.forecast import forecast_of, full_size

P = MigrationPhase
GB = 1_000_000_000


def rehearsal(size: int, slow: float = 1.0) -> MigrateResult:
    """Return one whose import takes 60 s a GB, beside which statistics are read, and whose export takes 10 s."""
    export, loaded = 10.0 * slow, 60.0 * size / GB * slow
    phases = (
        PhaseTiming(phase=P.EXPORT, end=ItemEnd.DONE, began_s=0.0, ended_s=export),
        PhaseTiming(phase=P.TRANSFER, end=ItemEnd.LEFT_OUT, after=(P.EXPORT,)),
        PhaseTiming(phase=P.IMPORT, end=ItemEnd.DONE, after=(P.TRANSFER,), began_s=export, ended_s=export + loaded),
        PhaseTiming(phase=P.SEQUENCES, end=ItemEnd.DONE, after=(P.EXPORT,), began_s=export, ended_s=export + 1),
        PhaseTiming(phase=P.VALIDATION, end=ItemEnd.DONE, after=(P.IMPORT, P.SEQUENCES), began_s=export + loaded,
                    ended_s=export + loaded + 5),
    )  # fmt: skip
    return MigrateResult(
        study=f"s{size}-{slow}", plan="shop", mover="dump", source_version="13", target_version="18", jobs=2,
        source_bytes=size, total_s=export + loaded + 5, phases=phases,
    )  # fmt: skip


FOUR = [rehearsal(size, slow) for size, slow in ((GB, 0.99), (GB, 1.01), (2 * GB, 1.01), (2 * GB, 0.99))]


@pytest.mark.requirement("R-MIG-07")
@pytest.mark.parametrize(
    ("window", "code", "words"),
    [(None, ExitCode.OK, "model: "), (900.0, ExitCode.OK, "it fits"), (300.0, ExitCode.FINDINGS, "it does not fit"),
     (616.0, ExitCode.NOT_RESOLVED, "it may or may not fit")],
)  # fmt: skip
def test_two_sizes_tell_the_full_one_and_whether_it_fits(window: float | None, code: ExitCode, words: str) -> None:
    found = forecast_of(FOUR, 10 * GB, window)
    assert found.forecast is not None
    assert found.forecast.seconds == pytest.approx(615, rel=0.02)
    assert found.forecast.chain == ("export", "transfer", "import", "validation")
    assert found.exit_code is code
    assert words in "\n".join(found.lines())
    assert "sequences: 1.0 s, 1.0 s of it fixed, beside others" in [line.strip() for line in found.lines()]


@dataclass(frozen=True)
class Kept:
    """A study as a store gives it."""

    result: MigrateResult | None
    kind: StudyKind = StudyKind.MIGRATE

    def told(self, _: type) -> MigrateResult | None:
        return self.result


def test_the_page_has_the_forecast_of_all_rehearsals_that_are_like_the_last_and_not_of_the_way_back() -> None:
    back = PhaseTiming(phase=P.WAY_BACK, end=ItemEnd.DONE, after=(P.VALIDATION,), began_s=900.0, ended_s=990.0)
    runs = [replace(one, phases=(*one.phases, back)) for one in FOUR]
    others = [replace(runs[0], study="a", jobs=8), replace(runs[0], study="b", plan="another"),
              replace(runs[0], study="c", total_s=None)]  # fmt: skip
    store = SimpleNamespace(studies=lambda: [Kept(None), *(Kept(one) for one in (*runs, *others))])
    lines = full_size(cast(Store, store), runs[-1], 10 * GB)
    assert lines[0].startswith("9.31 GB take 10:15 min")
    assert "fitted to 4 rehearsals" in lines[1]
    assert [line for line in lines if "way back" in line] == []
    assert full_size(cast(Store, SimpleNamespace(studies=list)), FOUR[0], GB)[0].startswith("no forecast: ")


def test_a_wide_interval_comes_with_what_would_narrow_it() -> None:
    scattered = [rehearsal(size, slow) for size, slow in ((GB, 0.94), (GB, 1.06), (2 * GB, 1.06), (2 * GB, 0.94))]
    (line,) = [one for one in forecast_of(scattered, 10 * GB).lines() if "wider than" in one]
    assert line.endswith("times as many, if they scatter alike, or rehearse a larger size")
    wild = [rehearsal(size, slow) for size, slow in ((GB, 0.4), (GB, 2.0), (2 * GB, 2.0), (2 * GB, 0.4))]
    assert "scatter too much" in "\n".join(forecast_of(wild, 10 * GB).lines())


def test_rehearsals_that_are_not_alike_or_too_few_give_no_figure_but_the_reason() -> None:
    for results, words in (
        (FOUR[:3], "two rehearsals at each of two sizes"),
        ([], "there are none"),
        ([*FOUR[:3], replace(FOUR[3], jobs=8)], "not alike: dump, 2 jobs, 13 to 18; dump, 8 jobs, 13 to 18"),
    ):
        found = forecast_of(results, 10 * GB, 900.0)
        assert found.exit_code is ExitCode.NOT_RESOLVED
        assert [line for line in found.lines() if line.startswith("no forecast: ") and words in line]


def test_a_rehearsal_that_did_not_come_to_its_end_does_not_count() -> None:
    with pytest.raises(UsageError, match="did not finish"):
        forecast_of([*FOUR, replace(FOUR[0], total_s=None)], 10 * GB)
