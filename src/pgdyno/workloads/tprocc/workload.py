"""The TPROC-C-like load as the registry has it: its parameters, scripts and data."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.workloads.parameters import Parameter, Value
from pgdyno.workloads.script import Script
from pgdyno.workloads.tprocc import mix
from pgdyno.workloads.tprocc.examiner import Examiner
from pgdyno.workloads.tprocc.tables import TproccTables

MOST_WAREHOUSES = 20_000

PARAMETERS = (
    Parameter("warehouses", 1, "warehouses, the measure of size: about 120 MB each", low=1, high=MOST_WAREHOUSES),
    Parameter("shape", "proc", "proc: one call a transaction; interactive: statement by statement"),
    Parameter("mix", "standard", "standard (45/43/4/4/4), hammerdb (10/10/1/1/1), or five shares of your own"),
    Parameter("home", "fixed", "fixed: a virtual user belongs to one warehouse; random: any, at every transaction"),
    Parameter("wait_pct", 0, "keying and think time in percent of the specification's; 0 for none", low=0, high=1000),
    Parameter("nurand_seed", 1, "number that chooses the constants of the non-uniform random numbers", low=0),
    Parameter("check", True, "check the data by the consistency conditions after every run"),
)


def description(parameters: Mapping[str, Value]) -> str:
    """Return what is run, in one line."""
    count = int(parameters["warehouses"])
    shares = "/".join(str(share) for share in mix.shares(str(parameters["mix"])))
    shape = "procedures" if parameters["shape"] == "proc" else "statement by statement"
    return f"TPROC-C-like (not TPC-C), {count} warehouse{'s' * (count > 1)}, mix {shares}, {shape}"


def scripts(parameters: Mapping[str, Value]) -> tuple[Script, ...]:
    """Return the mix. Raise UsageError on a shape, mix or home that is not known."""
    return mix.scripts(parameters)


def variables(parameters: Mapping[str, Value]) -> dict[str, str]:
    """Return what the scripts' variables are at the beginning: none without keying and think times."""
    return dict(mix.WAITING) if parameters["wait_pct"] else {}


def data(parameters: Mapping[str, Value]) -> TproccTables:
    """Return the tables that these parameters ask for."""
    return TproccTables(int(parameters["warehouses"]))


def examiner(parameters: Mapping[str, Value]) -> Examiner:
    """Return what checks and counts after each run."""
    names = [script.name for script in scripts(parameters)]
    return Examiner(names, check=bool(parameters["check"]))
