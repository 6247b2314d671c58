"""Orders and checks on the page of a study, whatever its kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.configuration import BASELINE
from pgdyno.model.record import CheckRecord, TextRecord
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.report import data_checks
from pgdyno.report.sections import Notice, Prose, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.traces import RunTrace
from pgdyno.studies.reports import compose
from simulated_laboratory import simulated_study

HOLDS = CheckRecord("C01", 0, "sums agree")
UNASKED = CheckRecord("C11", None, "first population only")
BROKEN = CheckRecord("C01", 3, "sums agree")


def trial(number: int, **counters: float) -> Trial:
    outcome = Outcome(TrialState.COMPLETE, began_at=100.0, ended_at=110.0, throughput=10.0, counters=counters)
    return Trial(number, "s1", TrialSpec(BASELINE, Role.ARM, "bench", number, 0), TrialState.COMPLETE, outcome)


def record(kind: StudyKind = StudyKind.MATRIX, **changes: object) -> StudyRecord:
    study = replace(simulated_study(), kind=kind)
    base = StudyRecord(study, (trial(1, nopm=4000.0, tpm=9000.0, deadlocks=0.0), trial(2, nopm=4400.0, tpm=9900.0)))
    base = replace(base, records={1: (HOLDS, UNASKED), 2: (HOLDS, TextRecord("out", "text"))})
    return replace(base, **changes)  # type: ignore[arg-type]


def texts(section: Section | None) -> str:
    assert section is not None
    parts = [s for block in section.blocks if isinstance(block, Prose | Notice) for s in block.sentences]
    tables = [block.table for block in section.blocks if isinstance(block, TableBlock)]
    return "\n".join([*parts, *("|".join(row) for table in tables for row in table.rows)])


@pytest.mark.requirement("R-TPC-01")
@pytest.mark.parametrize("kind", [StudyKind.MATRIX, StudyKind.BENCH, StudyKind.AB, StudyKind.SWEEP])
def test_every_kind_of_page_says_that_it_is_not_tpc_c(kind: StudyKind) -> None:
    report = compose(record(kind))
    names = [section.id for section in report.sections]
    assert names.index("checks") == names.index("about") - 1
    assert "not TPC-C results" in texts(report.sections[names.index("checks")])
    assert "not comparable with published NOPM" in texts(next(one for one in report.digest if one.id == "checks"))


def test_figures_and_conditions_are_in_tables() -> None:
    shown = texts(data_checks.section(record()))
    assert "1|bench|4,000|9,000|0" in shown
    assert "2|bench|4,400|9,900|" in shown
    assert "The one condition that was checked holds, in 2 runs." in shown
    assert "C01|sums agree|0" in shown
    assert "C11|first population only|not checked" in shown


def test_a_run_that_could_not_be_checked_is_not_counted_as_one_that_was() -> None:
    missed = CheckRecord("C01", None, "sums agree: not comparable, a load generator was killed")
    one = record(records={1: (HOLDS,), 2: (missed,)})
    for section in (data_checks.section(one), data_checks.brief(one)):
        assert "The one condition that was checked holds, in 1 run. Not checked: C01 in run 2." in texts(section)
    assert "C01|run 2, one of 2: sums agree: not comparable, a load generator was killed|0 in 1 of 2" in texts(
        data_checks.section(one)
    )
    many = dict.fromkeys(range(2, 9), (missed,)) | {1: (HOLDS,)}
    assert "Not checked: C01 in 7 runs." in texts(data_checks.brief(record(records=many)))
    assert "No condition was checked." in texts(data_checks.brief(record(records={1: (missed,)})))


def test_what_is_broken_is_named_and_counted() -> None:
    shown = texts(data_checks.section(record(records={1: (HOLDS,), 2: (BROKEN,)})))
    assert "C01|sums agree|3" in shown
    assert "1 condition of 1 broken: C01; such a run is void." in shown


def test_share_and_90th_percentile_of_each_transaction_are_in_report_and_terminal() -> None:
    counted = trial(1, nopm=4000.0, tpm=9000.0, mix_payment_pct=43.0, mix_new_order_pct=45.0, p90_payment_ms=1.5)
    one = record(trials=(counted,))
    for section in (data_checks.section(one), data_checks.brief(one)):
        assert "payment|43|1.5" in texts(section)
        assert "new order|45|" in texts(section), "none ended in the window"


@pytest.mark.requirement("R-TPC-01")
def test_a_void_run_has_no_figure_to_quote() -> None:
    void = replace(trial(2, nopm=4400.0, tpm=9900.0), state=TrialState.VOID)
    both = record(trials=(record().trials[0], void))
    assert texts(data_checks.brief(both)).startswith("4,000 NOPM and 9,000 TPM in run 1:"), "of the run that counts"
    assert "2|bench (void)|4,400|9,900" in texts(data_checks.section(both))
    alone = texts(data_checks.brief(record(trials=(void,), records={2: (BROKEN,)})))
    assert alone.startswith("No NOPM and no TPM: run 2 is void")
    assert "4,400" not in alone


def test_a_condition_that_each_run_tells_in_figures_is_not_told_of_one_run_as_if_of_all() -> None:
    grew = {run: (CheckRecord("history", 0, f"it grew by {rows} rows"),) for run, rows in ((1, 50), (2, 70), (3, 70))}
    assert "history|run 3, one of 3: it grew by 70 rows|0" in texts(data_checks.section(record(records=grew)))
    grew[1] = (CheckRecord("history", 4, "it grew by 46 rows"),)
    assert "history|run 1, one of 3: it grew by 46 rows|4" in texts(data_checks.section(record(records=grew)))


def test_a_study_without_orders_and_checks_has_no_such_section() -> None:
    bare = replace(record(), trials=(trial(1),), records={1: (TextRecord("out", "text"),)})
    assert data_checks.section(bare) is None
    assert "checks" not in [section.id for section in compose(bare).sections]


def test_imported_figures_are_told_from_measured_ones() -> None:
    shown = texts(data_checks.section(record(StudyKind.IMPORTED, records={})))
    assert "read from another tool's files" in shown
    assert "follows the rules of TPC-C in part" not in shown
    short = texts(data_checks.brief(record(StudyKind.IMPORTED, records={})))
    assert "not comparable with those of pgdyno's own load" in short
    assert "published" not in short, "another HammerDB's published NOPM is what it may be compared with"


@pytest.mark.requirement("R-TPC-09")
def test_server_processes_are_counted_between_the_first_and_the_last_second() -> None:
    samples = {"sessions": {"t": [100.5, 102.0, 103.0, 109.5], "total": [1, 4, 4, 2]}}
    trace = RunTrace(run=1, name="the run", began_at=100.0, steady_from=101.0, ended_at=110.0, cores=2, load=[],
                     samples=samples, events=[], bin_s=1)  # fmt: skip
    shown = texts(data_checks.section(record(traces=(trace,))))
    assert "4 server processes in each of 2 seconds sampled" in shown
