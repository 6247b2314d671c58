"""What `make test` runs: every stage whatever fails, and last lines that say all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import stages
from named_failures import write_failures

MAKEFILE = f"""
one:
\t@echo first; echo "a.py::test_x: assert 1 == 2" >> "$${stages.FAILURES}"; exit 1
two:
\t@echo second
three:
\t@echo src/x.py:1: wrong; exit 2
waits:
\t@n=0; until [ -e after ]; do n=$$((n + 1)); [ $$n -lt 3000 ] || exit 1; sleep 0.02; done; echo waited
fails:
\t@[ ! -e after ]; echo failed; exit 1
after:
\t@touch after; echo after
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    return tmp_path


def test_all_stages_run_and_the_last_lines_name_what_failed(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["one", "two+three"]) == 1
    said = capfd.readouterr().out
    assert "first" in said
    assert "second" in said
    lines = said[said.index("\nsummary") :].split("\n")
    assert [line.split()[:2] for line in lines if line.startswith("  ") and line[2] != " "] == [
        ["one", "FAILED"], ["two", "ok"], ["three", "FAILED"]
    ]  # fmt: skip
    assert "    a.py::test_x: assert 1 == 2" in lines
    assert any("src/x.py:1: wrong" in line for line in lines)
    assert lines[-2] == "FAILED: one, three"


def test_what_is_joined_by_a_comma_runs_one_after_another_beside_the_rest(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stages.main(["waits+fails,after", "two"]) == 1
    said = capfd.readouterr().out
    assert next(line for line in said.splitlines() if line in ("waited", "failed", "after", "second")) == "failed"
    assert said.index("\nsecond") > max(said.index("\nwaited"), said.index("\nafter")), "a stage ends before the next"
    lines = said[said.index("\nsummary") :].splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("  ") and line[2] != " "] == [
        ["waits", "ok"], ["fails", "FAILED"], ["after", "ok"], ["two", "ok"]
    ]  # fmt: skip


def test_nothing_more_begins_once_it_is_interrupted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = stages._Running.wait

    def interrupted(self: stages._Running) -> stages.Ended:
        wait(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(stages._Running, "wait", interrupted)
    assert stages.main(["two+fails,after"]) == 130
    assert not (place / "after").exists()


def test_what_takes_long_says_that_it_is_at_work(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends once that was said, however late."""
    said = []

    def told(text: str, **_how: object) -> None:
        said.append(text)
        (place / "after").touch()

    monkeypatch.setattr(stages, "_TOLD_S", 0.001)
    monkeypatch.setattr(stages, "print", told, raising=False)
    assert stages.main(["waits"]) == 0
    assert said[0].startswith("waits: at work for ")


def test_what_all_passed_exits_with_0(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["two", "two"]) == 0
    assert capfd.readouterr().out.endswith("all passed\n")


def test_a_failure_is_its_test_and_the_first_line_of_why(tmp_path: Path) -> None:
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="assert 1 == 2\n  more"))
    reports = [SimpleNamespace(nodeid="a.py::test_x", longrepr=crash), SimpleNamespace(nodeid="b.py", longrepr="gone")]
    write_failures(cast("list[pytest.TestReport]", reports), tmp_path / "found")
    assert (tmp_path / "found").read_text() == "a.py::test_x: assert 1 == 2\nb.py: gone\n"
