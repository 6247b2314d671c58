"""Sentences that rest on counters, and none where a counter is missing."""

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.model.configuration import Configuration
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import LatencySummary, Outcome, Role, Trial, TrialSpec, TrialState, WorkloadSpec
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.studies.pairs.explain import explain, user_time
from pgdyno.studies.tune.answer import UNEXPLAINED, explanation, winner_of
from result_example import made
from tune_example import tune_json

READS = WorkloadSpec("ybio", {}, "0" * 16, "reads", read_only=True)
WRITES = WorkloadSpec("tpcb-like", {}, "1" * 16, "writes", read_only=False)
WINNER = Configuration.of({"shared_buffers": "4GB"})


def trials(cpu=None, **counters):
    outcome = Outcome(TrialState.COMPLETE, server_cpu_ms_per_tx=cpu, counters={"xact_commit": 100.0, **counters})
    spec = TrialSpec(Configuration(), Role.CONFIRM, "x", 1, 0)
    return [Trial(i, "s", spec, TrialState.COMPLETE, outcome) for i in (1, 2)]


@pytest.mark.requirement("R-TUN-10", "R-TUN-16")
def test_reads_that_became_hits_and_the_second_copy_are_told_with_numbers():
    before = trials(cpu=60.0, blks_read=900_000.0, blks_hit=100_000.0, disk_read_bytes=0.0)
    after = trials(cpu=15.0, blks_read=0.0, blks_hit=1_000_000.0, disk_read_bytes=0.0)
    text = " ".join(explain(before, after, WINNER, make_facts(18), READS))
    assert "per transaction 9,000 of 10,000 blocks (90 %)" in text
    assert "Double buffering: 100.0 % of those copies were served by the kernel's page cache" in text
    assert "128 MB of shared buffers" in text
    assert "fell from 60 ms to 15 ms (25 % of it)" in text
    assert "only reads" in text


@pytest.mark.requirement("R-TUN-15")
def test_reads_from_the_disk_are_not_called_double_buffering():
    before = trials(blks_read=900_000.0, blks_hit=100_000.0, disk_read_bytes=900_000.0 * 8192)
    after = trials(blks_read=0.0, blks_hit=1_000_000.0)
    text = " ".join(explain(before, after, WINNER, make_facts(18), READS))
    assert "came from the disk" in text
    assert "Double buffering" not in text


@pytest.mark.parametrize(
    ("read", "hit"),
    [
        (9.0, 90.0),  # fewer blocks are touched, by another plan: as large a part of them is missing
        (100.0, 1900.0),  # more is touched and found, and as much is read as before
    ],
)
def test_what_a_cache_did_not_save_is_not_called_a_hit(read, hit):
    before = trials(blks_read=100.0, blks_hit=1000.0, disk_read_bytes=0.0)
    after = trials(blks_read=read, blks_hit=hit, disk_read_bytes=0.0)
    text = " ".join(explain(before, after, WINNER, make_facts(18), WRITES))
    assert "became hits" not in text
    assert "Double buffering" not in text


def test_reads_that_could_save_but_a_sliver_of_the_time_are_no_reason_for_a_gain():
    """A plan that is compiled no more: half a block less a transaction is what a new session reads of catalogs."""

    def timed(milliseconds, **counters):
        summary = LatencySummary(*(milliseconds for _ in range(6)))
        return [replace(one, outcome=replace(one.outcome, latency_ms=summary)) for one in trials(**counters)]

    before = {"blks_read": 50.0, "blks_hit": 790.0, "disk_read_bytes": 0.0}
    after = {"blks_read": 0.1, "blks_hit": 790.0, "disk_read_bytes": 0.0}
    for was, now, is_told in ((155.0, 0.2, False), (2.0, 1.0, True)):
        text = " ".join(explain(timed(was, **before), timed(now, **after), WINNER, make_facts(18), WRITES))
        assert ("became hits" in text) is is_told
        assert ("Double buffering" in text) is is_told


def test_fewer_than_ten_blocks_a_transaction_are_told_with_their_fraction():
    before = trials(blks_read=14.0, blks_hit=186.0, disk_read_bytes=0.0)
    after = trials(blks_read=2.0, blks_hit=198.0, disk_read_bytes=0.0)
    text = " ".join(explain(before, after, WINNER, make_facts(18), WRITES))
    assert "0.14 of 2 blocks (7 %)" in text
    assert "with the winner 0.02 (1 %)" in text
    assert "86 % of these copies are no longer made" in text


@pytest.mark.requirement("R-TUN-10")
def test_a_winner_that_no_counter_explains_says_so_and_what_is_kept_says_nothing():
    told = made(StudyKind.TUNE, tune_json([], 1, 2))
    assert winner_of(told)
    assert "Reads became hits" in str(explanation(replace(told, explanation=("Reads became hits",))).blocks)
    assert UNEXPLAINED in str(explanation(replace(told, explanation=())).blocks)
    assert explanation(replace(told, explanation=(), keep=True)) is None


def test_without_counters_there_is_nothing_to_say():
    assert explain(trials(), trials(), WINNER, make_facts(18), WRITES) == []


def test_what_did_not_change_is_not_told():
    same = trials(cpu=10.0, blks_read=50_000.0, blks_hit=50_000.0, wal_bytes=1e6, temp_bytes=1e7)
    assert explain(same, same, Configuration.of({"work_mem": "8MB"}), make_facts(18), WRITES) == []


@pytest.mark.requirement("R-SCH-06")
@pytest.mark.parametrize(("user", "said"), [(70.0, "40.0 % to 70.0 % of all CPUs."), (40.0, "user time did not")])
def test_a_gain_of_the_migration_cost_must_show_as_user_time(user, said):
    def arm(throughput, seconds):
        outcome = Outcome(
            TrialState.COMPLETE, throughput=throughput, counters={"cpu_capacity_s": 100.0, "user_cpu_s": seconds}
        )
        spec = TrialSpec(Configuration(), Role.CONFIRM, "x", 1, 0)
        return [Trial(i, "s", spec, TrialState.COMPLETE, outcome) for i in (1, 2)]

    settings = Configuration.of({"kernel.sched_migration_cost_ns": "50000"})
    text = user_time(arm(1000.0, 40.0), arm(1140.0, user), settings)
    assert text is not None
    assert said in text
    assert user_time(arm(1000.0, 40.0), arm(1140.0, user), Configuration.of({"work_mem": "8MB"})) is None
    assert user_time(trials(), trials(), settings) is None


def verdict_on(metric, ratio, word):
    return Verdict(word, Interval(ratio, 0.99 * ratio, 1.01 * ratio, 0.95), 6, metric, 0.01)


@pytest.mark.parametrize(
    ("ratio", "word", "said"),
    [
        (0.9, Word.BETTER, "fell from 10 ms to 9 ms (90 % of it)"),
        (1.1, Word.WORSE, "rose from 10 ms to 11 ms (110 % of it)"),
        (0.9, Word.NOT_RESOLVED, None),
        (0.9, Word.EQUIVALENT, None),
    ],
)
def test_cpu_that_pairs_have_judged_goes_the_way_of_their_verdict(ratio, word, said):
    """The medians of all runs say 105 %."""
    verdicts = [verdict_on(Metric.SERVER_CPU, ratio, word)]
    text = " ".join(explain(trials(cpu=10.0), trials(cpu=10.5), WINNER, make_facts(18), WRITES, verdicts))
    assert text == ("" if said is None else f"Server CPU per transaction {said}.")
