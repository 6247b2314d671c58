"""The flags of `pgdyno live`."""

from __future__ import annotations

from pathlib import Path

import click

from pgdyno.cli.arguments.flags import JsonFlag, flag
from pgdyno.cli.arguments.numbers import Time
from pgdyno.cli.arguments.store import StoreFlag
from pgdyno.cli.arguments.target import TargetFlags
from pgdyno.stats.restart_pairs import COLD_S as WASH_S
from pgdyno.stats.restart_pairs import PERIOD_S

EACH, CLASS_A, AUTO = "each", "class-A", "auto"
ANSWER_S = 900.0
"""So long the server waits in its baseline for an answer."""
LEAST_PAIRS = 3


class LiveFlags(TargetFlags, JsonFlag, StoreFlag):
    """The flags of `pgdyno live`."""

    watch_only: bool = flag("Change nothing: say how small an effect this server could show in 10, 30 and 60 minutes.")
    b_words: tuple[str, ...] = flag(
        "Compare these settings with those of --a; without --allow-restart, only what a reload brings into force.",
        "--b",
        metavar="KNOB=VALUE,...",
    )
    a_words: tuple[str, ...] = flag(
        "What B is compared with.  [default: the server as it is]", "--a", metavar="KNOB=VALUE,..."
    )
    rule: str | None = flag("Compare what this rule of advise proposes, to prove or refute it.", metavar="RULE")
    critical: tuple[int, ...] = flag(
        "Veto B when this statement takes 1.5 times as long; may be given again.", metavar="QUERYID"
    )
    operator_token_file: Path | None = flag(
        "Let operators with a token in this file answer in the dashboard, too; see pgdyno serve.",
        metavar="FILE",
        type=click.Path(path_type=Path),
    )
    notify: str | None = flag(
        "Run this command when a question waits, with the question as its last argument; no shell.", metavar="COMMAND"
    )
    allow_restart: bool = flag("Let B set what needs a restart, and restart the server for each switch.")
    windows: tuple[str, ...] = flag(
        "Restart the server only at these times of the day; may be given again.", metavar="HH:MM-HH:MM"
    )
    period: float = flag(
        "Length of a period between restarts.", default=PERIOD_S / 60, type=Time("min", 0, 24 * 60, min_open=True)
    )
    wash_out: float = flag(
        "How much of such a period does not count: what was cached is read again.",
        default=WASH_S / 60,
        type=Time("min", 0, 24 * 60),
    )
    search: bool = flag("Search for settings that make this load faster, among those that need no restart.")
    candidates: int = flag("Maximum number of configurations that a search tries.", default=20, type=click.IntRange(1))
    only: tuple[str, ...] = flag("Search only these knobs; may be given again.", metavar="KNOB")
    include: tuple[str, ...] = flag("Search this knob too, though it is not searched by default.", metavar="KNOB")
    exclude: tuple[str, ...] = flag("Leave this knob alone.", metavar="KNOB")
    resume: str | None = flag(
        "Continue a comparison or search that was ended or killed: its id, or last.", metavar="STUDY"
    )
    again: str | None = flag(
        "Start a new study with the options of this one, for example from a timer: its id, or last.", metavar="STUDY"
    )
    dbtune: Path | None = flag(
        "Take server, restart command, times and memory guard from DBtune's YAML file.", metavar="FILE"
    )
    demo: bool = flag("Demonstrate it on a sandbox with a known answer; takes 12 minutes at most.")
    approve: str = flag(
        "Ask before the server is changed; class-A: only for changes that affect more than performance.",
        default=EACH,
        type=click.Choice([EACH, CLASS_A, AUTO]),
    )
    approve_timeout: float = flag(
        "How long to wait for an answer; no answer is a rejection.", default=ANSWER_S / 60, type=Time("min", 0.01)
    )
    reference: float = flag(
        "How long the unchanged server is watched first; less than 10 minutes says little.",
        default=30.0,
        type=Time("min", 1),
    )
    budget: float = flag(
        "How long the study may take, the reference included; with --allow-restart by default as its pairs need.",
        default=120.0,
        type=Time("min", 1),
    )
    max_pairs: int = flag(
        "Maximum number of pairs; with --allow-restart by default 4.", default=48, type=click.IntRange(LEAST_PAIRS)
    )
    smallest_effect: float = flag(
        "Smallest effect of interest; below it A and B are equivalent.",
        default=0.02,
        type=click.FloatRange(0, 1, min_open=True),
    )
    guards: tuple[str, ...] = flag(
        "Limit at which a guard trips, such as statement-time=5x or errors=20%, or NAME=off.",
        "--guard",
        metavar="NAME=VALUE",
    )
    guard_trips: int = flag("How often guards may stop B before it is given up.", default=1, type=click.IntRange(1))
    watchdog_deadline: float = flag(
        "How long the server may be silent before the watchdog restores it.", default=30.0, type=Time("s", 1, 3600)
    )
    not_during: tuple[str, ...] = flag(
        "Leave the server in its baseline at this time of the day; may be given again.", metavar="HH:MM-HH:MM"
    )
    seed: int | None = flag("Seed of the order within the pairs.  [default: drawn]")
    report: Path | None = flag("Write the HTML report here.")
