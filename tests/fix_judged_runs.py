"""Runs of verbs with hostile words or files, and what is wrong with how they ended: for the fuzzing tests."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from hostile_words import note, seed_of
from pgdyno.cli import main

MOST_S = 20.0


class JudgedRuns:
    """The runs of one test: drawn by the seed of the run, judged one by one, concluded together."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], config: pytest.Config
    ) -> None:
        self.draw = random.Random(seed_of(config))
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self._found: list[str] = []

    def run(self, argv: Sequence[str], codes: Collection[int], files: Sequence[Path] = ()) -> None:
        """Run a verb; what is wrong with how it ended is kept, with the files that it was given."""
        self._monkeypatch.setattr("sys.argv", ["pgdyno", *argv])
        began = time.process_time()
        try:
            main.main()
            code: object = "none"
        except SystemExit as ended:
            code = ended.code
        except BaseException as error:
            code = repr(error)
        spent, said = time.process_time() - began, self._capsys.readouterr()
        wrong = ""
        if code not in codes or "defect of" in said.err or "Traceback" in said.out + said.err:
            wrong = f"{code}: {said.err[:400]}"
        elif spent > MOST_S:
            wrong = f"{spent:.1f} s"
        elif {"\x1b", "\u202e"} & set(said.out + said.err):
            wrong = "an escape"
        if wrong:
            shown = [word if len(word) < 60 else f"{word[:20]}...({len(word)})" for word in argv]
            texts = f": {[path.read_bytes()[:3000] for path in files]}" if files else ""
            self._found.append(note(f"{shown}: {wrong}{texts}"))

    def conclude(self) -> None:
        """Assert that nothing was wrong, and that memory was bounded."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        assert not self._found, f"{len(self._found)} found:\n" + "\n".join(text[:900] for text in self._found[:40])
        assert peak < 3000, f"{peak} MB"


@pytest.fixture
def judged_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> JudgedRuns:
    return JudgedRuns(monkeypatch, capsys, request.config)
