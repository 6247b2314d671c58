"""What the benches of replays count: figures beside which others used little of the machine; rows that are there."""

from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pgdyno.model.shapes import plain
from pgdyno.trace.outcome_file import OutcomeFacts

FACTS = OutcomeFacts(1, "t", "", "x", "18", "1", "e", 1.0, "schedule", "session", 1, 0.0, error_limit_percent=1.0)

FOLDER = Path(__file__).parents[2] / "bench"
BENCH = runpy.run_path(str(FOLDER / "replay_engines.py"))
TABLE = runpy.run_path(str(FOLDER / "replay.py"))


def test_what_others_used_is_all_that_was_busy_without_us() -> None:
    share = BENCH["foreign_percent"]
    assert share(busy_s=12.0, own_s=11.0, wall_s=10.0, cpus=2) == pytest.approx(5.0)
    assert share(busy_s=10.9, own_s=11.0, wall_s=10.0, cpus=2) == 0.0, "clocks of ticks"


def test_a_figure_beside_a_busy_machine_is_shown_and_not_counted() -> None:
    assert BENCH["words_of"]([(10.0, 1.0), (99.0, 5.1), (12.0, 5.0)]) == "11.0 (2 of 3)"
    assert BENCH["words_of"]([(10.0, 60.0)]) == "none of 1 counts"
    assert BENCH["beside"](5.1).endswith("others 5.1 %, not counted")
    assert BENCH["beside"](5.0).endswith("others 5.0 %")


def test_random_pauses_keep_the_rate_and_put_statements_close_together() -> None:
    load = BENCH["Load"](20_000, 10, 2_000, is_random=True)
    due = [row[2] for row in load.rows()]
    assert due == sorted(due)
    assert due == [row[2] for row in load.rows()], "the same for each engine"
    assert (due[-1] - due[0]) / 1e6 == pytest.approx(10, rel=0.05)
    close = sum(after - before < 50 for before, after in pairwise(due)) / len(due)
    assert close == pytest.approx(1 - math.exp(-0.1), rel=0.1)
    assert load.pace == "at 2000 a second with random pauses"


def test_what_the_whole_program_takes_is_told_beside_its_parts() -> None:
    peaks = runpy.run_path(str(FOLDER / "replay_million.py"))["Peaks"]()
    peaks.watch(subprocess.Popen([sys.executable, "-c", "import time; x = bytes(20 << 20); time.sleep(0.3)"]))
    assert peaks.found["pgdyno"] >= peaks.found["together"] > 0
    assert {kind for kind, _ in peaks.cpu_s.values()} == {"pgdyno"}
    assert peaks.words().endswith(" s")


@pytest.mark.parametrize("doubt", [None, "the compiled one was built for another pgdyno"])
def test_a_compiled_engine_that_no_replay_would_use_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], doubt: str | None
) -> None:
    engines = BENCH["engines"]
    monkeypatch.setitem(engines.__globals__, "doubt_about_compiled", lambda: doubt)
    assert list(engines()) == (["python"] if doubt else ["python", "compiled"])
    assert capsys.readouterr().out == (f"the Python engine alone: {doubt}\n" if doubt else "")


def test_a_sleep_costs_what_the_processor_spent_on_it_and_not_its_time() -> None:
    assert 0 < BENCH["sleep"](5, 0.02) < 0.1


def test_the_table_says_what_it_will_take_and_does_not_run_again_what_is_there(tmp_path: Path) -> None:
    rows = TABLE["ROWS"]
    assert {(FOLDER / row.program).exists() for row in rows} == {True}
    (tmp_path / "saturated.txt").write_text("said")
    words = TABLE["plan_words"](rows, tmp_path)
    assert [word.split()[1] for word in words[:2]] == ["there", "about"]
    left = sum(row.seconds for row in rows[1:])
    assert words[-1] == f"about {left / 60:.0f} min on two quiet CPUs"


def test_a_row_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    row, run = TABLE["ROWS"][0], TABLE["run"]
    assert not run(row, [sys.executable, "-c", "print('half'); raise SystemExit(3)"], tmp_path, "commit 1")
    assert not TABLE["kept"](tmp_path, row).exists()
    assert run(row, [sys.executable, "-c", "print('whole')"], tmp_path, "commit 1")
    assert TABLE["kept"](tmp_path, row).read_text().endswith("whole\n")


def test_a_run_that_was_killed_is_made_again(tmp_path: Path) -> None:
    pairs = runpy.run_path(str(FOLDER / "replay_pairs.py"))
    place, facts = pairs["Place"](tmp_path, 1, 1), plain(FACTS)
    for number, ended in enumerate(("complete", "")):
        place.outcome(number).mkdir()
        (place.outcome(number) / "outcome.json").write_text(json.dumps(facts | {"ended": ended}))
    place.outcome(2).mkdir()
    assert [place.has_run(number) for number in range(4)] == [True, False, False, False]
    assert [one.name for one in tmp_path.iterdir()] == ["run-00"]
