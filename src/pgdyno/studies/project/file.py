"""The file of a benchmark project: TOML, read strictly. docs/reference/project.md describes it."""

from __future__ import annotations

import re

from pgdyno.errors import hinted
from pgdyno.model.project import (
    DELIVERABLES,
    FIGURES,
    GOALS,
    PHASES,
    RATIOS,
    ROW_METRICS,
    Criterion,
    Headline,
    Item,
    Peak,
    Project,
    ProjectRow,
    Scenario,
)
from pgdyno.model.tables import keys_of
from pgdyno.studies.plan_reader import PlanTable
from pgdyno.studies.project.certified import CERTIFIED, OF_RUNS

VERSION = 1
RUN_TABLES = ("platform", "data", "capture")
"""Tables that only a run of the project reads, beside `run` of a scenario: `run_plan.py`."""
STUDY_METRICS = (*FIGURES, *RATIOS, *CERTIFIED, *OF_RUNS)
"""Figures of studies that a criterion can name, beside any counter of a run, such as `nopm`."""
_COUNTER = re.compile(r"[a-z][a-z0-9_]*")
_NEEDED = ("version", "project", "scenario")
_KEYS = (*_NEEDED, "phase", "deliverable", "peak", *RUN_TABLES)
_HEAD = ("name", "background", "headroom_pct")
_PARTS = ("criterion", "headline", "rows")
_SCENARIO = tuple(key for key in keys_of(Scenario) if key not in _PARTS)


@hinted("docs/reference/project.md has every key; pgdyno project new FILE writes an example.")
def parse_project(text: str, *, source: str = "project") -> Project:
    """Read a project. Raises UsageError with line, name and value on anything but the documented form."""
    file = PlanTable.of_text(text, source)
    file.head(_KEYS, _NEEDED, VERSION)
    table = file.needed("project")
    table.values = {"background": "", **table.values}
    head = table.fields(Project, _HEAD, ("goals",))
    if not 0 <= head.get("headroom_pct", 0.0) < 100:
        table.refuse("headroom_pct", f"headroom_pct {head['headroom_pct']:g} is not from 0 to below 100")
    scenarios = list[Scenario]()
    for one in file.tables("scenario"):
        found = _scenario(one)
        if found.name in {other.name for other in scenarios}:
            one.refuse("name", f"two scenarios are called {found.name}", hint="Give each a name of its own.")
        scenarios.append(found)
    return Project(
        **head,
        scenarios=tuple(scenarios),
        phases=_items(file, "phase", PHASES),
        deliverables=_items(file, "deliverable", DELIVERABLES),
        statements=_statements(table),
        peaks=tuple(map(_peak, file.tables("peak"))),
    )


def _scenario(table: PlanTable) -> Scenario:
    table.values = {"description": "", **table.values}
    fields = table.fields(Scenario, _SCENARIO, ("criterion", "headline", "row", "run"))
    for word in fields.get("serves", ()):
        table.one_of("serves", word, GOALS, "goal")
    return Scenario(
        **fields,
        criterion=_criterion(table.needed("criterion")),
        headline=_headline(table),
        rows=tuple(one.read(ProjectRow) for one in table.tables("row")),
    )


def _peak(table: PlanTable) -> Peak:
    table.values = {"cores": None, "memory_bytes": None, **table.values}
    return table.read(Peak)


def _headline(scenario: PlanTable) -> Headline | None:
    table = scenario.get("headline")
    if table is None:
        return None
    found = table.read(Headline)
    if found.metric not in ROW_METRICS:
        table.refuse("metric", f'"{found.metric}" is not a metric of rows', hint=f"They are {', '.join(ROW_METRICS)}.")
    return found


def _criterion(table: PlanTable) -> Criterion:
    found = table.read(Criterion)
    metric, low, high = found.metric, found.at_least, found.at_most
    if metric not in ROW_METRICS and not _COUNTER.fullmatch(metric):
        table.refuse("metric", f'"{metric}" is not a metric', hint=_METRIC_HINT)
    if low is None and high is None:
        table.refuse("", "there is no bound", hint="Give at_least or at_most, so that a program can judge.")
    if low is not None and high is not None and low > high:
        table.refuse("at_least", f"at_least {low:g} is above at_most {high:g}", hint="Exchange them, or leave one out.")
    return found


_METRIC_HINT = (
    f"Of rows: {', '.join(ROW_METRICS)}; of studies: {', '.join(STUDY_METRICS)}, or a counter of runs, such as nopm."
)


def _items(file: PlanTable, key: str, usual: tuple[str, ...]) -> tuple[Item, ...]:
    """Return the items of the file, and after them the usual ones that it does not name."""
    found = [one.read(Item) for one in file.tables(key)]
    named = {item.name for item in found}
    return (*found, *(Item(name) for name in usual if name not in named))


def _statements(project: PlanTable) -> dict[str, str]:
    table = project.get("goals")
    if table is None:
        return {}
    for word, said in table.values.items():
        table.one_of(word, word, GOALS, "goal")
        if not isinstance(said, str):
            table.refuse(word, f'goal "{word}" is not text', hint=f'Write {word} = "to be agreed".')
    return {word: str(said) for word, said in table.values.items()}


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
