"""`pgdyno demo`: the laboratory of a published DBtune test, on the embedded PostgreSQL.

There a tuner reported 2.6x on YBIO reads that fit into memory. Here the same shape runs on two million rows: the
working set is seven times the default shared_buffers and fits easily into the page cache, so that every read is
copied from one cache into the other. The whole search space is searched, and nothing of durability is traded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.arguments.flags import FOLDER, flag, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.requests.study_request import EndFlags
from pgdyno.cli.terminal.files import write_text
from pgdyno.cli.tune import checks, run_tune
from pgdyno.errors import EnvironmentUnsuitable, UsageError

if TYPE_CHECKING:
    from pgdyno.studies.session.study_session import StudyRequest
    from pgdyno.studies.tune.options import TuneOptions

HAND_MADE = {"shared_buffers": "4GB"}
"""What a DBA who knows the answer would set: measured in the same blocks, to be beaten or matched."""
PARAMETERS = {"tab_rows": 2_000_000, "filler": 400, "batch_size": 10_000, "pct_update": 0}
CLIENTS = 2


class _Flags(StoreFlag):
    output: Path = flag("Folder for result.json and report.html.", default=Path("demo-out"), type=FOLDER)
    seed: int = flag("Seed of search and interleaving.", default=1)
    sandbox: str = flag("Which sandbox to use.", default="demo")
    keep: bool = flag(
        "Keep the sandbox for a second look, or remove it.  [default: keep]", "--keep/--discard", default=True
    )


@verb("demo")
def command(flags: _Flags) -> int:
    """Tune the embedded PostgreSQL on YBIO reads and prove the gain, in at most five minutes on two cores.

    The same as pgdyno tune --workload ybio -D tab_rows=2000000 -D filler=400 -c 2 --rival hand-made=FILE, where FILE
    holds shared_buffers = 4GB.
    """
    from pgdyno.cli.requests.study import told_json
    from pgdyno.cli.terminal.progress import Progress
    from pgdyno.server import places

    output = flags.output
    try:
        places.ensure(output.absolute(), mode=places.PUBLIC)
    except EnvironmentUnsuitable as error:
        hint = "Name a folder that you may write with --output."
        raise UsageError(error.message, detail=error.detail, hint=hint) from error
    options = demo_options(flags.seed)
    request = demo_request(flags.sandbox, options, keep=flags.keep)
    report = output / "report.html"
    with open_store(flags.store_url) as store:
        code = run_tune(
            store,
            Progress(),
            request,
            options,
            EndFlags(report=report, as_json=False, yes=True, store_url=flags.store_url),
            keep_result=lambda result: _write(output / "result.json", told_json(store, result)),
        )
    click.echo(f"\nresult   {output / 'result.json'}\nreport   {report}")
    return code


def demo_options(seed: int) -> TuneOptions:
    """Return a budget of five minutes from Enter to the prompt; two quiet cores need less."""
    from pgdyno.studies.tune.options import TuneOptions

    return TuneOptions(
        seed=seed,
        trials=16,
        budget_s=300.0,
        noise_runs=4,
        baseline_every=6,
        confirm_min=4,
        confirm_max=4,
        rivals={"hand-made": HAND_MADE},
    )


def demo_request(sandbox: str, options: TuneOptions, *, keep: bool) -> StudyRequest:
    """Return the study of the demo: two sessions, short windows, because a read takes milliseconds.

    Shared buffers are full when a run begins, so that a second of warm-up is enough.
    """
    from pgdyno.model.study import StudyKind
    from pgdyno.model.trial import LoadPlan
    from pgdyno.studies.session.study_session import StudyRequest
    from pgdyno.studies.session.target_request import TargetRequest
    from pgdyno.trial.assess import Bounds

    target = TargetRequest(sandbox=sandbox, keep=keep)
    bounds = Bounds()
    plan = LoadPlan(clients=CLIENTS, jobs=1, warmup_s=1.0, measure_s=3.0)
    return StudyRequest(
        kind=StudyKind.TUNE,
        name="demo: YBIO reads that fit into memory",
        target=target,
        workload="ybio",
        parameters=dict(PARAMETERS),
        plan=plan,
        options={"tune": asdict(options), "target": target.to_json(), "bounds": asdict(bounds)},
        bounds=bounds,
        check=checks(options, plan, ask=False),
    )


def _write(path: Path, result: Mapping[str, object]) -> None:
    write_text(path, json.dumps(result, indent=2) + "\n")
