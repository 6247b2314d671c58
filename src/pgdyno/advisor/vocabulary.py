"""The names that rule files may use: facts of the target, and functions over its settings.

Numbers are bytes, seconds or bare; a fact that is unknown raises Missing. The page of the rules lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.planned import MEAN_OF_ALL, concurrency_of, counted, log_of, statistics_of
from pgdyno.errors import UsageError
from pgdyno.knobs.expressions import Quantity
from pgdyno.model.evidence import Statistics
from pgdyno.model.facts import Unknown
from pgdyno.units import parse_quantity

Fact = Callable[[Case], object]


def _at_load(case: Case) -> Statistics:
    """Return a watched window. Raises Missing for counters since their reset: a rate of theirs has idle days in it."""
    found = statistics_of(case)
    if found.window.is_mean_of_all:
        raise Missing("a rate at load", MEAN_OF_ALL)
    return found


FACTS: Mapping[str, Fact] = {
    "architecture": lambda case: known(case.host.processor.architecture, "the architecture"),
    "virtualization": lambda case: known(case.host.virtualization.layer, "the virtualization layer"),
    "in_container": lambda case: known(case.host.virtualization.container, "whether it is a container") is not None,
    "kernel": lambda case: _version(known(case.host.kernel.version, "the kernel's version")),
    "scheduler": lambda case: str(known(case.host.kernel.scheduler, "the scheduler's generation")),
    "cpus": lambda case: known(case.host.processor.cpus, "the number of CPUs"),
    "cores": lambda case: known(case.host.processor.cores, "the number of cores"),
    "threads_per_core": lambda case: known(case.host.processor.threads_per_core, "threads per core"),
    "scattered": lambda case: known(case.host.processor.scattered, "where the CPUs lie"),
    "ram": lambda case: known(case.host.memory.ram_bytes, "RAM"),
    "memory": lambda case: known(case.host.memory.limit_bytes, "the memory limit"),
    "page_size": lambda case: known(case.host.memory.page_size, "the page size"),
    "huge_page": lambda case: known(case.host.memory.huge_page_bytes, "the huge page size"),
    "thp": lambda case: known(case.host.memory.thp_enabled, "the mode of transparent huge pages"),
    "swap": lambda case: sum(area.bytes for area in known(case.host.memory.swap, "swap")),
    "major": lambda case: case.server.major,
    "flavour": lambda case: case.server.flavour,
    "in_recovery": lambda case: known(case.server.in_recovery, "whether the server is in recovery"),
    "standbys": lambda case: known(case.server.standbys, "the number of standbys"),
    "extensions": lambda case: tuple(known(case.server.extensions, "the list of extensions")),
    "database_size": lambda case: sum(
        known(database.size_bytes, f'the size of database "{database.name}"')
        for database in known(case.server.databases, "the list of databases")
    ),
    "workload": lambda case: str(known(case.evidence.workload, "the workload's class")),
    "working_set": lambda case: str(known(case.evidence.working_set, "the working set").kind),
    "wal_rate": lambda case: known(case.evidence.wal_rate_bytes_s, "the WAL rate"),
    "too_frequent": lambda case: len(log_of(case).too_frequent_s),
    "write_share": lambda case: known(statistics_of(case).write_share, "the share of writes"),
    "commits_s": lambda case: known(_at_load(case).commits_s, "commits per second"),
    "hit_ratio": lambda case: known(counted(case, "shared_buffers").hit_ratio, "the hit ratio"),
    "temp_bytes_s": lambda case: known(_at_load(case).temp_bytes_s, "temporary file traffic"),
    "sessions": lambda case: known(concurrency_of(case).connected, "the number of sessions"),
    "active": lambda case: known(concurrency_of(case).active_mean, "the number of active sessions"),
}
"""Facts by name. A theme of the package adds one here when an expression needs it."""


def _version(version: tuple[int, int]) -> float:
    """Return (5, 13) as 5.013, so that versions compare as numbers."""
    return version[0] + version[1] / 1000


def _bytes(_: Case, text: object) -> float:
    return parse_quantity(str(text), "B")


def _seconds(_: Case, text: object) -> float:
    return Quantity.of_setting(parse_quantity(str(text), "us"), "us").value / 1e6


def _smallest(_: Case, *values: object) -> float:
    return min(_float(value) for value in values)


def _largest(_: Case, *values: object) -> float:
    return max(_float(value) for value in values)


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{value!r} is not a number")
    return float(value)


def _sysctl(case: Case, name: object) -> object:
    text = case.sysctl(str(name))
    return float(text) if text.lstrip("-").isdigit() else text


def _kernel_version(_: Case, text: object) -> float:
    major, _dot, minor = str(text).partition(".")
    return _version((int(major), int(minor or 0)))


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "setting": lambda case, name: case.number(str(name)),
    "text": lambda case, name: case.text(str(name)),
    "has": lambda case, name: case.has(str(name)),
    "is_default": lambda case, name: case.is_default(str(name)),
    "sysctl": _sysctl,
    "bytes": _bytes,
    "seconds": _seconds,
    "version": _kernel_version,
    "min": _smallest,
    "max": _largest,
    "contains": lambda case, text, part: str(part) in str(text),
    "is_known": lambda case, name: _is_known(case, str(name)),
}
"""Functions by name; the first argument is the case."""


def _is_known(case: Case, name: str) -> bool:
    if name not in FACTS:
        raise UsageError(f'there is no fact "{name}"')
    try:
        return not isinstance(FACTS[name](case), Unknown)
    except Missing:
        return False
