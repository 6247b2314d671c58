"""The bench of real live studies: what its table counts, and that it goes on where it was cut off."""

from __future__ import annotations

import json

import pytest

import live_real
from live_real import CASES, holds_truth, is_quiet, read_rows, run_hours, table


def row(case, word="better", lo=0.8, hi=0.95, foreign=0.01):
    return {"case": case, "word": word, "lo": lo, "hi": hi, "pairs": 7, "foreign": foreign}


def test_quiet_and_disturbed_studies_are_counted_apart():
    (equal, _), (tenth, truth), *_ = CASES
    rows = [row(tenth), row(tenth, "not resolved", 0.7, 1.4), row(tenth, foreign=0.3), row(equal, "worse", 1.0, 1.1)]
    lines = [line.split() for line in table(rows)][1:]
    assert [line[-1] for line in lines] == ["quiet", "quiet", "disturbed"]
    assert lines[0][2:7] == ["1", "1", "-", "1", "7"]
    assert lines[1][-6:-1] == ["2", "1", "1", "2", "7"]
    assert (is_quiet(row(tenth, foreign=None)), holds_truth(row(tenth, lo=None), truth)) == (False, False)


def test_a_line_that_was_cut_off_is_no_study_and_the_next_one_is_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "studies.jsonl"
    path.write_text(json.dumps(row(CASES[0][0])) + "\n" + '{"case": "L2')
    assert len(read_rows(path)) == 1
    run = []

    def study(number, _reference_s, _budget_s):
        run.append(number)
        if len(run) == 3:
            raise KeyboardInterrupt
        return row(CASES[number % len(CASES)][0])

    monkeypatch.setattr(live_real, "_study", study)
    with pytest.raises(KeyboardInterrupt):
        run_hours(1.0, tmp_path)
    assert run == [1, 2, 3]
    assert len(read_rows(path)) == 3, "what was cut off stays alone in its line"
    run_hours(0.0, tmp_path)
    assert "real studies" in capsys.readouterr().out
