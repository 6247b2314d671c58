"""Samples of another machine as a study of this store: kind `imported`, read and never measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.study import SAMPLES, Study, StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.probes.evidence.sample_files import SampleFile
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of
from pgdyno.units import plural, seconds_text


@dataclass(frozen=True, slots=True)
class NamedSamples:
    """A file's name and hash, and what was read from it."""

    name: str
    sha256: str
    samples: SampleFile


def named(name: str, text: str, samples: SampleFile) -> NamedSamples:
    """Return the samples with the name and the hash of their file."""
    return NamedSamples(name, sha256_of(text), samples)


def import_samples(store: Store, files: Sequence[NamedSamples], *, target: str = "") -> ImportedResult:
    """Keep each file as a run with its samples, all in one study, and return its result. Nothing is measured.

    `target` is recorded as the study's target, "" for the machine that the first file names.
    """
    tool = files[0].samples.tool
    longest = max(file.samples.ended_at - file.samples.began_at for file in files)
    study = imported_study(
        StudyKind.IMPORTED,
        f"import {tool}",
        target or files[0].samples.machine or "another machine, which the file does not name",
        WorkloadSpec(f"{tool}{SAMPLES}", {}, "unknown", f"samples of {tool}, load unknown", read_only=False),
        LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=longest),
        [(file.name, file.sha256) for file in files],
        facts={"host": {"cores": files[0].samples.cpus}} if files[0].samples.cpus else {},
    )

    def body() -> ImportedResult:
        runs = tuple(_keep(store, study, block, file) for block, file in enumerate(files, 1))
        return ImportedResult(
            study=study.id,
            title=f"{len(runs)} file{'s' * (len(runs) != 1)} of {tool}, imported",
            sentences=tuple(text for file in files for text in _sentences(file)),
            runs=runs,
        )

    return keep_import(store, study, body)


def _keep(store: Store, study: Study, block: int, file: NamedSamples) -> int:
    samples = file.samples
    spec = TrialSpec(BASELINE, Role.ARM, samples.tool, block, 0, factors={"file": file.name})
    run = store.begin_trial(study.id, spec)
    store.add_samples(run, samples.rows)
    began, ended = samples.began_at, samples.ended_at
    store.finish_trial(run, Outcome(TrialState.COMPLETE, began_at=began, steady_from=began, ended_at=ended))
    return run


def _sentences(file: NamedSamples) -> list[str]:
    samples, counts = file.samples, dict[str, int]()
    for row in samples.rows:
        counts[row.table] = counts.get(row.table, 0) + 1
    tables = ", ".join(f"{plural(count, 'row')} of {table}" for table, count in counts.items())
    span = seconds_text(samples.ended_at - samples.began_at)
    return [f"{file.name}: {tables} over {span}.", *_busiest(samples), *samples.notes]


def _busiest(samples: SampleFile) -> list[str]:
    """Say what the CPUs and the devices did, over the whole file; %util is printed and claims nothing."""
    found = []
    cpu = [dict(zip(_names("cpu"), row.values, strict=True)) for row in samples.rows if row.table == "cpu"]
    idle = [float(row["idle_pct"]) for row in cpu if isinstance(row["idle_pct"], float)]
    if idle:
        found.append(f"CPUs: {100 - sum(idle) / len(idle):.1f} % not idle on average, waiting for disks included.")
    devices: dict[str, list[dict[str, object]]] = {}
    for row in samples.rows:
        if row.table == "disk":
            named_row: dict[str, object] = dict(zip(_names("disk"), row.values, strict=True))
            devices.setdefault(str(named_row["device"]), []).append(named_row)
    for device, rows in devices.items():
        told = [
            f"{words} {_mean(rows, column):,.2f}"
            for words, column in (("rkB/s", "rkb_per_s"), ("wkB/s", "wkb_per_s"), ("aqu-sz", "aqu_sz"))
            if any(isinstance(row[column], float) for row in rows)
        ]
        found.append(f"{device}: mean {', '.join(told)}.")
    return found


def _names(table: str) -> tuple[str, ...]:
    return TABLES[table].column_names()[1:]


def _mean(rows: Sequence[dict[str, object]], column: str) -> float:
    known = [value for row in rows if isinstance(value := row[column], float)]
    return sum(known) / len(known)
