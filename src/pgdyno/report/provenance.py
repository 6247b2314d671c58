"""What stands next to every number: the host, the server, its durability, the workload and how it was measured.

Pure. Reads the JSON image of `Facts` that a study keeps; a fact that is not there is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno import __version__
from pgdyno.model.results.tune import Retained
from pgdyno.model.study import PRINTED, SAMPLES, Study
from pgdyno.model.trial import Trial, TrialState, WorkloadSpec
from pgdyno.report.facts_image import host_of, server_of, settings_of
from pgdyno.report.sections import FactList
from pgdyno.report.wording import DURABILITY_MEANINGS, number_text
from pgdyno.units import MINUTE, bytes_text, moment_text, plural, ranges_text, seconds_text
from pgdyno.workloads.script_statements import BUILTIN_SQL

REPLAYED = "replay"
"""The workload that is a captured load, of a study of any kind."""
NOT_TOLD = "unknown: the files do not tell it"
DURABILITY_DEFAULTS = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "wal_sync_method": ""}
"""Built-in values of every supported version, as a study keeps only settings that differ; empty where platforms do."""


def stamp(study: Study, trials: Sequence[Trial], retained: Sequence[Retained]) -> str:
    """Return the line that goes with the headline: version, machine, size of the data, durability."""
    host, server = host_of(study), server_of(study)
    parts = [
        f"PostgreSQL {server.text('version') or 'of unknown version'}",
        f"{host.text('architecture')} with {host.text('cores')} cores, {host.bytes('ram_bytes')}"
        if host.text("architecture")
        else "its machine was not recorded",
        f"data {data_text(study, trials)}",
        f"Linux {host.fact('kernel')}" if host.text("kernel") else "",
        _durability(study),
        durability_class(retained),
    ]
    return " · ".join(part for part in parts if part)


def data_bytes(trials: Sequence[Trial]) -> float | None:
    """Return the size of the load's database, the largest of all trials; None when no trial recorded it."""
    outcomes = (trial.outcome for trial in trials)
    sizes = [outcome.counters.get("database_bytes", 0.0) for outcome in outcomes if outcome is not None]
    return max(sizes, default=0.0) or None


def data_text(study: Study, trials: Sequence[Trial]) -> str:
    """Write the size of the data against the memory that the server may use."""
    size, host = data_bytes(trials), host_of(study)
    if size is None:
        return "of unknown size (not recorded)"
    memory = host.number("memory_limit_bytes") or host.number("ram_bytes")
    percent = size / memory * 100 if memory else 0.0
    share = f", {number_text(round(percent, 1)) if percent >= 0.1 else 'under 0.1'} % of memory" if memory else ""
    return f"{bytes_text(size)}{share}"


def durability_class(retained: Sequence[Retained]) -> str:
    """Return the most demanding durability class of the changes, in words; empty when nothing is changed."""
    classes = sorted({one.durability for one in retained if one.durability})
    return f"changes of class {DURABILITY_MEANINGS.get(classes[-1], classes[-1])}" if classes else ""


def environment(study: Study, trials: Sequence[Trial]) -> FactList:
    """Return the host and the server as the study found them, and the size of the load's data."""
    host, server = host_of(study), server_of(study)
    if "files" in study.options:
        return _told_environment(study, trials)
    rows = (
        ("target", study.target),
        ("PostgreSQL", f"{server.text('version')}, block size {server.text('block_size')} bytes"),
        ("extensions", ", ".join(server.texts("extensions")) or "none"),
        ("connections", f"at most {server.text('max_connections')}"),
        ("data checksums", server.switch("data_checksums")),
        ("standbys attached", server.fact("standbys")),
        ("durability of the server", _durability(study)),
        ("processor", f"{host.fact('cpu_model')}, {host.text('cores')} cores, {host.text('architecture')}"),
        ("virtualization", host.fact("virtualization")),
        ("memory", f"{host.bytes('ram_bytes')}, limit {host.bytes('memory_limit_bytes')}"),
        ("data of the load", data_text(study, trials)),
        ("swap", host.bytes("swap_total_bytes")),
        ("transparent huge pages", host.fact("transparent_huge_pages")),
        ("kernel", host.fact("kernel")),
        ("data file system", f"{host.fact('data_filesystem')}, {host.bytes('data_disk_free_bytes')} free"),
        ("storage devices", "not recorded by a study; pgdyno inspect lists them"),
        ("network", _network(study, trials)),
        ("driver", _driver(study, trials)),
        ("environment", study.environment),
        ("measured elsewhere", _origin(study)),
    )
    return FactList(tuple((name, value) for name, value in rows if value))


def _told_environment(study: Study, trials: Sequence[Trial]) -> FactList:
    """Return what files of others tell; all they leave out is one unknown, and not a list of them."""
    host, server = host_of(study), server_of(study)
    rows = (
        ("target", study.target),
        ("PostgreSQL", server.text("version") or NOT_TOLD),
        ("cores", host.text("physical_cores")),
        ("CPUs", host.text("cores")),
        ("data of the load", data_text(study, trials)),
        ("host, storage, network", NOT_TOLD),
        (
            "driver",
            f"of others, its results read by {study.began_by}" if study.was_read else _driver(study, trials),
        ),
        ("environment", study.environment),
        ("measured elsewhere", _origin(study)),
    )
    return FactList(tuple((name, value) for name, value in rows if value))


def _origin(study: Study) -> str:
    """Say that a study came from another store in a bundle; empty for one that was measured from here."""
    mark = study.options.get("imported")
    at = mark.get("at") if isinstance(mark, Mapping) else None
    if not isinstance(mark, Mapping) or not isinstance(at, int | float):
        return ""
    when = moment_text(at, "%Y-%m-%d")
    return f"imported on {when} from bundle {str(mark.get('bundle', ''))[:12]} of pgdyno {mark.get('pgdyno', '')}"


def _network(study: Study, trials: Sequence[Trial]) -> str:
    """Say how the load reached the server; a target is `user@host:port/dbname`, or the name of a sandbox."""
    if placements := levels(trials, "placement"):
        return f"by {listed(placements)}, as the row says"
    where = study.plan.host or study.target.partition("@")[2] or study.target
    if where.startswith(("/", "local:", "sandbox")):
        return "Unix socket, no network between load and server"
    if where.startswith(("localhost", "127.", "[::1]", "::1")):
        return "loopback of the server's host"
    return f"to {where}; adapters and distance are unknown (not recorded by a study)"


def _driver(study: Study, trials: Sequence[Trial]) -> str:
    """Say what made the load and where it ran."""
    if study.is_observed:
        return f"none, the load of its users; {study.began_by} read the server's counters"
    plan = study.plan
    several = levels(trials, "instances")
    count = f"{listed(several)} load generators" if several else plural(plan.instances, "load generator")
    bound = f" on CPUs {plan.cpus}" if plan.cpus else ""
    is_remote = _network(study, ()).startswith("to ")
    here = "on pgdyno's host, over the network" if is_remote else "on the server's host, whose processors it shares"
    if "files" in study.options:  # of runs that were read and that others did not make
        return f"pgbench, {count} as pods of a cluster; their output read by {study.began_by}"
    looped = study.workload.parameters.get("driver") == "loop"
    tool = "pgdyno's own loop of sessions" if looped else "pgbench"
    if study.workload.name == REPLAYED:
        tool = "pgdyno's own replay engine"
    return f"{tool}, {count}{bound}, {here}; {study.began_by}"


def workload(study: Study, trials: Sequence[Trial]) -> FactList:
    """Return what ran and how it was driven."""
    spec, plan = study.workload, study.plan
    schedule = "closed loop" if plan.rate is None else f"open loop, {number_text(plan.rate)} transactions/s offered"
    modes, scales = levels(trials, "mode"), levels(trials, "scale")
    parameters = {**spec.parameters, **({"scale": listed(scales)} if scales else {})}
    given = {name: value for name, value in parameters.items() if value != ""}
    clients = f"{_clients(study, trials)}, {plan.protocol} protocol, {schedule}"
    each_run = (
        f"warm-up until steady, at most {plan.warmup_s:g} s; the rest, at least {plan.measure_s:g} s, is measured"
    )
    writes = "read only" if spec.read_only else "reads and writes"
    if study.was_read:
        clients, each_run, writes = _told_load(study, writes)
    rows = (
        ("workload", f"{spec.name}: {spec.description}" if spec.description else spec.name),
        *_statements(spec, trials),
        *([("working set", str(asked))] if (asked := study.options.get("working_set")) else []),
        ("parameters", ", ".join(f"{name} {value}" for name, value in given.items()) or "defaults"),
        ("fingerprint of its scripts", spec.fingerprint),
        ("clients", clients),
        ("each run", each_run),
        ("writes", writes),
    )
    if modes:
        kept = tuple(row for row in rows if row[0] not in _OF_ONE_SCRIPT)
        return FactList((("workloads", f"{listed(modes, 'and')}, as the row says"), *kept))
    return FactList(rows)


_OF_ONE_SCRIPT = ("workload", "fingerprint of its scripts", "writes")
"""What a matrix of several scripts has no single one of."""


def _clients(study: Study, trials: Sequence[Trial]) -> str:
    several, threads = levels(trials, "clients"), levels(trials, "jobs")
    clients = listed(several) or str(study.plan.clients)
    return f"{clients} in {f'{listed(threads)} threads' if threads else plural(study.plan.jobs, 'thread')}"


def _told_load(study: Study, writes: str) -> tuple[str, str, str]:
    """Return clients, length of the runs and writes as files of others tell them: samples of a host tell no load."""
    plan = study.plan
    if study.options.get(PRINTED):
        return "as each row says", NOT_TOLD, writes
    if study.workload.name.endswith(SAMPLES):
        return NOT_TOLD, f"{plan.measure_s:g} s of samples at most", NOT_TOLD
    length = f"ramp-up of {plan.warmup_s:g} s, then {plan.measure_s:g} s measured" if plan.measure_s else NOT_TOLD
    return plural(plan.clients, "virtual user"), length, writes


def _statements(spec: WorkloadSpec, trials: Sequence[Trial]) -> list[tuple[str, str]]:
    """Return what a transaction of pgbench's own modes sends, as pgbench has it: descriptions of them differ."""
    modes = dict.fromkeys(trial.spec.factors.get("mode", spec.name) for trial in trials) or {spec.name: None}
    found = {mode: BUILTIN_SQL[mode] for mode in modes if mode in BUILTIN_SQL}
    return [
        (f"statements of {mode}", ("BEGIN; {}; END" if len(texts) > 1 else "{}").format("; ".join(texts)))
        for mode, texts in found.items()
    ]


def provenance(study: Study, trials: Sequence[Trial], elapsed_s: float | None) -> Mapping[str, str]:
    """Return where the numbers come from: study, trials, time, and the version that wrote them down here."""
    ids = [trial.id for trial in trials]
    known = {
        "study": f"{study.id} ({study.name})" if study.name else study.id,
        "trials": f"{len(ids)}, run ids {ranges_text(ids)}" if ids else "none",
        "begun": moment_text(study.created_at, MINUTE),
        "took": seconds_text(elapsed_s) if elapsed_s else "",
        "written by": f"pgdyno {__version__}",
    }
    return {name: value for name, value in known.items() if value}


def state_counts(trials: Sequence[Trial]) -> dict[TrialState, int]:
    """Count the trials by state, in the order of `TrialState`."""
    counts = {state: sum(1 for trial in trials if trial.state is state) for state in TrialState}
    return {state: count for state, count in counts.items() if count}


def _durability(study: Study) -> str:
    if "settings" not in study.facts:
        return ""
    settings = settings_of(study)
    found = ((name, settings.text(name) or default) for name, default in DURABILITY_DEFAULTS.items())
    return ", ".join(f"{name} {value}" for name, value in found if value)


def levels(trials: Sequence[Trial], factor: str) -> tuple[str, ...]:
    """Return the levels of a factor among the runs of a study; empty where there is one only."""
    found = tuple(dict.fromkeys(one for trial in trials if (one := trial.spec.factors.get(factor))))
    return tuple(sorted(found, key=_size)) if len(found) > 1 else ()


def listed(words: Sequence[str], last: str = "or") -> str:
    """Write `1, 2 or 4`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _size(word: str) -> tuple[int, int]:
    """Order numbers by size, and leave words in the order of the runs."""
    return (0, int(word)) if word.isdecimal() else (1, 0)
