"""What a night run takes from a store that others can write: only what this account has on its own record."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.job import JOB_DIGEST, Job
from pgdyno.model.study import StudyState
from pgdyno.store.catalogue import Store
from pgdyno.store.codec import study_from_row, study_to_row
from pgdyno.studies.session import own_jobs
from pgdyno.studies.session.own_jobs import FILE, OwnJobs, check_begun, job_digest, keep_begun, study_digest
from simulated_laboratory import simulated_study

pytestmark = pytest.mark.requirement("R-EXP-09")
JOB = Job(7, 1234.5, ("tune", "-w", "ybio"), host="db1", folder="/srv")
STORE = "/srv/store.db"


@pytest.fixture
def own(tmp_path: Path) -> OwnJobs:
    return OwnJobs(STORE, tmp_path)


def test_a_job_that_was_added_runs_until_it_has_ended(own: OwnJobs, tmp_path: Path) -> None:
    own.keep(JOB)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert own.refusal(JOB) is None
    assert own.refusal(replace(JOB, attempts=3, study="s", reason="why", runner="db1:1")) is None
    own.end(JOB)
    assert "was put back into the queue" in str(own.refusal(JOB))


@pytest.mark.parametrize(
    "changed",
    [
        {"argv": ("tune", "-w", "ybio", "--restart-command", "sh -c evil")},
        {"argv": ("tune", "-w ybio")},
        {"folder": "/tmp"},
        {"host": "db2"},
        {"added_at": 1234.75},
    ],
)
def test_a_job_that_was_changed_is_refused(own: OwnJobs, changed: dict[str, object]) -> None:
    own.keep(JOB)
    assert "are not those that this account added" in str(own.refusal(replace(JOB, **changed)))  # type: ignore[arg-type]


def test_a_job_of_others_and_a_copy_are_refused(own: OwnJobs, tmp_path: Path) -> None:
    assert "did not add it" in str(own.refusal(JOB))
    own.keep(JOB)
    assert "did not add it" in str(own.refusal(replace(JOB, id=8)))
    assert "did not add it" in str(OwnJobs("/srv/other.db", tmp_path).refusal(JOB))
    assert "pgdyno queue add" in str(own.refusal(replace(JOB, id=8)))


def test_a_job_that_was_changed_before_it_was_removed_stays_ended(own: OwnJobs) -> None:
    own.keep(JOB)
    own.end(replace(JOB, argv=("bench",)))
    assert "was put back" in str(own.refusal(JOB))


def test_a_store_is_the_same_however_it_is_spelt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    OwnJobs(str(tmp_path / "s.db"), tmp_path).keep(JOB)
    for spelt in ("s.db", f"sqlite:///{tmp_path}/s.db", str(tmp_path / "link" / "s.db")):
        assert OwnJobs(spelt, tmp_path).refusal(JOB) is None
    OwnJobs("postgresql://u@db1/team", tmp_path).keep(JOB)
    for spelt in ("postgresql+psycopg://u@db1:5432/team", "postgresql://u:***@db1/team"):
        assert OwnJobs(spelt, tmp_path).refusal(JOB) is None


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_only_the_same_words_have_the_same_digest(one: list[str], other: list[str]) -> None:
    digests = {job_digest(replace(JOB, argv=tuple(argv)), "s") for argv in (one, other)}
    assert len(digests) == (1 if one == other else 2)


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '{"is": 1}', '{"is": "added", "job": 3}', "\0\ufffd"])
def test_a_line_that_a_crash_cut_short_costs_only_itself(own: OwnJobs, tmp_path: Path, damage: str) -> None:
    own.keep(replace(JOB, id=1))
    with (tmp_path / FILE).open("a") as file:
        file.write(damage)
    own.keep(JOB)
    assert own.refusal(JOB) is None
    assert own.refusal(replace(JOB, id=1)) is None


def _written_by_all(path: Path) -> None:
    path.write_text("")
    path.chmod(0o666)


def _link(path: Path) -> None:
    path.with_name("elsewhere").write_text("")
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [_written_by_all, _link, lambda path: os.mkfifo(path, 0o600), Path.mkdir])
def test_a_record_that_others_could_have_written_is_not_used(
    own: OwnJobs, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / FILE)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be used"):
        own.refusal(JOB)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be used"):
        own.keep(JOB)


@pytest.fixture
def run(own: OwnJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnJobs:
    """Be the run of the job."""
    monkeypatch.setattr(own_jobs, "_folder", lambda: tmp_path)
    monkeypatch.setenv(JOB_DIGEST, own.digest(JOB))
    return own


def test_a_study_goes_on_only_as_the_job_began_it(run: OwnJobs) -> None:
    study = replace(simulated_study(), options={"job": 7, "budget": 3.0, "target": {"restart": None}})
    with pytest.raises(UsageError, match="not as the job of the queue began it"):
        check_begun(study)
    keep_begun(study)
    check_begun(study)
    assert run.began(JOB, study)
    assert not run.began(replace(JOB, id=8), study)
    for changed in (
        replace(study, options={**study.options, "target": {"restart": ["sh", "-c", "evil"]}}),
        replace(study, workload=replace(study.workload, parameters={"script": "/tmp/evil.sql"})),
        replace(study, plan=replace(study.plan, clients=999)),
        replace(study, id="another"),
    ):
        assert not run.began(JOB, changed)
        with pytest.raises(UsageError, match="not as the job of the queue began it"):
            check_begun(changed)


def test_a_study_by_hand_is_neither_recorded_nor_refused(
    run: OwnJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(JOB_DIGEST)
    keep_begun(simulated_study())
    check_begun(simulated_study())
    assert not (tmp_path / FILE).exists()


def test_a_study_has_its_digest_after_a_store_as_well(tmp_path: Path) -> None:
    study = replace(simulated_study(), options={"a": 1.0, "b": (1, 2.5), "c": {"d": 1e16, "e": None}, "job": 7})
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(study)
        assert study_digest(store.study(study.id)) == study_digest(study)
    row = json.loads(json.dumps(study_to_row(study)).replace("1e+16", "10000000000000000").replace("1.0", "1"))
    assert study_digest(study_from_row(row)) == study_digest(study)


def test_what_ended_a_study_makes_it_no_other_one(run: OwnJobs, tmp_path: Path) -> None:
    """A night goes on with a study that an error ended."""
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(simulated_study())
        keep_begun(simulated_study())
        store.update_study("s1", state=StudyState.INTERRUPTED, ended="the machine is too busy")
        check_begun(store.study("s1"))
