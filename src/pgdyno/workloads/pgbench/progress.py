"""Read what pgbench says on stderr: progress lines of a run, progress of a load, reasons for an early end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pgdyno.owner.durable import read_regular

_PROGRESS = re.compile(
    r"^progress: (?P<t>\d+(?:\.\d+)?) s, (?P<tps>\d+(?:\.\d+)?) tps, lat (?P<lat>\d+(?:\.\d+)?) ms stddev [\d.]+"
    r"(?:, (?P<failed>\d+) failed)?(?:, lag (?P<lag>\d+(?:\.\d+)?) ms)?",
    re.MULTILINE,
)
_AT_ONCE = 64 << 10
_ABORTED = re.compile(r"client (\d+)\b.*(?:\baborted\b|: expected one row, got \d)")
_LOADED = re.compile(r"\((\d+)%\) of pgbench_accounts")
_REASON = re.compile(r"(?:error|fatal|FATAL|ERROR):\s+(.*)")


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """One line of `-P 1 --progress-timestamp`: the interval that ended at `t` (seconds since the epoch).

    `lag_ms` is the mean schedule lag, None in a closed loop. `failed` is None before version 15, which cannot tell.
    """

    t: float
    tps: float
    latency_ms: float
    failed: int | None
    lag_ms: float | None


def parse_progress(text: str) -> list[ProgressLine]:
    """Return the progress lines in the text; an unfinished last line is left out with everything else."""
    whole = text[: text.rfind("\n") + 1]
    return [
        ProgressLine(
            float(match["t"]),
            float(match["tps"]),
            float(match["lat"]),
            None if match["failed"] is None else int(match["failed"]),
            None if match["lag"] is None else float(match["lag"]),
        )
        for match in _PROGRESS.finditer(whole)
    ]


class ProgressReader:
    """The progress lines of a file that grows: each byte is read once, so that an hour costs what its seconds cost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._latest: ProgressLine | None = None

    def latest(self) -> ProgressLine | None:
        """Return the newest line by now, None before the first."""
        while data := read_regular(self._path, _AT_ONCE, self._offset):
            whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == _AT_ONCE else b"")  # no line is that long
            if not whole:
                break
            self._offset += len(whole)
            self._latest = next(reversed(parse_progress(whole.decode(errors="replace"))), self._latest)
            if len(data) < _AT_ONCE:
                break
        return self._latest


def count_aborted(text: str) -> int:
    """Return how many clients gave up: an aborted client never comes back, so the load was not the one asked for."""
    return len({match[1] for line in text.splitlines() if (match := _ABORTED.search(line))})


def first_reason(text: str) -> str | None:
    """Return the first error that pgbench or the server wrote, None when there is none."""
    match = _REASON.search(text)
    return match[1].strip() if match else None


def loaded_percent(text: str) -> int | None:
    """Return how far `pgbench -i` is with its big table, None before it has begun."""
    found = _LOADED.findall(text)
    return int(found[-1]) if found else None
