"""Interleaving: every arm once a block, in an order that is random, fair and repeatable."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import LatencySummary, Outcome, Role, TrialState
from pgdyno.model.verdict import RUN_METRICS, Metric
from pgdyno.studies.pairs.blocks import block_order, run_blocks
from pgdyno.trial.company import Company
from simulated_laboratory import SimulatedLaboratory, flat


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True), st.integers(), st.integers())
def test_each_block_runs_every_arm_once(arms, block, seed):
    assert sorted(block_order(arms, block, seed)) == sorted(arms)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_order_of_a_block_is_the_same_at_every_resume(block, seed):
    assert block_order(("A", "B"), block, seed) == block_order(("A", "B"), block, seed)


def test_both_orders_come_equally_often():
    orders = Counter(block_order(("A", "B"), block, 7) for block in range(2000))
    assert len(orders) == 2
    assert min(orders.values()) > 900


def test_a_metric_that_was_not_measured_is_none():
    outcome = Outcome(state=TrialState.FAILED)
    assert [outcome.figure(metric) for metric in Metric] == [None] * len(Metric)


def test_each_metric_reads_its_own_figure():
    latency = LatencySummary(p50=1.0, p95=2.0, p99=3.0, p999=4.0, max=5.0, mean=1.5)
    outcome = Outcome(state=TrialState.COMPLETE, throughput=10.0, latency_ms=latency, server_cpu_ms_per_tx=0.5)
    figures = {metric: outcome.figure(metric) for metric in RUN_METRICS}
    assert figures == {
        Metric.THROUGHPUT: 10.0,
        Metric.LATENCY_P50: 1.0,
        Metric.LATENCY_P95: 2.0,
        Metric.LATENCY_P99: 3.0,
        Metric.SERVER_CPU: 0.5,
    }


def run_two_arms(fails=lambda settings: False, *, disturbed=0.0, short_from=None, max_blocks=3):
    laboratory = SimulatedLaboratory(flat, fails=fails, disturbed=disturbed)
    arms = {"A": BASELINE, "B": Configuration.of({"work_mem": "8MB"})}
    blocks = run_blocks(
        laboratory,
        arms,
        dict.fromkeys(arms, Role.ARM),
        seed=1,
        first_block=0,
        max_blocks=max_blocks,
        is_enough=lambda _: False,
        short_from=short_from,
    )
    return laboratory, blocks


def test_an_arm_that_failed_once_is_measured_again():
    """A server that somebody else killed says nothing about the configuration."""
    left = [True]
    laboratory, blocks = run_two_arms(lambda settings: bool(settings) and bool(left) and left.pop())
    assert len(blocks.complete) == 3
    states = [trial.state for trial in laboratory.store.kept]
    assert states.count(TrialState.FAILED) == 1
    failed = next(trial for trial in laboratory.store.kept if trial.state is TrialState.FAILED)
    assert [trial.spec.repeats for trial in laboratory.store.kept].count(failed.id) == 1


def test_an_arm_that_fails_again_cannot_be_measured():
    with pytest.raises(ApplyError, match="arm B cannot be measured: failed"):
        run_two_arms(bool)


@pytest.mark.parametrize("fails_after", [0, 2])
def test_a_spare_arm_that_cannot_be_measured_leaves_the_comparison(fails_after):
    left = [True] * fails_after
    laboratory = SimulatedLaboratory(flat, fails=lambda settings: "jit" in settings and not (left and left.pop()))
    arms = {"A": BASELINE, "B": Configuration.of({"work_mem": "8MB"}), "C": Configuration.of({"jit": "off"})}
    roles = dict.fromkeys(arms, Role.ARM)
    blocks = run_blocks(
        laboratory, arms, roles, seed=1, first_block=0, max_blocks=4, is_enough=lambda _: False, spare=("C",)
    )
    assert set(blocks.arms) == {"A", "B"}
    assert list(blocks.unmeasured) == ["C"]
    assert len(blocks.complete) == 4
    assert len(blocks.pairs("A", "B", Metric.THROUGHPUT)[0]) == 4
    assert blocks.lost == 0, "the machine had no part in it"


@pytest.mark.parametrize(("quiet", "complete"), [(4, 2), (6, 3)])
def test_a_machine_that_becomes_disturbed_leaves_the_blocks_that_were_complete(quiet, complete):
    _, blocks = run_two_arms(disturbed=lambda number, _: number > quiet, short_from=2, max_blocks=9)
    assert (len(blocks.complete), blocks.lost) == (complete, 3)
    assert blocks.stopped_short == (
        f"3 of {complete + 3} blocks could not be completed, as their trials were disturbed or never steady: "
        "foreign CPU (and 8 more like it)"
    )


def test_where_others_stay_and_disturbed_runs_are_not_used_each_further_block_costs_one_run():
    laboratory = SimulatedLaboratory(flat, disturbed=1.0)
    laboratory.company = Company(lambda: "others")  # as in a selftest
    arms = {"A": BASELINE, "B": Configuration.of({"work_mem": "8MB"})}
    with pytest.raises(EnvironmentUnsuitable, match="3 of 3 blocks"):
        run_blocks(
            laboratory, arms, dict.fromkeys(arms, Role.ARM), seed=1, first_block=0, max_blocks=4,
            is_enough=lambda _: False,
        )  # fmt: skip
    assert len(laboratory.store.kept) == 3 + 1 + 1


@pytest.mark.parametrize(("quiet", "short_from"), [(2, 2), (8, None)])
def test_too_few_complete_blocks_are_no_comparison(quiet, short_from):
    """One block has no scatter; and who needs all blocks gets none."""
    with pytest.raises(EnvironmentUnsuitable, match=r"3 of \d blocks could not be completed"):
        run_two_arms(disturbed=lambda number, _: number > quiet, short_from=short_from, max_blocks=9)


def test_blocks_that_are_lost_here_and_there_do_not_end_a_comparison():
    def lost(number, settings):
        return number % 10 in {5, 6, 7}  # a trial with both its repeats, every third block

    _, blocks = run_two_arms(disturbed=lost, short_from=2, max_blocks=12)
    assert len(blocks.complete) == 12
    assert blocks.lost > 3
    assert blocks.stopped_short == ""


def test_a_machine_that_loses_as_many_blocks_as_it_completes_is_unsuitable():
    """Never three in a row, and no end either: every complete block is followed by two that are lost."""

    def lost(number, settings):
        return number % 8 not in {1, 2}

    with pytest.raises(EnvironmentUnsuitable, match=r"of \d+ blocks could not be completed"):
        run_two_arms(disturbed=lost, max_blocks=40)
