"""The file of a benchmark project: TOML, read strictly. docs/reference/project.md describes it."""

from __future__ import annotations

import re
from dataclasses import replace

from pgdyno.errors import UsageError, hinted
from pgdyno.model.project import (
    DELIVERABLES,
    GOALS,
    PHASES,
    ROW_METRICS,
    Criterion,
    Item,
    Peak,
    Project,
    ProjectRow,
    Scenario,
)
from pgdyno.model.tables import Table, fields_of, is_version, read_table, table_of, tables_of, toml_of
from pgdyno.studies.project.certified import CERTIFIED, OF_RUNS

VERSION = 1
RUN_TABLES = ("platform", "data", "capture")
"""Tables that only a run of the project reads, beside `run` of a scenario: `run_plan.py`."""
STUDY_METRICS = ("throughput", "p50_ms", "p95_ms", "p99_ms", "server_cpu_ms_per_tx", "throughput_ratio",
                 "p50_ratio", "p95_ratio", "p99_ratio", "server_cpu_ratio", *CERTIFIED, *OF_RUNS)  # fmt: skip
"""Figures of studies that a criterion can name, beside any counter of a run, such as `nopm`."""
_COUNTER = re.compile(r"[a-z][a-z0-9_]*")


@hinted("docs/reference/project.md has every key; pgdyno project new FILE writes an example.")
def parse_project(text: str, *, source: str = "project") -> Project:
    """Read a project. Raises UsageError, with the place, on anything but the documented form."""
    keys = ("version", "project", "scenario", "phase", "deliverable", "peak")
    document = table_of(toml_of(text, source), source, (*keys, *RUN_TABLES))
    for key in keys[:3]:
        if key not in document:
            raise UsageError(f'{source}: "{key}" is missing')
    if not is_version(document["version"], VERSION):
        raise UsageError(f"{source}: version {document['version']} is not {VERSION}", hint="Upgrade pgdyno.")
    place = f"{source}: [project]"
    head = table_of(document["project"], place, ("name", "background", "goals", "headroom_pct"))
    fields = {name: value for name, value in head.items() if name != "goals"}
    project = fields_of(Project, {"background": "", **fields}, place, ("name", "background", "headroom_pct"))
    scenarios = tuple(_scenario(table, where) for table, where in tables_of(document, "scenario", source))
    names = [scenario.name for scenario in scenarios]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or twice is not None:
        raise UsageError(f"{source}: {f'two scenarios are called {twice}' if twice else 'there is no scenario'}")
    if not 0 <= project.get("headroom_pct", 0.0) < 100:
        raise UsageError(f"{source}: headroom_pct {project['headroom_pct']:g} is not from 0 to below 100")
    return Project(
        **project,
        scenarios=scenarios,
        phases=_items(document, "phase", PHASES, source),
        deliverables=_items(document, "deliverable", DELIVERABLES, source),
        statements=_statements(head.get("goals", {}), source),
        peaks=tuple(
            read_table(Peak, {"cores": None, "memory_bytes": None, **table}, where)
            for table, where in tables_of(document, "peak", source)
        ),
    )


def _scenario(table: Table, where: str) -> Scenario:
    fields = {"description": "", **table}
    rows = tuple(read_table(ProjectRow, row, place) for row, place in tables_of(table, "row", where))
    for other in ("row", "run"):
        fields.pop(other, None)
    scenario = replace(read_table(Scenario, fields, where), rows=rows)
    if scenario.headline is not None and scenario.headline.metric not in ROW_METRICS:
        raise UsageError(
            f'{where}: headline: "{scenario.headline.metric}" is not a metric of rows',
            hint=f"They are {', '.join(ROW_METRICS)}.",
        )
    for word in scenario.serves:
        if word not in GOALS:
            raise UsageError(f'{where}: "{word}" is not a goal', hint=f"The goals are {', '.join(GOALS)}.")
    _check_criterion(scenario.criterion, f"{where}: criterion")
    return scenario


def _check_criterion(criterion: Criterion, where: str) -> None:
    metric, low, high = criterion.metric, criterion.at_least, criterion.at_most
    if metric not in ROW_METRICS and not _COUNTER.fullmatch(metric):
        raise UsageError(f'{where}: "{metric}" is not a metric', hint=_METRIC_HINT)
    if low is None and high is None:
        raise UsageError(f"{where}: there is no bound", hint="Give at_least or at_most, so that a program can judge.")
    if low is not None and high is not None and low > high:
        raise UsageError(f"{where}: at_least {low:g} is above at_most {high:g}")


_METRIC_HINT = (
    f"Of rows: {', '.join(ROW_METRICS)}; of studies: {', '.join(STUDY_METRICS)}, or a counter of runs, such as nopm."
)


def _items(document: Table, key: str, usual: tuple[str, ...], source: str) -> tuple[Item, ...]:
    """Return the items of the file, and after them the usual ones that it does not name."""
    found = [read_table(Item, table, where) for table, where in tables_of(document, key, source)]
    named = {item.name for item in found}
    return (*found, *(Item(name) for name in usual if name not in named))


def _statements(table: object, source: str) -> dict[str, str]:
    goals = table_of(table, f"{source}: [project.goals]", GOALS)
    for word, said in goals.items():
        if not isinstance(said, str):
            raise UsageError(f'{source}: goal "{word}" is not text')
    return {word: str(said) for word, said in goals.items()}


TEMPLATE = """\
# A benchmark project. pgdyno project fix FILE fixes goals and criteria before the first run;
# pgdyno project check FILE judges them; pgdyno project report FILE -o project.html writes the report.
version = 1

[project]
name = "new platform"
background = "Why this is done, and what was agreed."
headroom_pct = 30            # of a recommended size, free at the measured peak

[project.goals]              # goals that no scenario measures, in words
support = "to be agreed"

[[phase]]                    # before the measuring: scope workshop, design workshop, proof of concept
name = "scope workshop"
done = ""                    # the date

[[scenario]]
name = "oltp"
description = "The load of a working day"
goal = "The new platform carries the transactions of the business"
planned_days = 12
serves = ["performance", "oltp"]   # performance, oltp, batch, sizing, migration, scalability, support
constraints = ["The data are those of one night."]
studies = []                 # ids of pgdyno store list

[scenario.criterion]
text = "Throughput is no worse than that of the old configuration"
metric = "throughput_ratio"  # B against A of a comparison; or throughput, p99_ms, nopm ..., or a metric of rows
at_least = 1.0

[[scenario]]
name = "batch"
goal = "The batch window holds"
planned_days = 21
serves = ["batch"]

[scenario.criterion]
text = "Every process ends within the window of today"
metric = "worst_remainder"
at_most = 100
unit = "%"

# Figures that were measured elsewhere; what is said of them is computed from these rows.
# [[scenario.row]]
# name = "process 1"
# before = 100
# after = 54
# count = 449
"""
"""What `pgdyno project new` writes."""
