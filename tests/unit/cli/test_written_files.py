"""What verbs write for their user: every file is the user's alone, whatever the umask, and configuration is not."""

import os
import stat

import pytest
from click.testing import CliRunner

import study_example as example
from pgdyno.cli.main import command as program
from pgdyno.store.catalogue import Store

VERBS = [
    ["report", "last", "-o", "report.html"],
    ["report", "last", "-o", "report.md"],
    ["report", "last", "-o", "report.json"],
    ["report", "last", "--format", "csv", "-o", "tables"],
    ["store", "export", "last", "-o", "study.json"],
    ["store", "export", "last", "--format", "csv", "-o", "rows"],
    ["bundle", "export", "last", "-o", "study.pgdyno"],
    ["project", "new", "project.toml"],
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to write into, a store in it, and a umask that keeps nobody out."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = os.umask(0)
    with Store.open(tmp_path / "here" / "store.db") as store:
        example.add_tune(store)
    monkeypatch.setenv("PGDYNO_STORE", str(tmp_path / "here" / "store.db"))
    yield tmp_path / "here"
    os.umask(before)


def call(*words):
    done = CliRunner().invoke(program, list(words), standalone_mode=False)
    assert done.exception is None, (words, done.output, done.exception)


def modes(place):
    return {str(path.relative_to(place)): stat.S_IMODE(path.stat().st_mode) for path in place.rglob("*")}


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2] + words[-1:]))
def test_what_a_verb_writes_is_its_users_alone(place, words):
    call(*words)
    found = modes(place)
    assert len([name for name in found if not name.startswith("store.db")]) > 0
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_units_are_for_systemd_to_read(place):
    call("queue", "timer", "--window", "22:00-06:00", "-o", "units")
    assert modes(place)["units/pgdyno-night.service"] == 0o644


def test_a_capture_and_its_evidence_are_the_users_alone(place):
    from pgdyno.capture.folder import write_folder
    from pgdyno.capture.texts import Capture
    from pgdyno.model.inventory import Unknown
    from pgdyno.probes.evidence.observation import Observation, save

    write_folder(
        Capture(origin="db1", taken_at=1.0, made_by="pgdyno", texts={"proc/meminfo": "x"}, missing={}), place / "c"
    )
    save(Observation(host_missing=Unknown("none"), kernel_log="killed"), place / "c" / "evidence")
    found = modes(place / "c")
    assert {"proc/meminfo", "evidence/kernel_log.txt", "capture.json"} <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "a/b"])
def test_the_id_of_a_study_names_no_place_elsewhere(place, name):
    from dataclasses import replace

    with Store.open(place / "store.db") as store:
        store.add_study(replace(example.make_study(study_id=name), created_at=9e9))
    done = CliRunner().invoke(program, ["store", "export", "last"], standalone_mode=False)
    assert "is not an id of a study" in str(done.exception)
