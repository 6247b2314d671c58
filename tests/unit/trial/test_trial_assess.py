"""From a load and samples to an outcome."""

from dataclasses import replace

import numpy as np
import pytest

from exact_log import folded
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import BESIDE_OTHERS, LoadPlan, TrialState
from pgdyno.trial.assess import LEAST_SHARE, Bounds, assess, disturbance, settling
from pgdyno.workloads.pgbench.transaction_log import TransactionLog
from pgdyno.workloads.result import CountBins, LoadResult, SecondHistograms, count_bins

ORIGIN = 1_700_000_000.0
PLAN = LoadPlan(clients=2, jobs=1, warmup_s=3.0, measure_s=5.0)


def load(rates, latency_us=2000):
    """Make a load whose transactions come evenly, `rates[i]` of them in second i."""
    ends = np.concatenate([(ORIGIN + i + (np.arange(n) + 0.5) / n) * 1e6 for i, n in enumerate(rates) if n])
    count = len(ends)
    log = TransactionLog(
        ends.astype(np.int64),
        np.full(count, latency_us, dtype=np.int64),
        np.zeros(count, dtype=np.int16),
        np.zeros(count, dtype=np.int8),
    )
    return LoadResult(
        began_at=ORIGIN,
        ended_at=ORIGIN + len(rates),
        transactions=count,
        failed=0,
        retried=0,
        skipped=0,
        driver_cpu_s=0.1,
        bins=count_bins(folded(log), began_at=ORIGIN),
        histograms=SecondHistograms(()),
        warnings=(),
        log_files=(),
        argv=(),
        exit_code=0,
        aborted_clients=0,
        malformed_lines=0,
        reason=None,
        log=folded(log),
    )


def cpu_rows(seconds, **values):
    """Make one row of the cpu table a second; columns that are not given are NULL."""
    defaults = {"interval_s": 1.0, "cores": 2, "steal_pct": 0.0, "idle_pct": 50.0}
    names = TABLES["cpu"].column_names()[1:]
    row = tuple({**defaults, **values}.get(name) for name in names)
    return [SampleRow("cpu", ORIGIN + i + 1, row) for i in range(seconds)]


def test_a_steady_load_is_scored_from_the_shortest_warm_up_on():
    outcome = assess(load([200] * 8), cpu_rows(8, server_cpu_s=0.5), PLAN, Bounds())
    assert outcome.state is TrialState.COMPLETE
    assert outcome.steady_from == pytest.approx(ORIGIN + 1.0, rel=0, abs=0.01), "a share of an epoch is minutes"
    assert outcome.throughput == pytest.approx(200, rel=0.01)
    assert outcome.latency_ms is not None
    assert outcome.latency_ms.p99 == pytest.approx(2.0, rel=0.01)
    assert outcome.server_cpu_ms_per_tx == pytest.approx(2.5, rel=0.02)
    assert outcome.server_cpu_s is not None
    assert outcome.server_cpu_ms_per_tx == 1000 * outcome.server_cpu_s / outcome.counters["window_transactions"]
    assert outcome.transactions == 1600


def test_the_warm_up_is_not_scored():
    outcome = assess(load([20, 60, 200, 200, 200, 200, 200, 200]), [], PLAN, Bounds())
    assert outcome.state is TrialState.COMPLETE
    assert outcome.steady_from is not None
    assert outcome.steady_from >= ORIGIN + 1.75
    assert outcome.throughput == pytest.approx(200, rel=0.02)


def test_a_load_that_settles_late_is_scored_by_the_steady_rest():
    """A large shared_buffers that is cold: it needs longer than the warm-up, and the rest is as good as any."""
    outcome = assess(load([20] * 5 + [200] * 5), [], PLAN, Bounds())
    assert (outcome.state, outcome.reason) == (TrialState.COMPLETE, None)
    assert outcome.throughput == pytest.approx(200, rel=0.02)
    assert outcome.steady_from is not None
    assert outcome.steady_from >= ORIGIN + 4.75


def test_a_rest_that_is_a_small_part_of_the_window_has_no_score():
    outcome = assess(load([20] * 7 + [200] * 5), [], replace(PLAN, measure_s=30.0), Bounds())
    assert (outcome.state, outcome.throughput) == (TrialState.UNSTEADY, None)
    assert "less than 10.0 s" in str(outcome.reason)


@pytest.mark.parametrize(("least_s", "is_scored"), [(5.0, True), (5.125, True), (5.2, False)])
def test_a_rest_may_lack_half_a_bin_of_what_it_needs(least_s, is_scored):
    counts = np.repeat(np.array([5, 50]), 20)  # ten seconds, of which the second half is steady
    bins = CountBins(0.0, 0.25, counts, np.full(counts.size, 2 * 250_000))
    found = settling(bins, replace(PLAN, measure_s=3 * least_s), Bounds())
    assert found.settled_s == pytest.approx(5.0)
    assert (found.unsettled is None) == is_scored
    assert found.may_settle_s == (None if is_scored else pytest.approx(5.0 + least_s))


@pytest.mark.parametrize(("warmup_s", "is_scored"), [(4.75, True), (4.5, False)])
def test_a_load_may_settle_a_bin_after_the_warm_up_whatever_is_left(warmup_s, is_scored):
    counts = np.repeat(np.array([5, 50]), 20)
    bins = CountBins(0.0, 0.25, counts, np.full(counts.size, 2 * 250_000))
    found = settling(bins, replace(PLAN, warmup_s=warmup_s, measure_s=30.0), Bounds())
    assert (found.settled_s, found.unsettled is None) == (5.0, is_scored)


def test_a_load_that_keeps_falling_has_no_score():
    outcome = assess(load([400 - 25 * i for i in range(14)]), [], PLAN, Bounds())
    assert outcome.state is TrialState.UNSTEADY
    assert outcome.throughput is None


def test_a_load_whose_latency_falls_all_along_has_no_score():
    """Two clients of 250 ms that become faster by 4 ms a second, 25 s long: counted alone they look steady at once."""
    ends, latencies = [], []
    for start in (0.0, 0.1):
        at = start
        while at < 25.0:
            latencies.append(0.25 - 0.004 * at)
            at += latencies[-1]
            ends.append(at)
    order = np.argsort(ends)
    zeros = np.zeros(len(ends), np.int64)
    log = TransactionLog(((np.array(ends)[order] + ORIGIN) * 1e6).astype(np.int64),
                         (np.array(latencies)[order] * 1e6).astype(np.int64), zeros.astype(np.int16),
                         zeros.astype(np.int8))  # fmt: skip
    whole = replace(load([100]), ended_at=ORIGIN + 25, bins=count_bins(folded(log), began_at=ORIGIN), log=folded(log))
    outcome = assess(whole, [], replace(PLAN, warmup_s=10.0, measure_s=15.0), Bounds())
    assert (outcome.state, outcome.throughput) == (TrialState.UNSTEADY, None)
    assert "latency fell" in outcome.reason or "later than the warm-up" in outcome.reason


def test_steal_above_the_bound_disturbs():
    outcome = assess(load([200] * 8), cpu_rows(8, steal_pct=20.0), PLAN, Bounds())
    assert outcome.state is TrialState.DISTURBED
    assert "steal was 20" in str(outcome.reason)
    assert outcome.throughput is not None


def test_unknown_cpu_is_unknown_and_not_zero():
    outcome = assess(load([200] * 8), cpu_rows(8), PLAN, Bounds())
    assert outcome.server_cpu_s is None
    assert outcome.server_cpu_ms_per_tx is None


def test_a_load_that_lost_a_generator_is_partial_even_on_a_disturbed_machine():
    lost = replace(load([200] * 8), partial="instance 1 was killed")
    outcome = assess(lost, cpu_rows(8, steal_pct=50.0), PLAN, Bounds())
    assert (outcome.state, outcome.reason) == (TrialState.PARTIAL, "instance 1 was killed")
    assert outcome.throughput == pytest.approx(200, rel=0.01)


def test_a_load_that_lost_a_generator_is_partial_also_where_nothing_was_steady():
    lost = replace(load([20] * 5 + [400] * 4), partial="instance 1 was killed")
    outcome = assess(lost, [], PLAN, Bounds())
    assert (outcome.state, outcome.reason) == (TrialState.PARTIAL, "instance 1 was killed")
    assert outcome.throughput is not None, "what the others measured is shown under its state"
    assert outcome.steady_from == pytest.approx(ORIGIN + PLAN.warmup_s, rel=0, abs=0.01), "not where it settled"
    falling = replace(load([400 - 25 * i for i in range(14)]), partial="instance 1 was killed")
    never = assess(falling, [], PLAN, Bounds(min_warmup_s=0.25))
    assert never.steady_from == pytest.approx(ORIGIN + 0.25, rel=0, abs=0.01)
    assert assess(replace(lost, partial=None), [], replace(PLAN, measure_s=30.0), Bounds()).state is TrialState.UNSTEADY


@pytest.mark.requirement("R-EXP-10")
@pytest.mark.parametrize("rates", [[400 - 25 * i for i in range(14)], [200] * 8 + [20] * 6])
def test_a_load_that_others_kept_from_getting_steady_is_disturbed(rates):
    """A burner that comes and goes makes a step in the series: the load is not to blame for it."""
    quiet, burnt = (cpu_rows(len(rates), server_cpu_s=0.5, driver_cpu_s=0.1, self_cpu_s=0.0, usr_pct=usr, sys_pct=0.0,
                             irq_pct=0.0, cpus=2) for usr in (30.0, 80.0))  # fmt: skip
    assert assess(load(rates), quiet, PLAN, Bounds()).state is TrialState.UNSTEADY
    far = assess(load(rates), quiet, PLAN, Bounds(), driver_is_here=False)
    assert far.foreign_cpu_pct == pytest.approx(10.0), "what the driver uses of another host is none of this one's"
    outcome = assess(load(rates), burnt, PLAN, Bounds())
    assert outcome.state is TrialState.DISTURBED
    assert (outcome.throughput, outcome.foreign_cpu_pct) == (None, pytest.approx(100.0))
    assert outcome.reason is not None
    assert outcome.reason.startswith("foreign CPU was 100 % of a core, above the bound of 15 %; ")
    assert outcome.reason.endswith(assess(load(rates), [], PLAN, Bounds()).reason)
    named = assess(load(rates), burnt, PLAN, Bounds(), used_by="cc (process 7) 98 %").reason or ""
    assert named.startswith("foreign CPU was 100 % of a core, above the bound of 15 %: cc (process 7) 98 %; ")
    stolen = assess(load(rates), cpu_rows(len(rates), steal_pct=50.0), PLAN, Bounds())
    assert stolen.state is TrialState.DISTURBED


@pytest.mark.requirement("R-EXP-10")
def test_where_others_stay_a_run_is_used_and_says_so():
    """Steady or not: beside a busy core every series has steps, and every arm has them."""
    falling = [400 - 25 * i for i in range(14)]
    for rates in ([200] * 8, falling):
        burnt = cpu_rows(len(rates), server_cpu_s=0.5, driver_cpu_s=0.1, self_cpu_s=0.0, usr_pct=80.0, sys_pct=0.0,
                         irq_pct=0.0, cpus=2)  # fmt: skip
        taken = assess(load(rates), burnt, PLAN, Bounds(), used_by="cc (process 7) 98 %", beside_others=True)
        assert (taken.state, taken.counters[BESIDE_OTHERS]) == (TrialState.COMPLETE, 1.0)
        assert taken.throughput is not None
        assert taken.server_cpu_ms_per_tx is not None
        (said,) = taken.warnings
        assert "cc (process 7) 98 %" in said
        assert "others stayed" in said
    assert taken.steady_from == pytest.approx(ORIGIN + PLAN.warmup_s, rel=0, abs=0.01), "the window that was planned"


def test_a_run_that_is_shorter_than_any_window_is_used_beside_nobody():
    burnt = cpu_rows(14, server_cpu_s=0.5, driver_cpu_s=0.1, self_cpu_s=0.0, usr_pct=80.0, sys_pct=0.0, irq_pct=0.0,
                     cpus=2)  # fmt: skip
    falling = load([400 - 25 * i for i in range(14)])
    assert assess(falling, burnt, PLAN, Bounds(), beside_others=True).state is TrialState.COMPLETE
    left_s = falling.bins.bin_s * len(falling.bins.counts) - PLAN.warmup_s
    for least_s, state in ((left_s, TrialState.COMPLETE), (left_s + 0.125, TrialState.DISTURBED)):
        assert assess(falling, burnt, PLAN, Bounds(min_window_s=least_s), beside_others=True).state is state
    short = assess(falling, burnt, PLAN, Bounds(min_window_s=50.0), beside_others=True)
    assert (short.state, short.throughput) == (TrialState.DISTURBED, None)


def test_a_run_of_a_quiet_machine_is_judged_as_ever_where_others_stayed():
    quiet = cpu_rows(14, server_cpu_s=0.5, driver_cpu_s=0.1, self_cpu_s=0.0, usr_pct=30.0, sys_pct=0.0, irq_pct=0.0,
                     cpus=2)  # fmt: skip
    for rates, state in (([200] * 14, TrialState.COMPLETE), ([400 - 25 * i for i in range(14)], TrialState.UNSTEADY)):
        outcome = assess(load(rates), quiet, PLAN, Bounds(), beside_others=True)
        assert outcome.state is state
        assert BESIDE_OTHERS not in outcome.counters


def test_a_load_of_no_length_has_nothing_to_be_judged_by():
    short = replace(load([3, 90]), ended_at=ORIGIN + 0.5)
    assert assess(short, cpu_rows(2, steal_pct=50.0), PLAN, Bounds()).state is TrialState.UNSTEADY
    just = assess(replace(short, ended_at=ORIGIN + 1.0), cpu_rows(2, steal_pct=50.0), PLAN, Bounds())
    assert (just.state, just.counters) == (TrialState.UNSTEADY, {}), "its shortest warm-up is all of it"


def test_a_window_of_one_transaction_is_scored_and_one_of_none_says_so():
    one, none = (assess(load([20] * 3 + [n, 0, 0, 0, 0]), [], PLAN, Bounds(), is_captured=True) for n in (1, 0))
    assert (one.state, one.counters["window_transactions"]) == (TrialState.COMPLETE, 1)
    assert (none.state, none.reason) == (TrialState.UNSTEADY, "no transaction ended in the measured window")
    lost = replace(load([20] * 3 + [0] * 5), partial="instance 1 was killed")
    partial = assess(lost, [], PLAN, Bounds(), is_captured=True)
    assert (partial.state, partial.reason) == (TrialState.PARTIAL, "instance 1 was killed")


@pytest.mark.parametrize("least_s", [1.0, 2.5])
def test_the_shortest_warm_up_is_dropped_however_steady_a_load_begins(least_s):
    outcome = assess(load([200] * 8), [], PLAN, Bounds(min_warmup_s=least_s))
    assert outcome.steady_from == pytest.approx(ORIGIN + least_s, rel=0, abs=0.01)
    assert outcome.counters["window_s"] == pytest.approx(8 - least_s, abs=0.01)
    assert outcome.counters["window_transactions"] == pytest.approx(200 * (8 - least_s), abs=2)


def test_a_captured_load_is_scored_over_the_plans_window_steady_or_not():
    rates = [20, 60, 100, 140, 180, 220, 260, 300]
    assert assess(load(rates), [], PLAN, Bounds()).state is TrialState.UNSTEADY
    outcome = assess(load(rates), [], PLAN, Bounds(), is_captured=True)
    assert outcome.state is TrialState.COMPLETE
    assert outcome.steady_from == pytest.approx(ORIGIN + PLAN.warmup_s, rel=0, abs=0.3)


def test_a_load_whose_generator_was_late_is_unsteady_and_another_one_than_asked_for_is_void():
    late = replace(load([200] * 8), late="the injector was late")
    for beside_others in (False, True):
        rows = cpu_rows(8, foreign_pct=90.0) if beside_others else []
        outcome = assess(late, rows, PLAN, Bounds(), is_captured=True, beside_others=beside_others)
        assert (outcome.state, outcome.throughput) == (TrialState.UNSTEADY, None)
        assert outcome.reason == "the injector was late"
    void = assess(replace(late, void="other answers"), [], PLAN, Bounds(), is_captured=True)
    assert (void.state, void.reason, void.throughput) == (TrialState.VOID, "other answers", None)


@pytest.mark.parametrize(
    ("foreign", "steal", "words"),
    [
        (15.0, 5.0, None),
        (15.1, 0.0, "foreign CPU was 15 % of a core, above the bound of 15 %: cc"),
        (0.0, 5.1, "steal was 5.1 %, above the bound of 5.0 %"),
        (None, 5.1, "steal was 5.1 %, above the bound of 5.0 %"),
        (None, None, None),
    ],
)
def test_a_bound_itself_disturbs_nothing(foreign, steal, words):
    assert disturbance(foreign, steal, Bounds(), "cc") == words
    assert pytest.approx(1 / 3) == LEAST_SHARE
