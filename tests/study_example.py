"""A synthetic but complete study in a real store: what reports are developed and tested with.

`add_tune(store)` writes a tune of 60-odd trials of a YBIO-like load whose numbers hang together; two of its runs have
every sample table. Nothing in it was measured.

A little past 400 lines: one study whose parts agree with each other, read from its first number to its last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.bench import BenchResult, RunRecord
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.store.codec import result_from_json, to_json
from pgdyno.studies.pairs.result import run_figures
from study_recording import record

BEGUN = 1_790_000_000.0
WINNER = {
    "shared_buffers": "4GB",
    "effective_io_concurrency": "200",
    "jit": "off",
    "random_page_cost": "1.1",
}
DROPPED = {
    "wal_buffers": ("4MB", "64MB"),
    "max_parallel_workers_per_gather": ("2", "0"),
    "bgwriter_lru_maxpages": ("100", "740"),
}
EFFECTS: Sequence[tuple[str, str, float, float, float, str, str]] = (
    ("shared_buffers", "128MB", 2.94, 2.71, 3.19, "B", "postmaster"),
    ("jit", "on", 1.062, 1.031, 1.094, "A", "user"),
    ("random_page_cost", "4", 1.034, 1.008, 1.061, "A", "user"),
    ("effective_io_concurrency", "16", 1.021, 0.995, 1.048, "A", "user"),
)
WHY = {
    "shared_buffers": "Blocks that are read again and again stay in PostgreSQL's own memory instead of being copied "
    "from the kernel's page cache every time.",
    "jit": "Short statements do not repay the time that compiling them takes.",
    "random_page_cost": "The default stands for a spinning disk; from memory or flash a random page costs about as "
    "much as the next one.",
    "effective_io_concurrency": "More reads are asked for ahead of a bitmap scan.",
}
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


def tune_of(**told: object) -> StudyResult:
    """Return the result of a tune that has these members, and of the rest what the example has."""
    return result_from_json(StudyKind.TUNE, {**tune_json([], 1, 2), **told})


def verdict_json(metric: str, ratio: float, lo: float, hi: float, word: str = "better") -> dict[str, object]:
    """Return a verdict as a result holds it."""
    return {
        "word": word,
        "ratio": ratio,
        "ci": [lo, hi],
        "confidence": 0.95,
        "pairs": 8,
        "metric": metric,
        "smallest_effect": 0.02,
        "more_pairs": None,
    }


def tune_result(pairs: Sequence[Mapping[str, object]], a_run: int, b_run: int) -> StudyResult:
    """Return the result of the tune."""
    return result_from_json(StudyKind.TUNE, tune_json(pairs, a_run, b_run))


def tune_json(pairs: Sequence[Mapping[str, object]], a_run: int, b_run: int) -> dict[str, object]:
    """Return the result of the tune, as the store holds it."""
    before = {name: old for name, old, *_ in EFFECTS}
    return {
        "study": "tune-3fa94c",
        "keep": False,
        "verdict": verdict_json("throughput", 3.13, 3.04, 3.22),
        "others": [
            verdict_json("latency_p50", 0.319, 0.311, 0.328),
            verdict_json("latency_p95", 0.321, 0.309, 0.333),
            verdict_json("latency_p99", 0.33, 0.315, 0.345),
            verdict_json("server_cpu_ms_per_tx", 0.318, 0.312, 0.325),
        ],
        "noise_floor": {"cv": 0.021, "pair_sd": 0.029, "pairs": 6, "detectable": 0.034, "runs": [1, 2, 3, 4, 5]},
        "baseline": {
            "name": "baseline",
            "settings": {},
            "throughput": 1214.0,
            "latency_ms": {"p50": 5.93, "p95": 11.2, "p99": 17.1},
            "server_cpu_ms_per_tx": 1.391,
            "run": a_run,
        },
        "winner": {
            "name": "winner",
            "settings": WINNER,
            "from": before,
            "throughput": 3802.0,
            "latency_ms": {"p50": 1.89, "p95": 3.58, "p99": 5.64},
            "server_cpu_ms_per_tx": 0.4424,
            "run": b_run,
        },
        "effects": [
            {
                "knob": knob,
                "from": old,
                "to": WINNER[knob],
                "ratio": ratio,
                "ci": [lo, hi],
                "confidence": 0.95,
                "word": "better",
                "why": WHY[knob],
                "durability": durability,
                "context": context,
            }
            for knob, old, ratio, lo, hi, durability, context in EFFECTS
        ],
        "dropped": [
            {
                "knob": knob,
                "from": old,
                "to": new,
                "why": "its removal cost nothing measurable, in throughput or in server CPU per transaction",
            }
            for knob, (old, new) in DROPPED.items()
        ],
        "rivals": [
            {
                "name": "by-hand",
                "settings": {"shared_buffers": "4GB"},
                "verdict": verdict_json("throughput", 2.9, 2.78, 3.03),
                "winner_over_rival": {"ratio": 1.08, "ci": [1.05, 1.11], "confidence": 0.95},
            },
        ],
        "search": {
            "knobs": [*WINNER, *DROPPED],
            "trials": 30,
            "stopped": "10 more trials are expected to bring less than 2 %",
            "excluded": [{"knob": "checkpoint_timeout", "reason": "needs 3 checkpoint cycles, a trial has 40 s"}],
            "best": {**WINNER, **{name: new for name, (_, new) in DROPPED.items()}},
        },
        "refused": [],
        "unpruned": {**verdict_json("throughput", 0.997, 0.985, 1.009, "equivalent"), "more_pairs": None},
        "confirmation": {"pairs": list(pairs)},
        "trials": {"complete": 60},
        "elapsed_s": 4021.5,
        "fragment": Configuration.of(WINNER).fragment(),
        "undo": "".join(
            f"# {knob}: remove the line; the default of {old} comes back\n" for knob, old in before.items()
        ),
        "explanation": [
            "Reads became hits: per transaction 171 of 262 blocks (65 %) were not in shared buffers and had to be "
            "copied in (1.34 MB); with the winner 3 (1 %) are.",
            "Double buffering: 99.6% of those copies were served by the kernel's page cache and not by the disk.",
            "Server CPU per transaction fell from 1.39 ms to 0.442 ms (32 % of it).",
        ],
        "warnings": ["a checkpoint ended inside the measured window of 3 runs"],
        "notes": [],
        "environment": "b81f0c2d9a7e",
    }


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
