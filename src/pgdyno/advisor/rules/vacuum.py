"""Judges of the rules on autovacuum: it stays on, with one exception that people put in force."""

from __future__ import annotations

from pgdyno.advisor.amounts import is_small, too_few_rows
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.planned import change_to, cost_of, shown
from pgdyno.model.evidence import TableActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Resolution, Severity
from pgdyno.outside.quoting import identifier
from pgdyno.units import bytes_text, moment_text, percent_text, some_text

MB = 1 << 20
MOSTLY_READ = 0.05
"""At most one row in twenty is written."""
DRIFT = 0.10
"""At most a tenth of a table's rows are dead, and it grows by at most a tenth in the window; small ones are let be."""
BLOATED = 0.20
MOST_TABLES = 5
"""So many tables without autovacuum are named, those with most dead rows first."""
COST_SETTINGS = (
    "autovacuum_vacuum_cost_limit",
    "autovacuum_vacuum_cost_delay",
    "vacuum_cost_limit",
    "vacuum_cost_delay",
)
CRON = "30 3 * * * postgres vacuumdb --all --analyze --quiet"
TIMER = "systemd-run --on-calendar='*-*-* 03:30:00' --uid=postgres vacuumdb --all --analyze --quiet"
SCHEDULE = (
    f"A line for /etc/cron.d, at a quiet time of this system: {CRON}",
    f"The same with a systemd timer: {TIMER}",
)
COST_LIMITS = (
    "Rather than turn it off, give it less: a lower autovacuum_vacuum_cost_limit or a longer "
    "autovacuum_vacuum_cost_delay makes it slower and keeps what it is there for."
)
REASONS = (
    "It gives back the space of updated and deleted rows, keeps the planner's statistics true, and freezes old rows "
    "before transaction numbers wrap around; the last it starts even when it is off."
)


def autovacuum(case: Case) -> Judgement:
    """Flag autovacuum = off; critical unless next to nothing is known to be written, or mostly reads."""
    on = case.text("autovacuum") == "on" and case.text("track_counts") == "on"
    if on:
        return InOrder("autovacuum is on.", (Resolution("CON-23", "It is on, and stays on."),))
    what = "autovacuum" if case.text("autovacuum") != "on" else "track_counts, which it needs,"
    why_not, of_few = _against_off(case), _few_written(case)
    evidence = [f"{what} is off.", REASONS, *_ages(case)]
    if why_not is None:
        evidence.append(_read_only(case))
        return Fires(
            current=f"{what} is off",
            proposed="on, set by hand; or off with a scheduled VACUUM",
            values={"consequence": "make sure that VACUUM runs by a schedule"},
            evidence=tuple(evidence),
            severity=Severity.WARNING,
            alternatives=(*SCHEDULE, COST_LIMITS),
            resolutions=(
                Resolution(
                    "CON-23", f"Off is acceptable only with a scheduled VACUUM, and watched: {_read_only(case)}"
                ),
            ),
        )
    evidence.append(f"{why_not[0].upper()}{why_not[1:]}.")
    return Fires(
        current=f"{what} is off",
        proposed="autovacuum = on, set by hand",
        values={"consequence": "turn it on"},
        evidence=tuple(evidence),
        severity=Severity.WARNING if of_few is not None and why_not == of_few else None,
        alternatives=(COST_LIMITS,),
        resolutions=(Resolution("CON-23", f"It must be on: {why_not}."),),
    )


def autovacuum_exception(case: Case) -> Judgement:
    """Say what turning autovacuum off could bring to a mostly read-only load, with the schedule it needs."""
    if case.text("autovacuum") != "on":
        return InOrder("autovacuum is off already; see autovacuum.")
    why_not = _against_off(case)
    if why_not is not None:
        return DoesNotApply(f"{why_not}; autovacuum stays on", (Resolution("CON-23", f"It stays on: {why_not}."),))
    return Fires(
        current="autovacuum = on",
        proposed="on; a person may turn it off beside a scheduled VACUUM",
        evidence=(_read_only(case), REASONS, *_ages(case)),
        alternatives=(*SCHEDULE, COST_LIMITS),
        resolutions=(
            Resolution(
                "CON-23",
                f"{_read_only(case)} So about 2 % may be had, only with the scheduled VACUUM, and watched.",
            ),
        ),
        needs_test=True,
    )


def _against_off(case: Case) -> str | None:
    """Return what speaks against turning autovacuum off, None when the load is known to be mostly read-only."""
    counted = case.evidence.statistics
    share = counted if isinstance(counted, Unknown) else counted.write_share
    if isinstance(share, Unknown):
        return f"the share of writes is unknown ({share.reason})"
    of_few = _few_written(case)
    if share > MOSTLY_READ and of_few is None:
        return f"{percent_text(share)} of the rows touched are written, which is more than {percent_text(MOSTLY_READ)}"
    tables = case.evidence.tables
    if isinstance(tables, Unknown):
        return f"whether statistics drift is unknown ({tables.reason})"
    drifting = [table for table in tables if _drifts(table)]
    if drifting:
        worst = max(drifting, key=lambda table: table.bytes)
        return f"the content of {worst.schema}.{worst.name} changes, so its statistics drift"
    return of_few


def _few_written(case: Case) -> str | None:
    """Return in words that a share of writes above the bound is one of next to nothing; None where it is not."""
    counted = case.evidence.statistics
    if isinstance(counted, Unknown) or isinstance(counted.write_share, Unknown) or counted.write_share <= MOSTLY_READ:
        return None
    few = too_few_rows(counted)
    return (
        None if few is None else f"{percent_text(counted.write_share)} of the rows touched are written, of only {few}"
    )


def _drifts(table: TableActivity) -> bool:
    if is_small(table):
        return False
    dead = not isinstance(table.dead_share, Unknown) and table.dead_share > DRIFT
    grows = not isinstance(table.growth_bytes, Unknown) and table.growth_bytes > DRIFT * table.bytes
    return dead or grows


def _read_only(case: Case) -> str:
    counted = case.evidence.statistics
    assert not isinstance(counted, Unknown), "only asked where it is known"
    assert not isinstance(counted.write_share, Unknown), "only asked where it is known"
    return f"{percent_text(counted.write_share, 1)} of the rows touched are written, and no table's content drifts."


def _ages(case: Case) -> tuple[str, ...]:
    databases = case.server.databases
    if isinstance(databases, Unknown) or not case.has("autovacuum_freeze_max_age"):
        return ()
    ages = {base.name: base.frozen_xid_age for base in databases if not isinstance(base.frozen_xid_age, Unknown)}
    if not ages:
        return ()
    name = max(ages, key=lambda base: ages[base])
    limit = case.number("autovacuum_freeze_max_age")
    return (
        f"The oldest transaction number of database {name} is {ages[name]:,} old; from {limit:,.0f} on a vacuum "
        "against wraparound is forced.",
    )


def autovacuum_tables(case: Case) -> Judgement:
    """Name tables for which autovacuum is turned off apart; a warning where dead rows pile up in one of them."""
    if case.text("autovacuum") != "on":
        return InOrder("autovacuum is off for every table; see autovacuum.")
    tables = known(case.evidence.tables, "which tables have autovacuum turned off")
    left_out = [table for table in tables if table.autovacuum_off and not is_small(table)]
    if not left_out:
        return InOrder("No large table has autovacuum turned off for itself.")
    piled = [table for table in left_out if _dead_share(table) >= BLOATED]
    left_out.sort(key=_dead_share, reverse=True)
    shown = left_out[:MOST_TABLES]
    names = some_text([f"{table.schema}.{table.name}" for table in left_out], MOST_TABLES, ", ")
    statements = "; ".join(
        f"ALTER TABLE {identifier(table.schema, table.name)} RESET (autovacuum_enabled)" for table in shown
    )
    return Fires(  # no change: nothing of a load's own tables, so no step of an experiment
        current=f"autovacuum_enabled = off for {names}",
        proposed=f"by hand: {statements}; or a scheduled VACUUM",
        values={"tables": names},
        evidence=tuple(_left_out(table) for table in shown),
        severity=Severity.WARNING if piled else None,
        alternatives=("Leave it off where a job vacuums the table itself, such as after each load.",),
    )


def _left_out(table: TableActivity) -> str:
    dead = table.dead_share
    rows = f"dead rows {dead}" if isinstance(dead, Unknown) else f"{percent_text(dead)} of its rows are dead"
    return f"{table.schema}.{table.name} of database {table.database} ({bytes_text(table.bytes)}): {rows}."


def _dead_share(table: TableActivity) -> float:
    return 0.0 if isinstance(table.dead_share, Unknown) else table.dead_share


def _wait_for_a_vacuum(case: Case, table: TableActivity) -> None:
    """Raise Missing where no autovacuum of the table has ended since its settings may last have changed."""
    settled = case.evidence.settled
    if isinstance(settled, Unknown):
        return
    since = max(settled.since(name, by_restart=False) for name in COST_SETTINGS)
    if table.autovacuumed_at is None or table.autovacuumed_at < since:
        raise Missing(
            "whether autovacuum keeps up with its present settings",
            f"they may have changed until {moment_text(since)}, and since then none has ended on "
            f"{table.schema}.{table.name}",
        )


def autovacuum_cost(case: Case) -> Judgement:
    """Offer a higher cost limit where dead rows pile up in a table in spite of autovacuum."""
    if case.text("autovacuum") != "on":
        return InOrder("autovacuum is off; see autovacuum.")
    tables = case.evidence.tables
    if isinstance(tables, Unknown):
        raise Missing("the share of dead rows in tables", tables.reason)
    bloated = [
        (table, table.dead_share)
        for table in tables
        if not isinstance(table.dead_share, Unknown)
        and table.dead_share >= BLOATED
        and table.bytes >= 100 * MB
        and not table.autovacuum_off
    ]
    if not bloated:
        return InOrder("No large table that autovacuum looks after has a fifth of dead rows.")
    table, share = max(bloated, key=lambda pair: pair[0].bytes)
    _wait_for_a_vacuum(case, table)
    own = case.number("autovacuum_vacuum_cost_limit")
    limit = own if own > 0 else case.number("vacuum_cost_limit")
    change = change_to(case, "autovacuum_vacuum_cost_limit", 2 * limit)
    return Fires(
        changes=(change,),
        current=f"the limit in force is {limit:g}",
        evidence=(
            f"{percent_text(share)} of the rows of {table.schema}.{table.name} ({bytes_text(table.bytes)}) are dead, "
            f"with autovacuum_max_workers = {shown(case, 'autovacuum_max_workers')}, which share the limit, and "
            f"autovacuum_vacuum_cost_delay = {shown(case, 'autovacuum_vacuum_cost_delay')}.",
        ),
        needs_test=True,
        cost=cost_of(case, "autovacuum_vacuum_cost_limit"),
    )
