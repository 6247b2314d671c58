"""What a project's plan says of its run: the example is whole, and each slip is refused with its line and a hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from certification_example import certification, edit
from pgdyno.errors import UsageError
from pgdyno.model.study import StudyKind
from pgdyno.studies.project.file import parse_project
from pgdyno.studies.project.run_plan import RunPlan, parse_run
from pgdyno.studies.project.run_platforms import require_ours, sandbox_names, versions
from pgdyno.studies.project.run_steps import (
    RunPlaces,
    load_words,
    made_anew,
    run_steps,
    said_words,
    seconds_left,
    words_of,
)
from pgdyno.studies.project.running import resumed_words


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return certification(tmp_path / "bank", programs=tmp_path / "bin13")


def read(path: Path) -> RunPlan:
    return parse_run(path.read_text(), source=path.name, folder=path.parent)


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_the_example_has_the_four_scenarios_and_a_chain_of_a_dozen_jobs(plan: Path) -> None:
    found, project = read(plan), parse_project(plan.read_text(), source=plan.name)
    assert [one.kind.value for one in found.scenarios] == ["migrate", "replay", "batch", "scale"]
    assert [one.scenario for one in found.scenarios] == [one.name for one in project.scenarios]
    assert sum(one.planned_s for one in found.scenarios) <= 1800
    assert (plan.parent / "month-end.toml").read_text().count("[[process.job]]") == 12
    assert (plan.parent / "levels.toml").read_text().count("[[level]]") == 3
    assert found.files.keys() == {"data.sql", "day.sql", "migration.toml", "month-end.toml", "levels.toml", plan.name}


def test_steps_come_in_order_and_sides_take_turns(plan: Path) -> None:
    found = read(plan)
    steps = run_steps(found)
    assert [one.key for one in steps] == [
        "prepare", "migrate migration", "capture", "trace", "cut", "replay performance old 1",
        "replay performance new 1", "replay performance new 2", "replay performance old 2",
        "replay performance old 3", "replay performance new 3", "batch batch old", "batch batch new",
        "scale scalability",
    ]  # fmt: skip
    assert {one.kind for one in steps} == {
        None, StudyKind.MIGRATE, StudyKind.REPLAY, StudyKind.BATCH, StudyKind.SCALE,
    }  # fmt: skip
    assert [one.held for one in steps if one.held] == ["today", "today"]


def test_words_are_those_of_the_verbs(plan: Path) -> None:
    found = read(plan)
    places = RunPlaces(
        Path("/w"), Path("/p"), {"today": "t", "control": "c", "new": "n"}, {"today": "host=/s dbname=bank"}
    )
    words = {
        one.key: words_of(one, places, next((run for run in found.scenarios if run.scenario == one.scenario), None),
                          attempt=2, capture="/w/capture.1")
        for one in run_steps(found)
    }  # fmt: skip
    migrate = words["migrate migration"]
    assert migrate[migrate.index("--source") + 1] == "host=/s dbname=bank"
    assert migrate[migrate.index("--sandbox") + 1] == "n"
    assert migrate[migrate.index("--folder") + 1] == "/p/dumps"
    new = words["replay performance new 2"]
    assert new[:4] == ("replay", "/w/load.parquet", "--output", "/w/2-replay-new-2.2.outcome")
    assert new[new.index("--sandbox") + 1] == "n"
    assert words["batch batch old"][words["batch batch old"].index("--sandbox") + 1] == "c"
    assert words["trace"][:3] == ("trace", "build", "/w/capture.1")
    assert all("{" not in word for some in words.values() for word in some)
    assert resumed_words(migrate, "m1")[-2:] == ("--resume", "m1")
    assert resumed_words(words["scale scalability"], "s1") == ("scale", "--resume", "s1", "--yes", "--json")


def test_a_trace_that_a_killed_run_left_is_made_anew(plan: Path) -> None:
    places = RunPlaces(Path("/w"), Path("/p"), {}, {})
    steps = {one.key: one for one in run_steps(read(plan))}
    for key, name in (("trace", "whole"), ("cut", "load")):
        assert made_anew(steps[key], places) == (Path(f"/w/{name}.parquet"), Path(f"/w/{name}.json"))
        words = words_of(steps[key], places, None, attempt=2, capture="/w/capture.1")
        assert words[words.index("-o") + 1] == f"/w/{name}.parquet"
    assert made_anew(steps["replay performance new 2"], places) == ()


def test_the_time_that_is_left_is_that_of_the_plan(plan: Path) -> None:
    found = read(plan)
    steps = run_steps(found)
    whole = seconds_left(found, steps, {}, "prepare", 0)
    assert whole == sum(one.planned_s for one in found.scenarios)
    after = {"prepare": 5.0, "migrate migration": 100.0}
    rest = whole - found.scenarios[0].planned_s
    assert seconds_left(found, steps, after, "capture", 0) == rest
    assert seconds_left(found, steps, after, "capture", 60) == rest - 60
    assert seconds_left(found, steps, after, "capture", 1e6) == rest - found.scenarios[1].planned_s


@pytest.mark.parametrize(
    ("said", "ago_s", "words"),
    [
        ("", 0.0, "it begins"),
        ("[    1 s] data loaded\n[ 1:04 min] 25,278 answered; 2:00 min left\n", 3.0, "25,278 answered; 2:00 min left"),
        (f"{'word ' * 40}", 0.0, f"{'word ' * 31}..."),
        ("[   14 s] 3.49 MB of log; 8:50 min left\n", 50.0, "3.49 MB of log; 8:50 min left (50 s ago)"),
    ],
)
def test_what_a_verb_said_is_told_with_its_age_and_without_its_clock(said: str, ago_s: float, words: str) -> None:
    assert said_words(said, ago_s) == words


def test_how_far_a_load_is_that_is_captured_never_passes_its_whole() -> None:
    assert [load_words(spent, 180.0) for spent in (74.2, 181.0)] == [
        "1:14 min of 3:00 min of the load", "3:00 min of 3:00 min of the load",
    ]  # fmt: skip


PLAN, CHAIN = "certification.toml", "month-end.toml"
SLIPS: dict[str, tuple[str, str, str, str, str]] = {
    "unknown key": (PLAN, "clients = 8", "client = 8", "client = 8", 'unknown key "client"'),
    "unknown platform": (PLAN, 'on = "today"', 'on = "yesterday"', 'on = "yesterday"', "no platform"),
    "load to its source": (
        PLAN, 'old = "control"\nnew = "new"\nruns = 3', 'old = "today"\nnew = "new"\nruns = 3',
        'on = "today"', "the source of the load",
    ),
    "same side": (
        PLAN, 'old = "today"\nnew = "new"', 'old = "today"\nnew = "today"', 'old = "today"', "same platform"
    ),
    "relative programs": (
        PLAN, 'name = "new"   ', 'programs = "bin"\nname = "new"   ', 'programs = "bin"', "not a whole path"
    ),
    "a file elsewhere": (PLAN, '"data.sql"', '"../data.sql"', '"../data.sql"', "from the folder"),
    "no file": (PLAN, '"day.sql"', '"night.sql"', '"night.sql"', "night.sql"),
    "no unit": (PLAN, 'planned = "4min"', 'planned = "3"', 'planned = "3"', "not a time with a unit"),
    "no runs": (PLAN, "runs = 3", "runs = 0", "runs = 0", "runs 0 is not from 2 to"),
    "ages": (PLAN, 'planned = "4min"', 'planned = "1e290d"', 'planned = "1e290d"', "more than a year"),
    "a name of two lines": (
        PLAN, 'name = "migration"', 'name = "a\\noutage   none"', 'name = "a\\noutage', "not one line of text"
    ),
    "unknown kind": (PLAN, 'kind = "scale"', 'kind = "scales"', 'kind = "scales"', "there is no kind"),
    "no data there": (
        PLAN, 'platforms = ["today", "control"]', 'platforms = ["today"]', "", "has no data yet"
    ),
    "data there already": (
        PLAN, 'platforms = ["today", "control"]', 'platforms = ["today", "control", "new"]', "",
        "has data already",
    ),
    "a cycle of jobs": (CHAIN, 'after = ["collect"]', 'after = ["outliers"]', 'plan = "month-end.toml"', "wait"),
    "another database": (
        CHAIN, 'database = "bank"', 'database = "shop"', 'plan = "month-end.toml"', 'has database "shop"'
    ),
    "a wrong phase": (
        "migration.toml", 'name = "export"', 'name = "exports"', 'plan = "migration.toml"', 'no phase "exports"'
    ),
    "a wrong level": ("levels.toml", "cpus = 1.2", "cpus = 2.0", 'plan = "levels.toml"', "not in proportion"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_its_line(slip: str, plan: Path) -> None:
    name, old, new, at, said = SLIPS[slip]
    edit(plan.parent / name, old, new)
    with pytest.raises(UsageError) as refused:
        read(plan)
    assert said in refused.value.message
    assert refused.value.message.startswith("certification.toml: line ")
    if at:
        assert f"line {line_of(plan, at)}:" in refused.value.message
    assert refused.value.hint
    assert "batch chain" not in refused.value.hint


def test_a_mover_for_other_servers_than_sandboxes_is_refused(plan: Path) -> None:
    moved = '[migration]\nname = "bank"\nsource = "dbname=bank"\nfolder = "/srv/m"\nmover = "logical"\n'
    (plan.parent / "migration.toml").write_text(f"version = 1\n{moved}")
    line = line_of(plan, 'plan = "migration.toml"')
    with pytest.raises(UsageError, match='moves by "logical", and the platforms of a run are sandboxes') as caught:
        read(plan)
    assert f"line {line}: " in str(caught.value)


def test_a_build_that_is_missing_is_refused_with_its_line(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.studies.project.run_platforms.server_user", lambda _: None)
    with pytest.raises(UsageError) as refused:
        versions(read(plan), plan.name)
    assert f"line {line_of(plan, 'programs = ')}: platform" in refused.value.message
    assert "--programs" in (refused.value.hint or "")


def test_a_sandbox_of_somebody_else_is_never_taken(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    names = sandbox_names(plan, read(plan))
    assert sandbox_names(tmp_path / "other" / plan.name, read(plan)) != names
    require_ours(plan, names, {})
    is_there: Callable[[Path], object] = lambda _: object()  # noqa: E731
    monkeypatch.setattr("pgdyno.studies.project.run_platforms.registry.read_record", is_there)
    require_ours(plan, names, names)
    with pytest.raises(UsageError, match="this run did not make it"):
        require_ours(plan, names, {})
