"""The page of a compared replay, and `pgdyno compare --replay`."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli.main import command
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.shapes import plain
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.report.drawing import html, markdown
from pgdyno.report.drawing.text import print_report
from pgdyno.report.replay_page import replay_page
from pgdyno.store.catalogue import Store
from pgdyno.trace.compared_rows import ReplaySide
from pgdyno.trace.comparing import compare_replay
from pgdyno.trace.outcome_file import OutcomeFacts
from pgdyno.trace.parquet import write_meta
from pgdyno.trace.schema import TRACE_VERSION, TraceMeta
from replayed_load import LONG, noisy, usual_load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trace, two replays on one platform, and one on a platform that is slower in one class."""
    place, load = tmp_path_factory.mktemp("replays"), usual_load()
    load.write(place / "trace.parquet")
    load.replay(place / "a", noisy(1))
    load.replay(place / "again", noisy(2))
    load.replay(place / "b", noisy(3, {LONG: 1.3}), answers={(0, 1): "40001"})
    write_facts(place, "d1")
    return place


def write_facts(place, digest):
    trace = place / "trace.parquet"
    facts = OutcomeFacts(
        1,
        str(trace),
        digest,
        "t",
        "15",
        "1",
        "python",
        1.0,
        "schedule",
        "session",
        1,
        0.0,
        error_limit_percent=2.0,
        ended="complete",
    )
    (place / "b" / "outcome.json").write_text(json.dumps(plain(facts)))


def run(*words):
    found = CliRunner().invoke(command, ["compare", *map(str, words)], standalone_mode=False)
    if isinstance(found.exception, UsageError):
        raise found.exception
    assert found.exception is None, found.exception
    return found


def side(place):
    return ReplaySide(place.name, (place / "part-0.parquet",))


def test_the_page_says_first_whether_the_run_counts(folder):
    sides = [side(folder / name) for name in ("a", "b")]
    report = replay_page(compare_replay(folder / "trace.parquet", *sides, again=side(folder / "again")))
    assert [one.id for one in report.sections] == [
        "fidelity", "outcome", "delays", "statements", "transactions", "errors", "method",
    ]  # fmt: skip
    assert report.word == "worse"
    assert {one.id for one in report.figures()} == {"replay-statements", "replay-transactions", "replay-delays"}
    stream = StringIO()
    print_report(report, stream)
    for told in (" ".join(stream.getvalue().split()), markdown.render(report), html.render(report)):
        assert "order of simultaneous transactions" in told
        assert "of a certification" in told
        assert "secret" not in told


def test_an_invalid_run_says_so_in_its_title_and_shows_no_tiles(folder):
    sides = [side(folder / name) for name in ("a", "b")]
    usual_load().replay(folder / "late", noisy(1), injector=150_000)
    report = replay_page(compare_replay(folder / "trace.parquet", sides[0], side(folder / "late")))
    assert (report.word, report.tiles) == ("invalid", ())
    assert report.title.startswith("The run is INVALID: the injector was late")


def test_the_command_finds_the_trace_and_the_limit_of_the_outcome(folder):
    found = run("--replay", folder / "a", folder / "b", "--again", folder / "again", "--json")
    assert found.return_value == ExitCode.FINDINGS
    told = json.loads(found.stdout)
    assert (told["word"], told["basis"]) == ("worse", "client")
    assert told["fidelity"]["limits"]["error_percent"] == 2.0
    with pytest.raises(UsageError, match="before it began"):
        run("--replay", folder / "a", folder / "b", "--error-limit", 5)


def test_one_pair_of_runs_is_said_to_be_one(folder, tmp_path):
    """Drift between two runs looks like a difference: `--runs 3` alternates them, two outcomes alone cannot."""
    words = ("--replay", folder / "a", folder / "b", "--again", folder / "again")
    found = run(*words, "--json")
    told = json.loads(found.stdout)
    assert (told["word"], found.return_value) == ("worse", ExitCode.FINDINGS), "as the sentence says"
    assert told["sentence"].startswith("one pair of runs says: B is worse: ")
    assert "--runs 3" in told["notes"][0]
    run(*words, "-o", tmp_path / "r.html")
    for page in (" ".join(run(*words).output.split()), (tmp_path / "r.html").read_text().replace("\u00a0", " ")):
        assert "One pair of runs says: B is worse: " in page
        assert "Whatever drifted between two runs" in page
    undecided = json.loads(run("--replay", folder / "trace.parquet", folder / "b", "--json").stdout)
    assert not any("drifted" in note for note in undecided["notes"])
    assert undecided["sentence"].startswith("not resolved: ")


def test_an_edit_of_the_outcome_shows_in_the_comparison_and_on_its_page(folder, tmp_path):
    words = ("--replay", folder / "a", folder / "b", "--store", tmp_path / "s.db")
    facts = json.loads((folder / "b" / "outcome.json").read_text())
    study = Study(
        "replay-1", StudyKind.REPLAY, "t", StudyState.COMPLETE, 0.0, "x", "", {},
        WorkloadSpec("replay", {}, "d1", "t", read_only=False, unit="statements"), LoadPlan(1, 1, 0.0, 1.0),
        options={"replay": {"error_limit_percent": 1.0}},
    )  # fmt: skip
    with Store.open(tmp_path / "s.db") as store:
        store.add_study(study)
    (folder / "b" / "outcome.json").write_text(json.dumps(facts | {"study": "replay-1"}))
    try:
        told = json.loads(run(*words, "--json").stdout)
        page = " ".join(run(*words).output.split())
    finally:
        write_facts(folder, "d1")
    assert told["fidelity"]["limits"]["error_percent"] == 1.0
    assert len(told["amendments"]) == 1
    assert "AMENDED after the start" in page
    assert json.loads(run(*words, "--json").stdout)["amendments"] == []
    assert "names no study" in " ".join(run(*words).output.split())


def test_an_outcome_of_a_run_that_was_paused_has_no_verdict(folder):
    facts = json.loads((folder / "b" / "outcome.json").read_text())
    pause = {"begin_s": 1.0, "end_s": 1.5, "seconds": 0.5, "open_sessions": 0}
    (folder / "b" / "outcome.json").write_text(json.dumps(facts | {"pauses": [pause]}))
    try:
        found = run("--replay", folder / "a", folder / "b", "--again", folder / "again")
    finally:
        write_facts(folder, "d1")
    assert found.return_value == ExitCode.NOT_RESOLVED
    assert "INVALID: the run was paused once, 0.5 s in all" in " ".join(found.output.split())


def test_an_outcome_of_another_trace_is_refused(folder):
    meta = TraceMeta(TRACE_VERSION, "csvlog B", None, None, "", 1.0, 1, 1, 1, 0, digest="d2")
    write_meta(folder / "trace.parquet", meta)
    with pytest.raises(UsageError, match="is a replay of another trace"):
        run("--replay", folder / "a", folder / "b")
    write_meta(folder / "trace.parquet", replace(meta, digest="d1"))
    assert run("--replay", folder / "a", folder / "b", "--json").return_value == ExitCode.FINDINGS


def test_the_command_writes_a_report_and_its_code_is_that_of_the_verdict(folder, tmp_path):
    words = ("--replay", folder / "a", folder / "again", "--trace", folder / "trace.parquet")
    assert run(*words, "-o", tmp_path / "r.html").return_value == ExitCode.NOT_RESOLVED
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert run(*words, "--required", 40).return_value == ExitCode.OK


def test_a_capture_against_an_outcome_tells_nothing(folder):
    found = run("--replay", folder / "trace.parquet", folder / "b")
    assert found.return_value == ExitCode.NOT_RESOLVED
    assert "cannot be held against" in " ".join(found.output.split())


def test_what_is_missing_or_wrong_is_named(folder, tmp_path):
    with pytest.raises(UsageError, match=r"trace of .* is not known"):
        run("--replay", folder / "a", folder / "again")
    with pytest.raises(UsageError, match="has no part"):
        run("--replay", folder / "trace.parquet", tmp_path)
    with pytest.raises(UsageError, match=r"--again .* is the capture itself"):
        run("--replay", folder / "a", folder / "b", "--again", folder / "trace.parquet")
    with pytest.raises(UsageError, match=r"--outcome .* is not the outcome"):
        run("--replay", folder / "trace.parquet", folder / "b", "--outcome", folder / "trace.parquet")
    with pytest.raises(UsageError, match="are not milliseconds"):
        run("--replay", folder / "a", folder / "b", "--duration-classes", "a,b")
