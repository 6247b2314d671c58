"""Read a platform from a study: the rows of its cells or runs, and what has to agree with another platform's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from pgdyno.errors import UsageError
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.policy import Durability, worst_class
from pgdyno.model.facts import Unknown
from pgdyno.model.platform import Platform, PlatformRow
from pgdyno.model.samples import SampleValue
from pgdyno.model.shapes import inner
from pgdyno.model.study import PRINTED, Study
from pgdyno.model.trial import Outcome, Role, Trial, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.matrix.printed_rows import CPU, LATENCY
from pgdyno.studies.platforms.comparing import CONFIGURATION
from pgdyno.units import bytes_text

COUNTS = ("cores", "threads", "sockets", "vcpus")
_BUSY = ("usr_pct", "sys_pct", "irq_pct")
_LOAD_FACTORS = ("instances", "clients", "jobs", "mode", "configuration", "smt", "scale", "stands_for")
_UNRECORDED = "the study did not record it; --count tells it"
_HOST_FACTS = {
    "architecture": "architecture",
    "processor": "cpu_model",
    "virtualization": "virtualization",
    "threads per core": "threads_per_core",
    "kernel": "kernel",
    "file system": "data_filesystem",
    "transparent huge pages": "transparent_huge_pages",
    "huge pages": "huge_pages_total",
}
_HOST_BYTES = {
    "page size": "page_size",
    "huge page size": "huge_page_bytes",
    "file system block": "data_block_size",
    "memory": "ram_bytes",
    "memory limit": "memory_limit_bytes",
}
_SERVER_FACTS = {"PostgreSQL": "version", "data checksums": "data_checksums", "PostgreSQL block": "block_size"}


def read_platform(store: Store, study: Study, name: str, counts: Mapping[str, int] | None = None) -> Platform:
    """Return the platform that a matrix or a bench measured. `counts` tells cores, threads, sockets or vcpus.

    The trials of `study` are read from `store`, and `name` is what the platform is called. A count that is not in
    `counts` (None: any of them) is taken from the facts of the study. Raises UsageError for a study of another kind, or
    without a complete run.
    """
    if not kind_of(study.kind).stands_alone:
        raise UsageError(
            f"study {study.id} is of kind {study.kind}, and platforms are compared by matrix or bench",
            hint="Measure both platforms with the same pgdyno matrix or pgdyno bench.",
        )
    trials = store.trials(study.id)
    usable = [t for t in trials if t.state is TrialState.COMPLETE and t.spec.role in (Role.CELL, Role.ARM)]
    told = dict(counts or {})
    sizes = {one: told.get(one, _size(study, one)) for one in COUNTS}
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in usable:
        if trial.outcome is not None and trial.outcome.throughput:
            groups.setdefault(_cell(study, trial), []).append(trial)
    if not groups:
        raise UsageError(f"study {study.id} has no complete run", hint=f"See pgdyno store show {study.id}.")
    busy = _busy_by_run(store, study, usable)
    return Platform(
        name=name,
        rows=tuple(_row(study, runs, busy, sizes["cores"]) for runs in groups.values()),
        cores=sizes["cores"],
        threads=sizes["threads"],
        sockets=sizes["sockets"],
        vcpus=sizes["vcpus"],
        study=study.id,
        environment=study.environment,
        same=_same(study, usable),
        unlike=circumstances(study, usable),
    )


def _factor(trial: Trial, name: str, default: int) -> int:
    word = trial.spec.factors.get(name, "")
    return int(word) if word.isdecimal() else default


def _cell(study: Study, trial: Trial) -> tuple[object, ...]:
    instances = _factor(trial, "instances", study.plan.instances)
    clients = _factor(trial, "clients", study.plan.clients)
    mark = " [X]" if worst_class(trial.spec.configuration) is Durability.X else ""
    return configuration_of(trial) + mark, _mode(study, trial), instances, clients, trial.spec.factors.get("smt", "")


def configuration_of(trial: Trial) -> str:
    """Return the name of a trial's configuration: the matrix's word for it, else its settings."""
    settings = ", ".join(f"{knob} = {value}" for knob, value in trial.spec.configuration.items())
    return trial.spec.factors.get("configuration") or settings or "as found"


def _mode(study: Study, trial: Trial) -> str:
    """Return how the load was made, in words: two rows are alike only where all of it is."""
    factors = trial.spec.factors
    clients = _factor(trial, "clients", study.plan.clients)
    threads = _factor(trial, "jobs", study.plan.jobs)
    parts = [factors.get("mode") or study.workload.name]
    parts += [f"scale {factors['scale']}"] if factors.get("scale") else []
    parts += (
        [f"{threads} {'thread' if threads == 1 else 'threads'} each"]
        if threads != clients and "jobs" in factors
        else []
    )
    parts += [f"{name} {word}" for name, word in factors.items() if name not in _LOAD_FACTORS and word]
    return ", ".join(parts)


def _row(study: Study, runs: Sequence[Trial], busy: Mapping[int, float], cores: int | Unknown) -> PlatformRow:
    configuration, mode, instances, clients, smt = _cell(study, runs[0])
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    throughputs = tuple(outcome.throughput for outcome in outcomes if outcome.throughput)
    latencies = [(o.latency_ms.mean, o.transactions) for o in outcomes if o.latency_ms is not None and o.transactions]
    weight = sum(count for _, count in latencies)
    shares = [busy[run.id] for run in runs if run.id in busy]
    shares += [outcome.counters[CPU] for outcome in outcomes if CPU in outcome.counters]
    printed = next((outcome.counters[LATENCY] for outcome in outcomes if LATENCY in outcome.counters), None)
    level = int(str(smt)) if str(smt).isdecimal() else None
    return PlatformRow(
        configuration=str(configuration),
        mode=str(mode),
        instances=int(str(instances)),
        clients=int(str(clients)),
        tps=_pooled(outcomes),
        latency_ms=sum(mean * count for mean, count in latencies) / weight if weight else printed,
        cpu_pct=fmean(shares) if shares else None,
        threads=None if level is None or isinstance(cores, Unknown) else cores * level,
        throughputs=throughputs,
        runs=tuple(run.id for run in runs),
        durability="X" if worst_class(runs[0].spec.configuration) is Durability.X else "",
        stands_for=runs[0].spec.factors.get("stands_for", ""),
    )


def _pooled(outcomes: Sequence[Outcome]) -> float:
    """Return all transactions of the measured windows over all their seconds, as a matrix has it in its table."""
    rated = [(one.throughput, _window_s(one)) for one in outcomes if one.throughput]
    seconds = sum(window for _, window in rated)
    return sum(rate * window for rate, window in rated) / seconds if seconds else fmean(rate for rate, _ in rated)


def _window_s(outcome: Outcome) -> float:
    measured = 0.0 if outcome.steady_from is None else outcome.ended_at - outcome.steady_from
    return outcome.counters.get("window_s", measured)


def _busy_by_run(store: Store, study: Study, runs: Sequence[Trial]) -> dict[int, float]:
    """Return the CPU of the server's host in the measured window of each run that was sampled, in percent of all."""
    outcomes = {run.id: run.outcome for run in runs}
    found = {
        run: _cpu_pct(outcome, cpu)
        for run, cpu in store.study_samples(study.id, "cpu")
        if (outcome := outcomes.get(run)) is not None
    }
    return {run: share for run, share in found.items() if share is not None}


def _cpu_pct(outcome: Outcome, cpu: Mapping[str, Sequence[SampleValue]]) -> float | None:
    if outcome.steady_from is None:
        return None
    busy = seconds = 0.0
    for at, t in enumerate(cpu["t"]):
        cells = [cpu[name][at] for name in ("interval_s", *_BUSY)]
        values = [float(cell) for cell in cells if isinstance(cell, int | float)]
        if isinstance(t, int | float) and outcome.steady_from < t <= outcome.ended_at and len(values) == len(cells):
            busy += values[0] * sum(values[1:])
            seconds += values[0]
    return busy / seconds if seconds else None


def _size(study: Study, name: str) -> int | Unknown:
    """Return a count from the facts. `cores` there counts the CPUs that the server may run on: threads, or vCPUs."""
    host = inner(study.facts, "host")
    value = host.get({"cores": "physical_cores", "sockets": "sockets"}.get(name, "cores"))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    reason = value.get("unknown") if isinstance(value, Mapping) else None
    return Unknown(str(reason) if reason and reason != "it was not read" else _UNRECORDED)


def _same(study: Study, trials: Sequence[Trial]) -> dict[str, str]:
    plan, spec = study.plan, study.workload
    if study.options.get(PRINTED):  # nobody knows how its load was driven, for how long, and with which settings
        return {"workload": spec.name, "data set": ", ".join(f"{n} {v}" for n, v in sorted(spec.parameters.items()))}
    rate = "closed loop" if plan.rate is None else f"open loop of {plan.rate:g} transactions/s"
    connected = ", a connection each transaction" if plan.connect_each else ""
    parameters = ", ".join(f"{name} {value}" for name, value in sorted(spec.parameters.items()))
    known = load_catalogue()
    own = {name: value for name, value in inner(study.facts, "settings").items() if name in known}
    found = {
        "workload": f"{spec.name}, fingerprint {spec.fingerprint}",
        "data set": parameters or "the defaults",
        "driver": f"{plan.protocol} protocol, {rate}{connected}",
        "period": f"warm-up of at most {plan.warmup_s:g} s, then {plan.measure_s:g} s measured",
        CONFIGURATION: ", ".join(f"{name} = {value}" for name, value in sorted(own.items())) or "the built-in defaults",
    }
    for trial in trials:
        name = configuration_of(trial)
        words = ", ".join(f"{knob} = {value}" for knob, value in trial.spec.configuration.items())
        if words and name != words:
            found[f"{CONFIGURATION} {name}"] = words
    return found


def circumstances(study: Study, trials: Sequence[Trial]) -> dict[str, str]:
    """Return what of host and server stands beside the figures of a study, by name; unknown facts are left out."""
    host, server, settings = (inner(study.facts, name) for name in ("host", "server", "settings"))
    if study.options.get(PRINTED):
        return {}
    words = {name: _word(host.get(key)) for name, key in _HOST_FACTS.items()}
    words |= {name: _bytes(host.get(key)) for name, key in _HOST_BYTES.items()}
    words |= {name: _word(server.get(key)) for name, key in _SERVER_FACTS.items()}
    for name in ("fsync", "full_page_writes", "synchronous_commit", "wal_sync_method"):
        words[name] = _word(settings.get(name, "on" if name != "wal_sync_method" else None))
    sizes = [t.outcome.counters.get("database_bytes", 0.0) for t in trials if t.outcome is not None]
    words["data of the load"] = bytes_text(max(sizes)) if any(sizes) else None
    return {name: word for name, word in words.items() if word is not None}


def _word(value: object) -> str | None:
    if value is None or isinstance(value, Mapping):
        return None
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _bytes(value: object) -> str | None:
    return bytes_text(value) if isinstance(value, int) else None
