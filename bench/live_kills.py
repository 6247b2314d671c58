"""SIGKILL in every state of a live study (row L10): the watchdog has the server back, byte by byte, or it is told.

    python bench/live_kills.py [--kills 50] [--first 0] [--folder ~/pgdyno-live-kills] [--bin-dir DIR]

Each kill has a line in the folder's kills.jsonl as soon as it was looked at; the same command later goes on with the
next one. A kill takes about a minute on a quiet machine, so that 50 take an hour; no figure of it depends on time.
Two may share them: one does `--kills 25`, the other, in a folder of its own, `--first 25 --kills 50`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from live_load import planted_load
from live_real import read_rows
from pgdyno.cli.arguments.store import open_store
from pgdyno.cli.terminal.progress import Progress
from pgdyno.model.guard import GuardPlan
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study, StudyState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import places, snapshot
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.kept import mark_killed
from pgdyno.studies.live.options import LiveOptions, options_of
from pgdyno.studies.live.run import AskedArms, asked_by, switch_study
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target

B = {"work_mem": "64MB"}
STATES = {
    "checking": "begun", "reference": "watch the baseline", "planned": "after 1 pair", "switching": "switch to B",
    "washing": "B: wait for", "counting": "B: count for", "judging": "after 2 pairs", "reverting": "back to the",
    "resting": "rest for", "decided": "restore the server", "over": "the server is as it was found",
}  # fmt: skip
"""Each state of the machine, and how the line begins after which the kill comes."""
CRIPPLED = {"reverting", "resting"}
"""States that only a guard leads to."""
SOON_S, PATIENCE_S = 0.5, 180.0


class Told(Progress):
    """Prints each phase as a line of its own."""

    def phase(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)


def study(conninfo: str, crippled: bool, seed: int) -> None:
    """Run one study of two arms, to be killed."""
    options = LiveOptions(
        reference_s=8, budget_s=600, seed=seed, period_s=12.0 if crippled else 2.4, guard_rest_s=30.0,
        design=Design(max_pairs=8), guards=GuardPlan(trips=3),
    )  # fmt: skip
    request = TargetRequest(dsn=conninfo)
    print(STATES["checking"], flush=True)
    with opened(request) as target, open_store(None) as store:
        switch_study(
            store, target, request, options, AskedArms({}, B), Told(quiet=True),
            approve=lambda _plan: True, announce=lambda text: print(text, flush=True),
        )  # fmt: skip


def image(sandbox: Sandbox) -> tuple[object, ...]:
    """Return all settings, as a new session sees them, and the bytes, owners and modes of the configuration's files."""
    target, found = sandbox.target(), {}
    assert target.directory is not None, "a sandbox is here"
    for path in sorted(target.directory.iterdir()):
        if ".conf" in path.name:
            status = path.stat()
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest(), status.st_uid, status.st_mode
    with target.postgres.connect() as session:
        return snapshot.read_settings(session, label="kills"), found


def one_kill(number: int, sandbox: Sandbox) -> dict[str, object]:
    """Kill a study in the state whose turn it is, and return what became of its server."""
    state, draw = [*STATES][number % len(STATES)], random.Random(number)
    crippled = state in CRIPPLED
    target = sandbox.target()
    with planted_load(target.postgres, {B["work_mem"]: 25.0 if crippled else 0.6}):
        before = image(sandbox)
        argv = [sys.executable, __file__, "--study", target.postgres.conninfo, "--seed", str(number)]
        with subprocess.Popen([*argv, *(["--crippled"] if crippled else [])], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None, "it is a pipe"
            heard = any(line.startswith(STATES[state]) for line in run.stdout)
            time.sleep(draw.uniform(0.0, SOON_S))
            was_there = run.poll() is None
            if was_there:
                os.kill(run.pid, signal.SIGKILL)
        began = time.monotonic()
        while not (is_back := image(sandbox) == before and _are_closed()) and time.monotonic() - began < PATIENCE_S:
            time.sleep(0.2)
        row = {"state": state, "heard": heard, "alive": was_there, "back": is_back, "s": time.monotonic() - began}
        return {**row, **_resumed(state, target)}


def _are_closed() -> bool:
    journals = (places.state_dir() / "undo").glob("*/journal.jsonl")
    return all('"closed"' in path.read_text() for path in journals)


def _resumed(state: str, target: Target) -> dict[str, object]:
    """Go on with the killed study where it has pairs, and return whether it kept them as they were."""
    with open_store(None) as store:
        mark_killed(store)
        found = next(iter(store.studies()), None) if state not in CRIPPLED else None
        kept = None if found is None else found.told(LiveResult)
        if found is None or kept is None or kept.switch is None or found.state is not StudyState.INTERRUPTED:
            return {"resumed": None}
        return {"resumed": _goes_on(found, kept, target)}


def _goes_on(found: Study, kept: LiveResult, target: Target) -> bool:
    with open_store(None) as store:
        told = switch_study(
            store, target, TargetRequest(dsn=target.postgres.conninfo), options_of(found, 600), asked_by(found),
            Progress(quiet=True), approve=lambda _plan: True, announce=lambda _text: None, resumed=found,
        )  # fmt: skip
    assert kept.switch is not None, "it had pairs"
    first = [one.ratio for one in kept.switch.pairs]
    return told.switch is not None and [one.ratio for one in told.switch.pairs][: len(first)] == first


def summary(rows: Sequence[Mapping[str, object]]) -> str:
    """Return what all kills came to."""
    lost = [row for row in rows if not row["back"]]
    resumed = [row["resumed"] for row in rows if row.get("resumed") is not None]
    states = ", ".join(f"{state} {count}" for state, count in Counter(str(row["state"]) for row in rows).items())
    missed = sum(not (row["heard"] and row["alive"]) for row in rows)
    return (
        f"{len(rows)} kills ({states}): {len(rows) - len(lost)} with the server back byte by byte, {len(lost)} lost; "
        f"{missed} missed their state; {sum(map(bool, resumed))} of {len(resumed)} resumed from their pairs"
    )


def main() -> None:
    """Kill, and print what all in the folder came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first kills are done by another, in its own folder")
    parser.add_argument("--folder", type=Path, default=Path.home() / "pgdyno-live-kills")
    parser.add_argument("--bin-dir", type=Path, help="of a server of another version than ours")
    parser.add_argument("--study", default="", help=argparse.SUPPRESS)
    parser.add_argument("--crippled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.study:
        study(given.study, given.crippled, given.seed)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PGDYNO_HOME"] = str(given.folder / "home")
    path = given.folder / "kills.jsonl"
    sandbox = Sandbox.open_or_create("live-kills", bin_dir=given.bin_dir)
    for number in range(given.first + len(read_rows(path)), given.kills):
        sandbox.start()
        row = one_kill(number, sandbox)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{number + 1}: {row}", flush=True)
    print(summary(read_rows(path)))


if __name__ == "__main__":
    main()
