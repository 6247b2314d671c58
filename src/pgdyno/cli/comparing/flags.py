"""The flags of `pgdyno compare`, whatever it compares."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.arguments.flags import FILE, JsonFlag, argument, flag
from pgdyno.cli.arguments.store import StoreFlag
from pgdyno.cli.requests.study_request import METRICS
from pgdyno.cli.terminal.reporting import ReportFlags
from pgdyno.model.verdict import STRICT_CONFIDENCE


class CompareFlags(ReportFlags, JsonFlag, StoreFlag):
    """The flags of `pgdyno compare`."""

    runs: tuple[str, ...] = argument("[RUN RUN]", required=False)
    platforms: tuple[str, str] | None = flag(
        "Two platforms: studies of this store or files of pgdyno bundle; NAME=STUDY names one.", metavar="A B"
    )
    iostat: tuple[Path, Path] | None = flag("Two texts of iostat -x.", type=FILE, metavar="BEFORE AFTER")
    replay: tuple[Path, Path] | None = flag(
        "Two outcomes of a replay, or the trace of the capture or of a server's log.",
        type=click.Path(path_type=Path, exists=True),
        metavar="A B",
    )
    data: tuple[str, str] | None = flag(
        "Two databases as libpq names them: which rows of B differ from those of A.", metavar="A B"
    )
    jobs: int = flag("Sessions on each side that compare --data.", default=1, type=click.IntRange(1, 64))
    trace: Path | None = flag("The trace that was replayed.  [default: as the outcome says, or A]", type=FILE)
    again: Path | None = flag(
        "A second replay on A's platform, to see how much equal platforms differ.",
        type=click.Path(path_type=Path, exists=True),
        metavar="AA",
    )
    outcome: Path | None = flag(
        "The outcome of B, if B is its server's log: it says whether the schedule was kept.",
        type=click.Path(path_type=Path, exists=True),
    )
    required: float = flag(
        "Percentage of a replay's transactions that must not be slower.",
        default=95.0,
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
    )
    error_limit: float | None = flag(
        "Unexpected answers above which a replay does not count.  [default: as fixed before it, or 1]",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
    )
    effect_percent: float = flag(
        "Do not name a class of a replay that changed by less than this.",
        default=5.0,
        type=click.FloatRange(0, 1000, min_open=True),
    )
    effect_ms: float = flag(
        "The same in milliseconds; both limits must be passed.", default=1.0, type=click.FloatRange(0, 1e6)
    )
    duration_classes: str | None = flag(
        "Upper ends of the duration classes of a replay.  [default: 101,201,501,1001,2001,5001]", metavar="MS,MS,..."
    )
    generations: tuple[str, ...] = flag(
        "A step between machines, such as 'z900->z990=2.2/1.6'; may be given again.",
        "--generation",
        metavar="STEP=METRIC/CLOCK",
    )
    steps: tuple[str, ...] = flag(
        "What a step of a printed tuning gained over the one before; may be given again.",
        "--step",
        metavar="NAME=PERCENT",
    )
    stated: float | None = flag(
        "Where the steps are said to end, in percent of their baseline.",
        type=click.FloatRange(0, 1e6, min_open=True),
        metavar="PERCENT",
    )
    metric: str = flag("Metric of the verdict.", default="throughput", type=click.Choice(METRICS))
    smallest_effect: float = flag(
        "Smallest effect of interest; below it the runs are equivalent.",
        default=0.02,
        type=click.FloatRange(0, 1, min_open=True),
    )
    confidence: float = flag(
        "Confidence of the interval of two runs.", default=STRICT_CONFIDENCE, type=click.FloatRange(0.5, 0.999)
    )
    counts: tuple[str, ...] = flag(
        "Cores, threads, sockets or vcpus, such as A.cores=8; may be given again.", "--count", metavar="NAME.WHAT=N"
    )
    prices: tuple[str, ...] = flag(
        "Price of a platform, in any currency; give it for both.", "--price", metavar="NAME=PRICE[/core]"
    )
    own_settings: bool = flag("Accept different settings on the two platforms, and list them.")
    devices: tuple[str, ...] = flag("Only this device of iostat; may be given again.", "--device", metavar="NAME")
    subject: str = flag("What the figures of --generation and --step are of.", "--of", default="the metric")
