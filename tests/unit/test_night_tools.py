"""The tools of the night that say whether the tests are any good: branches, and mutants."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import coverage_gate
import mutants
import stages

TEXT = """
def f(a: int = 1) -> list[int]:
    # a comment
    if not a:
        return [max(a + 1, 2)]
    return [] if a < 7 and a in (8,) else [a]
"""

CHANGES = ("7 -> 8", "a < 7 -> a <= 7")


def all_of_text() -> list[mutants.Mutant]:
    made = (mutants.mutant(Path("x.py"), TEXT, number) for number in range(mutants.changes(TEXT)))
    return [one for one in made if one is not None]


def test_each_way_to_break_a_line_is_one_mutant_and_an_annotation_is_none() -> None:
    found = [(one.line, one.before, one.after) for one in all_of_text()]
    assert sorted(found) == sorted([
        (2, "1", "2"), (4, "if not a:", "if a:"), (5, "max(a + 1, 2)", "min(a + 1, 2)"), (5, "a + 1", "a - 1"),
        (5, "1", "2"), (5, "2", "3"), (6, "a < 7 and a in (8,)", "a < 7 or a in (8,)"), (6, "a < 7", "a <= 7"),
        (6, "7", "8"), (6, "a in (8,)", "a not in (8,)"), (6, "8", "9"),
    ])  # fmt: skip


def test_a_mutant_is_the_whole_file_with_one_change() -> None:
    texts = [one.text for one in all_of_text()]
    assert len(set(texts)) == len(texts)
    for text in texts:
        compile(text, "x.py", "exec")


def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(TEXT)
    first, again, other = (mutants.drawn([tmp_path / "x.py"], 4, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 4
    assert len(mutants.drawn([tmp_path / "x.py"], 99, 1)) == 11


def test_a_mutant_meets_the_tests_that_import_its_file_first(tmp_path: Path) -> None:
    texts = {
        "test_a.py": "from pgdyno.stats import paired_runs\n# from pgdyno.stats import paired\n",
        "test_b.py": "import pgdyno.stats.noise\nfrom pgdyno.stats import noise, paired\n",
        "test_c.py": "from pgdyno.stats import noise\n",
        "test_d.py": "from pgdyno.stats.paired import judge\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [tmp_path / name for name in texts]
    near, far = ([file.name for file in found] for found in mutants.nearest(files, "paired"))
    assert (near, far) == (["test_b.py", "test_d.py"], ["test_a.py", "test_c.py"])
    assert mutants.nearest(files, "") == ([], files)


@pytest.mark.parametrize(("near", "far"), [(0, 0), (0, 1), (1, 0)])
def test_the_rest_of_a_room_runs_only_where_what_imports_the_module_has_passed(
    near: int, far: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = runs_of(tmp_path, monkeypatch, near, far)
    assert mutants.passes("stats", tmp_path, "paired") is (near == far == 0)
    assert ran == (["test_near"] if near else ["test_near", "test_far"])


def test_a_push_asks_the_rest_of_a_room_only_where_no_test_imports_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = runs_of(tmp_path, monkeypatch, 0, 1)
    assert mutants.passes("stats", tmp_path, "paired", nearest_only=True)
    assert ran == ["test_near"]
    (tmp_path / "tests" / "unit" / "stats" / "test_near.py").unlink()
    assert not mutants.passes("stats", tmp_path, "paired", nearest_only=True)
    assert ran == ["test_near", "test_far"]


def runs_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: int, far: int) -> list[str]:
    """Have a room of two files of tests that end with these codes; return what is to name those that ran."""
    folder = tmp_path / "tests" / "unit" / "stats"
    folder.mkdir(parents=True)
    (folder / "test_near.py").write_text("import paired\n")
    (folder / "test_far.py").write_text("")
    ran: list[str] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        (name,) = (Path(word).stem for word in words if word.endswith(".py"))
        ran.append(name)
        return subprocess.CompletedProcess(words, {"test_near": near, "test_far": far}[name])

    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    return ran


@pytest.mark.parametrize(("unbroken", "killed"), [("passes", True), ("fails", None), ("has no end", None)])
def test_a_run_without_end_is_found_out_where_the_code_as_it_was_is_far_from_the_limit(
    unbroken: str, killed: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "copy" / "pgdyno" / "stats" / "x.py"
    place.parent.mkdir(parents=True)
    place.write_text("as it was")
    limits: list[float] = []

    def run(words: list[str], *, timeout: float, **_: object) -> subprocess.CompletedProcess[bytes]:
        limits.append(timeout)
        if place.read_text() == "broken" or unbroken == "has no end":
            raise subprocess.TimeoutExpired(words, timeout)
        return subprocess.CompletedProcess(words, int(unbroken == "fails"))

    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "SOURCE", tmp_path / "src" / "pgdyno")
    monkeypatch.setattr(subprocess, "run", run)
    tests = tmp_path / "tests" / "unit" / "stats"
    tests.mkdir(parents=True)
    (tests / "test_x.py").write_text("")
    broken = mutants.Mutant(tmp_path / "src" / "pgdyno" / "stats" / "x.py", 1, "a", "b", "broken")
    assert mutants.is_killed(broken, tmp_path / "copy") is killed
    assert limits == [900, 300]
    assert place.read_text() == "as it was"


@pytest.mark.parametrize("killed", [True, False])
def test_a_push_lists_who_survives_and_fails_nothing_where_a_night_does(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    nearest_only: list[bool] = []

    def passes(room: str, *_: object, **how: bool) -> bool:
        asked.append(room)
        nearest_only.append(how["nearest_only"])
        return not killed or len(asked) == 1

    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "SOURCE", tmp_path / "src" / "pgdyno")
    monkeypatch.setattr(mutants, "passes", passes)
    monkeypatch.setenv(stages.FAILURES, str(tmp_path / "summary"))
    file = tmp_path / "src" / "pgdyno" / "stats" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text("y = a < 7\n")
    assert mutants.main(["--count", "9", str(file)]) == int(not killed)
    assert asked == ["stats"] * 3, "once without a mutant"
    assert not (tmp_path / "summary").exists()
    assert mutants.main(["--sample", "--count", "9", str(file)]) == 0
    assert asked == ["stats"] * 5
    assert nearest_only == [False] * 3 + [True] * 2, "the night asks the whole room"
    assert sorted((tmp_path / "summary").read_text().splitlines()) == (
        []
        if killed
        else sorted(
            f"a mutant survives the tests that import its file: src/pgdyno/stats/x.py:1: {text}" for text in CHANGES
        )
    )


def test_a_floor_rises_and_never_falls() -> None:
    floors, found = {"stats": 90.0, "undo": 70.0}, {"stats": 93.27, "undo": 69.4}
    assert coverage_gate.raised(floors, found) == {"stats": 93.2, "undo": 70.0}
    (said,) = coverage_gate.complaints(floors, found)
    assert said.startswith("undo: 69.4 % of the branches are tested, 70.0 % were")
    assert coverage_gate.complaints(floors, {"stats": 89.96, "undo": 70.0}) == []
