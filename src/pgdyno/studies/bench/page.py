"""The page of a bench, and of one run of any study: figures of one side, and no verdict. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.figure import Table
from pgdyno.model.results.bench import BenchResult, RunRecord, RunSummary
from pgdyno.model.trial import Outcome, Trial, TrialState
from pgdyno.report import chapters, digest, reliability, tiles
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.reads import reads_facts, reads_section
from pgdyno.report.sections import FactList, Report, Section, Tile, Tone
from pgdyno.report.sizes import sizes_of
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import latency_text, number_text, quantity_text, told_once
from pgdyno.studies.bench.kind import KIND
from pgdyno.studies.kinds import judged
from pgdyno.units import plural


def bench_page(record: StudyRecord) -> Report:
    """Return the report; of an unfinished one the runs so far."""
    study, trials, result = record.study, record.trials, record.study.told(BenchResult)
    said, own = judged(study), len(trials[-1].spec.configuration) if trials else 0
    first = (run_facts(trials[-1]),) if trials and trials[-1].outcome is not None else ()
    return framed(
        record,
        said,
        (
            own_settings(trials),
            reliability.confidence(trials, result, KIND.sides, _warnings(result)),
            reads_section(trials, (), (KIND.sides.reference, KIND.sides.subject)),
            *inside_runs(record),
            sizes_of(trials),
            chapters.about(study, trials, (chapters.COUNTED,), first=first),
        ),
        (*_digest(trials, result), digest.pointer(study)),
        lead=f"{record.load}, with {plural(own, 'setting')} of its own" if own else record.load,
        tiles=_tiles(result.usable[-1].figures) if result is not None and result.usable else (),
    )


def _tiles(run: RunSummary) -> tuple[Tile, ...]:
    nopm = run.counters.get("nopm")
    orders = () if nopm is None else (Tile("new orders", f"{number_text(nopm)} NOPM", "", "", "", Tone.NEUTRAL),)
    return (*orders, *tiles.of_one(run))


def _warnings(result: BenchResult | None) -> tuple[str, ...]:
    return () if result is None else told_once(result.top.figures.warnings)


def own_settings(trials: Sequence[Trial]) -> Section | None:
    """List what a bench set before it measured; None where it measured the server as it was."""
    settings = trials[-1].spec.configuration if trials else Configuration.of({})
    table, question = Table(("setting", "value"), tuple(settings.items())), "With which settings was it measured?"
    told = "Set for these runs, and taken back after them."
    return Section.of_table("change", "What was set", question, table, told)


def run_facts(trial: Trial) -> FactList:
    """Return what one finished run counted; the trial must have an outcome."""
    outcome = trial.outcome
    assert outcome is not None, "only a finished trial has facts"
    rows = (
        ("transactions", _transactions(outcome)),
        ("latency", latency_text(outcome.latency_ms)),
        ("skipped by the schedule", f"{outcome.skipped:,}" if outcome.skipped else ""),
        ("CPU of the server", quantity_text(outcome.server_cpu_s, "s")),
        ("CPU of the load's driver", quantity_text(outcome.driver_cpu_s, "s")),
        ("foreign CPU", quantity_text(outcome.foreign_cpu_pct, "% of one core")),
    )
    return FactList(tuple((name, value) for name, value in rows if value))


def _transactions(outcome: Outcome) -> str:
    """Write how transactions ended; of a load that ended early none were counted, whatever it did."""
    if outcome.state is TrialState.FAILED and not (outcome.transactions or outcome.failed):
        return "not counted"
    return f"{outcome.transactions:,} done, {outcome.failed:,} failed, {outcome.retried:,} retried"


def _digest(trials: Sequence[Trial], result: BenchResult | None) -> tuple[Section | None, ...]:
    used, unused = ((), ()) if result is None else (result.usable, result.unused)
    shown = next(iter((*used[::-1], *unused[::-1])), None)
    number = None if shown is None else shown.figures.run
    trial = next((one for one in reversed(trials) if one.id == number and one.outcome is not None), None)
    rows = [
        *(("not used", reason) for reason in _unused_reasons(unused)),
        *(run_facts(trial).rows if trial is not None else ()),
        *(reads_facts(trial) if trial is not None else ()),
        *(() if shown is None else digest.bottleneck_rows("limited by", shown.evidence)),
        *(("note", warning) for warning in _warnings(result)),
    ]
    title = "The run" if used else "The run, which was not used"
    return own_settings(trials), digest.short("run", title, digest.facts(rows))


def _unused_reasons(unused: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return why runs were not used, those that differ in numbers alone once."""
    runs = (one.figures for one in unused)
    return told_once(f"run {run.run}: {run.reason or run.state.value}" for run in runs)
