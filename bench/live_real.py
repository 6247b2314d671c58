"""Real live studies in a row, on a sandbox under a load whose answer is planted: rows L1 to L3, with their counts.

    python bench/live.py --hours 8 [--folder ~/pgdyno-live-bench]

Each study has a line in the folder's studies.jsonl as soon as it is over; the same command later goes on with the next
one. What was simulated is never counted here. A study during which others used more than 5 % of the CPUs is counted
apart: its cost and lags say nothing.
"""

from __future__ import annotations

import itertools
import json
import resource
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from live_load import planted_load
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.terminal.progress import Progress
from pgdyno.linux.host_texts import read_texts
from pgdyno.model.facts import Unknown
from pgdyno.model.results.live import LiveResult
from pgdyno.probes.host.cpu import parse
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.live.run import AskedArms, switch_study
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target

CASES = (("L1 equal", 1.0), ("L2 a tenth less", 0.9), ("L3 a twentieth less", 0.95), ("L3 30 % less", 0.7),
         ("L3 a tenth more", 1.1))  # fmt: skip
"""Names, and the factor of every statement's time under B."""
MS, RATE = (20.0, 40.0, 60.0), 8.0
"""Whole milliseconds under every factor but one; a class has a session of its own and keeps its rate."""
REFERENCE_S, BUDGET_S, MOST_PAIRS = 180.0, 1500.0, 20
MOST_FOREIGN = 0.05
VALUE = "64MB"


def run_hours(hours: float, folder: Path, *, reference_s: float = REFERENCE_S, budget_s: float = BUDGET_S) -> None:
    """Run studies until the time is over, and print what all in the folder came to."""
    folder.mkdir(parents=True, exist_ok=True)
    path, ends_at = folder / "studies.jsonl", time.monotonic() + 3600 * hours
    if path.exists() and not path.read_text().endswith("\n"):
        with path.open("a") as file:
            file.write("\n")  # a kill cut its line off
    for number in itertools.count(len(read_rows(path))):
        if time.monotonic() >= ends_at:
            break
        row = _study(number, reference_s, budget_s)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{number + 1}: {row['case']}: {row['word']}, {row['pairs']} pairs", flush=True)
    print("\n".join(table(read_rows(path))))


def read_rows(path: Path) -> list[dict[str, object]]:
    """Return the studies that are over; a line that a kill cut off is none."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def table(rows: Sequence[dict[str, object]]) -> Iterator[str]:
    """Yield what each case came to, quiet and disturbed studies apart."""
    yield "real studies        studies  claims  right  interval holds it  pairs  (others below 5 % of the CPUs)"
    for quiet in (True, False):
        for name, truth in CASES:
            mine = [row for row in rows if row["case"] == name and is_quiet(row) is quiet]
            if mine:
                words = f"{len(mine):<7}  {_count(row['word'] in ('better', 'worse') for row in mine):<6}"
                right = "-" if truth == 1 else _count(row["word"] == _right(truth) for row in mine)
                holds = _count(holds_truth(row, truth) for row in mine)
                pairs = sorted(int(str(row["pairs"])) for row in mine)[len(mine) // 2]
                yield f"{name:<18}  {words}  {right!s:<5}  {holds:<17}  {pairs:<5}  {'quiet' if quiet else 'disturbed'}"


def is_quiet(row: dict[str, object]) -> bool:
    """Tell whether others left the machine alone; what is not known was not quiet."""
    return isinstance(row["foreign"], float) and row["foreign"] < MOST_FOREIGN


def holds_truth(row: dict[str, object], truth: float) -> bool:
    """Tell whether the interval of a study holds what was planted."""
    lo, hi = row["lo"], row["hi"]
    return isinstance(lo, float) and isinstance(hi, float) and lo <= truth <= hi


def _right(truth: float) -> str:
    return "better" if truth < 1 else "worse"


def _count(found: Iterable[bool]) -> int:
    return sum(found)


def _study(number: int, reference_s: float, budget_s: float) -> dict[str, object]:
    name, truth = CASES[number % len(CASES)]
    request = TargetRequest(sandbox="live-bench", keep=True)
    options = LiveOptions(reference_s=reference_s, budget_s=budget_s, seed=number, design=Design(max_pairs=MOST_PAIRS))
    with opened(request) as target, planted_load(target.postgres, {VALUE: truth}, ms=MS, rate=RATE):
        before, began = _busy(target), time.monotonic()
        with open_store(None) as store:
            told = switch_study(
                store, target, request, options, AskedArms({}, {"work_mem": VALUE}), Progress(quiet=True),
                approve=lambda _plan: True, announce=lambda _text: None,
            )  # fmt: skip
        return _row(name, told, _foreign(before, _busy(target)), time.monotonic() - began)


def _row(name: str, told: LiveResult, foreign: float | None, seconds: float) -> dict[str, object]:
    switch = told.switch
    verdict = None if switch is None else switch.verdict
    span = None if verdict is None else verdict.interval
    return {
        "case": name,
        "word": told.word if verdict is None else verdict.word.value,
        "ratio": None if span is None else span.ratio,
        "lo": None if span is None else span.lo,
        "hi": None if span is None else span.hi,
        "pairs": 0 if switch is None else len(switch.pairs),
        "lost": {} if switch is None else dict(switch.lost),
        "breaches": [] if switch is None else [one.guard for one in switch.breaches],
        "foreign": foreign,
        "seconds": seconds,
    }


def _busy(target: Target) -> tuple[float, float, float] | None:
    """Return seconds that all CPUs were busy, that they had, and those of server and load; None where unknown."""
    host = read_texts()
    times, server = parse(host.text("stat"), host.ticks_per_s), target.cpu.seconds()
    if isinstance(server, Unknown):
        return None
    own = resource.getrusage(resource.RUSAGE_SELF)
    return times.busy, times.busy + times.idle + times.iowait + times.steal, server + own.ru_utime + own.ru_stime


def _foreign(before: tuple[float, float, float] | None, after: tuple[float, float, float] | None) -> float | None:
    if before is None or after is None:
        return None
    busy, had, own = (one - other for one, other in zip(after, before, strict=True))
    return max(0.0, busy - own) / had if had > 0 else None
