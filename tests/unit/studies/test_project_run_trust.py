"""What a run of a project takes for its own: record, folders and sandboxes, however it is visited again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from certification_example import certification, edit
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.outputs import ensure_folder
from pgdyno.studies.project import run_platforms
from pgdyno.studies.project.run_plan import RunPlan, parse_run
from pgdyno.studies.project.run_platforms import require_ours, sandbox_names
from pgdyno.studies.project.run_record import (
    ProjectRunRecord,
    RunStepRecord,
    read_run_record,
    run_record_path,
    write_run_record,
)
from pgdyno.studies.project.run_steps import RunPlaces, run_steps, words_of
from pgdyno.studies.project.running import ProjectRun

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another account")
STRANGER = 65534


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    return certification(tmp_path / "bank", programs=tmp_path / "bin13")


def read(path: Path) -> RunPlan:
    return parse_run(path.read_text(), source=path.name, folder=path.parent)


@as_root
def test_a_record_of_another_account_is_none_of_ours(plan: Path) -> None:
    write_run_record(plan, ProjectRunRecord({}, {}))
    os.chown(run_record_path(plan), STRANGER, -1)
    with pytest.raises(UsageError, match="is not the record of a run") as refused:
        read_run_record(plan)
    assert "belongs to" in (refused.value.detail or "")
    os.chown(plan, STRANGER, -1)
    assert read_run_record(plan) is not None, "it is that of who wrote the plan"


def test_a_record_is_no_link(plan: Path) -> None:
    elsewhere = plan.with_name("other.toml")
    write_run_record(elsewhere, ProjectRunRecord({}, {}))
    run_record_path(plan).symlink_to(run_record_path(elsewhere))
    with pytest.raises(UsageError, match="is not the record of a run"):
        read_run_record(plan)


def test_a_record_names_no_sandbox_but_those_of_this_plan(plan: Path) -> None:
    names = sandbox_names(plan, read(plan))
    require_ours(plan, names, names)
    require_ours(plan, names, {**names, "gone": names["new"].removesuffix("new") + "gone"})
    for forged in ({**names, "new": "default"}, {**names, "old": "default"}, {"new": names["today"]}):
        with pytest.raises(UsageError, match="another plan, or of another folder"):
            require_ours(plan, names, forged)


def test_sandboxes_are_called_alike_from_every_working_directory(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, public = sandbox_names(plan, read(plan)), run_platforms.public_folder(plan)
    (plan.parent / "below").mkdir()
    monkeypatch.chdir(plan.parent / "below")
    way = Path("..") / plan.name
    (plan.parent.parent / "link").symlink_to(plan.parent)
    for same in (way, plan.parent.parent / "link" / plan.name):
        assert sandbox_names(same, read(plan)) == names
        assert run_platforms.public_folder(same) == public


def test_the_longest_names_are_names_of_sandboxes(plan: Path) -> None:
    edit(plan, 'name = "control"', f'name = "{"c" * 16}"')
    edit(plan, '"control"', f'"{"c" * 16}"')
    names = sandbox_names(plan.with_name(f"{'p' * 60}.toml"), read(plan))
    require_ours(plan, names, {})


def test_scenarios_of_any_name_have_files_of_their_own(plan: Path) -> None:
    found = read(plan)
    replay = next(run for run in found.scenarios if run.kind == "replay")
    names = ["a b", "a-b", "a/b", "../x", "²", "n" * 300, "\0"]
    twice = replace(found, scenarios=tuple(replace(replay, scenario=name) for name in names))
    steps = [step for step in run_steps(twice) if step.side]
    labels = {step.label for step in steps}
    assert len(labels) == len(steps) == 2 * replay.runs * len(names)
    assert all(label.isascii() and label.replace("-", "").isalnum() and len(label) < 60 for label in labels)
    places = RunPlaces(Path("/w"), Path("/p"), {"today": "t", "control": "c", "new": "n"}, {})
    outcomes = {words_of(step, places, replay, attempt=1, capture="")[3] for step in steps}
    assert len(outcomes) == len(steps)
    assert {Path(one).parent for one in outcomes} == {Path("/w")}


@pytest.mark.parametrize("name", ["postgres", "template0", "template1", "pgdyno_observer"])
def test_a_database_of_every_server_is_not_that_of_the_data(plan: Path, name: str) -> None:
    edit(plan, 'database = "bank"', f'database = "{name}"')
    with pytest.raises(UsageError, match=f'"{name}" is a database that every server has'):
        read(plan)


def test_a_file_of_the_plan_leads_nowhere_else(plan: Path) -> None:
    script = plan.with_name("data.sql")
    script.rename(plan.with_name("same.sql"))
    script.symlink_to("same.sql")
    read(plan)
    script.unlink()
    (plan.parent.parent / "secret").write_text("SELECT 1")
    script.symlink_to("../secret")
    with pytest.raises(UsageError, match="is not named from the folder of the plan"):
        read(plan)


@as_root
def test_no_folder_of_another_account_is_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    planted = tmp_path / "plan-report"
    planted.mkdir()
    os.chown(planted, STRANGER, -1)
    with pytest.raises(UsageError, match=f'"{planted}" belongs to'):
        ensure_folder(planted)
    os.chown(planted, 0, -1)
    ensure_folder(planted)
    tmp_path.chmod(0o755)
    os.chown(planted, STRANGER, -1)  # root gave it away: its owner leads what is written into it elsewhere
    with pytest.raises(UsageError, match=f'"{planted}" belongs to'):
        ensure_folder(planted)


def test_sandboxes_that_are_gone_or_of_another_build_are_told(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(plan)
    names = sandbox_names(plan, found)
    with pytest.raises(PgdynoError, match=f'sandbox "{names["today"]}" of platform "today" is gone'):
        run_platforms.require_made(found, names)
    there = {names[one.name]: one.programs or None for one in found.platforms}

    class _Known:
        def __init__(self, bin_dir: str | None) -> None:
            self.bin_dir = bin_dir

    monkeypatch.setattr(run_platforms.registry, "read_record", lambda folder: _Known(there[folder.name]))
    run_platforms.require_made(found, names)
    there[names["today"]] = "/opt/other/bin"
    with pytest.raises(PgdynoError, match="was made with the programs of /opt/other/bin"):
        run_platforms.require_made(found, names)


def test_an_edit_of_the_plan_itself_is_seen_and_one_of_a_criterion_is_not(plan: Path) -> None:
    before = read(plan).files
    edit(plan, "at_least = -10", "at_least = -90")
    assert read(plan).files == before
    edit(plan, 'time = "2min"', 'time = "4min"')
    assert {name for name, digest in read(plan).files.items() if digest != before[name]} == {plan.name}


def run_of(path: Path, studies: tuple[object, ...] = ()) -> ProjectRun:
    plan = read(path)
    folder = path.with_name(f"{path.name}.run")
    places = RunPlaces(folder, path.parent / "public", sandbox_names(path, plan), {})
    store = SimpleNamespace(studies=lambda target: [one for one in studies if one.target == target])
    record = ProjectRunRecord(plan.files, {})
    return ProjectRun(path, plan, record, store, "", places, lambda: "it is to end", lambda _: None)  # type: ignore[arg-type]


@as_root
def test_a_run_writes_into_no_folder_of_another_account(plan: Path) -> None:
    run = run_of(plan)
    run.places.folder.mkdir()
    os.chown(run.places.folder, STRANGER, -1)
    with pytest.raises(UsageError, match=r"is not written: .* belongs to user"):
        run.run()


def test_what_another_run_has_done_meanwhile_counts(plan: Path) -> None:
    run = run_of(plan)
    write_run_record(plan, replace(run.record, dropped_at=9.0))
    run.run()
    assert run.record.dropped_at == 9.0


def test_a_study_of_another_server_is_never_gone_on_with(plan: Path) -> None:
    step = next(one for one in run_steps(read(plan)) if one.kind is StudyKind.SCALE)
    ours = f"sandbox {sandbox_names(plan, read(plan))['new']}"
    alien, own = (
        SimpleNamespace(id=target, kind=step.kind, created_at=at, state=StudyState.INTERRUPTED, target=target)
        for at, target in ((7.0, "sandbox default"), (6.0, ours))
    )
    assert run_of(plan, (alien,))._left_study(step, RunStepRecord(step.scenario, 5.0)) is None
    assert run_of(plan, (alien, own))._left_study(step, RunStepRecord(step.scenario, 5.0)) is own
