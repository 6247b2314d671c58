"""The pages of a batch chain in every renderer: Gantt chart, tables, footnote, means, and what is told of trouble."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest

from batch_example import chain_of, csv_of, month_chain, month_rows, recorded
from pgdyno.errors import ExitCode
from pgdyno.model.project import Peak
from pgdyno.model.results.batch import BatchResult, JobEnd
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import PRINTED, VERSION, StudyKind, StudyState, result_type
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.payload import figure_payload
from pgdyno.report.drawing.text import print_report
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.batch.compare_page import compare_page, comparison_json
from pgdyno.studies.batch.comparing import compare
from pgdyno.studies.batch.page import gantt
from pgdyno.studies.kinds import judged, kind_of
from study_example import make_study

SOME = """\
process,job,start,end,code,status,reason
load,fetch,2026-10-30 22:00:00,2026-10-30 22:30:00,0,,
load,copy,2026-10-30 22:30:00,2026-10-30 23:00:00,2,,
close,sum,2026-10-30 23:00:00,2026-10-30 23:20:00,,cancelled,by the operator
"""


def text_of(report: Report) -> str:
    buffer = StringIO()
    print_report(report, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def month() -> Report:
    chain = month_chain()
    old = recorded(chain, csv_of(month_rows(1, new=False)))
    new = replace(recorded(chain, csv_of(month_rows(3, new=True))), peaks=(Peak("z10", 5.5, 64 << 30, "run 1"),))
    return compare_page(chain, old, new, compare(chain, old, new))


def page_of(result: BatchResult) -> Report:
    study = replace(make_study(StudyKind.BATCH), state=StudyState.COMPLETE, result=result)
    return kind_of(StudyKind.BATCH).page(StudyRecord(study, ()))


@pytest.mark.requirement("R-BAT-02", "R-BAT-03", "R-BAT-04")
def test_the_tables_of_the_certification_are_printed(month: Report) -> None:
    for text in (text_of(month), markdown.render(month)):
        lines = [" ".join(line.replace("|", " ").split()) for line in text.splitlines()]
        assert any(line.startswith("process 1 449 48") and line.endswith("399 46 46") for line in lines)
        assert "process 2 111 99 104 60 60" in lines
        assert "process 3 97 97 86 33 33" in lines
        assert any("process 1: pass, done in 54.0 % " in line for line in lines)
        assert any("process 3: pass, done in 67.0 % " in line for line in lines)


@pytest.mark.requirement("R-BAT-05", "R-BAT-06", "R-BAT-09", "R-BAT-10")
def test_the_footnote_and_the_name_of_each_mean_are_printed(month: Report) -> None:
    text = text_of(month)
    assert "only jobs that took 5:00 min or longer in the reference are compared; 486 shorter jobs left out" in text
    assert "Overall improvement, plain mean of the processes: 46.3 %." in text
    assert "Overall improvement, mean of the processes, weighted by their compared jobs: 46.4 %." in text
    assert "needs a tape" in text
    assert "5.5" in text
    assert "64 GiB" in text


def test_a_side_without_a_successful_job_has_no_critical_path() -> None:
    chain = chain_of()
    good, bad = recorded(chain, SOME.replace(",2,,", ",0,,")), recorded(chain, SOME.replace(",0,,", ",2,,"))
    text = text_of(compare_page(chain, bad, good, compare(chain, bad, good)))
    assert "Critical path of the reference side: unknown, as no job of it succeeded." in text
    assert "Critical path of the new side: the window ends after" in text


def test_it_is_drawn_in_html(month: Report) -> None:
    page = html.render(month)
    assert "Critical path of the new side" in page
    assert '"kind":"tracks"' in page


def test_a_gantt_chart_has_each_span_in_its_place() -> None:
    figure = gantt(recorded(chain_of(), SOME).jobs, 1)
    assert figure is not None
    payload = figure_payload(figure)
    assert isinstance(payload, dict)
    assert payload["notes"] == ["30:00 min", "30:00 min, failed", "20:00 min, cancelled"]
    assert (figure.y.unit, figure.y.hi, figure.series[0].hi) == ("min", 80.0, (30.0,))
    text = text_of(page_of(recorded(chain_of(), SOME)))
    rows = {name: next(line for line in text.splitlines() if line.strip().startswith(name) and mark in line)
            for name, mark in (("load/fetch", "█"), ("load/copy", "▒"), ("close/sum", "░"))}  # fmt: skip
    first, second, third = (rows[name] for name in ("load/fetch", "load/copy", "close/sum"))
    assert first.rindex("█") < second.index("▒") < second.rindex("▒") < third.index("░")
    assert second.count("▒") > third.count("░"), "as long as it took"
    assert "█ succeeded   ▒ failed, timed out or check failed   ░ cancelled" in text
    assert "▒" in markdown.render(page_of(recorded(chain_of(), SOME)))


def test_only_the_longest_of_many_jobs_are_drawn() -> None:
    figure = gantt(recorded(month_chain(), csv_of(month_rows(1, new=True))).jobs, 1)
    assert figure is not None
    assert figure.n == 60
    assert "The 60 longest of 1143 jobs are drawn." in figure.caption


@pytest.mark.requirement("R-BAT-01")
def test_jobs_that_did_not_succeed_are_told_first() -> None:
    result = recorded(chain_of(), SOME)
    report = page_of(result)
    assert [one.id for one in report.sections][:2] == ["answer", "trouble"]
    assert "by the operator" in text_of(report)
    assert "1 execution only: a verdict on the window needs 3." in text_of(report)
    assert "The peak of CPU and memory is unknown: the file does not have it." in text_of(report)
    told = " ".join(text_of(report).split())
    assert "Unknown for some jobs, busy, rows, WAL, server CPU, own CPU: the file does not have it." in told
    said = judged(replace(make_study(StudyKind.BATCH), state=StudyState.COMPLETE, result=result))
    assert said.code is ExitCode.FINDINGS
    assert "1 succeeded, 1 failed, 1 cancelled, 1 skipped" in said.title
    assert said.alert


def test_a_skipped_job_is_on_no_printed_critical_path() -> None:
    jobs = ("a", 'argv = ["true"]'), ("b", 'after = ["a"]\nskip = "no tape"'), ("c", 'after = ["b"]\nargv = ["true"]')
    chain = chain_of('version = 1\n[chain]\nname = "n"\n[[process]]\nname = "p"\n'
                     + "".join(f'[[process.job]]\nname = "{name}"\n{more}\n' for name, more in jobs))  # fmt: skip
    rows = "process,job,start,end\np,a,2026-10-30 22:00:00,2026-10-30 22:30:00\np,b,,\n"
    side = recorded(chain, rows + "p,c,2026-10-30 22:30:00,2026-10-30 22:40:00\n")
    page = compare_page(chain, side, side, compare(chain, side, side))
    (critical,) = [one for one in page.sections if one.id == "critical"]
    assert [row[0] for row in critical.blocks[0].table.rows] == ["p/a", "p/c"]  # type: ignore[union-attr]


def test_an_end_between_two_executions_is_no_failure_of_a_job() -> None:
    good = recorded(chain_of(), SOME.replace(",2,,", ",0,,").replace(",,cancelled,by the operator", ",0,,"))
    study = replace(make_study(StudyKind.BATCH), state=StudyState.COMPLETE)
    said = judged(replace(study, result=replace(good, ended="the stop file, before execution 2")))
    assert said.code is ExitCode.FINDINGS
    told = "every job succeeded in 1 execution, and not all were made: 3 succeeded, 1 skipped; ended: the stop file"
    assert told in said.title
    assert not said.alert
    failed = judged(replace(study, result=replace(good, jobs=(), executions=(), ended="no data could be restored")))
    assert "not every job succeeded in 0 executions: none was run; ended: no data could be restored" in failed.title


def test_the_version_that_ran_a_chain_is_not_the_one_that_prints_its_page() -> None:
    study = replace(make_study(StudyKind.BATCH), state=StudyState.COMPLETE, result=recorded(chain_of(), SOME))
    earlier = replace(study, options={VERSION: "0.1.9"})
    for one, told in ((earlier, "pgdyno 0.1.9"), (study, "a pgdyno of unknown version")):
        assert f"started by {told}" in " ".join(text_of(kind_of(StudyKind.BATCH).page(StudyRecord(one, ()))).split())


def test_how_many_jobs_another_scheduler_ran_at_a_time_is_not_said() -> None:
    study = replace(make_study(StudyKind.BATCH), state=StudyState.COMPLETE, result=recorded(chain_of(), SOME))
    read = replace(study, options={PRINTED: True})
    assert "jobs at a time" in text_of(kind_of(StudyKind.BATCH).page(StudyRecord(study, ())))
    assert "jobs at a time" not in text_of(kind_of(StudyKind.BATCH).page(StudyRecord(read, ())))


def test_a_study_without_a_result_only_says_how_it_stands() -> None:
    study = replace(make_study(StudyKind.BATCH), state=StudyState.RUNNING, result=None)
    assert kind_of(StudyKind.BATCH).page(StudyRecord(study, ())).title == "No verdict: the study is running"


def test_a_result_survives_the_store() -> None:
    result = recorded(chain_of(), SOME)
    assert shaped(result_type(StudyKind.BATCH), json.loads(json.dumps(plain(result)))) == result
    assert {one.end for one in result.jobs} == {
        JobEnd.SUCCEEDED, JobEnd.FAILED, JobEnd.CANCELLED, JobEnd.SKIPPED,
    }  # fmt: skip


def test_json_has_the_figures_of_the_page() -> None:
    chain = chain_of()
    good = recorded(chain, SOME.replace(",2,,", ",0,,"))
    told = comparison_json(compare(chain, good, good))
    assert json.loads(json.dumps(told))["processes"][0]["window_pct"] == 100.0
    assert told["verdict"] == "not resolved", "of one execution, and of a process that the reference did not end"
