"""Batch chains for tests: a small one, and the month's end of a certification as generated executions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pgdyno.model.results.batch import BatchResult
from pgdyno.studies.batch.chain import Chain
from pgdyno.studies.batch.file import parse_chain
from pgdyno.studies.batch.recorded import read_recorded

SMALL = """\
version = 1

[chain]
name = "night"
parallel = 2

[[process]]
name = "load"
start = "2026-10-30 22:00"

[[process.job]]
name = "fetch"
argv = ["true"]

[[process.job]]
name = "copy"
sql = "SELECT 1"
after = ["fetch"]
time_out = "5min"
retries = 1
retry_wait = "10s"

[[process.job.check]]
table = "public.items"
rows = 3

[[process]]
name = "close"
threshold = "1min"

[[process.job]]
name = "sum"
argv = ["true"]
after = ["load/copy"]
start = "2026-10-30 23:00"

[[process.job]]
name = "mail"
skip = "no mail server"
after = ["sum"]
"""

BASE = datetime(2026, 10, 30, 22, 0, tzinfo=UTC).timestamp()
REFERENCE_S = 600.0
WINDOW_S = 100_000.0


def chain_of(text: str = SMALL) -> Chain:
    return parse_chain(text, source="night.toml")


@dataclass(frozen=True)
class MonthProcess:
    """What the certification printed of a process: jobs in all, compared, shorter, what they save, its window."""

    name: str
    jobs: int
    compared: int
    shorter: int
    saved_pct: float
    window_pct: float
    threshold: str = ""

    @property
    def left_out(self) -> int:
        return self.jobs - self.compared

    def seconds(self, at: int) -> tuple[float, float]:
        """Return a job's time in the reference and now; jobs that are left out by the threshold are the last."""
        if at >= self.compared:
            return 60.0, 30.0
        longer = self.compared - self.shorter
        rest = self.compared * REFERENCE_S * (1 - self.saved_pct / 100) - longer * 1.1 * REFERENCE_S
        return REFERENCE_S, rest / self.shorter if at < self.shorter else 1.1 * REFERENCE_S


MONTH = (
    MonthProcess("process 1", 935, 449, 399, 46, 54, "5min"),
    MonthProcess("process 2", 112, 111, 104, 60, 40),
    MonthProcess("process 3", 100, 97, 86, 33, 67),
)


def month_chain() -> Chain:
    lines = ["version = 1", "[chain]", 'name = "month-end"']
    for process in MONTH:
        lines += ["[[process]]", f'name = "{process.name}"', f'threshold = "{process.threshold}"']
        for at in range(process.jobs):
            skipped = at >= process.compared and not process.threshold
            lines += [
                "[[process.job]]",
                f'name = "job {at}"',
                'skip = "needs a tape"' if skipped else 'argv = ["true"]',
            ]
    return chain_of("\n".join(lines))


def month_rows(executions: int, *, new: bool) -> Iterator[tuple[int, str, int, float, float]]:
    for execution in range(1, executions + 1):
        for process in MONTH:
            window = WINDOW_S * (process.window_pct / 100 if new else 1.0)
            for at in range(process.jobs if process.threshold else process.compared):
                seconds = process.seconds(at)[new]
                start = window - seconds if at == process.compared - 1 else 0.0
                yield execution, process.name, at, start, start + seconds


def csv_of(rows: Iterator[tuple[int, str, int, float, float]]) -> str:
    def moment(seconds: float) -> str:
        return datetime.fromtimestamp(BASE + seconds, UTC).isoformat()

    lines = (f"{run},{process},job {at},{moment(start)},{moment(end)}" for run, process, at, start, end in rows)
    return "\n".join(["execution,process,job,start,end", *lines])


def recorded(chain: Chain, text: str) -> BatchResult:
    found = read_recorded(text, chain, source="jobs.csv")
    return BatchResult(
        study="20261030-220000-batch-0000",
        chain=chain.name,
        imported=True,
        executions=found.executions,
        jobs=found.jobs,
        no_peak="the file does not have it",
    )
