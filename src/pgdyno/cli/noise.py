"""`pgdyno noise`: how small an effect this machine can show with this load, and how long that takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import flag, verb
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.requests.study_request import StudyFlags, carry_out, load_of, new_request
from pgdyno.model.verdict import STRICT_CONFIDENCE, STRICT_MIN_PAIRS

if TYPE_CHECKING:
    from pgdyno.model.facts import Facts
    from pgdyno.model.results.parts import StudyResult
    from pgdyno.model.trial import WorkloadSpec
    from pgdyno.server.outage import Outage
    from pgdyno.studies.session.study_session import StudySession
    from pgdyno.targets.target import Target


class _Flags(StudyFlags):
    minutes: float = flag(
        "Time for equal runs; at least four are made.", default=15.0, type=Time("min", 0, min_open=True)
    )
    smallest_effect: float = flag(
        "The effect for which window, pairs and minutes are proposed.",
        default=0.02,
        type=click.FloatRange(0, 1, min_open=True),
    )
    confidence: float = flag(
        "Confidence of the planned comparisons, as in pgdyno experiment.",
        default=STRICT_CONFIDENCE,
        type=click.FloatRange(0.8, 0.999),
    )
    restart_each: bool = flag("Restart before every run, as comparisons of knobs that need it do.")
    seed: int = flag("Seed of the coin that pairs equal runs.", default=1)
    yes: bool = flag("Do not ask before restarting a --target.")


@verb("noise")
def command(flags: _Flags) -> int:
    """Measure the server as it is again and again, and print the smallest effect that can be told from noise.

    The table has a row for each length of the window: the runs are cut to it, so that its noise is seen and not
    assumed. Nothing is changed, unless --restart-each is given. Exit code 3 when an hour would show nothing.
    """
    from pgdyno.cli.requests.study import check_report_path, confirm_changes, outage_text
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.model.study import StudyKind
    from pgdyno.stats.sequential import Design
    from pgdyno.studies.noise.run import noise_result, run_noise

    check_report_path(flags.report)
    store, progress = open_store(flags.store_url), Progress()
    restarts = flags.restart_each
    design = Design(smallest_effect=flags.smallest_effect, confidence=flags.confidence, min_pairs=STRICT_MIN_PAIRS)

    def check(target: Target, facts: Facts, workload: WorkloadSpec, outage: Outage | None) -> None:
        words = outage_text("a restart before every run", outage) if restarts else "none: no setting is touched"
        what = f"equal runs for {flags.minutes:g} minutes"
        confirm_changes(target, workload, what, words, ask=restarts and not flags.yes)

    request = new_request(
        flags,
        kind=StudyKind.NOISE,
        name=f"noise {flags.workload}",
        load=load_of(flags),
        options={"design": asdict(design), "minutes": flags.minutes, "restart_each": restarts},
        check=check,
        changes=restarts,
    )

    def body(session: StudySession) -> StudyResult:
        runs = run_noise(session.laboratory, budget_s=60 * flags.minutes, announce=progress.announce)
        return noise_result(session.laboratory, runs, design=design, effect=flags.smallest_effect, seed=flags.seed)

    result = carry_out(request, flags, store, progress, body)
    return int(result.exit_code)
