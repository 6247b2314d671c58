"""Who runs a study: of this host by its process, of another one by its signs of life, and never by the wall clock."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import study_example as example
from facts_from_params import make_facts
from pgdyno.cli.requests.study_request import resumable
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.linux.identity import ProcessIdentity, uptime
from pgdyno.model.configuration import BASELINE
from pgdyno.model.live import SILENT_S, Live
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.trial import Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.live.kind import WATCH_ONLY
from pgdyno.studies.session import opening
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.ownership import owning, runner_of
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets import inspect
from pgdyno.trial.live_row import first_state

YEARS_S = 40 * 365 * 86400.0
Add = Callable[..., str]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
def add(store: Store) -> Add:
    """Add a tune, the newer the later, that says to run; with a row of `live` when one is given."""
    count = iter(range(100))

    def make(
        name: str,
        live: Live | None = None,
        state: StudyState = StudyState.RUNNING,
        *,
        facts: Mapping[str, object] | None = None,
        target: str = "db1",
        kind: StudyKind = StudyKind.TUNE,
        asked: Mapping[str, object] | None = None,
        **options: object,
    ) -> str:
        study = replace(example.make_study(study_id=name), kind=kind, created_at=1e9 + next(count))
        own = {} if asked is None else {kind.value: asked}
        study = replace(study, state=state, target=target, options={"target": {}, **own, **options})
        store.add_study(study if facts is None else replace(study, facts=facts))
        if live is not None:
            LiveBoard(store).show(replace(live, study=name))
        return name

    return make


@pytest.fixture
def living() -> Iterator[Live]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = ProcessIdentity.of(child.pid)
        assert process is not None
        yield replace(first_state("?", time.time()), pid=process.pid, start_ticks=process.start_ticks)
        child.kill()


def dead(live: Live) -> Live:
    return replace(live, start_ticks=live.start_ticks - 1)


def never(_: float) -> None:
    raise AssertionError("nobody need wait for a process that can be seen")


def test_a_process_of_this_host_is_seen_at_once_however_old_its_row_looks(store: Store, add: Add, living: Live) -> None:
    for at in (living.at, living.at - YEARS_S, living.at + YEARS_S):
        name = add(f"alive{at:.0f}", replace(living, at=at, uptime=living.uptime - 3600))
        found = runner_of(store, name, sleep=never)
        assert found is not None
        assert found.pid == living.pid
    assert runner_of(store, add("killed", dead(living)), sleep=never) is None
    assert runner_of(store, add("without"), sleep=never) is None


def test_a_container_is_known_by_its_signs_of_life(store: Store, add: Add, living: Live) -> None:
    inside = replace(living, namespace="pid:[1]", pid=1, at=living.at - YEARS_S)
    assert runner_of(store, add("beats", replace(inside, uptime=uptime())), sleep=never) is not None
    assert runner_of(store, add("silent", replace(inside, uptime=uptime() - SILENT_S - 1)), sleep=never) is None


def test_another_host_is_alive_when_it_writes_while_we_look(store: Store, add: Add, living: Live) -> None:
    there = replace(living, boot_id="of-another-host", host="db9")
    name = add("there", there)
    slept: list[float] = []
    assert runner_of(store, name, sleep=slept.append) is None
    assert sum(slept) == pytest.approx(SILENT_S)
    beat = lambda _: LiveBoard(store).show(replace(there, study=name, at=there.at + 1))  # noqa: E731
    found = runner_of(store, name, sleep=beat)
    assert found is not None
    assert found.host == "db9"
    gone = lambda _: LiveBoard(store).clear(name)  # noqa: E731
    assert runner_of(store, name, sleep=gone) is None


def test_a_study_is_owned_by_one_process_and_given_back(store: Store, add: Add, living: Live) -> None:
    spec = TrialSpec(BASELINE, Role.BASELINE, "baseline", 1, 0)
    name = add("mine", living)
    run = store.begin_trial(name, spec)
    with (
        pytest.raises(EnvironmentUnsuitable, match=f"running as process {living.pid}"),
        owning(store, name, 0.0, resumes=True),
    ):
        pass
    assert store.trial(run).state is TrialState.RUNNING
    assert store.study(name).state is StudyState.RUNNING
    LiveBoard(store).show(replace(dead(living), study=name))
    with owning(store, name, 0.0, resumes=True):
        found = runner_of(store, name, sleep=never)
        assert found is not None
        assert found.pid == ProcessIdentity.own().pid
        assert store.study(name).state is StudyState.INTERRUPTED, "it was killed, and is not begun again yet"
    assert LiveBoard(store).row(name) is None


def test_a_study_that_is_held_gives_signs_of_life_whatever_its_kind(store: Store, add: Add) -> None:
    name, board, now = add("held"), LiveBoard(store), [100.0]
    with owning(store, name, 100.0, resumes=False, clock=lambda: now[0]) as row:
        row.put(phase="watching")
        now[0] = 200.0
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            seen = board.row(name)
            if seen is not None and (seen.at, seen.phase) == (200.0, "watching"):
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"its row is as it was: {seen}")
    assert board.row(name) is None


def test_of_two_who_claim_at_once_one_succeeds(store: Store, add: Add, living: Live) -> None:
    board, left = LiveBoard(store), dead(living)
    name = add("raced", left)
    seen = board.row(name)
    mine = first_state(name, 1.0)
    assert board.claim(mine, instead_of=seen) is None
    assert board.claim(replace(living, study=name), instead_of=seen) == mine
    assert board.row(name) == mine


def test_last_is_the_newest_that_no_process_runs(store: Store, add: Add, living: Live) -> None:
    add("older", state=StudyState.INTERRUPTED)
    add("newer", dead(living))
    add("newest", living)
    add("came", state=StudyState.INTERRUPTED, imported={"from": "elsewhere"})
    assert resumable(store, "last", StudyKind.TUNE).id == "newer"
    with pytest.raises(EnvironmentUnsuitable, match="study newest is running as process"):
        resumable(store, "newest", StudyKind.TUNE)
    with pytest.raises(UsageError, match="study came was imported") as refused:
        resumable(store, "came", StudyKind.TUNE)
    assert "pgdyno report came" in str(refused.value.hint)


@pytest.mark.parametrize("state", [StudyState.COMPLETE, StudyState.INTERRUPTED])
def test_last_passes_over_a_live_study_that_only_watched(store: Store, add: Add, state: StudyState) -> None:
    """Whoever looks at a server again after their comparison was killed still finds that by its name."""
    add("compared", kind=StudyKind.LIVE, state=StudyState.INTERRUPTED, asked={"seed": 1})
    add("watched", kind=StudyKind.LIVE, state=state, asked={WATCH_ONLY: True})
    assert resumable(store, "last", StudyKind.LIVE).id == "compared"


def test_last_is_the_newest_of_the_server_that_was_named(store: Store, add: Add, monkeypatch) -> None:
    here = make_facts(18)
    elsewhere = replace(here, server=replace(here.server, data_directory="/elsewhere"))
    add("ours", state=StudyState.INTERRUPTED, facts=facts_image(here))
    add("theirs", state=StudyState.INTERRUPTED, facts=facts_image(elsewhere))
    monkeypatch.setattr(opening, "opened", lambda request, **_how: nullcontext(request))
    monkeypatch.setattr(inspect, "read_facts", lambda _target: here)
    server = TargetRequest(dsn="host=db1")
    assert resumable(store, "last", StudyKind.TUNE).id == "theirs"
    assert resumable(store, "last", StudyKind.TUNE, server=server).id == "ours"
    monkeypatch.setattr(
        inspect, "read_facts", lambda _: replace(here, server=replace(here.server, data_directory="/x"))
    )
    with pytest.raises(UsageError, match="the store has no tune study of this server that could be resumed"):
        resumable(store, "last", StudyKind.TUNE, server=server)


def test_a_sandbox_goes_by_its_name(store: Store, add: Add) -> None:
    add("ours", state=StudyState.INTERRUPTED, target="sandbox mine")
    add("theirs", state=StudyState.INTERRUPTED, target="sandbox theirs")
    assert resumable(store, "last", StudyKind.TUNE, server=TargetRequest(sandbox="mine")).id == "ours"


def test_last_names_the_one_that_runs_where_no_other_can_be_gone_on_with(store: Store, add: Add, living: Live) -> None:
    add("done", state=StudyState.COMPLETE)
    add("runs", living)
    with pytest.raises(EnvironmentUnsuitable, match="study runs is running as process"):
        resumable(store, "last", StudyKind.TUNE)


def test_ages_hold_when_the_clock_was_set(store: Store, add: Add, living: Live) -> None:
    add("alive", replace(living, at=living.at - YEARS_S, uptime=uptime() - 2))
    (shown,) = LiveBoard(store).running()
    assert not shown.is_silent(time.time())
    assert not shown.is_silent(shown.at + SILENT_S)


@pytest.mark.parametrize("name", ["../../home", "/etc", "a/b", "..", ""])
def test_a_name_that_leads_out_of_the_folder_of_runs_is_not_resumed(store: Store, add: Add, name: str) -> None:
    add(name)
    with pytest.raises(UsageError, match="is not an id of a study"):
        resumable(store, "last", StudyKind.TUNE)
    with pytest.raises(UsageError, match="is not an id of a study"), owning(store, name, 0.0, resumes=True):
        pass
