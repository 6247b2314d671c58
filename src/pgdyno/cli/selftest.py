"""`pgdyno selftest`: on this machine equal is called equal, and sabotage is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.bounds import CpuBoundsFlags
from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.safety import SafetyFlags, safety
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request
from pgdyno.errors import PgdynoError

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.selftest import SelftestResult
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.studies.session.target_request import TargetRequest
    from pgdyno.targets.target import Target

CASES = ("equal", "cache", "planner", "wal")
_SLOW = ("throughput", "p99")
"""Guards that end a trial because it is slow: a sabotage is meant to be."""


class _Flags(TargetFlags, SafetyFlags, CpuBoundsFlags, JsonFlag, StoreFlag):
    quick: bool = flag("Shorter windows and fewer pairs: some five minutes instead of twenty.")
    cases: tuple[str, ...] = flag("This case only; may be given again.", "--case", type=click.Choice(CASES))
    window: float | None = flag(
        "Measured window, in seconds; warm-up at most half of it.  [default: 12, quick 3]", type=Time("s", 2)
    )
    clients: int = flag("Sessions of the loads.", "-c", default=2, type=click.IntRange(1))
    seed: int = flag("Seed of the interleaving.", default=1)
    report: Path | None = flag("Write the HTML report here.")
    yes: bool = flag("Do not ask before changing a --target.")


@verb("selftest")
def command(flags: _Flags) -> int:
    """Prove the method here: the server against itself, then three settings that are known to harm.

    Equal must come out equivalent or not resolved; a starved cache, a misled planner and commits that wait must come
    out worse; and afterwards every setting must be what it was. Exit code 0 when all cases pass, 1 when one fails, 3
    when one cannot be resolved on this machine.
    """
    from pgdyno.cli.requests.study import (
        check_report_path,
        confirm_changes,
        outage_text,
        print_result,
        run_study,
        write_report,
    )
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.study import StudyKind
    from pgdyno.model.trial import LoadPlan
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.selftest.run import chosen, run_selftest, selftest_result, with_restored
    from pgdyno.studies.session.study_session import StudyRequest
    from pgdyno.trial.assess import Bounds

    check_report_path(flags.report)
    store, progress = open_store(flags.store_url), Progress()
    cases, quick, clients = chosen(flags.cases), flags.quick, flags.clients
    measure_s = flags.window or (3.0 if quick else 12.0)
    warmup_s, most = measure_s / 2, 8 if quick else 16
    design = Design(smallest_effect=0.05, confidence=0.99, min_pairs=4, max_pairs=most)
    bound = Bounds(foreign_cpu_pct=flags.foreign_cpu, steal_pct=flags.steal)
    server, asked = target_request(flags), safety(flags)
    safe = replace(asked, guards=(*(f"{name}=off" for name in _SLOW), *asked.guards))

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        names = ", ".join(case.name for case in cases)
        words = outage_text("a restart before each run of the case cache, reloads else", outage)
        confirm_changes(target, workload, f"cases {names}: harmful settings, each undone", words,
                        ask=not flags.yes)  # fmt: skip

    request = StudyRequest(
        kind=StudyKind.SELFTEST,
        name="selftest" + (" --quick" if quick else ""),
        target=replace(server, keep=True),
        workload=cases[0].workload,
        parameters=cases[0].parameters,
        plan=LoadPlan(clients=clients, jobs=1, warmup_s=warmup_s, measure_s=measure_s),
        options={
            "target": server.to_json(),
            "bounds": asdict(bound),
            "design": asdict(design),
            "seed": flags.seed,
            "cases": [case.name for case in cases],
            "safety": safe.to_json(),
        },
        bounds=bound,
        guards=safe.plan(),
        watch=safe.deadlines(),
        restart="as-needed",
        check=check,
    )
    before: dict[str, str] = {}

    def body(session: StudySession) -> SelftestResult:
        before.update({name: row.setting for name, row in session.facts.settings.items()})
        outcomes = run_selftest(
            session.laboratory, session.data, cases, design=design, seed=flags.seed, announce=progress.announce
        )
        return selftest_result(session.laboratory, outcomes)

    result = run_study(request, store, progress, body, None)
    left, reason = _left_changed(server, before)
    result = with_restored(result, left, reason)
    store.update_study(result.study, result=result)
    write_report(store, result, flags.report, progress)
    print_result(store, result, flags.as_json)
    return int(result.exit_code)


def _left_changed(server: TargetRequest, before: Mapping[str, str]) -> tuple[list[str] | None, str | None]:
    """Open the server again and return the settings that are not what they were; None with the reason if it cannot."""
    from pgdyno.studies.selftest.run import changed_settings
    from pgdyno.studies.session.opening import opened
    from pgdyno.targets.inspect import read_facts

    try:
        with opened(server) as target:
            after = {name: row.setting for name, row in read_facts(target).settings.items()}
    except PgdynoError as error:
        return None, f"the server could not be read again: {error.message}"
    return changed_settings(before, after), None
