"""Several load generators as one: sums, one distribution of latencies, and when each really began."""

from dataclasses import replace

import numpy as np
import pytest

from exact_log import folded
from pgdyno.errors import ScriptError
from pgdyno.fleet.merge import Part, merge
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.load_warnings import LoadWarningKind
from pgdyno.workloads.pgbench.transaction_log import TransactionLog
from pgdyno.workloads.result import Gap, LoadResult, SecondHistograms, count_bins

ORIGIN = 1_700_000_000.0
PLAN = LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=10.0, instances=2)


def part(instance, *, first_s, every_s, count=1000, reason=None, pauses=False):
    """One generator with one client: its transactions follow each other, from `first_s` after the gate opened."""
    ends = ORIGIN * 1e6 + first_s * 1e6 + every_s * 1e6 * (1 + np.arange(count))
    log = TransactionLog(ends.astype(np.int64), np.full(count, int(every_s * 1e6)), np.zeros(count, np.int16),
                         np.zeros(count, np.int8))  # fmt: skip
    return Part(instance, LoadResult(
        began_at=ORIGIN, ended_at=float(log.end_us[-1]) / 1e6, transactions=count, failed=0, retried=0, skipped=0,
        driver_cpu_s=1.0, bins=count_bins(folded(log), began_at=ORIGIN), warnings=(),
        histograms=SecondHistograms(((folded(log), ("x",), instance),)), log_files=(), argv=(), exit_code=0,
        aborted_clients=0, malformed_lines=0, reason=reason, pauses=pauses, log=folded(log),
    ))  # fmt: skip


@pytest.mark.requirement("R-BEN-02")
def test_transactions_add_up_and_each_says_when_it_began():
    parts = [part(0, first_s=0.004, every_s=0.01), part(1, first_s=0.009, every_s=0.005, count=2000)]
    whole = merge(parts, PLAN, began_at=ORIGIN, cores=2)
    assert [one.began_at - ORIGIN for one in whole.instances] == pytest.approx([0.004, 0.009], abs=1e-5)
    assert (whole.transactions, whole.driver_cpu_s) == (3000, 2.0)
    window = whole.window(whole.began_at, whole.ended_at)
    assert window.throughput == pytest.approx(300, rel=0.01)
    assert window.throughput == pytest.approx(sum(one.throughput for one in whole.instances), rel=0.01)
    assert window.latency.mean == pytest.approx(20 / 3, rel=0.01), "weighted by transactions, not the mean of two means"
    assert window.latency.p50 == pytest.approx(5.0, rel=0.02), "of one distribution, where means of percentiles say 7.5"
    assert window.throughput * window.latency.mean / 1000 == pytest.approx(PLAN.connections, rel=0.01)
    assert whole.warnings == ()


@pytest.mark.requirement("R-BEN-02", "R-BEN-03")
def test_what_one_generator_met_is_told_of_the_whole():
    short = part(1, first_s=0.0, every_s=0.01, count=100, reason="pgbench was ended by SIGKILL", pauses=True)
    whole = merge([part(0, first_s=0.0, every_s=0.01), short], PLAN, began_at=ORIGIN, cores=2, throttled_pct=98.0)
    assert whole.partial == "1 of 2 load generators ended early: number 1, pgbench was ended by SIGKILL"
    assert (whole.reason, whole.transactions, whole.pauses) == (None, 1100, True)
    assert [warning.kind for warning in whole.warnings] == [LoadWarningKind.DRIVER_THROTTLED]
    gone = Part(1, None, "it never connected")
    assert merge([part(0, first_s=0.5, every_s=0.01), gone], PLAN, began_at=ORIGIN).instances[1].began_at == ORIGIN


def test_the_script_that_failed_in_one_generator_is_that_of_all():
    """It was a part of the load that was lost: repeated, and at last the hint was to quieten the machine."""
    error = ScriptError('script "s", line 1: division by zero', is_certain=False)
    failed = part(1, first_s=0.0, every_s=0.01, count=100, reason="1 of 1 clients aborted")
    parts = [part(0, first_s=0.0, every_s=0.01), Part(1, replace(failed.result, failure=error))]
    assert merge(parts, PLAN, began_at=ORIGIN, cores=2).failure is error


def test_the_window_ends_where_the_first_generator_ended():
    """What the others did afterwards was done with fewer clients."""
    parts = [part(0, first_s=0.0, every_s=0.01, count=1000), part(1, first_s=0.0, every_s=0.01, count=700)]
    whole = merge(parts, PLAN, began_at=ORIGIN, cores=2)
    assert whole.ended_at == pytest.approx(ORIGIN + 7.0, rel=0, abs=0.01)
    assert whole.window(whole.began_at, whole.ended_at).throughput == pytest.approx(200, rel=0.01)


def test_the_series_begins_where_the_last_generator_began():
    """With fewer clients the load was another one, and its rise would pass for a warm-up."""
    parts = [part(0, first_s=0.0, every_s=0.01), part(1, first_s=3.0, every_s=0.01, count=700)]
    bins = merge(parts, PLAN, began_at=ORIGIN, cores=2).bins
    assert bins.origin_s == pytest.approx(ORIGIN + 3.25, rel=0, abs=0.01), "the first whole quarter of a second of both"
    assert np.array(bins.counts) / bins.bin_s == pytest.approx(200, rel=0.05)


def test_a_rate_is_that_of_each_generator_and_all_of_them_have_to_reach_it():
    plan = replace(PLAN, rate=100.0)
    reached = [part(0, first_s=0.0, every_s=0.01), part(1, first_s=0.0, every_s=0.01)]
    assert merge(reached, plan, began_at=ORIGIN, cores=2).warnings == ()
    late = [reached[0], part(1, first_s=0.0, every_s=0.02, count=500)]
    (warning,) = merge(late, plan, began_at=ORIGIN, cores=2).warnings
    assert warning.text == "the load came to 150 of 200 transactions per second"


def test_generators_that_never_ran_together_have_no_window():
    parts = [part(0, first_s=0.0, every_s=0.001, count=10), part(1, first_s=5.0, every_s=0.01)]
    whole = merge(parts, PLAN, began_at=ORIGIN, cores=2)
    assert whole.ended_at <= ORIGIN + 5.25, "the first had ended before the other began"
    assert [(one.throughput, one.latency_ms) for one in whole.instances] == [(None, None)] * 2
    assert [one.transactions for one in whole.instances] == [10, 1000]


def test_a_generator_without_a_transaction_in_the_window_has_no_latency():
    early = part(1, first_s=0.0, every_s=0.001, count=10, reason="it was killed")
    whole = merge([part(0, first_s=1.0, every_s=0.01), early], PLAN, began_at=ORIGIN, cores=2)
    assert whole.instances[0].latency_ms == pytest.approx(10.0, rel=0.01)
    assert (whole.instances[1].throughput, whole.instances[1].latency_ms) == (0.0, None)


def test_round_trips_and_pauses_are_means_by_transactions_and_gaps_are_numbered_through():
    one, other = part(0, first_s=0.0, every_s=0.01), part(1, first_s=0.0, every_s=0.005, count=2000)
    plan = replace(PLAN, clients=3)
    of_one = replace(one.result, round_trips=1.0, pause_s=0.3, gaps=(Gap(2, 1.0, 2.0, "lost"),))
    of_other = replace(other.result, round_trips=4.0, pause_s=0.0, gaps=(Gap(0, 3.0, 4.0, "lost"),))
    whole = merge([replace(one, result=of_one), replace(other, result=of_other)], plan, began_at=ORIGIN, cores=2)
    assert whole.round_trips == pytest.approx(3.0), "a third of the transactions made one, two thirds four"
    assert whole.pause_s == pytest.approx(0.1)
    assert [(gap.session, gap.from_s) for gap in whole.gaps] == [(2, 1.0), (3, 3.0)]
    unknown = replace(of_other, round_trips=None)
    whole = merge([replace(one, result=of_one), replace(other, result=unknown)], plan, began_at=ORIGIN, cores=2)
    assert whole.round_trips is None, "of half of the load it is not known"


def test_a_single_generator_keeps_its_own_end_and_of_several_that_ended_early_one_is_quoted():
    alone = part(0, first_s=0.1, every_s=0.01, count=733)
    whole = merge([alone], replace(PLAN, instances=1), began_at=ORIGIN, cores=2)
    assert whole.ended_at == alone.result.ended_at, "only where others went on does the window end with a quarter"
    short = [part(number, first_s=0.0, every_s=0.01, count=100, reason="killed") for number in (1, 2)]
    whole = merge([part(0, first_s=0.0, every_s=0.01), *short], replace(PLAN, instances=3), began_at=ORIGIN, cores=2)
    assert whole.partial == "2 of 3 load generators ended early: number 1, killed, and 1 more"


def with_result(one, **more):
    return replace(one, result=replace(one.result, **more))


def test_whatever_is_counted_is_a_sum_over_all_generators_those_that_ended_early_too():
    one, other = part(0, first_s=0.0, every_s=0.01), part(1, first_s=0.0, every_s=0.01, count=500, reason="killed")
    one = with_result(one, failed=1, retried=20, skipped=300, aborted_clients=1, malformed_lines=2, driver_cpu_s=0.5)
    other = with_result(other, failed=4, retried=5, skipped=6, aborted_clients=2, malformed_lines=5, exit_code=-9)
    whole = merge([one, other], PLAN, began_at=ORIGIN, cores=2)
    assert (whole.transactions, whole.failed, whole.retried, whole.skipped) == (1500, 5, 25, 306)
    assert (whole.aborted_clients, whole.malformed_lines, whole.driver_cpu_s, whole.exit_code) == (3, 7, 1.5, -9)
    assert [one.failed for one in whole.instances] == [1, 4]


def test_of_a_load_whose_generators_all_ended_early_the_first_reason_is_that_of_the_whole():
    early = [part(number, first_s=0.0, every_s=0.01, count=300, reason=f"reason {number}") for number in (0, 1)]
    whole = merge(early, PLAN, began_at=ORIGIN, cores=2)
    assert (whole.reason, whole.partial) == ("all 2 load generators ended early: reason 0", None)
    assert whole.ended_at == pytest.approx(ORIGIN + 3.0, rel=0, abs=0.01)


def test_a_server_that_was_away_is_told_where_no_generator_ended_early():
    both = [part(number, first_s=0.0, every_s=0.01) for number in (0, 1)]
    both[1] = with_result(both[1], partial="the server was away for 2 s")
    whole = merge(both, PLAN, began_at=ORIGIN, cores=2)
    assert (whole.reason, whole.partial) == (None, "the server was away for 2 s")


@pytest.mark.parametrize(("clients", "jobs", "threads"), [(1, 1, 2), (3, 1, 2), (1, 5, 2), (3, 2, 4), (2, 9, 4)])
def test_the_driver_is_judged_by_the_cpu_of_all_generators_in_the_threads_that_all_of_them_have(clients, jobs, threads):
    """A generator has no more threads than clients. Nineteen of twenty seconds of each thread are too many."""
    plan = replace(PLAN, clients=clients, jobs=jobs)
    both = [with_result(part(number, first_s=0.0, every_s=0.01), driver_cpu_s=4.75 * threads) for number in (0, 1)]
    (warning,) = merge(both, plan, began_at=ORIGIN, cores=99).warnings
    assert warning.kind is LoadWarningKind.DRIVER_SATURATED
    assert warning.text.startswith(f"each of pgbench's {threads} threads used 95 % of a core")


def test_a_load_without_a_transaction_has_no_mean_of_its_round_trips():
    none = with_result(part(0, first_s=0.0, every_s=0.01), transactions=0, round_trips=2.0, pause_s=0.5)
    whole = merge([none], replace(PLAN, instances=1), began_at=ORIGIN, cores=2)
    assert (whole.round_trips, whole.pause_s) == (None, 0.0)


def test_generators_that_ended_well_have_ended_with_zero_and_one_that_never_began_did_nothing():
    whole = merge([part(0, first_s=0.0, every_s=0.01), Part(1, None, "gone")], PLAN, began_at=ORIGIN, cores=2)
    assert (whole.exit_code, whole.aborted_clients, whole.partial) == (
        0, 0, "1 of 2 load generators ended early: number 1, gone",
    )  # fmt: skip
    gone = whole.instances[1]
    assert (gone.clients, gone.began_at, gone.ended_at, gone.transactions, gone.failed) == (1, ORIGIN, ORIGIN, 0, 0)
    assert (gone.throughput, gone.latency_ms, gone.driver_cpu_s, gone.reason) == (None, None, None, "gone")


@pytest.mark.parametrize("paused", [(False, False), (True, False), (False, True)])
def test_clients_of_one_generator_that_sleep_are_not_counted_on_for_any(paused):
    """Whether the sleepers of one share the cores with those of the others is not known."""
    plan = replace(PLAN, clients=3)
    both = [part(number, first_s=0.0, every_s=0.01, pauses=sleeps) for number, sleeps in enumerate(paused)]
    whole = merge(both, plan, began_at=ORIGIN, cores=1)
    assert whole.pauses is any(paused)
    assert [one.kind for one in whole.warnings] == [LoadWarningKind.CLIENTS_EXCEED_CORES] * (not any(paused))


def test_a_window_and_its_instances_are_told_to_the_microsecond():
    """A window begins and ends at a quarter of a second: 5 s of 100 and 200 transactions a second."""
    parts = [part(0, first_s=0.5, every_s=0.01, count=530), part(1, first_s=0.0, every_s=0.005, count=1400)]
    whole = merge(parts, PLAN, began_at=ORIGIN, cores=2)
    assert whole.bins.origin_s - ORIGIN == 0.75
    assert whole.ended_at - ORIGIN == 5.75
    assert [one.ended_at - ORIGIN for one in whole.instances] == pytest.approx([5.8, 7.0], abs=1e-6)
    assert [one.throughput for one in whole.instances] == [100.0, 200.0]
    assert [one.latency_ms for one in whole.instances] == [10.0, 5.0]
