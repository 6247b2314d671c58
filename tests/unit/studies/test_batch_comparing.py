"""A chain against the reference: the printed tables of a certification from generated executions; what is left out."""

from __future__ import annotations

import pytest

from batch_example import BASE, MONTH, SMALL, chain_of, csv_of, month_chain, month_rows, recorded
from pgdyno.errors import UsageError
from pgdyno.model.results.batch import BatchResult, JobEnd
from pgdyno.stats.precedence import critical_path
from pgdyno.studies.batch.chain import Chain, waits_of
from pgdyno.studies.batch.comparing import BatchComparison, Standing, compare

SOME = """\
execution,process,job,start,end,code,status,reason
1,load,fetch,2026-10-30 22:00:00,2026-10-30 22:01:00,0,,
1,load,copy,2026-10-30 22:01:00,2026-10-30 22:11:00,0,,
1,close,sum,2026-10-30 23:00:00,2026-10-30 23:00:30,0,,
"""


@pytest.fixture(scope="module")
def month() -> tuple[Chain, BatchResult, BatchResult]:
    chain = month_chain()
    old = recorded(chain, csv_of(month_rows(1, new=False)))
    return chain, old, recorded(chain, csv_of(month_rows(3, new=True)))


@pytest.fixture(scope="module")
def compared(month: tuple[Chain, BatchResult, BatchResult]) -> BatchComparison:
    return compare(*month)


@pytest.mark.requirement("R-BAT-03")
def test_windows_in_per_cent_of_the_reference(compared: BatchComparison) -> None:
    assert [round(one.share_pct or 0) for one in compared.processes] == [54, 40, 67]
    assert [one.standing for one in compared.processes] == [Standing.PASS] * 3
    assert compared.standing is Standing.PASS


def test_a_study_of_another_chain_is_refused_and_one_of_a_renamed_chain_is_not() -> None:
    renamed = SMALL.replace('"night"', '"day"')
    other = chain_of(renamed.replace('"load', '"read').replace('"close"', '"end"'))
    found, own = recorded(chain_of(), SOME), recorded(other, SOME.replace("load", "read").replace("close", "end"))
    for reference in (found, own):
        with pytest.raises(UsageError, match="has no job of chain day: it is of chain night") as refused:
            compare(other, reference, found)
        assert "pgdyno store list" in (refused.value.hint or "")
    assert compare(chain_of(renamed), found, found).processes


@pytest.mark.requirement("R-BAT-04")
def test_jobs_compared_shorter_and_improved(compared: BatchComparison) -> None:
    rows = [
        (len(one.compared), round(one.compared_pct), one.shorter, round(one.saved_pct or 0))
        for one in compared.processes
    ]
    assert rows == [(449, 48, 399, 46), (111, 99, 104, 60), (97, 97, 86, 33)]


def test_each_overall_mean_has_its_name(compared: BatchComparison) -> None:
    means = {one.name: one.saved_pct for one in compared.means}
    assert means["plain mean of the processes"] == pytest.approx(46.33, abs=0.01)
    assert means["mean of the processes, weighted by their compared jobs"] == pytest.approx(46.45, abs=0.01)
    assert "summed times of all compared jobs" in means


@pytest.mark.requirement("R-BAT-05")
def test_jobs_below_the_threshold_are_left_out_with_the_reason(compared: BatchComparison) -> None:
    first = compared.processes[0]
    short = [one for one in first.left_out if one.is_short]
    assert len(short) == MONTH[0].left_out
    assert short[0].reason == "1:00 min in the reference, less than 5:00 min"
    assert [one.reason for one in compared.processes[1].left_out if one.is_skipped] == ["needs a tape"]


def test_one_row_changes_the_table(month: tuple[Chain, BatchResult, BatchResult]) -> None:
    chain, old, _ = month
    rows = list(month_rows(3, new=True))
    longer = [(run, name, at, start, end + (1000 if (name, at) == ("process 3", 0) else 0))
              for run, name, at, start, end in rows]  # fmt: skip
    third = compare(chain, old, recorded(chain, csv_of(iter(longer)))).processes[2]
    assert third.shorter == 85
    assert round(third.saved_pct or 0) == 31


@pytest.mark.requirement("R-BAT-02")
def test_a_longer_window_fails_and_fewer_executions_resolve_nothing() -> None:
    chain = chain_of()
    old = recorded(chain, SOME)
    later = SOME.replace("22:11:00", "22:12:00")
    rows = later.partition("\n")[2]
    three = later + "".join(rows.replace("1,load", f"{n},load").replace("1,close", f"{n},close") for n in "23")
    found = {one.name: one for one in compare(chain, old, recorded(chain, three)).processes}
    assert found["load"].standing is Standing.FAIL
    assert round(found["load"].share_pct or 0) == 109
    two = SOME + SOME.partition("\n")[2].replace("1,load", "2,load").replace("1,close", "2,close")
    for text, count in ((SOME, "1 execution"), (two, "2 executions")):
        few = compare(chain, old, recorded(chain, text)).processes[0]
        assert few.standing is Standing.NOT_RESOLVED
        assert few.reason == f"{count} of the 3 that a verdict wants"


def test_what_keeps_a_process_from_a_verdict_is_told_as_it_is() -> None:
    chain = chain_of()

    def three_times(text: str) -> BatchResult:
        rows = text.partition("\n")[2]
        more = "".join(rows.replace("1,load", f"{n},load").replace("1,close", f"{n},close") for n in "23")
        return recorded(chain, text + more)

    usual = three_times(SOME)
    coarse = three_times(SOME.replace("22:11:00", "22:01:00").replace("22:00:00,", "22:01:00,"))
    for sides in ((usual, coarse), (coarse, usual)):
        found = compare(chain, *sides).processes[0]
        assert found.standing is Standing.NOT_RESOLVED
        assert found.reason == "a window of 0 s: the times of one side are too coarse for it"
    words = '\nafter = ["load/copy"]'
    skipped = chain_of(SMALL.replace(f'argv = ["true"]{words}', f'skip = "no sums"{words}'))
    process = compare(skipped, recorded(skipped, SOME), recorded(skipped, SOME)).processes[1]
    assert (process.standing, process.reason) == (Standing.NOT_RESOLVED, "every job of it is skipped")


def test_a_process_with_a_failed_job_has_no_window_that_counts() -> None:
    chain = chain_of()
    failed = SOME.replace("22:11:00,0", "22:02:00,3")
    result = recorded(chain, failed)
    assert [(one.key, one.end, one.code) for one in result.unsuccessful] == [("load/copy", JobEnd.FAILED, 3)]
    process = compare(chain, recorded(chain, SOME), result).processes[0]
    assert process.standing is Standing.FAIL
    assert process.share_pct is None
    assert ("load/copy", "failed in the new executions") in [(one.key, one.reason) for one in process.left_out]


def test_a_process_of_skipped_jobs_says_so_and_not_that_the_reference_failed() -> None:
    rows = SOME.replace("23:00:30,0,,", "23:00:30,,skipped,no tape")
    found = compare(chain_of(), recorded(chain_of(), SOME), recorded(chain_of(), rows)).processes[1]
    assert (found.standing, found.reason) == (Standing.NOT_RESOLVED, "every job of it is skipped")


def test_a_job_that_one_side_skips_is_in_the_window_of_neither() -> None:
    chain = chain_of()
    row = "1,close,mail,2026-10-30 23:00:30,2026-10-30 23:40:00,0,,\n"
    found = compare(chain, recorded(chain, SOME + row), recorded(chain, SOME)).processes[1]
    assert (found.reference_s, found.windows, found.share_pct) == (30.0, (30.0,), 100.0)
    assert found.left_out[0].is_short


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("load,fetch", "load,fetchh", 'row 2: the chain has no job "load/fetchh"'),
        ("2026-10-30 22:01:00,0", "2026-10-30 21:01:00,0", "row 2: it ends"),
        ("2026-10-30 22:01:00,0", "soon,0", 'row 2: end "soon" is not a date and a time'),
        ("2026-10-30 22:01:00,0", "2026-10-31,0", 'row 2: end "2026-10-31" is not a date and a time'),
        ("2026-10-30 22:01:00,0", "20261031,0", 'row 2: end "20261031" is not a date and a time'),
        ("2026-10-30 22:01:00,0", "2026-10-30 22:01:00+00:00,0", "row 2: some times have a zone"),
        (
            "copy,2026-10-30 22:01:00,2026-10-30 22:11:00",
            "copy,2026-10-30T22:01:00Z,2026-10-30T22:11:00Z",
            "row 3: some times have a zone and others have none",
        ),
        (",0,,", ",zero,,", 'row 2: code "zero" is not a whole number'),
        (",0,,", ",0,good,", 'row 2: status "good"'),
        (",0,,", ",0,,,", "row 2: 9 cells under 8 columns"),
        (",code", ",cod", 'row 1: unknown column "cod"'),
        ("load,copy", "load,fetch", 'job "load/fetch" appears twice'),
    ],
)
def test_a_slip_of_the_csv_is_told_with_its_row(old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        recorded(chain_of(), SOME.replace(old, new, 1))
    assert words in caught.value.message
    assert caught.value.hint


def test_a_recorded_job_counts_from_the_beginning_of_its_execution() -> None:
    result = recorded(chain_of(), SOME)
    assert result.executions[0].began_at == BASE
    assert [(one.key, one.began_s, one.seconds) for one in result.jobs[:2]] == [
        ("load/fetch", 0.0, 60.0),
        ("load/copy", 60.0, 600.0),
    ]
    assert result.jobs[3].end is JobEnd.SKIPPED
    assert result.jobs[3].reason == "no mail server"
    assert result.jobs[0].unknown["wal_bytes"] == "the file does not have it"


def test_the_critical_path_slack_and_end() -> None:
    text = """
version = 1
[chain]
name = "diamond"
[[process]]
name = "p"
[[process.job]]
name = "a"
argv = ["true"]
[[process.job]]
name = "long"
argv = ["true"]
after = ["a"]
[[process.job]]
name = "short"
argv = ["true"]
after = ["a"]
[[process.job]]
name = "z"
argv = ["true"]
after = ["long", "short"]
"""
    found = critical_path(waits_of(chain_of(text)), {"p/a": 10.0, "p/long": 50.0, "p/short": 20.0, "p/z": 5.0})
    assert found.path == ("p/a", "p/long", "p/z")
    assert found.end_s == 65.0
    assert {key: one.slack_s for key, one in found.jobs.items()} == {"p/a": 0, "p/long": 0, "p/short": 30, "p/z": 0}
