"""The section on what happened inside the recorded runs: failures, evenness, clients, locks, scope, plans. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Table
from pgdyno.model.record import ClientRecord, PlanRecord
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.probes.server_failures import failure_text
from pgdyno.report.sections import Block, FactList, Notice, Prose, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital, number_text
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.units import plural

MOST_CLIENTS = 64
"""So many clients are listed, the slowest first; the store has them all."""
SLOW_CLIENT = 2.0
"""A client whose p95 is this many times that of the middle client is named."""
SHAPE = (
    "A shape is the nodes of the generic plan with their tables and indexes, without costs, row counts and "
    "conditions, taken after the run with its settings in force."
)
CAVEAT = (
    "Even throughput is a hint at even response times and proves nothing for a single user: a total can be smooth "
    "while one client waits. The table of clients shows that."
)
Runs = Sequence[tuple[str, int, RunEvidence]]


def run_details(runs: Runs) -> Section | None:
    """Return the section, None without runs."""
    if not runs:
        return None
    blocks: list[Block] = [FactList(tuple((f"{name}, trial {run}", failures_text(one)) for name, run, one in runs))]
    if any(one.smoothness for _, _, one in runs):
        blocks.append(Prose((*_evenness(runs), CAVEAT)))
    for name, run, one in runs:
        where = f"{name}, trial {run}"
        if one.filling:
            text = f"{where}: not steady. {'. '.join(capital(phase) for phase in one.filling)}."
            blocks.append(Notice((capital(text), "Such a run stands for no state of the caches: warm up longer.")))
        if one.clients:
            blocks.append(TableBlock(clients_table(one.clients), _clients_caption(where, one.clients), folded=True))
        if one.locks:
            caption = f"Locks held and awaited in {where}: concurrency at each second, our own session left out."
            blocks.append(TableBlock(_locks_table(one), caption, folded=True))
    scope = tuple(dict.fromkeys(note for _, _, one in runs for note in one.scope))
    if scope:
        blocks.append(Prose(scope, points=len(scope) > 1))
    return Section("inside", "Inside the runs", "What failed, how even was it, and who waited?", tuple(blocks))


def failures_text(one: RunEvidence) -> str:
    """Write what failed during a run; none is a result, not recorded is another."""
    said = f"{one.failed_transactions:,} failed transactions"
    if one.failures is None:
        return f"{said}; failures of the server were not recorded"
    found = [failure_text(kind, count) for kind, count in one.failures.items() if count]
    if found:
        return f"{said}; {', '.join(found)}"
    return f"{said}; no crash, PANIC, shutdown, kill, lost session or deadlock of the server"


def plan_section(found: Sequence[PlanChange], names: tuple[str, str]) -> Section | None:
    """List the statements whose plans differ between the two sides; None where no plans were recorded."""
    changes = _plan_changes(found)
    if not changes:
        return None
    blocks: list[Block] = [Prose((f"{capital(_counted(changes))} {SHAPE}",))]
    told = tuple(f"{one.statement}: {', '.join(one.what)}." for one in changes if one.what)
    if told:
        blocks.append(Prose(told, points=True))
    table = Table(("plan", "statement", *names), tuple(_plan_row(one) for one in changes))
    blocks.append(TableBlock(table, "Plans by statement.", not _with_word(changes, "changed")))
    return Section("plans", "Execution plans", "Did a statement get another plan?", tuple(blocks))


def side_plan_section(
    places: Sequence[tuple[str, Sequence[PlanChange]]], what: str, names: tuple[str, str]
) -> Section | None:
    """List for each step, level or configuration, `(its name, where it has its plans)`, the plans that it changed.

    `what` is the word for them, `names` are those of the two sides. None where no plan was recorded.
    """
    known = [(name, changes) for name, place in places if (changes := _plan_changes(place))]
    if not known:
        return None
    said = [f"{name}: {_counted(changes)}" for name, changes in known]
    said += [
        f"{name}, {one.statement}: {', '.join(one.what)}." for name, changes in known for one in changes if one.what
    ]
    rows = tuple((name, *_plan_row(one)) for name, changes in known for one in changes if one.word != "same")
    blocks: list[Block] = [Prose((SHAPE,)), Prose(tuple(said), points=True)]
    if rows:
        table = Table((what, "plan", "statement", *names), rows)
        blocks.append(TableBlock(table, f"Statements whose plan changed or is unknown, by {what}."))
    return Section("plans", "Execution plans", "Did a statement get another plan?", tuple(blocks))


def _plan_changes(found: Sequence[PlanChange]) -> list[PlanChange]:
    """Return what was compared, those that changed first."""
    return [*_with_word(found, "changed"), *_with_word(found, "unknown"), *_with_word(found, "same")]


def _with_word(changes: Sequence[PlanChange], word: str) -> list[PlanChange]:
    return [one for one in changes if one.word == word]


def _counted(changes: Sequence[PlanChange]) -> str:
    changed, unknown, same = (len(_with_word(changes, word)) for word in ("changed", "unknown", "same"))
    parts = (
        (changed, "changed the shape of the plan"),
        (same, "kept it" if changed else "kept the shape of the plan"),
        (unknown, "could not be compared"),
    )
    told = [(count, did) for count, did in parts if count]
    first, *more = told or [(0, "were compared")]
    return "; ".join([f"{plural(first[0], 'statement')} {first[1]}", *(f"{count} {did}" for count, did in more)]) + "."


def _plan_row(one: PlanChange) -> tuple[str, ...]:
    return one.word, one.statement, " or ".join(one.before), " or ".join(one.after)


def clients_table(clients: Sequence[ClientRecord]) -> Table:
    """Return the clients, those with the longest p95 first."""
    columns = ("client", "transactions", "mean ms", "p50 ms", "p95 ms", "p99 ms", "max ms")
    ordered = sorted(clients, key=lambda one: -one.p95_ms)[:MOST_CLIENTS]
    rows = tuple(
        (
            str(one.client),
            f"{one.transactions:,}",
            *(number_text(value) for value in (one.mean_ms, one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)),
        )
        for one in ordered
    )
    return Table(columns, rows, columns)


def slow_clients(clients: Sequence[ClientRecord]) -> tuple[int, ...]:
    """Return the clients whose p95 is far above that of the middle one."""
    if len(clients) < 2:
        return ()
    middle = sorted(one.p95_ms for one in clients)[(len(clients) - 1) // 2]
    return tuple(one.client for one in clients if middle > 0 and one.p95_ms >= SLOW_CLIENT * middle)


def _clients_caption(where: str, clients: Sequence[ClientRecord]) -> str:
    slow = slow_clients(clients)
    if not slow:
        told = f"none has a p95 of {SLOW_CLIENT:g} times that of the middle client"
    else:
        who = ", ".join(str(client) for client in slow)
        told = f"client {who} waited far longer than the others (p95 at least {SLOW_CLIENT:g} times the middle one's)"
    return f"Latency of each client in {where}, the slowest first: {told}."


def _evenness(runs: Runs) -> list[str]:
    said = []
    for name, run, one in runs:
        even = one.smoothness
        if even is None:
            said.append(f"{name}, trial {run}: too short to tell how even the throughput was")
        else:
            said.append(
                f"{name}, trial {run}: coefficient of variation {100 * even.cv:.1f} % over "
                f"{plural(even.seconds, 'second')}, "
                f"{number_text(even.least)} to {plural(number_text(even.most), 'transaction')} in a second"
                + (f", {even.empty} without any" if even.empty else "")
            )
    return [f"How even the throughput was, second by second. {capital('; '.join(said))}."]


def _locks_table(one: RunEvidence) -> Table:
    columns = ("mode", "mean held", "most held", "mean awaited", "most awaited")
    rows = tuple(
        (lock.mode, *(number_text(v) for v in (lock.mean, lock.most, lock.waiting_mean, lock.waiting_most)))
        for lock in one.locks
    )
    return Table(columns, rows, columns[1:])


Sides = Sequence[tuple[str, Sequence[int], Sequence[int]]]
"""A name, the runs of the reference, and the runs of the side that is compared with it."""


def plans_of_sides(record: StudyRecord, sides: Sides, what: str, names: tuple[str, str]) -> Section | None:
    """List the statements whose plans differ between each side and its reference; None where no plan was recorded.

    `sides` are in the order of the page; their runs are trial numbers, whose plans are in `record`. `what` is the noun
    of a side, `names` are how the reference and the side are called in the table.
    """
    places = []
    for name, before, after in sides:
        places.append((name, plan_changes(*([_plans(record, run) for run in runs] for runs in (before, after)))))
    return side_plan_section(places, what, names)


def plans_of_arms(record: StudyRecord, arms: Sequence[str], what: str) -> Section | None:
    """List them for each arm against the first one."""
    runs: Mapping[str, Sequence[int]] = {
        arm: [trial.id for trial in record.trials if trial.spec.arm == arm] for arm in arms
    }
    sides = [(arm, runs[arms[0]], runs[arm]) for arm in arms[1:]]
    return plans_of_sides(record, sides, what, (arms[0], f"the {what}")) if sides else None


def _plans(record: StudyRecord, run: int) -> list[PlanRecord]:
    return [one for one in record.records.get(run, ()) if isinstance(one, PlanRecord)]
