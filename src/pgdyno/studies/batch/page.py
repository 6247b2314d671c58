"""The page of a batch chain: executions, jobs, checks, restores and peaks of one study. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Figure, Table
from pgdyno.model.results.batch import BatchResult, CheckedResult, JobEnd, JobRun
from pgdyno.model.study import files_of
from pgdyno.report import provenance
from pgdyno.report.digest import pointer
from pgdyno.report.page_frame import framed, unfinished
from pgdyno.report.run_details import plans_of_sides
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import rounded_text
from pgdyno.studies.batch.comparing import window_of
from pgdyno.studies.batch.words import few_text, judgement
from pgdyno.studies.gantt import Span, spans_figure
from pgdyno.units import binary_text, bytes_text, seconds_text

_COLUMNS = {"busy_s": "busy", "rows": "rows", "wal_bytes": "WAL", "server_cpu_s": "server CPU", "cpu_s": "own CPU"}
METHOD = (
    "Executions run one after another. Where the chain has a restore command, each starts from restored data.",
    "A job starts when the jobs that it waits for have succeeded, its calendar start has passed and a slot is free.",
)


def batch_page(record: StudyRecord) -> Report:
    """Return the page; of a study without a result only how it stands."""
    result = record.study.told(BatchResult)
    if result is None:
        return unfinished(record, _about(record))
    answer = Section("answer", "Answer", "Did the chain do its work, and how long did it take?", _answer(result))
    sections = [answer, trouble(result), _chart(result), _jobs(result), skipped(result), _checks(result),
                _plans(record, result), sizing(result), _about(record)]  # fmt: skip
    return framed(
        record,
        judgement(result),
        sections,
        (answer, trouble(result), pointer(record.study)),
        stamp="Recorded by another scheduler: its environment is not known here" if result.imported else "",
    )


def _answer(result: BatchResult) -> tuple[Block, ...]:
    blocks: list[Block] = []
    few = few_text(result)
    if few:
        blocks.append(Notice((few,)))
    unrestored = "not recorded" if result.imported else "not restored"
    processes = list(dict.fromkeys(one.process for one in result.jobs))
    rows = tuple(
        (
            str(execution.number),
            unrestored if execution.restore_s is None else seconds_text(execution.restore_s),
            seconds_text(execution.window_s),
            *(_window(result.jobs, execution.number, process) for process in processes),
            execution.ended,
        )
        for execution in result.executions
    )
    columns = ("execution", "data restored in", "window", *(f"window of {name}" for name in processes), "ended by")
    caption = "A window is from the start of the first job to the end of the last; restoring the data is not in it."
    if rows:
        blocks.append(TableBlock(Table(columns, rows, columns[1:-1]), caption))
    blocks.append(Prose(("pgdyno batch compare compares the windows with those of a reference.",)))
    return tuple(blocks)


def _window(runs: Sequence[JobRun], execution: int, process: str) -> str:
    window = window_of([one for one in runs if one.execution == execution and one.process == process])
    return "" if window is None else seconds_text(window)


def trouble(result: BatchResult) -> Section | None:
    """Return the jobs that should have succeeded and did not, None where all did."""
    rows = tuple(
        (str(one.execution), one.key, one.end.value, "" if one.code is None else str(one.code), str(one.attempts),
         one.reason)
        for one in result.unsuccessful
    )  # fmt: skip
    table = Table(("execution", "job", "end", "code", "attempts", "reason"), rows, ("code", "attempts"))
    told = "A job whose check fails is not successful, whatever it returned."
    return Section.of_table("trouble", "Jobs that did not succeed", "What needs attention?", table, told)


def _chart(result: BatchResult) -> Section | None:
    figures = [figure for one in result.executions if (figure := gantt(result.jobs, one.number)) is not None]
    return Section("gantt", "The executions", "Which job ran when?", (Charts(tuple(figures)),)) if figures else None


def _jobs(result: BatchResult) -> Section | None:
    ran = [one for one in result.jobs if one.seconds is not None]
    if not ran:
        return None
    columns = ("execution", "job", "end", "time", "busy", "waits", "rows", "WAL", "server CPU", "own CPU", "attempts")
    rows = tuple(
        (
            str(one.execution),
            one.key,
            one.end.value,
            seconds_text(one.seconds or 0.0),
            _seconds(one.busy_s),
            ", ".join(f"{name} {seconds:.0f} s" for name, seconds in sorted(one.waits.items())),
            "unknown" if one.rows is None else f"{one.rows:,}",
            "unknown" if one.wal_bytes is None else bytes_text(one.wal_bytes),
            _seconds(one.server_cpu_s),
            _seconds(one.cpu_s),
            str(one.attempts),
        )
        for one in ran
    )
    blocks: list[Block] = [TableBlock(Table(columns, rows, columns[3:5] + columns[6:]), "Every job.", folded=True)]
    reasons = _reasons(ran)
    told = (
        "Busy time and waits are of the sessions with the job's application_name, sampled once a second.",
        "Rows (of the jobs' database), WAL and server CPU are the whole server's, and known of a job that ran alone.",
        *reasons,
    )
    return Section("jobs", "The jobs", "What did each job take?", (*blocks, Prose(told, points=True)))


def _reasons(ran: Sequence[JobRun]) -> tuple[str, ...]:
    """Return why figures of some jobs are unknown, once each, by the names of the columns."""
    found: dict[str, list[str]] = {}
    for one in ran:
        for name, why in one.unknown.items():
            columns = found.setdefault(why, [])
            if (column := _COLUMNS.get(name, name)) not in columns:
                columns.append(column)
    return tuple(f"Unknown for some jobs, {', '.join(columns)}: {why}." for why, columns in found.items())


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(value)


def skipped(result: BatchResult) -> Section | None:
    """Return the jobs that the chain leaves out, with their reasons; None where there is none."""
    found = {one.key: one.reason or "no reason is given" for one in result.jobs if one.end is JobEnd.SKIPPED}
    table = Table(("job", "reason"), tuple(found.items()))
    question = "What was not done, and why?"
    return Section.of_table("skipped", "Skipped jobs", question, table, "Left out of every execution.")


def _checks(result: BatchResult) -> Section | None:
    rows = tuple((str(one.execution), one.key, check.check, check.found, _passed(check))
                 for one in result.jobs for check in one.checks)  # fmt: skip
    table, question = (
        Table(("execution", "job", "check", "found", "passed"), rows),
        "Is what the jobs left behind correct?",
    )
    return Section.of_table("checks", "Functional checks", question, table, "Checks of what the jobs left behind.")


def _plans(record: StudyRecord, result: BatchResult) -> Section | None:
    """Return whether a statement of a job had another plan than in the first execution."""
    runs = [one for one in result.executions if one.run is not None]
    sides = [(f"execution {one.number}", (runs[0].run or 0,), (one.run or 0,)) for one in runs[1:]]
    return plans_of_sides(record, sides, "execution", ("the first execution", "this execution"))


def _passed(check: CheckedResult) -> str:
    return "could not be made" if check.passed is None else "yes" if check.passed else "no"


def sizing(result: BatchResult) -> Section:
    """Return what each host needed most, or why that is not known."""
    if not result.peaks:
        told = f"The peak of CPU and memory is unknown: {result.no_peak or 'it was not recorded'}."
        return Section("sizing", "Sizing hint", "How large must the host be?", (Prose((told,)),))
    rows = tuple(
        (one.host, "unknown" if one.cores is None else rounded_text(one.cores),
         "unknown" if one.memory_bytes is None else binary_text(one.memory_bytes), one.source)
        for one in result.peaks
    )  # fmt: skip
    table = Table(("host", "busy cores at peak", "memory at peak", "from"), rows, ("busy cores at peak",))
    caption = "The greatest mean of ten seconds in a row, of the server's processes; memory is total less available."
    return Section("sizing", "Sizing hint", "How large must the host be?", (TableBlock(table, caption),))


def _about(record: StudyRecord) -> Section:
    study = record.study
    environment = provenance.environment(study, record.trials)
    driver = "another scheduler" if study.was_read else f"the jobs of the chain, started by {study.began_by}"
    facts = FactList(tuple((name, driver if name == "driver" else value) for name, value in environment.rows))
    told = (
        ("chain", study.workload.description),
        ("fingerprint of its jobs", study.workload.fingerprint),
        *(() if study.was_read else (("jobs at a time", str(study.plan.clients)),)),
        *((f"file {name}", f"sha256 {seal}") for name, seal in files_of(study)),
    )
    blocks = (facts, FactList(told), *(() if study.was_read else (Prose(METHOD, points=True),)))
    return Section("about", "Environment and method", "What exactly was run, where and how?", blocks)


GROUPS = {
    JobEnd.SUCCEEDED: "keep",
    JobEnd.FAILED: "drop",
    JobEnd.TIMED_OUT: "drop",
    JobEnd.CHECK_FAILED: "drop",
    JobEnd.CANCELLED: "null",
}
_NAMES = {"keep": "succeeded", "drop": "failed, timed out or check failed", "null": "cancelled"}


def gantt(runs: Sequence[JobRun], execution: int) -> Figure | None:
    """Return the chart of an execution, None where no job of it ran."""
    spans = [
        Span(one.key, one.began_s, one.ended_s, GROUPS.get(one.end, "drop"), one.end.value, note_of(one))
        for one in runs
        if one.execution == execution and one.began_s is not None and one.ended_s is not None
    ]
    return spans_figure(
        spans,
        figure=f"gantt-{execution}",
        title=f"Execution {execution}",
        question="Which job ran when?",
        what="job",
        since="the execution began",
        names=_NAMES,
    )


def note_of(run: JobRun) -> str:
    """Return the time of a job, and how it ended where that was no success."""
    told = seconds_text(run.seconds or 0.0)
    return told if run.end is JobEnd.SUCCEEDED else f"{told}, {run.end.value}"
