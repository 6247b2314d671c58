"""A replay as a study, to a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pgdyno.model.results.replay import ReplayResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.run import prepare, replay
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.trace.engine.tally import RunTally


def replayed(
    sandbox: Sandbox,
    trace: Path,
    folder: Path,
    name: str = "run",
    *,
    tell: Callable[[RunTally], None] = lambda _: None,
    **more: object,
) -> ReplayResult:
    """Send a trace, with more options of `ReplayOptions`; outcome and store are in the folder."""
    asked = replace(ReplayOptions(trace, folder / name), **more)
    ready = prepare(sandbox.target(), asked)
    ready = replace(ready, plan=replace(ready.plan, stall_ms=60_000))  # no gate opens because the machine is busy
    with Store.open(folder / "store.db") as store:
        return replay(store, ready, TargetRequest(), asked, announce=lambda _: None, tell=tell)
