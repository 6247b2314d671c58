"""The result of the tune that `study_example` writes: its parts agree with each other and with its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.study import StudyKind
from pgdyno.store.codec import result_from_json

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
