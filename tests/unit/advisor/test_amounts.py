"""Shares of next to nothing: each rule that judges a share is silent below an absolute amount, and speaks above it."""

from __future__ import annotations

import pytest

from advisor_case import GB, MB, finding_of, make_case, make_server
from pgdyno.advisor.case import Case
from pgdyno.model.evidence import (
    Evidence,
    HostActivity,
    Settled,
    Statement,
    Statistics,
    TableActivity,
    TinyRequests,
    Window,
    WorkloadClass,
)
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Severity
from pgdyno.probes.evidence.bottleneck import bottleneck
from pgdyno.probes.evidence.concurrency import concurrency
from pgdyno.probes.evidence.host_activity import burst
from pgdyno.probes.evidence.workload_class import classify

MINUTE = Window(60, "sampled")
SINCE_RESET = Window(86_400, "since the statistics were reset", "2026-11-23T00:00:00+00:00")


def counted(window: Window = MINUTE, **figures: object) -> Statistics:
    return Statistics(window, **figures)


def table(dead: float = 0.0, size: int = GB, **fields: object) -> TableActivity:
    return TableActivity("public", "t", "app", size, 0, 0.9, 0.9, dead_share=dead, growth_bytes=0, **fields)


SLOW = Statement("SELECT 1 FROM t", 3, 500.0, 0.9, 1.0)
WRITES = WorkloadClass.OLTP
CASES = {
    "buffer-cache-small": (
        {"statistics": counted(hit_ratio=0.5, blocks_read_s=100.0)},  # 47 MB in the minute: a cache that fills
        {"statistics": counted(hit_ratio=0.5, blocks_read_s=2000.0)},
    ),
    "full-page-burst": (
        {"statistics": counted(full_page_image_share=0.9, wal_bytes_s=1000.0)},
        {"statistics": counted(full_page_image_share=0.9, wal_bytes_s=2e6)},
    ),
    "wal-compression": (
        {
            "statistics": counted(full_page_image_share=0.9, wal_bytes_s=1000.0),
            "host": HostActivity(MINUTE, idle_pct=50),
        },
        {"statistics": counted(full_page_image_share=0.9, wal_bytes_s=2e6), "host": HostActivity(MINUTE, idle_pct=50)},
    ),
    "background-writer": (
        {"statistics": counted(Window(86_400, "sampled"), maxwritten_clean=9)},
        {"statistics": counted(Window(60, "sampled"), maxwritten_clean=100)},
    ),
    "wal-buffers": (
        {"statistics": counted(wal_buffers_full=3), "workload": WRITES},
        {"statistics": counted(wal_buffers_full=300), "workload": WRITES},
    ),
    "work-mem": (
        {"statistics": counted(temp_bytes_s=100.0)},
        {"statistics": counted(temp_bytes_s=10e6)},
    ),
    "hot-tables": (
        {"statistics": counted(blocks_read_s=1.0), "tables": (table(), table(size=2 * GB))},
        {"statistics": counted(blocks_read_s=9000.0), "tables": (table(), table(size=2 * GB))},
    ),
    "statements-first": (
        {"statements": (SLOW,), "statistics": counted(SINCE_RESET)},  # 1.5 s of a day
        {"statements": (SLOW,), "statistics": counted()},
    ),
    "swapping": (
        {"host": HostActivity(MINUTE, swap_in_bytes_s=4096 / 60)},
        {"host": HostActivity(MINUTE, swap_in_bytes_s=100e3)},
    ),
    "tiny-requests": (
        {"tiny_requests": TinyRequests(Unknown("one reading"), 0.9, 0.9, 0.1, calls=50)},
        {"tiny_requests": TinyRequests(Unknown("one reading"), 0.9, 0.9, 0.1, calls=50_000)},
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_share_of_next_to_nothing_is_no_finding(rule: str) -> None:
    server = make_server(15, changed={"wal_buffers": "16"})
    answers = []
    for evidence in CASES[rule]:
        inventory = make_case(server=server).inventory
        answers.append(finding_of(rule, Case(inventory, Evidence(**evidence))).answer)
    assert answers == [Answer.OK, Answer.FINDING]


@pytest.mark.parametrize(
    ("size", "severity"), [(8192, Severity.WARNING), (7 * MB, Severity.WARNING), (GB, Severity.CRITICAL)]
)
def test_dead_rows_of_a_small_table_do_not_make_autovacuum_critical(size: int, severity: Severity) -> None:
    case = make_case(
        server=make_server(changed={"autovacuum": "off"}),
        statistics=counted(write_share=0.001),
        tables=(table(dead=0.5, size=size),),
    )
    assert finding_of("autovacuum", case).severity is severity


@pytest.mark.parametrize(
    ("rows_s", "window", "severity"),
    [
        (0.01, MINUTE, Severity.WARNING),  # 36 in an hour
        (0.01, SINCE_RESET, Severity.WARNING),
        (50.0, MINUTE, Severity.CRITICAL),  # few in a minute, many in an hour
        (50.0, SINCE_RESET, Severity.CRITICAL),
        (Unknown("hidden"), MINUTE, Severity.CRITICAL),
    ],
)
def test_a_handful_of_written_rows_does_not_make_autovacuum_critical(
    rows_s: float | Unknown, window: Window, severity: Severity
) -> None:
    server = make_server(changed={"autovacuum": "off"})
    seen = counted(window, write_share=0.4, rows_written_s=rows_s)
    finding = finding_of("autovacuum", make_case(server=server, statistics=seen, tables=(table(),)))
    assert finding.severity is severity
    assert "40 % of the rows touched are written" in " ".join(finding.evidence)
    drifting = make_case(server=server, statistics=seen, tables=(table(dead=0.5, size=GB),))
    assert finding_of("autovacuum", drifting).severity is Severity.CRITICAL
    assert finding_of("autovacuum", make_case(server=server, statistics=seen)).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("ended", "answer"), [(None, Answer.UNKNOWN), (1_500.0, Answer.UNKNOWN), (2_500.0, Answer.FINDING)]
)
def test_the_cost_limit_is_not_doubled_before_a_vacuum_had_the_last_value(ended: float | None, answer: Answer) -> None:
    evidence = {"tables": (table(dead=0.5, autovacuumed_at=ended),), "settled": Settled(1_000.0, 2_000.0)}
    assert finding_of("autovacuum-cost", make_case(**evidence)).answer is answer


def test_one_session_that_waits_now_and_then_is_no_bottleneck() -> None:
    def judged(waiting: int, every: int) -> str:
        lock = {"state": "active", "wait_event_type": "Lock", "wait_event": "tuple", "sessions": waiting}
        samples = [[lock] if second % every == 0 else [] for second in range(60)]
        found = bottleneck(HostActivity(MINUTE, idle_pct=99.0), (), concurrency(samples), moments=60)
        assert not isinstance(found, Unknown)
        return str(found.resource)

    assert judged(1, 10) == "none"
    assert judged(4, 1) == "locks"


def test_an_idle_host_does_not_write_in_bursts() -> None:
    assert isinstance(burst([0.0] * 59 + [40.0]).peak_to_mean, Unknown)
    assert not isinstance(burst([0.0] * 59 + [40_000.0]).peak_to_mean, Unknown)


def test_few_transactions_since_the_reset_are_no_load() -> None:
    def figures(commits_s: float) -> Statistics:
        return counted(SINCE_RESET, commits_s=commits_s, rows_read_s=9.0, rows_written_s=3.0, write_share=0.25)

    assert isinstance(classify(figures(0.01)), Unknown)
    assert not isinstance(classify(figures(10.0)), Unknown)
