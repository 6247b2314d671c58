"""Real live studies in a row, on a sandbox under a load whose answer is planted, with their counts.

    python bench/live.py --hours 8 [--folder ~/pgdyno-live-bench] [--rows L5 L6 L8 L9 L12 L13]

Without --rows it is L1 to L3; a command with --hours 2 and the rows but the last has each case once in 90 minutes.

Each study has a line in the folder's studies.jsonl as soon as it is over; the same command later goes on with the next
one. What was simulated is never counted here. A study during which others used more than 5 % of the CPUs is counted
apart: its cost and lags say nothing.
"""

from __future__ import annotations

import itertools
import json
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from live_load import planted_load
from live_rows import ARMS, LONGEST_SEARCH_S, MS, PROMISES, RATE, VALUE, Case
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.terminal.progress import Progress
from pgdyno.linux.host_texts import read_texts
from pgdyno.model.facts import Unknown
from pgdyno.model.guard_table import GUARDS, LIVE_GUARDS
from pgdyno.model.results.live import LiveResult, LiveSwitch
from pgdyno.model.verdict import Verdict
from pgdyno.probes.host.cpu import parse
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.server.postgres import Postgres
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.candidates import Reply
from pgdyno.studies.live.course.moments import GUARD
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.live.run import AskedArms, switch_study
from pgdyno.studies.live.search_run import AskedSearch, search_study
from pgdyno.studies.live.switch_result import VANISHED, VETOED
from pgdyno.studies.live.world import A, B
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target
from pgdyno.trial.guard_settings import guard_plan

Busy = tuple[float, float, float]
TOLD_STATES = (VETOED, VANISHED)
REFERENCE_S, BUDGET_S, MOST_PAIRS = 180.0, 1500.0, 20
MOST_FOREIGN = 0.05
FRESH_PAIRS = 12
"""Of the study that has to find a search's figure again."""


def cases_of(rows: Sequence[str]) -> Sequence[Case]:
    """Return the cases of these rows, such as L5; L1 to L3 where none is given."""
    found = [case for case in (*ARMS, *PROMISES) if case.row in rows] if rows else list(ARMS)
    if missing := set(rows) - {case.row for case in found}:
        known = ", ".join(dict.fromkeys(case.row for case in (*ARMS, *PROMISES)))
        raise SystemExit(f"no row {', '.join(sorted(missing))}: there are {known}")
    return found


def run_hours(
    hours: float,
    folder: Path,
    rows: Sequence[str] = (),
    *,
    reference_s: float = REFERENCE_S,
    budget_s: float = BUDGET_S,
    period_s: float | None = None,
    seed: int = 1,
) -> None:
    """Run studies of these rows until the time is over, the case with the fewest first, and print what all came to.

    The order of the arms is drawn by `seed` and the study's number: commands that run side by side want one each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, ends_at, cases = folder / "studies.jsonl", time.monotonic() + 3600 * hours, cases_of(rows)
    if path.exists() and not path.read_text().endswith("\n"):
        with path.open("a") as file:
            file.write("\n")  # a kill cut its line off
    print(f"a round of {len(cases)} studies takes about {sum(case.minutes for case in cases):g} min", flush=True)
    for number in itertools.count(len(read_rows(path))):
        if time.monotonic() >= ends_at:
            break
        had = Counter(str(row["case"]) for row in read_rows(path))
        case = min(cases, key=lambda case: had[case.name])
        row = _study(100_000 * seed + number, case, reference_s, budget_s, period_s)
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
        for case in ARMS:
            mine = [row for row in rows if row["case"] == case.name and is_quiet(row) is quiet]
            if mine and case.truth is not None:
                words = f"{len(mine):<7}  {_count(row['word'] in ('better', 'worse') for row in mine):<6}"
                right = "-" if case.truth == 1 else _count(row["word"] == _right(case.truth) for row in mine)
                holds = _count(holds_truth(row, case.truth) for row in mine)
                words += f"  {right!s:<5}  {holds:<17}  {_middle(mine, 'pairs'):<5g}"
                yield f"{case.name:<18}  {words}  {'quiet' if quiet else 'disturbed'}"
    yield "\nreal studies with a promise               studies  kept  pairs  back after s, most  arm in force s, most"
    for quiet in (True, False):
        for case in PROMISES:
            mine = [row for row in rows if row["case"] == case.name and is_quiet(row) is quiet]
            if mine and case.keeps is not None:
                most = "  ".join(f"{_most(mine, name):<18}" for name in ("held_s", "arm_s"))
                kept = f"{len(mine):<7}  {_count(case.keeps(row) for row in mine):<4}  {_middle(mine, 'pairs'):<5g}"
                yield f"{case.name:<42}  {kept}  {most}  {'quiet' if quiet else 'disturbed'}"
    restarted = sum(bool(row.get("restarted")) for row in rows)
    yield f"\nL15: the server was started anew in {restarted} of {len(rows)} studies"


def _middle(rows: Sequence[Mapping[str, object]], name: str) -> float:
    return sorted(float(str(row[name])) for row in rows)[len(rows) // 2]


def _most(rows: Sequence[Mapping[str, object]], name: str) -> str:
    known = [value for row in rows if isinstance(value := row.get(name), float)]
    return f"{max(known):.1f}" if known else "-"


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


def _study(seed: int, case: Case, reference_s: float, budget_s: float, period_s: float | None) -> dict[str, object]:
    request = TargetRequest(sandbox="live-bench", keep=True)
    options = LiveOptions(
        reference_s=reference_s, budget_s=budget_s, seed=seed, design=Design(max_pairs=MOST_PAIRS),
        guards=guard_plan(case.guards, 1, {**GUARDS, **LIVE_GUARDS}), period_s=period_s,
    )  # fmt: skip
    planted = "4MB" if case.candidates else VALUE
    with (
        opened(request) as target,
        _settings(target.postgres, case),
        planted_load(
            target.postgres, {planted: case.factor}, ms=MS, rate=RATE, each=case.each, other=case.other,
            timeout_ms=case.timeout_ms, prepared=case.prepared,
        ),
        open_store(None) as store,
    ):  # fmt: skip
        target.postgres.execute("SELECT public.pg_stat_statements_reset()", None, "postgres")  # of a study before
        before, began, started = busy_of(target), time.monotonic(), _started(target.postgres)
        done = Meanwhile(case, target.postgres)
        if case.candidates:
            told = search_study(
                store, target, request, replace(options, budget_s=LONGEST_SEARCH_S),
                AskedSearch(case.candidates, 60.0), Progress(quiet=True),
                show=lambda _plan: None, decide=lambda plan: Reply(plan.proposal.settings), announce=done.hear,
            )  # fmt: skip
        else:
            told = _two_arms(store, target, request, options, case.b, done.hear)
        seconds = time.monotonic() - began
        row = _row(case.name, told, foreign_between(before, busy_of(target)), seconds)
        row["readable"], row["restarted"] = bool(target.postgres.fetch("SELECT 1 AS one")), False
        switch = _switch(told)
        if case.candidates and switch is not None and switch.is_acceptable:
            fresh = replace(options, design=Design(min_pairs=FRESH_PAIRS, max_pairs=FRESH_PAIRS))
            again = _two_arms(store, target, request, fresh, switch.b, done.hear)
            row["reproduced"] = _is_inside(again.headline, switch.verdict)
        row["restarted"] = _started(target.postgres) != started
        return row


def _two_arms(
    store: Store, target: Target, request: TargetRequest, options: LiveOptions, b: Mapping[str, str],
    announce: Callable[[str], None],
) -> LiveResult:  # fmt: skip
    return switch_study(
        store, target, request, options, AskedArms({}, b), Progress(quiet=True),
        approve=lambda _plan: True, announce=announce,
    )  # fmt: skip


class Meanwhile:
    """Does to the server what a case has planned for the midst of a pair."""

    def __init__(self, case: Case, postgres: Postgres) -> None:
        self._case, self._postgres, self._done = case, postgres, False

    def hear(self, text: str) -> None:
        """Hear what a study tells; after its second pair the time has come."""
        if self._case.meanwhile is not None and not self._done and text.startswith("after 2 pairs"):
            self._done = True
            threading.Thread(target=self._case.meanwhile, args=(self._postgres,), daemon=True).start()


@contextmanager
def _settings(postgres: Postgres, case: Case) -> Iterator[None]:
    """Give the server what a case needs beside its arms."""
    _alter(postgres, case.settings)
    try:
        yield
    finally:
        _alter(postgres, dict.fromkeys(case.settings))


def _alter(postgres: Postgres, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        postgres.execute(alter_system(Line(name, value)), None, "postgres")
    if settings:
        postgres.execute("SELECT pg_catalog.pg_reload_conf()", None, "postgres")


def _started(postgres: Postgres) -> str:
    return str(postgres.fetch("SELECT pg_catalog.pg_postmaster_start_time() AS at")[0]["at"])


def _is_inside(fresh: Verdict | None, found: Verdict | None) -> bool:
    return fresh is not None and found is not None and found.interval.lo <= fresh.interval.ratio <= found.interval.hi


def _switch(told: LiveResult) -> LiveSwitch | None:
    return told.switch if told.search is None else told.search.winner


def _row(name: str, told: LiveResult, foreign: float | None, seconds: float) -> dict[str, object]:
    switch = _switch(told)
    verdict = None if switch is None else switch.verdict
    span = None if verdict is None else verdict.interval
    return {
        "case": name,
        "word": told.word,
        "ratio": None if span is None else span.ratio,
        "lo": None if span is None else span.lo,
        "hi": None if span is None else span.hi,
        "pairs": 0 if switch is None else len(switch.pairs),
        "lost": {} if switch is None else dict(switch.lost),
        "breaches": [] if switch is None else [one.guard for one in switch.breaches],
        "acceptable": switch is not None and switch.is_acceptable,
        "not_tested": "" if switch is None else switch.not_tested,
        "states": [] if switch is None else [one.state for one in switch.statements if one.state in TOLD_STATES],
        **back_times(told),
        "foreign": foreign,
        "seconds": seconds,
    }


def back_times(told: LiveResult) -> dict[str, float | None]:
    """Return for how long the last arm was in force, and how soon after what ended it the baseline was.

    What ends it is a guard's breach, or with a veto the end of the period that had it.
    """
    arms = [one for one in told.moments if one.lane in (A, B)]
    if not arms or told.switch is None:
        return {"arm_s": None, "held_s": None}
    back_at = arms[-1].at + arms[-1].seconds
    guards = [one.at for one in told.moments if one.lane == GUARD]
    began = guards[-1] if guards else arms[-1].at + told.switch.period_s
    return {"arm_s": arms[-1].seconds, "held_s": back_at - began}


def busy_of(target: Target) -> Busy | None:
    """Return seconds that all CPUs were busy, that they had, and those of server and load; None where unknown."""
    host = read_texts()
    times, server = parse(host.text("stat"), host.ticks_per_s), target.cpu.seconds()
    if isinstance(server, Unknown):
        return None
    ours = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own = sum(used.ru_utime + used.ru_stime for used in ours)
    return times.busy, times.busy + times.idle + times.iowait + times.steal, server + own


def foreign_between(before: Busy | None, after: Busy | None) -> float | None:
    """Return the share of the CPUs' time that others used between two readings; None where unknown."""
    if before is None or after is None:
        return None
    busy, had, own = (one - other for one, other in zip(after, before, strict=True))
    return max(0.0, busy - own) / had if had > 0 else None
