"""A live study in a process of its own, with periods short enough for a test.

argv is the server, then the settings, then windows for restarts: of the day, or open while a file exists.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import file_window
from file_window import now_open
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.terminal.progress import Progress
from pgdyno.model.person.operator_request import Operators
from pgdyno.model.results.live import LiveResult
from pgdyno.model.verdict import Word
from pgdyno.server.postgres import Postgres
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.candidates import Reply
from pgdyno.studies.live.options import LiveOptions, options_of
from pgdyno.studies.live.person.hands import LiveHands
from pgdyno.studies.live.person.keeping import Confirm
from pgdyno.studies.live.run import AskedArms, SwitchPlan, asked_by, switch_study
from pgdyno.studies.live.search_run import AskedSearch, CandidatePlan, search_study
from pgdyno.studies.night.window import NightWindow
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target

PERIOD_S = 2.4
BUDGET_S = 1500.0
"""More than any of them needs, on a machine with thirty others on it, too."""
KILLED_S = 4.0
"""Of a study that is killed: it goes on with the periods that it began with."""
LONG_S = 12.0
"""Long enough for a guard, which begins anew with each period."""
WINDOW_S, WASH_S = 6.0, 2.0
"""A period in a window, and its wash-out."""
SHOWN = "SELECT current_setting(%s) AS value"
WINDOW_PAIRS = 8
"""At most, where a verdict is wanted: three are enough, and on a busy machine, whose periods scatter, not even four."""


def approved(_plan: SwitchPlan) -> bool:
    return True


@contextmanager
def looking(server: Postgres, name: str) -> Iterator[set[object]]:
    """Read a setting again and again beside the block, in one session, and keep what its values were.

    What a study announces it may announce under A alone: the order of a pair is drawn, and few pairs may be enough.
    """
    seen, over = set[object](), threading.Event()

    def look() -> None:
        with server.connect() as session:
            while not over.wait(0.2):
                seen.update(row["value"] for row in session.execute(SHOWN, [name]))

    beside = threading.Thread(target=look)
    beside.start()
    try:
        yield seen
    finally:
        over.set()
        beside.join(60)


def short_study(
    target: Target,
    settings: dict[str, str],
    *,
    period_s: float = PERIOD_S,
    max_pairs: int = 12,
    approve: Callable[[SwitchPlan], bool] = approved,
    announce: Callable[[str], None] = lambda _text: None,
    confirm: Callable[[LiveHands], Confirm] | None = None,
    operators: Operators | None = None,
    rule: object = None,
    windows: tuple[str, ...] = (),
    wash_s: float | None = None,
    resolved: bool = False,
) -> LiveResult:
    """Run a study of two arms with a reference of five seconds.

    Where all its pairs were offered unequal work it is run again with longer periods: a busy machine makes short
    neighbouring ones so. In windows, whose restarts are counted, it is not. `resolved` repeats it, too, where a
    planted effect was not resolved, or a gain has something against it: a guard that a stall tripped, or server CPU,
    which one in forty pairs of equal arms shows to be worse.
    """
    for longer in (1, 2, 4):
        options = LiveOptions(
            reference_s=5, budget_s=BUDGET_S, seed=3, period_s=longer * period_s, design=Design(max_pairs=max_pairs),
            guard_rest_s=1.0, operators=operators, windows=windows, wash_s=wash_s,
        )  # fmt: skip
        arms = AskedArms({}, settings, rule)
        with open_store(os.environ.get("PGDYNO_STORE")) as store:
            told = switch_study(
                store, target, TargetRequest(), options, arms, Progress(quiet=True), approve=approve,
                announce=announce, confirm=confirm,
            )  # fmt: skip
        if windows or told.switch is None:
            break
        verdict = told.switch.verdict
        if verdict is None and "offered unequal work" not in told.switch.stopped:
            break
        is_spoiled = verdict is not None and verdict.word is Word.BETTER and bool(told.switch.against)
        if verdict is not None and not (resolved and (verdict.word is Word.NOT_RESOLVED or is_spoiled)):
            break
    return told


def resumed_study(
    target: Target,
    study_id: str,
    *,
    approve: Callable[[SwitchPlan], bool] = approved,
    announce: Callable[[str], None] = lambda _text: None,
) -> LiveResult:
    """Go on with a study of two arms."""
    with open_store(os.environ.get("PGDYNO_STORE")) as store:
        study = store.study(study_id)
        return switch_study(
            store, target, TargetRequest(), options_of(study, BUDGET_S), asked_by(study), Progress(quiet=True),
            approve=approve, announce=announce, resumed=study,
        )  # fmt: skip


def short_search(
    target: Target,
    *knobs: str,
    candidates: int,
    decide: Callable[[CandidatePlan], Reply] = lambda plan: Reply(plan.proposal.settings),
    announce: Callable[[str], None] = lambda _text: None,
    budget_s: float = BUDGET_S,
    resumed: str | None = None,
    operators: Operators | None = None,
) -> LiveResult:
    """Search these knobs with a reference of five seconds, or go on with the study of this id."""
    options = LiveOptions(
        reference_s=5, budget_s=budget_s, seed=3, period_s=PERIOD_S, design=Design(max_pairs=8), guard_rest_s=1.0,
        operators=operators,
    )  # fmt: skip
    asked = AskedSearch(candidates, answer_s=60, only=knobs)
    with open_store(os.environ.get("PGDYNO_STORE")) as store:
        return search_study(
            store, target, TargetRequest(), options, asked, Progress(quiet=True),
            show=lambda _plan: None, decide=decide, announce=announce,
            resumed=None if resumed is None else store.study(resumed),
        )  # fmt: skip


def stopped_bundle(target: Target, settings: dict[str, str], in_force: Callable[[], bool]) -> None:
    """Run one pair of settings that need a restart, in a window that is open, and end it by the stop file under B.

    `in_force` is asked after the pair. Two restarts: to B, and back.
    """
    plans: list[SwitchPlan] = []
    said: list[str] = []

    def approve(plan: SwitchPlan) -> bool:
        plans.append(plan)
        return True

    def announce(text: str) -> None:
        said.append(text)
        if text.startswith("after 1 pair"):
            assert in_force()
            Path(plans[0].stop_file).touch()

    told = short_study(
        target, settings, period_s=WINDOW_S, wash_s=WASH_S, max_pairs=4, windows=(now_open(),),
        approve=approve, announce=announce,
    )  # fmt: skip
    assert told.switch is not None
    assert told.switch.restarts == 2, said
    assert "stop file" in told.switch.stopped, said


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    name, _, value = sys.argv[2].partition("=")
    windows = tuple(sys.argv[3:])
    NightWindow.parse = file_window.parse  # type: ignore[assignment, method-assign]
    with opened(TargetRequest(dsn=sys.argv[1])) as server:
        told = short_study(
            server, {name: value}, max_pairs=WINDOW_PAIRS if windows else 40, announce=say, windows=windows,
            period_s=WINDOW_S if windows else KILLED_S, wash_s=WASH_S if windows else None,
        )  # fmt: skip
    sys.exit(int(told.exit_code))
