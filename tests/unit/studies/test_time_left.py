"""The time that is left: it falls with every pair, and knows of sweeps and proofs."""

from dataclasses import replace

from pgdyno.stats.sequential import Design
from pgdyno.studies.staircase.options import StaircaseOptions, TimeLeft, runs_left
from pgdyno.studies.staircase.plan import Manual, Step, Sweep

OPTIONS = StaircaseOptions(plan="", source="", baseline_runs=2, sweep_blocks=6)
STEPS = [Step("a", settings={"jit": "off"}), Step("b", sweep=Sweep("work_mem", ("4MB", "8MB", "16MB")))]


def test_every_pair_is_two_runs_less():
    left = [runs_left(4, STEPS, OPTIONS, measured) for measured in range(5)]
    assert left == [2 * (4 * 2 + 2) + 6 * 3 - 2 * measured for measured in range(5)]


def test_a_sweep_that_is_done_is_not_counted_again():
    assert runs_left(4, STEPS[1:], OPTIONS, 1) == 4 * 2 + 2 - 2


def test_the_words_name_fewest_and_most():
    design = Design(min_pairs=4, max_pairs=8)
    assert TimeLeft(57.0, proof=False).text(design, STEPS[:1], OPTIONS, measured=0) == "10:00 min to 18:00 min left"
    assert TimeLeft(57.0).text(design, STEPS[:1], OPTIONS, measured=0) == "22:00 min to 42:00 min left"
    same = Design(min_pairs=4, max_pairs=4)
    assert TimeLeft(57.0, proof=False).text(same, STEPS[:1], OPTIONS, measured=4) == "2:00 min left"


def test_steps_that_nobody_waits_for_and_those_that_are_no_candidates_take_no_time():
    same, left = Design(min_pairs=4, max_pairs=4), TimeLeft(57.0, proof=False)
    commands, people = Step("c", commands=("blockdev",)), Step("p", manual=Manual(("do it",)))
    one = left.text(same, STEPS[:1], OPTIONS, measured=0)
    assert left.text(same, [STEPS[0], commands], OPTIONS, measured=0) == one
    assert left.text(same, [STEPS[0], people], OPTIONS, measured=0) != one
    assert left.text(same, [STEPS[0], people], replace(OPTIONS, skip_manual=True), measured=0) == one
    other = Step("other", settings={"jit": "off"})
    assert left.text(same, [STEPS[0], other], replace(OPTIONS, candidates=("a",)), measured=0) == one
