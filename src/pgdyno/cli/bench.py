"""`pgdyno bench`: one configuration under one workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import Flags
from pgdyno.cli.arguments.load import load_plan, workload_options
from pgdyno.cli.arguments.planned import PlannedCommand, plan_option
from pgdyno.cli.arguments.safety import safety_options
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.arguments.target import target_options
from pgdyno.cli.requests.study_request import carry_out, new_request, study_options

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.targets.target import Target


@click.command("bench", cls=PlannedCommand)
@target_options
@workload_options
@plan_option
@safety_options
@click.option("--conf", type=click.Path(path_type=Path), help="Measure with these settings; undone afterwards.")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="How often to measure.")
@click.option(
    "--dry-run", is_flag=True, help="Print scripts, size of the data and pgbench's command line; run nothing."
)
@study_options()
def command(**values: object) -> int:
    """Measure a server under a load: throughput, latency percentiles, CPU, and every probe once a second.

    Without --conf the server is measured as it is: nothing of it is changed or restarted. One measurement is no
    claim; compare two configurations with `pgdyno experiment --ab`.
    """
    flags = Flags(values)
    if flags.on("dry_run"):
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

    conf = flags.path("conf")
    settings = settings_from(conf) if conf else {}
    check_report_path(flags.path("report"))
    store, progress = open_store(flags.text("store_url")), Progress()

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        if settings:
            require(check_settings(settings, facts), facts, connections=load_plan(flags).connections, what=f"{conf}")
            ask = not flags.on("yes")
            words = outage_text("a restart before every run", outage)
            plan = f"one configuration; sets {', '.join(sorted(settings))}"
            confirm_changes(target, workload, plan, words, ask=ask)
        else:
            confirm_changes(target, workload, "the server as it is", "none: no setting is touched", ask=False)

    request = new_request(
        flags,
        kind=StudyKind.BENCH,
        name=f"bench {flags.choice('workload')}",
        options={"settings": settings},
        check=check,
        kernel=lambda *_: linux_knobs(settings),
        changes=bool(settings),
    )

    def body(stand: StudySession) -> StudyResult:
        configuration = check_settings(settings, stand.facts) if settings else BASELINE
        return bench_result(stand.laboratory, bench(stand.laboratory, configuration, flags.whole("runs")))

    return int(carry_out(request, flags, store, progress, body).exit_code)
