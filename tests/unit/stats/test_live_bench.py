"""The bench of real live studies: what its table counts, and that it goes on where it was cut off."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import live_cost
import live_kills
import live_real
import live_search
from live_real import back_times, cases_of, holds_truth, is_quiet, read_rows, run_hours, table
from live_rows import ARMS, PROMISES
from live_search_example import BETTER
from pgdyno.knobs.space import point_to_configuration
from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.live import LiveMoment
from simulated_live_world import WATCHED


def row(case, word="better", lo=0.8, hi=0.95, foreign=0.01):
    return {"case": case, "word": word, "lo": lo, "hi": hi, "pairs": 7, "foreign": foreign}


def test_quiet_and_disturbed_studies_are_counted_apart():
    equal, tenth, truth = ARMS[0].name, ARMS[1].name, ARMS[1].truth
    rows = [row(tenth), row(tenth, "not resolved", 0.7, 1.4), row(tenth, foreign=0.3), row(equal, "worse", 1.0, 1.1)]
    lines = [line.split() for line in table(rows)][1:4]
    assert [line[-1] for line in lines] == ["quiet", "quiet", "disturbed"]
    assert lines[0][2:7] == ["1", "1", "-", "1", "7"]
    assert lines[1][-6:-1] == ["2", "1", "1", "2", "7"]
    assert (is_quiet(row(tenth, foreign=None)), holds_truth(row(tenth, lo=None), truth)) == (False, False)


def test_a_line_that_was_cut_off_is_no_study_and_the_next_one_is_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "studies.jsonl"
    path.write_text(json.dumps(row(ARMS[0].name)) + "\n" + '{"case": "L2')
    assert len(read_rows(path)) == 1
    run = []

    def study(number, case, *_times):
        run.append((number, case.name))
        if len(run) == 3:
            raise KeyboardInterrupt
        return row(case.name)

    monkeypatch.setattr(live_real, "_study", study)
    with pytest.raises(KeyboardInterrupt):
        run_hours(1.0, tmp_path)
    assert run == [(100_000 + number, ARMS[number].name) for number in (1, 2, 3)], (
        "the case with the fewest studies is next"
    )
    assert len(read_rows(path)) == 3, "what was cut off stays alone in its line"
    run_hours(0.0, tmp_path)
    assert "real studies" in capsys.readouterr().out


def promised(case, **fields):
    usual = {"pairs": 2, "states": [], "acceptable": False, "breaches": [], "lost": {}, "not_tested": "", "held_s": 0.4,
             "arm_s": 6.0, "readable": True, "seconds": 600.0, "word": "not resolved", "reproduced": True}  # fmt: skip
    return {**row(case.name), **usual, **fields}


@pytest.mark.parametrize(
    ("number", "kept", "broken"),
    [
        ("L5", {"states": ["vetoed"]}, ({"states": []}, {"states": ["vetoed"], "held_s": 1.2}, {"pairs": 7})),
        ("L6", {"states": ["vanished"]}, ({"states": []}, {"states": ["vanished"], "acceptable": True})),
        ("L8", {"not_tested": "plans are cached"}, ({"word": "equivalent"},)),
        (
            "L9", {"breaches": ["backlog"], "pairs": 0},
            ({"breaches": [], "pairs": 0}, {"breaches": ["x"], "pairs": 0, "arm_s": 11.0}),
        ),
        ("L12", {"lost": {"pg_stat_statements was reset": 1}, "word": "better"}, ({"word": "better"},)),
        (
            "L13", {"acceptable": True},
            ({"acceptable": True, "seconds": 4501.0}, {"acceptable": True, "reproduced": False}),
        ),
    ],
)  # fmt: skip
def test_a_row_is_kept_by_what_it_promises_and_by_nothing_less(number, kept, broken):
    case = next(one for one in cases_of([number]) if one in PROMISES)
    assert case.keeps(promised(case, **kept))
    assert not any(case.keeps(promised(case, **fields)) for fields in broken)
    told = [line.split() for line in table([promised(case, **kept), promised(case, **broken[0])])]
    found = next(line for line in told if line[:1] == [number])
    assert found[len(case.name.split()) :][:2] == ["2", "1"]


def test_rows_that_are_not_there_are_named():
    with pytest.raises(SystemExit, match="L99"):
        cases_of(["L5", "L99"])


def test_how_soon_the_baseline_is_back_is_counted_from_what_ended_the_arm():
    moments = (
        LiveMoment(lane="A", at=0.0, seconds=30.5), LiveMoment(lane="B", at=31.0, seconds=6.5),
        LiveMoment(lane="guard", at=37.0, seconds=0.0),
    )  # fmt: skip
    told = replace(WATCHED, switch=BETTER, moments=moments)
    assert back_times(told) == {"arm_s": 6.5, "held_s": 0.5}
    veto = replace(told, moments=(replace(moments[1], seconds=BETTER.period_s + 0.25),))
    assert back_times(veto) == {"arm_s": BETTER.period_s + 0.25, "held_s": 0.25}
    assert back_times(WATCHED) == {"arm_s": None, "held_s": None}


def test_a_server_that_was_not_put_back_is_counted_as_lost():
    kill = {"state": "counting", "heard": True, "alive": True, "back": True, "resumed": True}
    told = live_kills.summary([kill, {**kill, "back": False, "resumed": None}, {**kill, "alive": False}])
    assert told.startswith("3 kills (counting 3): 2 with the server back byte by byte, 1 lost; 1 missed their state")
    assert told.endswith("2 of 2 resumed from their pairs")


def test_the_cost_of_watching_is_judged_by_quiet_pairs_alone():
    pair = {"ratio": 1.0, "tps": 900.0, "foreign": 0.01, "server_pct": 0.4, "client_pct": 0.3}
    assert live_cost.summary([pair] * 18).endswith(": met")
    assert live_cost.summary([{**pair, "client_pct": 0.6}] * 18).endswith("NOT MET")
    assert live_cost.summary([{**pair, "ratio": 0.97}] * 18).endswith("NOT MET")
    assert live_cost.summary([pair] * 2).endswith("NOT MET"), "two pairs show nothing"
    assert "they say nothing" in live_cost.summary([{**pair, "foreign": None}] * 18)


def test_a_planted_answer_is_the_server_s_own_at_its_settings_and_the_best_elsewhere():
    answer = live_search.PlantedAnswer.drawn(3, 200)
    assert answer.log_time(BASELINE) == 0.0
    best = {
        name: answer.space[name].decode((place, *(0.0 for _ in answer.space[name].special)))
        for name, place in answer.best.items()
    }
    settings = point_to_configuration(answer.space, {**answer.space.default_point(), **best})
    assert math.exp(answer.log_time(settings)) == pytest.approx(live_search.BEST, rel=0.1)
    factors = answer.factors(settings)
    assert (factors.max(), factors.min() < live_search.BEST) == (1.0, True), "some statements do not answer at all"
    assert all(abs(place - answer.space[name].encode(answer.space[name].default)[0]) >= live_search.FAR - 1e-9
               for name, place in answer.best.items())  # fmt: skip
