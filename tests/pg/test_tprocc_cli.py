"""`pgdyno bench -w tprocc` as a user has it, and its report."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from warm_program import run_pgdyno

pytestmark = pytest.mark.pg

QUICK = ["--warmup", "2", "--measure", "3", "--foreign-cpu", "1000", "--steal", "100"]


@pytest.mark.timeout(1200)  # as often as it is tried
@pytest.mark.requirement("R-TPC-01", "R-TPC-06", "R-TPC-08", "R-TPC-09")
def test_bench_tells_orders_checks_and_that_it_is_not_tpc_c(pgdyno_home: Path) -> None:
    def pgdyno(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pgdyno(*words, PGDYNO_HOME=str(pgdyno_home))

    for _ in range(8):  # once more where the machine is too busy for a steady window
        done = pgdyno("bench", "-w", "tprocc", "-c", "1", "-R", "150", *QUICK, "--keep", "--json")
        if done.returncode != 6:
            break
    assert done.returncode == 0, done.stderr
    image = json.loads(done.stdout.splitlines()[-1])
    assert {check["violations"] for check in image["checks"]} == {0, None}
    counters = image["counters"]
    assert counters["nopm"] > 0
    assert counters["reset_s"] > 0, "how long the template took to be restored"
    assert counters["deadlocks"] == 0
    assert image["judgement"]["title"].startswith(f"{counters['nopm']:,.0f} NOPM (not TPC-C), ")
    assert counters["p90_new_order_ms"] > 0
    page = pgdyno("report", "last")
    assert "not TPC-C results" in page.stdout
    share = re.search(r"new order +(\d+(?:\.\d+)?) +\d", page.stdout)
    assert share is not None, "share and 90th percentile of each transaction"
    spread = 6 * 50 / image["transactions"] ** 0.5 + 1  # six standard deviations: a busy machine has few transactions
    assert float(share[1]) == pytest.approx(45, abs=spread)
    assert "cannot be compared with published NOPM" in " ".join(page.stdout.split())
    assert "All 17 conditions that were checked hold" in page.stdout
    assert re.search(r"1 virtual user, 1 server process in each of \d+ seconds? sampled", page.stdout)
