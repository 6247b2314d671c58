"""A synthetic but complete study in a real store: what reports are developed and tested with.

`add_tune(store)` writes a tune of 60-odd trials of a YBIO-like load whose numbers hang together; two of its runs have
every sample table. Nothing in it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.bench import BenchResult, RunRecord
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.store.codec import result_from_json, to_json
from pgdyno.studies.pairs.result import run_figures
from store_copies import content_of, fill, is_empty_sqlite
from study_recording import record
from tune_example import WINNER, tune_result, verdict_json

BEGUN = 1_790_000_000.0
FACTS: Mapping[str, object] = {
    "host": {
        "architecture": "x86_64",
        "kernel": "6.1.0-31-amd64",
        "cores": 2,
        "ram_bytes": 25_276_502_016,
        "memory_limit_bytes": 25_276_502_016,
        "page_size": 4096,
        "cpu_model": {"unknown": "/proc/cpuinfo names none"},
        "virtualization": "kvm",
        "data_disk_free_bytes": 81_000_000_000,
        "data_filesystem": "ext4",
        "transparent_huge_pages": "madvise",
        "huge_pages_total": 0,
        "swap_total_bytes": 0,
    },
    "server": {
        "version": "18.6",
        "version_num": 180006,
        "block_size": 8192,
        "max_connections": 100,
        "in_recovery": False,
        "standbys": 0,
        "data_checksums": True,
        "extensions": ["pg_stat_statements"],
    },
    "settings": {"shared_preload_libraries": "pg_stat_statements", "wal_sync_method": "open_datasync"},
}


class _Clock:
    def __init__(self) -> None:
        self.now = BEGUN + 5

    def take(self, seconds: float) -> float:
        began, self.now = self.now, self.now + seconds + 3.1
        return began


def make_study(kind: StudyKind = StudyKind.TUNE, study_id: str = "tune-3fa94c") -> Study:
    """Return the study without a result."""
    return Study(
        id=study_id,
        kind=kind,
        name=f"{kind.value} ybio",
        state=StudyState.RUNNING,
        created_at=BEGUN,
        target="sandbox default, PostgreSQL 18.6",
        environment="b81f0c2d9a7e",
        facts=FACTS,
        workload=WorkloadSpec(
            "ybio",
            {"tab_rows": 4_000_000, "wss": 0.4, "range": 250, "updatepct": 10},
            "9f2c71d0a4be",
            "YBIO, 4 million rows of which 40 % are used, ranges of 250 rows, 10 % updates",
            False,
        ),
        plan=LoadPlan(clients=8, jobs=2, warmup_s=20, measure_s=40),
    )


def outcome(
    rng: np.random.Generator,
    clock: _Clock,
    throughput: float,
    state: TrialState = TrialState.COMPLETE,
    reason: str | None = None,
) -> Outcome:
    """Return a plausible outcome around this throughput."""
    duration = 60.0
    began = clock.take(duration)
    if state in (TrialState.REFUSED, TrialState.FAILED, TrialState.VOID):
        return Outcome(state, reason)
    tps = throughput * math.exp(rng.normal(0, 0.022))
    mean = 8000 / tps
    return Outcome(
        state,
        reason,
        began_at=began,
        steady_from=began + 14,
        ended_at=began + duration,
        throughput=tps,
        latency_ms=LatencySummary(
            mean * 0.9, mean * 1.7, mean * 2.6 * math.exp(rng.normal(0, 0.03)), mean * 5, mean * 9, mean
        ),
        transactions=int(tps * 46),
        driver_cpu_s=4.1,
        server_cpu_s=78.0,
        server_cpu_ms_per_tx=1690 / tps * math.exp(rng.normal(0, 0.01)),
        foreign_cpu_pct=31.0 if state is TrialState.DISTURBED else 1.4 + abs(rng.normal(0, 0.5)),
        steal_pct=0.1,
        settings_fingerprint="00112233aabb",
        counters={"database_bytes": 1.5 * 1024**3},
    )


def _searched(rng: np.random.Generator, index: int) -> Configuration:
    buffers = (
        ("128MB", "256MB", "512MB", "1GB", "2GB", "3GB", "4GB", "6GB")[int(rng.integers(0, 8))] if index < 24 else "4GB"
    )
    return Configuration.of(
        {
            "shared_buffers": buffers,
            "jit": "off" if rng.random() > 0.5 else "on",
            "random_page_cost": f"{rng.uniform(1.0, 4.0):.2g}",
            "effective_io_concurrency": str(int(rng.integers(1, 400))),
            "wal_buffers": "64MB",
            "max_parallel_workers_per_gather": str(int(rng.integers(0, 3))),
            "bgwriter_lru_maxpages": str(int(rng.integers(0, 1000))),
        }
    )


def _speed(configuration: Configuration) -> float:
    size = {"128MB": 1.0, "256MB": 1.06, "512MB": 1.2, "1GB": 1.55, "2GB": 2.4, "3GB": 2.8, "4GB": 3.05, "6GB": 3.0}
    return size[configuration.get("shared_buffers", "128MB")] * (1.05 if configuration.get("jit") == "off" else 1.0)


def add_tune(store: Store, *, seed: int = 7, seconds: int = 60, old_server: bool = False) -> str:
    """Write the tune into the store and return its id. `old_server` leaves out what PostgreSQL 13 does not have."""
    if not is_empty_sqlite(store):
        return _write_tune(store, seed, seconds, old_server)
    study, content = _tune_content(seed, seconds, old_server)
    fill(store, content)
    return study


@cache
def _tune_content(seed: int, seconds: int, old_server: bool) -> tuple[str, bytes]:
    with TemporaryDirectory() as folder:
        with Store.open(Path(folder) / "store.db") as store:
            study = _write_tune(store, seed, seconds, old_server)
        return study, content_of(Path(folder) / "store.db")


def _write_tune(store: Store, seed: int, seconds: int, old_server: bool) -> str:
    study, clock, rng = make_study(), _Clock(), np.random.default_rng(seed)
    store.add_study(study)

    def run(
        spec: TrialSpec,
        speed: float,
        state: TrialState = TrialState.COMPLETE,
        reason: str | None = None,
        full: bool = False,
    ) -> tuple[int, Outcome]:
        trial = store.begin_trial(study.id, spec)
        done = outcome(rng, clock, 1240 * speed, state, reason)
        if full:
            done = record(store, trial, done, rng, fast=speed > 2, seconds=seconds, old_server=old_server)
        store.finish_trial(trial, done)
        return trial, done

    for slot in range(5):
        run(TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, slot), 1.0)
    for index in range(30):
        configuration = _searched(rng, index)
        spec = TrialSpec(configuration, Role.SEARCH, "search", index // 5 + 1, index % 5 + 1)
        if index == 6:
            run(spec, 0, TrialState.REFUSED, "shared_buffers 6GB and 8 clients with work_mem 2GB need 22 GB of 18.9 GB")
        elif index == 11:
            run(spec, 0, TrialState.FAILED, "the server did not start: could not map anonymous shared memory")
        elif index == 17:
            run(
                spec,
                _speed(configuration),
                TrialState.DISTURBED,
                "foreign CPU 31 % of one core is above the bound of 15 %",
            )
            run(spec, _speed(configuration))
        else:
            run(spec, _speed(configuration))
        if index % 5 == 4:
            run(TrialSpec(BASELINE, Role.BASELINE, "baseline", index // 5 + 1, 0), 1.0 - 0.004 * index / 5)
    pairs: list[dict[str, object]] = []
    winner = Configuration.of(WINNER)
    for block in range(8):
        a, a_done = run(TrialSpec(BASELINE, Role.BASELINE, "baseline", 20_000 + block, 0), 0.98, full=block == 3)
        b, b_done = run(TrialSpec(winner, Role.CONFIRM, "winner", 20_000 + block, 1), 3.08, full=block == 3)
        run(TrialSpec(winner.without("jit"), Role.EFFECT, "without jit", 20_000 + block, 2), 2.9)
        pairs.append({"block": block + 1, "a": a_done.throughput, "b": b_done.throughput, "a_run": a, "b_run": b})
    runs = pairs[3]
    store.update_study(
        study.id, state=StudyState.COMPLETE, result=tune_result(pairs, int(str(runs["a_run"])), int(str(runs["b_run"])))
    )
    return study.id


def add_keep(store: Store, *, word: str = "equivalent", ratio: float = 1.004) -> str:
    """Write a tune whose best candidate did not prove better, and return its id."""
    study = add_tune(store)
    result = to_json(store.study(study).result)
    assert isinstance(result, dict), "a tune has one"
    verdict = {**verdict_json("throughput", ratio, ratio - 0.012, ratio + 0.012, word), "pairs": 12}
    others = [verdict_json("latency_p99", 1.0, 0.985, 1.015, "equivalent")]
    kept = {"keep": True, "verdict": verdict, "others": others, "effects": [], "rivals": [], "fragment": "", "undo": ""}
    latency = {"p50": 5.92, "p95": 11.2, "p99": 17.1}
    measured = {"throughput": 1214.0 * ratio, "latency_ms": latency, "server_cpu_ms_per_tx": 1.388}
    candidate = {"name": "winner", "settings": WINNER, "run": None, **measured}
    unseen: dict[str, object] = {"winner": candidate, "confirmation": {"pairs": []}, "explanation": []}
    store.update_study(study, result=result_from_json(StudyKind.TUNE, {**result, **kept, **unseen}))
    return study


NOTHING_SEEN = RunEvidence(BottleneckVerdict(Resource.UNKNOWN, None, ()))
"""The evidence of a run without samples."""


def add_bench(store: Store, *, seconds: int = 60, settings: Configuration = BASELINE) -> str:
    """Write a bench study of one run, with these settings, and return its id."""
    study, clock, rng = make_study(StudyKind.BENCH, "bench-77aa01"), _Clock(), np.random.default_rng(3)
    store.add_study(study)
    trial = store.begin_trial(study.id, TrialSpec(settings, Role.ARM, "bench", 1, 0))
    done = record(store, trial, outcome(rng, clock, 1240), rng, fast=False, seconds=seconds)
    store.finish_trial(trial, done)
    told = RunRecord(figures=run_figures(store.trial(trial)), evidence=NOTHING_SEEN)
    result = BenchResult(study=study.id, top=told, used=(trial,), runs=(told,), elapsed_s=70.0)
    store.update_study(study.id, state=StudyState.COMPLETE, result=result)
    return study.id


def add_ab(store: Store, *, word: str = "not resolved") -> str:
    """Write an A/B study of six pairs without samples, and return its id."""
    study, clock, rng = make_study(StudyKind.AB, "ab-51d0e7"), _Clock(), np.random.default_rng(5)
    store.add_study(study)
    b = Configuration.of({"random_page_cost": "1.1", "jit": "off"})
    pairs: list[dict[str, object]] = []
    for block in range(1, 7):
        runs = {}
        for slot, (arm, configuration) in enumerate({"A": BASELINE, "B": b}.items()):
            trial = store.begin_trial(study.id, TrialSpec(configuration, Role.ARM, arm, block, slot))
            runs[arm] = trial, outcome(rng, clock, 1240)
            store.finish_trial(trial, runs[arm][1])
        pairs.append(
            {
                "block": block,
                "a": runs["A"][1].throughput,
                "b": runs["B"][1].throughput,
                "a_run": runs["A"][0],
                "b_run": runs["B"][0],
            }
        )
    verdict = {**verdict_json("throughput", 1.008, 0.984, 1.033, word), "pairs": 6, "more_pairs": 9}
    side = {"throughput": 1240.0, "latency_ms": {"p50": 5.9, "p95": 11.0, "p99": 17.0}, "server_cpu_ms_per_tx": 1.38}
    result = {
        "study": study.id,
        "verdict": verdict,
        "others": [verdict_json("latency_p99", 1.01, 0.97, 1.05, "not resolved")],
        "baseline": {"name": "A", "settings": {}, **side, "run": 1},
        "winner": {"name": "B", "settings": dict(b), **side, "run": 2},
        "confirmation": {"pairs": pairs},
        "elapsed_s": 800.0,
    }
    store.update_study(study.id, state=StudyState.COMPLETE, result=result_from_json(StudyKind.AB, result))
    return study.id
