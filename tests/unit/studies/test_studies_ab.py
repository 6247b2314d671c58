"""An A/B whose machine is disturbed in the middle: what was measured is judged, and why it ended is said."""

from dataclasses import replace

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.sequential import Design
from pgdyno.studies.ab.run import ab, ab_result
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff

LARGE = Configuration.of({"shared_buffers": "4GB"})


def run(b, *, quiet):
    laboratory = SimulatedLaboratory(shared_buffers_cliff, disturbed=lambda number, _: number > quiet)
    comparison, blocks = ab(
        laboratory, BASELINE, b, metric=Metric.THROUGHPUT, design=Design(), seed=1, announce=lambda text: None
    )
    return comparison, ab_result(laboratory, comparison, blocks)


def test_what_was_measured_before_the_disturbance_is_judged():
    comparison, result = run(BASELINE, quiet=8)
    assert comparison.verdict.word is Word.NOT_RESOLVED
    assert comparison.verdict.pairs == 4
    (note,) = result.notes
    assert note.startswith("3 of 7 blocks could not be completed, as their trials were disturbed or never steady")
    assert note.endswith(": foreign CPU (and 8 more like it)")


def test_a_verdict_that_was_final_before_the_disturbance_carries_no_note():
    comparison, result = run(LARGE, quiet=8)
    assert comparison.verdict.word is Word.BETTER
    assert not any("blocks could not be completed" in note for note in result.notes)


def test_a_single_pair_is_not_judged():
    with pytest.raises(EnvironmentUnsuitable, match="3 of 4 blocks"):
        run(BASELINE, quiet=2)


@pytest.mark.requirement("R-EXP-10")
@pytest.mark.parametrize(("drowned", "told"), [(0.3, True), (0.0, False)])
def test_beside_others_the_words_name_the_metric_that_would_tell_more(drowned, told):
    """In an A/B the metric that was asked for decides; a choice by its own pairs would be a second look at them."""
    laboratory = SimulatedLaboratory(shared_buffers_cliff, cv=0.01, disturbed=1.0, shared=True, drowned=drowned)
    comparison, blocks = ab(
        laboratory,
        BASELINE,
        LARGE,
        metric=Metric.THROUGHPUT,
        design=Design(max_pairs=6),
        seed=1,
        announce=lambda text: None,
    )
    notes = [note for note in ab_result(laboratory, comparison, blocks).notes if "--metric server_cpu" in note]
    assert comparison.verdict.metric is Metric.THROUGHPUT
    assert len(notes) == told
    assert all("times tighter" in note and "not how long it waits" in note for note in notes)


def run_p99(thin, **more):
    """Run an A/B by p99 on a load whose trials of these numbers have 11 transactions, all others 5,000."""
    laboratory = SimulatedLaboratory(shared_buffers_cliff, **more)
    run_one = laboratory.run

    def counted(spec):
        trial = run_one(spec)
        count = 11 if trial.id in thin else 5000
        outcome = replace(trial.outcome, counters={**trial.outcome.counters, "window_transactions": count})
        laboratory.store.kept[-1] = replace(trial, outcome=outcome)
        return laboratory.store.kept[-1]

    laboratory.run = counted
    found = ab(
        laboratory, BASELINE, BASELINE, metric=Metric.LATENCY_P99, design=Design(), seed=1, announce=lambda text: None
    )
    return laboratory, found


def test_a_thin_run_is_left_out_with_its_block_and_named():
    laboratory, (comparison, blocks) = run_p99({7})
    assert comparison.verdict.pairs == len(blocks.complete) - 1
    (note,) = [note for note in ab_result(laboratory, comparison, blocks).notes if "left out" in note]
    assert "run 7 (11 transactions)" in note
    assert "p99 latency" in note


def test_pairs_that_are_all_too_thin_end_at_the_fewest():
    with pytest.raises(EnvironmentUnsuitable, match="too few transactions") as caught:
        run_p99(set(range(1, 100)))
    assert caught.value.detail.count("transactions)") == Design().min_pairs


def test_a_load_that_is_thin_throughout_is_not_judged_by_the_rest():
    with pytest.raises(EnvironmentUnsuitable, match="too few transactions") as caught:
        run_p99(set(range(1, 100, 3)))
    assert "run 1 (11 transactions)" in caught.value.detail
