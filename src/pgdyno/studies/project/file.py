"""The file of a benchmark project: TOML, read strictly. docs/reference/project.md describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from pgdyno.errors import UsageError, hinted
from pgdyno.model.project import (
    DELIVERABLES,
    GOALS,
    PHASES,
    ROW_METRICS,
    Criterion,
    Headline,
    Item,
    Peak,
    Project,
    ProjectRow,
    Scenario,
)
from pgdyno.outside.documents import load_toml

VERSION = 1
STUDY_METRICS = ("throughput", "p50_ms", "p95_ms", "p99_ms", "server_cpu_ms_per_tx", "throughput_ratio",
                 "p50_ratio", "p95_ratio", "p99_ratio", "server_cpu_ratio")  # fmt: skip
"""Figures of studies that a criterion can name, beside any counter of a run, such as `nopm`."""
_COUNTER = re.compile(r"[a-z][a-z0-9_]*")
_NUMBER = (int, float)
_KEYS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "the file": {"version": (int,), "project": (dict,), "scenario": (list,), "phase": (list,), "deliverable": (list,),
                 "peak": (list,)},
    "[project]": {"name": (str,), "background": (str,), "goals": (dict,), "headroom_pct": _NUMBER},
    "scenario": {"name": (str,), "description": (str,), "goal": (str,), "criterion": (dict,), "planned_days": _NUMBER,
                 "serves": (list,), "constraints": (list,), "studies": (list,), "row": (list,), "headline": (dict,),
                 "days": _NUMBER, "runs": (int,), "notes": (list,), "conclusion": (str,)},
    "criterion": {"text": (str,), "metric": (str,), "at_least": _NUMBER, "at_most": _NUMBER, "unit": (str,),
                  "arm": (str,)},
    "row": {"name": (str,), "value": _NUMBER, "count": _NUMBER, "of": _NUMBER, "before": _NUMBER, "after": _NUMBER},
    "headline": {"text": (str,), "metric": (str,)},
    "phase": {"name": (str,), "done": (str,), "note": (str,)},
    "deliverable": {"name": (str,), "done": (str,), "note": (str,)},
    "peak": {"host": (str,), "cores": _NUMBER, "memory_bytes": (int,), "source": (str,)},
}  # fmt: skip
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "the file": ("version", "project", "scenario"),
    "[project]": ("name",),
    "scenario": ("name", "goal", "criterion", "planned_days"),
    "criterion": ("text", "metric"),
    "row": ("name",),
    "headline": ("text", "metric"),
    "phase": ("name",),
    "deliverable": ("name",),
    "peak": ("host", "source"),
}
Table = Mapping[str, object]


@hinted("docs/reference/project.md has every key; pgdyno project new FILE writes an example.")
def parse_project(text: str, *, source: str = "project") -> Project:
    """Read a project. Raises UsageError, with the place, on anything but the documented form."""
    try:
        document: Table = load_toml(text)
    except ValueError as error:
        raise UsageError(f"{source}: not TOML: {error}") from error
    _check(document, "the file", source)
    if document["version"] != VERSION:
        raise UsageError(f"{source}: version {document['version']} is not {VERSION}", hint="Upgrade pgdyno.")
    head = cast(Table, document["project"])
    _check(head, "[project]", f"{source}: [project]")
    scenarios = tuple(_scenario(table, f"{source}: {where}") for table, where in _tables(document, "scenario", source))
    names = [scenario.name for scenario in scenarios]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or twice is not None:
        raise UsageError(f"{source}: {f'two scenarios are called {twice}' if twice else 'there is no scenario'}")
    headroom = float(str(head.get("headroom_pct", 30.0)))
    if not 0 <= headroom < 100:
        raise UsageError(f"{source}: headroom_pct {headroom:g} is not from 0 to below 100")
    return Project(
        name=str(head["name"]),
        background=str(head.get("background", "")),
        scenarios=scenarios,
        phases=_items(document, "phase", PHASES, source),
        deliverables=_items(document, "deliverable", DELIVERABLES, source),
        statements=_statements(cast(Table, head.get("goals", {})), source),
        peaks=tuple(
            Peak(str(one["host"]), _real(one, "cores"), _real(one, "memory_bytes"), str(one["source"]))
            for one, _ in _tables(document, "peak", source)
        ),
        headroom_pct=headroom,
    )


def _scenario(table: Table, where: str) -> Scenario:
    _check(table, "scenario", where)
    headline = cast(Table | None, table.get("headline"))
    if headline is not None:
        _check(headline, "headline", f"{where}: headline")
        _row_metric(str(headline["metric"]), f"{where}: headline")
    serves = _texts(table, "serves", where)
    for word in serves:
        if word not in GOALS:
            raise UsageError(f'{where}: "{word}" is no goal', hint=f"The goals are {', '.join(GOALS)}.")
    runs = _real(table, "runs")
    return Scenario(
        name=str(table["name"]),
        description=str(table.get("description", "")),
        goal=str(table["goal"]),
        criterion=_criterion(cast(Table, table["criterion"]), f"{where}: criterion"),
        planned_days=float(str(table["planned_days"])),
        serves=serves,
        constraints=_texts(table, "constraints", where),
        studies=_texts(table, "studies", where),
        rows=tuple(_row(one, f"{where}: {place}") for one, place in _tables(table, "row", where)),
        headline=None if headline is None else Headline(str(headline["text"]), str(headline["metric"])),
        days=_real(table, "days"),
        runs=None if runs is None else int(runs),
        notes=_texts(table, "notes", where),
        conclusion=str(table.get("conclusion", "")),
    )


def _criterion(table: Table, where: str) -> Criterion:
    _check(table, "criterion", where)
    metric, low, high = str(table["metric"]), _real(table, "at_least"), _real(table, "at_most")
    if metric not in ROW_METRICS and not _COUNTER.fullmatch(metric):
        raise UsageError(f'{where}: "{metric}" is no metric', hint=_METRIC_HINT)
    if low is None and high is None:
        raise UsageError(f"{where}: there is no bound", hint="Give at_least or at_most, so that a program can judge.")
    if low is not None and high is not None and low > high:
        raise UsageError(f"{where}: at_least {low:g} is above at_most {high:g}")
    return Criterion(str(table["text"]), metric, low, high, str(table.get("unit", "")), str(table.get("arm", "")))


_METRIC_HINT = (
    f"Of rows: {', '.join(ROW_METRICS)}; of studies: {', '.join(STUDY_METRICS)}, or a counter of runs, such as nopm."
)


def _row_metric(metric: str, where: str) -> None:
    if metric not in ROW_METRICS:
        raise UsageError(f'{where}: "{metric}" is no metric of rows', hint=f"They are {', '.join(ROW_METRICS)}.")


def _row(table: Table, where: str) -> ProjectRow:
    _check(table, "row", where)
    return ProjectRow(str(table["name"]), *(_real(table, name) for name in ("value", "count", "of", "before", "after")))


def _items(document: Table, key: str, usual: tuple[str, ...], source: str) -> tuple[Item, ...]:
    """Return the items of the file, and after them the usual ones that it does not name."""
    found = [
        Item(str(one["name"]), str(one.get("done", "")), str(one.get("note", "")))
        for one, _ in _tables(document, key, source)
    ]
    named = {item.name for item in found}
    return (*found, *(Item(name) for name in usual if name not in named))


def _statements(table: Table, source: str) -> dict[str, str]:
    for word, said in table.items():
        if word not in GOALS or not isinstance(said, str):
            raise UsageError(f'{source}: goal "{word}" is not one of {", ".join(GOALS)} with a text')
    return {word: str(said) for word, said in table.items()}


def _tables(table: Table, key: str, source: str) -> list[tuple[Table, str]]:
    found: list[tuple[Table, str]] = []
    for number, one in enumerate(cast(list[object], table.get(key, [])), 1):
        where = f"{key} {number}"
        if not isinstance(one, dict):
            raise UsageError(f"{source}: {where} is not a table", hint=f"Write [[{key}]].")
        if key != "scenario" and key != "row":
            _check(one, key, f"{source}: {where}")
        name = one.get("name")
        found.append((one, f'{key} "{name}"' if isinstance(name, str) else where))
    return found


def _check(table: Table, kind: str, where: str) -> None:
    keys = _KEYS[kind]
    for name, value in table.items():
        if name not in keys:
            raise UsageError(f'{where}: unknown key "{name}"', hint=f"The keys are {', '.join(keys)}.")
        if not isinstance(value, keys[name]) or isinstance(value, bool):
            wanted = "number" if float in keys[name] else keys[name][0].__name__
            raise UsageError(f'{where}: "{name}" is {type(value).__name__} and not {wanted}')
    missing = next((name for name in _NEEDED[kind] if name not in table), None)
    if missing is not None:
        raise UsageError(f'{where}: "{missing}" is missing')


def _texts(table: Table, key: str, where: str) -> tuple[str, ...]:
    values = cast(list[object], table.get(key, []))
    if not all(isinstance(value, str) for value in values):
        raise UsageError(f'{where}: "{key}" is not a list of text')
    return tuple(str(value) for value in values)


def _real(table: Table, key: str) -> float | None:
    value = table.get(key)
    return float(value) if isinstance(value, int | float) else None


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
