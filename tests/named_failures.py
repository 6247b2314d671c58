"""Names what failed to who runs pytest several times and sums up, as `make test` does by tools/stages.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLACE = os.environ.pop("PGDYNO_TEST_FAILURES", None)
"""Not for workers, nor for a pytest that a test starts: who reports is the first process alone."""
_LONGEST = 160


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PLACE is not None:
        write_failures([*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")], Path(PLACE))


def write_failures(reports: list[pytest.TestReport], place: Path) -> None:
    """Append a line for each report: the test, and the first line of why."""
    with place.open("a") as file:
        for report in reports:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = str(crash.message if crash else report.longrepr or "").strip().partition("\n")[0]
            file.write(f"{report.nodeid}: {why[:_LONGEST]}\n")
