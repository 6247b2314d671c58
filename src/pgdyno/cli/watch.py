"""`pgdyno watch`: what became slower on a server, and what somebody changed."""

from __future__ import annotations

from pathlib import Path

from pgdyno.cli.arguments.flags import JsonFlag, flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.arguments.target import TargetFlags, target_request


class _Flags(TargetFlags, JsonFlag, StoreFlag):
    minutes: float | None = flag(
        "How long, such as 30min or 1d.  [default: until Ctrl-C or SIGTERM]",
        "--for",
        type=Time("min", 0.1),
        metavar="TIME",
    )
    every: float = flag(
        "Between two readings. A step is reported after 5 of them, from the 20th on.", default=60.0, type=Time("s", 1)
    )
    report: Path | None = flag("Write the HTML report here.")


@verb("watch")
def command(flags: _Flags) -> int:
    """Watch a server's real load for hours or days; reads only.

    Reports at once which statements, or the server as a whole, became slower, whether that looks like another plan, and
    which settings somebody changed. Restarts, resets and new statements are noted without an alarm.
    Exit code 1 when something was found, 0 when not, 3 when there was too little to judge, 6 when the server cannot be
    watched, with the commands that would change that.
    """
    from pgdyno.cli.requests.study import check_report_path, print_result, write_report
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.studies.session.opening import opened
    from pgdyno.studies.watch.study import watch_server

    check_report_path(flags.report)
    request = target_request(flags)
    store, progress = open_store(flags.store_url), Progress()
    with opened(request) as target:
        result = watch_server(
            store,
            target,
            request,
            seconds=None if flags.minutes is None else 60 * flags.minutes,
            period_s=flags.every,
            announce=progress.announce,
        )
    write_report(store, result, flags.report, progress)
    print_result(store, result, flags.as_json)
    return int(result.exit_code)
