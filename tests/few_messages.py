"""Keeps workers of pytest-xdist from telling what nobody reads: it was two of three messages, and 0.6 ms of CPU a test.

A worker told the first process of each test that it began, was set up, called, taken down, had ended and was complete.
Of a test that passes a dot is all that is shown: that it was called is sent, and that it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    option = session.config.option
    if option.verbose > 0 or option.durations is not None:
        return
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = but_what_nobody_reads(plugin.sendevent)


def but_what_nobody_reads(send: Callable[..., None]) -> Callable[..., None]:
    """Return what sends all but the begin and the end of a test, and what passed around it without a word."""

    def send_what_is_read(name: str, **told: Any) -> None:
        if name not in ("logstart", "logfinish") and not (name == "testreport" and _says_nothing(told["data"])):
            send(name, **told)

    return send_what_is_read


def _says_nothing(report: dict[str, Any]) -> bool:
    return report["when"] != "call" and report["outcome"] == "passed" and not report["sections"]
