"""The workloads by name, with the parameters that each one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from pgdyno.errors import UsageError, hinted
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.workloads import custom
from pgdyno.workloads.dataset import PgbenchTables
from pgdyno.workloads.loop_command import check_loop_plan
from pgdyno.workloads.parameters import Parameter, Value, resolve
from pgdyno.workloads.pgbench.command import DriverOptions
from pgdyno.workloads.pgbench.workload import PgbenchWorkload, WorkloadKind
from pgdyno.workloads.script import BUILTIN_STATEMENTS, Script, fingerprint
from pgdyno.workloads.tprocc import workload as tprocc
from pgdyno.workloads.tprocc.examiner import keep_start
from pgdyno.workloads.ybio import figures as ybio_figures
from pgdyno.workloads.ybio import workload as ybio

GROUP = "pgdyno.workloads"
"""The entry points by which an installed package offers a `WorkloadKind` of its own; they are loaded when named."""
_DRIVER_PARAMETERS = (
    Parameter("max_tries", 1, "tries of a transaction that fails by serialisation or deadlock", low=1, high=1000),
    Parameter("latency_limit_ms", 0.0, "under a rate, skip what would start later than this; 0 skips none", low=0),
)
_TABLE_PARAMETERS = (
    Parameter("scale", 10, "scale of pgbench's tables: 100,000 accounts, about 16 MB each", low=1, high=100_000),
    Parameter("fillfactor", 100, "fillfactor of pgbench's tables, in percent", low=10, high=100),
)
_YBIO_DRIVER_PARAMETERS = (
    Parameter("max_tries", ybio.UPDATE_TRIES, "tries of an update that meets a deadlock", low=1, high=1000),
    _DRIVER_PARAMETERS[1],
)


@hinted("docs/reference/workloads.md has every parameter.")
def make_workload(name: str, parameters: Mapping[str, Value], *, pgbench: Path | None = None) -> PgbenchWorkload:
    """Return the workload of this name. Numbers may be texts, as the command line has them.

    `pgbench` is a program to use where the server's own folder has none. Raises UsageError on an unknown name or
    parameter, a value out of bounds, or a script that cannot be read.
    """
    name, colon, subject = name.partition(":")
    kind = WORKLOADS.get(name) or _installed(name)
    if colon and not kind.subject:
        raise UsageError(
            f'workload "{name}" takes nothing behind a colon', hint="Give its parameters by -D NAME=VALUE."
        )
    given = {kind.subject: subject, **parameters} if colon else parameters
    return kind.make(resolve(name, kind.parameters, given), pgbench)


def is_installed(name: str) -> bool:
    """Tell whether an installed package offers a workload of this name; loads nothing of it."""
    return bool(entry_points(group=GROUP, name=name))


def _installed(name: str) -> WorkloadKind:
    found = entry_points(group=GROUP, name=name)
    if not found:
        raise UsageError(f'workload "{name}" is not known', hint=f"Choose one of {', '.join(WORKLOADS)}.")
    (entry, *_) = found
    try:
        kind = entry.load()
    except Exception as error:  # whatever the code of others does
        raise _unusable(name, entry.value, f"{type(error).__name__}: {error}") from error
    if not isinstance(kind, WorkloadKind):
        raise _unusable(name, entry.value, f"it is a {type(kind).__name__} and no WorkloadKind")
    return kind


def _unusable(name: str, place: str, reason: str) -> UsageError:
    return UsageError(
        f'workload "{name}" of {place} cannot be used: {reason}',
        hint="Ask the maker of that package; docs/reference/workloads.md says what it must offer.",
    )


def check_driving(parameters: Mapping[str, Value], plan: LoadPlan) -> None:
    """Raise UsageError on a plan that the driver these parameters ask for cannot run. Asks no server."""
    if parameters.get("driver") == "loop":
        check_loop_plan(plan)


def _make_builtin(name: str, parameters: Mapping[str, Value], pgbench: Path | None) -> PgbenchWorkload:
    scale = int(parameters["scale"])
    return PgbenchWorkload(
        identity=_spec(name, parameters, (Script(name),), BUILTIN_STATEMENTS[name], read_only=name == "select-only"),
        data=PgbenchTables(scale, int(parameters["fillfactor"])),
        scripts=(Script(name),),
        options=_options(parameters),
        scale=scale if name == "tpcb-like" else None,
        pgbench=pgbench,
    )


def _make_ybio(parameters: Mapping[str, Value], pgbench: Path | None) -> PgbenchWorkload:
    ybio.check(parameters)
    scripts, rows = ybio.scripts(parameters), ybio.touched_rows(parameters)
    batch, update = int(parameters["batch_size"]), int(parameters["pct_update"])
    options, data = _options(parameters), ybio.data(parameters)
    return PgbenchWorkload(
        identity=_spec(
            "ybio",
            parameters,
            scripts,
            ybio.description(parameters),
            read_only=not update,
            unit="calls" if parameters["run_duration"] else "batches",
            rows_per_transaction=None if parameters["run_duration"] else batch,
            data=data.identity,
        ),
        data=data,
        scripts=scripts,
        options=options if update else DriverOptions(1, options.latency_limit_ms),
        variables={"run_tab_rows": str(rows), "batch_size": str(batch)},
        plan_probe=ybio.plan_probe(parameters),
        examiner=ybio_figures.examiner(parameters, ybio.table_name(parameters)),
        loop=ybio.loop(parameters),
        pgbench=pgbench,
    )


def _make_tprocc(parameters: Mapping[str, Value], pgbench: Path | None) -> PgbenchWorkload:
    scripts, data = tprocc.scripts(parameters), tprocc.data(parameters)
    description = tprocc.description(parameters)
    return PgbenchWorkload(
        identity=_spec("tprocc", parameters, scripts, description, read_only=False, data=data.identity),
        data=data,
        scripts=scripts,
        options=replace(_options(parameters), paced=bool(parameters["wait_pct"])),
        variables=tprocc.variables(parameters),
        examiner=tprocc.examiner(parameters),
        starter=keep_start,
        pgbench=pgbench,
    )


def _make_custom(parameters: Mapping[str, Value], pgbench: Path | None) -> PgbenchWorkload:
    scripts, read_only = custom.scripts(parameters), bool(parameters["read_only"])
    data = custom.data(parameters)
    spec = _spec(
        "custom",
        parameters,
        scripts,
        "scripts " + ", ".join(f"{script.name}@{script.weight}" for script in scripts),
        read_only=read_only,
        rows_per_transaction=int(parameters["rows_per_transaction"]) or None,
        data=data.identity,
    )
    return PgbenchWorkload(
        identity=spec,
        data=data,
        scripts=scripts,
        options=_options(parameters),
        variables=custom.variables(parameters),
        hold_read_only=read_only,
        pgbench=pgbench,
    )


def _options(parameters: Mapping[str, Value]) -> DriverOptions:
    return DriverOptions(int(parameters["max_tries"]), float(parameters["latency_limit_ms"]) or None)


def _spec(
    name: str,
    parameters: Mapping[str, Value],
    scripts: tuple[Script, ...],
    description: str,
    *,
    read_only: bool,
    unit: str = "transactions",
    rows_per_transaction: float | None = None,
    data: str = "",
) -> WorkloadSpec:
    texts = [data, *(f"{script.name}@{script.weight} {script.text or ''}" for script in scripts)]
    # A script counts by its content, wherever its file lies.
    hashed = {name: value for name, value in parameters.items() if name not in custom.PATHS}
    return WorkloadSpec(
        name=name,
        parameters=dict(parameters),
        fingerprint=fingerprint(name, hashed, texts),
        description=description,
        read_only=read_only,
        unit=unit,
        rows_per_transaction=rows_per_transaction,
    )


def _builtin_kind(name: str) -> WorkloadKind:
    return WorkloadKind(
        name,
        BUILTIN_STATEMENTS[name],
        _TABLE_PARAMETERS + _DRIVER_PARAMETERS,
        lambda parameters, pgbench: _make_builtin(name, parameters, pgbench),
    )


WORKLOADS: Mapping[str, WorkloadKind] = {
    **{name: _builtin_kind(name) for name in BUILTIN_STATEMENTS},
    "ybio": WorkloadKind(
        "ybio",
        "range reads by index of rows scattered over the table, with a share of updates",
        ybio.PARAMETERS + _YBIO_DRIVER_PARAMETERS,
        _make_ybio,
    ),
    "tprocc": WorkloadKind(
        "tprocc",
        "a TPROC-C-like load: nine tables of a wholesaler, five transactions, new orders per minute, checked data",
        tprocc.PARAMETERS + _DRIVER_PARAMETERS,
        _make_tprocc,
    ),
    "custom": WorkloadKind(
        "custom",
        "your own pgbench scripts, weighted, on data that your own script makes",
        custom.PARAMETERS + _DRIVER_PARAMETERS,
        _make_custom,
    ),
}
"""Every workload that pgdyno knows, by name."""
