"""`pgdyno live`: a server under its users' own load."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.flags import Flags
from pgdyno.cli.help_groups import GroupedCommand
from pgdyno.cli.numbers import Time
from pgdyno.cli.options import open_store, store_option, target_options, target_request
from pgdyno.errors import UsageError


@click.command("live", cls=GroupedCommand)
@target_options
@click.option("--watch-only", is_flag=True,
              help="Change nothing: say what could be told of this server in 10, 30 and 60 minutes.")  # fmt: skip
@click.option("--reference", type=Time("min", 1), default=30.0, show_default=True,
              help="How long the server is watched as it is; less than 10 minutes says little.")  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path), help="Write the HTML report here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(**values: object) -> int:
    """Watch the load that is really there, by pg_stat_statements alone: no benchmark, no clone, no statement of ours.

    --watch-only reads the counters for a while and prints the smallest change of the statements' time that a study
    could show here, by which statements, and what the counters leave out. Exit code 3 when this load could carry no
    claim, 6 when the server cannot be watched, with the commands that would change that.
    """
    from pgdyno.cli.progress import Progress
    from pgdyno.cli.study import check_report_path, print_result
    from pgdyno.studies.live.watch import watch_only
    from pgdyno.studies.session.opening import opened

    flags = Flags(values)
    if not flags.on("watch_only"):
        raise UsageError(
            "live cannot change a server yet", hint="Add --watch-only: it says what could be told, and changes nothing."
        )
    report = flags.path("report")
    check_report_path(report)
    request = target_request(flags)
    store, progress = open_store(flags.text("store_url")), Progress()
    with opened(request) as target:
        result = watch_only(
            store, target, request, reference_s=60 * flags.real("reference"), announce=progress.announce
        )
    if report is not None:
        from pgdyno.report.drawing.html import write_html
        from pgdyno.studies.reports import build_report

        write_html(build_report(store, result.study), report)
        progress.announce(f"report: {report}")
    print_result(store, result, flags.on("as_json"))
    return int(result.exit_code)
