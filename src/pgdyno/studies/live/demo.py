"""`pgdyno live --demo`: the whole protocol on a sandbox, under a load whose answer to B is planted and so known."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.model.results.live import LiveResult
from pgdyno.report.wording import share_text
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.options import LiveOptions
from pgdyno.studies.live.run import AskedArms, SwitchPlan, switch_study
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.trial.watcher import Watcher
from pgdyno.units import percent_text, seconds_text
from pgdyno.workloads.shop_load import FACTOR, KNOB, VALUE, shop_load

SANDBOX = "live-demo"
REFERENCE_S, BUDGET_S, MOST_PAIRS = 240.0, 720.0, 8


def live_demo(
    store: Store,
    watcher: Watcher,
    *,
    keep: bool,
    seed: int,
    approve: Callable[[SwitchPlan], bool],
    announce: Callable[[str], None],
    reference_s: float = REFERENCE_S,
    period_s: float | None = None,
) -> LiveResult:
    """Start the load on a sandbox of its own, compare the planted setting with the server as it is, and return that.

    `keep` leaves the sandbox there, `seed` draws the load and the order of the pairs. `reference_s` is how long the
    baseline is watched, and `period_s` how long a period is, both in seconds; None leaves the latter to the reference.
    The study goes into `store`, `watcher` hears its steps, and `announce` takes lines of progress. `approve` is shown
    the plan, and returns whether it may be carried out. Errors as `switch_study`.
    """
    request = TargetRequest(sandbox=SANDBOX, keep=keep)
    options = LiveOptions(
        reference_s=reference_s,
        budget_s=BUDGET_S,
        seed=seed,
        design=Design(max_pairs=MOST_PAIRS),
        period_s=period_s,
    )
    with opened(request) as target, shop_load(target.postgres, seed=seed):
        announce(
            f'a load of a dozen kinds of statements runs on sandbox "{SANDBOX}"; under {KNOB} = {VALUE} each of them '
            f"takes {percent_text(FACTOR)} of its time: that is planted, and the study does not know it"
        )
        announce(f"a reference of {seconds_text(reference_s)} is too short for a real server")
        told = switch_study(
            store, target, request, options, AskedArms({}, {KNOB: VALUE}), watcher, approve=approve, announce=announce
        )
    verdict = None if told.switch is None else told.switch.verdict
    if verdict is not None and verdict.interval.is_closed:
        holds = verdict.interval.lo <= FACTOR <= verdict.interval.hi
        announce(
            f"planted were {percent_text(FACTOR)} of the time, and the interval {'holds' if holds else 'misses'} it: "
            f"{share_text(verdict.interval)}{'' if holds else '; one in twenty may'}"
        )
    return told
