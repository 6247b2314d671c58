"""`pgdyno store list|show|changes|export`: look at what was measured and take it elsewhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import JsonFlag, argument, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.report import find
from pgdyno.cli.terminal.columns import print_columns, print_told
from pgdyno.model.live import KILLED, SILENT

if TYPE_CHECKING:
    from pgdyno.model.live import Live
    from pgdyno.model.study import Study
    from pgdyno.model.trial import Trial
    from pgdyno.store.catalogue import Store


RIGHT = frozenset({"trials", "trial", "block", "tps", "p50 ms", "p95 ms", "p99 ms", "CPU ms/tx", "foreign %", "value"})
"""Columns of numbers."""
UNREADABLE = "unreadable"
"""The state of a study whose row is damaged, or of a newer pgdyno."""
CLOSED = "closed"
"""How the session of a killed study stands whose server is as it was found."""


@click.group("store")
def command() -> None:
    """List, show and export what was measured."""


class _ListFlags(StoreFlag):
    as_json: bool = flag("Print a JSON list.", "--json")


@verb("list", command)
def list_(flags: _ListFlags) -> None:
    """List the studies, the newest first."""
    with open_store(flags.store_url) as store:
        (studies, unreadable), counts = store.listed_studies(), store.trial_counts()
        silent = _silent(store)
        rows = [_summary(study, counts.get(study.id, {}), silent.get(study.id)) for study in studies]
    rows += [{"id": name, "state": UNREADABLE, "reason": reason} for name, reason in unreadable.items()]
    if flags.as_json:
        click.echo(json.dumps(rows))
    elif rows:
        _print_studies(rows)
    else:
        click.echo("the store is empty: pgdyno bench measures a first run", err=True)


class _ShowFlags(JsonFlag, StoreFlag):
    name: str = argument("STUDY|TRIAL")


@verb("show", command)
def show(flags: _ShowFlags) -> None:
    """Show a study, by its id, a prefix of it or `last`; or a trial, by its number."""
    from pgdyno.store.codec import to_json

    with open_store(flags.store_url) as store:
        found = find(store, flags.name)
        if flags.as_json:
            click.echo(json.dumps(to_json(_as_json(store, found))))
        else:
            _print(store, found)


class _ChangesFlags(StoreFlag):
    session: str | None = flag("Only the changes of this session.", metavar="ID")
    as_json: bool = flag("Print a JSON list.", "--json")


@verb("changes", command)
def changes(flags: _ChangesFlags) -> None:
    """List what was put in force to stay, or taken back: who, when, which knob, from what to what, and why."""
    from dataclasses import asdict

    from pgdyno.report.appendix import changes_table

    with open_store(flags.store_url) as store:
        found = store.changes(session=flags.session)
    if flags.as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
        return
    if not found:
        click.echo("no change is on record: pgdyno apply makes one", err=True)
        return
    data = changes_table(found)
    print_columns(data.columns, data.rows)


class _ExportFlags(StoreFlag):
    name: str = argument("STUDY")
    form: str = flag(
        "One JSON file, or a folder with one CSV file for each table.",
        "--format",
        default="json",
        type=click.Choice(["json", "csv"]),
    )
    output: Path | None = flag("The new file or folder.  [default: the study's id]", "-o", metavar="PATH")


@verb("export", command)
def export(flags: _ExportFlags) -> None:
    """Write everything that was measured in a study, samples included, for other programs."""
    from pgdyno.store.bundle_format import check_study_id
    from pgdyno.store.export import export_csv, export_json

    with open_store(flags.store_url) as store:
        study = store.study(flags.name)
        check_study_id(study.id)  # it names the file, and anybody may have written the store
        if flags.form == "csv":
            path = flags.output or Path(study.id)
            export_csv(store, study.id, path)
        else:
            path = flags.output or Path(f"{study.id}.json")
            export_json(store, study.id, path)
    click.echo(f"wrote {path}", err=True)


def _silent(store: Store) -> dict[str, Live]:
    """Return the last sign of life of studies that say to run and have nobody who writes."""
    from pgdyno.store.live import LiveBoard

    now = time.time()
    return {live.study: live for live in LiveBoard(store).running() if live.is_silent(now)}


def _summary(study: Study, trials: dict[str, int], live: Live | None) -> dict[str, object]:
    from pgdyno.model.shapes import plain
    from pgdyno.model.study import StudyState
    from pgdyno.studies.kinds import judged
    from pgdyno.studies.session.aftermath import Aftermaths

    is_silent = live is not None and study.state is StudyState.RUNNING
    verdict = None if study.result is None else study.result.headline
    return {
        "id": study.id,
        "kind": study.kind.value,
        "name": study.name,
        "state": study.state.value,
        "silent_s": time.time() - live.at if live is not None and is_silent else None,
        "session": Aftermaths().of(study, live).value if live is not None and is_silent else None,
        "created_at": study.created_at,
        "target": study.target,
        "environment": study.environment,
        "workload": study.workload.description,
        "trials": trials,
        "verdict": plain(verdict),
        "judgement": judged(study).to_json() if study.result else None,
    }


def _as_json(store: Store, found: Study | Trial) -> dict[str, object]:
    from pgdyno.model.study import Study

    if isinstance(found, Study):
        return {"study": found, "trials": store.trials(found.id)}
    from pgdyno.model.record import TextRecord
    from pgdyno.model.shapes import plain
    from pgdyno.studies.pairs.result import run_figures
    from pgdyno.trial.run_evidence import read_evidence

    figures = plain(run_figures(found))
    evidence = plain(read_evidence(store, store.study(found.study_id), found))
    assert isinstance(figures, dict), "dataclasses are objects"
    assert isinstance(evidence, dict), "dataclasses are objects"
    place = {"study": found.study_id, "spec": found.spec, "settings": dict(found.spec.configuration)}
    texts = {one.name: one.text for one in store.records(found.id, TextRecord)}
    return {**figures, **place, **evidence, "events": store.events(found.id), "texts": texts}


def _print(store: Store, found: Study | Trial) -> None:
    from pgdyno.model.study import Study

    if isinstance(found, Study):
        _print_study(store, found)
    else:
        _print_trial(store, found)


def _print_studies(rows: list[dict[str, object]]) -> None:
    lines = []
    for row in rows:
        if row["state"] == UNREADABLE:
            lines.append([str(row["id"]), "", "", UNREADABLE, "", str(row["reason"]), ""])
            continue
        trials = row["trials"]
        count = sum(trials.values()) if isinstance(trials, dict) else 0
        began = _moment(row["created_at"])
        cells = (row["id"], began, row["kind"], _state_shown(row), count, row["workload"], _came_to(row))
        lines.append([str(cell) for cell in cells])
    print_columns(("study", "began", "kind", "state", "trials", "workload", "result"), lines, RIGHT)
    silent = {row["session"] for row in rows if row.get("silent_s") is not None}
    if CLOSED in silent:
        click.echo(
            f"{KILLED}: it left no settings to restore; pgdyno store show STUDY says what else it left", err=True
        )
    if "open" in silent:
        click.echo(f"{SILENT}: it no longer responds; pgdyno rollback restores its server", err=True)
    elif "unknown" in silent:
        click.echo(
            f"{SILENT}: it no longer responds; pgdyno rollback --list shows its state on the host where it ran",
            err=True,
        )
    elif "none" in silent:
        click.echo(f"{SILENT}: it no longer responds; it changes no settings, so there is nothing to restore", err=True)


def _state_shown(row: dict[str, object]) -> object:
    """Return the word for the state of a study: that it says to run is no sign that it does."""
    return row["state"] if row["silent_s"] is None else KILLED if row["session"] == CLOSED else SILENT


def _came_to(row: dict[str, object]) -> str:
    """Return the word of a study's verdict, else of its judgement; of a bench that was used its figure."""
    judgement, verdict = row["judgement"], row["verdict"]
    if isinstance(verdict, dict):
        return str(verdict.get("word", ""))
    return str(judgement["word"] or judgement["said"]) if isinstance(judgement, dict) else ""


def _print_study(store: Store, study: Study) -> None:
    from pgdyno.model.verdict import LATENCIES, Metric
    from pgdyno.studies.kinds import kind_of
    from pgdyno.units import plural

    trials, silent = store.trials(study.id), _silent(store).get(study.id)
    state = _state_shown(_summary(study, {}, silent))
    print_told("study     ", f"{study.id} ({study.kind.value}, {state}), began {_moment(study.created_at)}")
    if state == KILLED:
        print_told("left      ", kind_of(study.kind).after_kill(study))
    if study.ended:
        print_told("ended     ", study.ended)
    print_told("target    ", f"{study.target}, environment {study.environment}")
    print_told("workload  ", f"{study.workload.description}, {plural(study.plan.clients, 'client')}")
    latency = study.metric if study.metric in LATENCIES else Metric.LATENCY_P95
    columns = (
        "trial",
        "role",
        "arm",
        "block",
        "state",
        "tps",
        f"{latency.short} ms",
        "CPU ms/tx",
        "foreign %",
        "settings",
    )
    lines = []
    for trial in trials:
        outcome, spec = trial.outcome, trial.spec
        figures: tuple[float | None, ...] = (None,) * 4
        if outcome is not None:
            waited = outcome.figure(latency)
            figures = (outcome.throughput, waited, outcome.server_cpu_ms_per_tx, outcome.foreign_cpu_pct)
        settings = ", ".join(f"{name}={value}" for name, value in spec.configuration.items())
        cells = (trial.id, spec.role.value, spec.arm, spec.block, trial.state.value)
        lines.append([*map(str, cells), *map(_figure, figures), settings])
    print_columns(columns, lines, RIGHT)


def _print_trial(store: Store, trial: Trial) -> None:
    from pgdyno.model.shapes import plain
    from pgdyno.model.trial import TrialState
    from pgdyno.report.wording import purpose_text
    from pgdyno.studies.pairs.result import run_figures

    what = purpose_text(trial.spec.role.value, trial.spec.arm)
    print_told("trial     ", f"{trial.id} of study {trial.study_id}: {what}")
    for line in trial.spec.configuration.fragment().splitlines() or ["the server's own settings"]:
        print_told("settings  ", line)
    lines = []
    known = plain(run_figures(trial))
    assert isinstance(known, dict), "a dataclass is an object"
    del known["run"]
    if trial.state is TrialState.COMPLETE:
        del known["reason"]
    for name, value in known.items():
        for key, figure in value.items() if isinstance(value, dict) else [("", value)]:
            lines.append((f"{name} {key}".strip(), _figure(figure)))
    print_columns(("measured", "value"), lines, RIGHT)
    _print_evidence(store, trial)
    for event in store.events(trial.id):
        print_told(f"{_moment(event.t, '%H:%M:%S')}  ", f"{event.kind}: {event.text}")


def _print_evidence(store: Store, trial: Trial) -> None:
    """Say what held the run back and what failed in it, and which texts it left."""
    from pgdyno.model.record import TextRecord
    from pgdyno.report.bottleneck_section import headline
    from pgdyno.report.run_details import failures_text
    from pgdyno.trial.run_evidence import read_evidence

    evidence = read_evidence(store, store.study(trial.study_id), trial)
    print_told("evidence  ", headline(evidence.bottleneck))
    for sentence in (*evidence.bottleneck.evidence, *evidence.bottleneck.notes):
        print_told(" " * 10, sentence)
    print_told("failures  ", failures_text(evidence))
    for text in store.records(trial.id, TextRecord):
        lines = len(text.text.splitlines())
        print_told("text      ", f"{text.name}, {lines} {'line' if lines == 1 else 'lines'}: with --json")


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return "unknown" if value is None else str(value)


def _moment(seconds: object, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    from datetime import datetime

    return datetime.fromtimestamp(float(str(seconds))).astimezone().strftime(form)
