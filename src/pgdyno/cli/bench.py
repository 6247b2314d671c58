"""`pgdyno bench`: one configuration under one workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import flag, verb
from pgdyno.cli.arguments.load import load_plan
from pgdyno.cli.arguments.planned import PlanFlag, PlannedCommand
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.requests.study_request import StudyFlags, carry_out, load_of, new_request

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.targets.target import Target


class _Flags(PlanFlag, StudyFlags):
    conf: Path | None = flag("Measure with these settings; undone afterwards.")
    runs: int = flag("How often to measure.", default=1, type=click.IntRange(1))
    dry_run: bool = flag("Print scripts, size of the data and pgbench's command line; run nothing.")


@verb("bench", cls=PlannedCommand)
def command(flags: _Flags) -> int:
    """Measure a server under a load: throughput, latency percentiles, CPU, and every probe once a second.

    Without --conf the server is measured as it is: nothing of it is changed or restarted. One measurement is no
    claim; compare two configurations with `pgdyno experiment --ab`.
    """
    if flags.dry_run:
        from pgdyno.cli.requests.dry_run import print_load  # before all that a measurement loads

        return print_load(flags)
    from pgdyno.cli.requests.study import check_report_path, confirm_changes, outage_text, settings_from
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.knobs.constraints import require
    from pgdyno.knobs.policy import check_settings
    from pgdyno.model.configuration import BASELINE
    from pgdyno.model.study import StudyKind
    from pgdyno.studies.bench.run import bench, bench_result
    from pgdyno.studies.session.study_session import linux_knobs

    conf = flags.conf
    settings = settings_from(conf) if conf else {}
    check_report_path(flags.report)
    store, progress = open_store(flags.store_url), Progress()

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        if settings:
            require(check_settings(settings, facts), facts, connections=load_plan(flags).connections, what=f"{conf}")
            ask = not flags.yes
            words = outage_text("a restart before every run", outage)
            plan = f"one configuration; sets {', '.join(sorted(settings))}"
            confirm_changes(target, workload, plan, words, ask=ask)
        else:
            confirm_changes(target, workload, "the server as it is", "none: no setting is touched", ask=False)

    request = new_request(
        flags,
        kind=StudyKind.BENCH,
        name=f"bench {flags.workload}",
        load=load_of(flags),
        options={"settings": settings},
        check=check,
        kernel=lambda *_: linux_knobs(settings),
        changes=bool(settings),
    )

    def body(session: StudySession) -> StudyResult:
        configuration = check_settings(settings, session.facts) if settings else BASELINE
        return bench_result(session.laboratory, bench(session.laboratory, configuration, flags.runs))

    return int(carry_out(request, flags, store, progress, body).exit_code)
