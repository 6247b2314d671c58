"""What a replay of a million transactions takes in memory, and what comparing two of them takes, by the program itself.

    python bench/replay_million.py --folder /srv/million [--transactions 1000000] [--statements 1] [--rate 5000]
                                   [--order session]

A transaction is a prepared read of pgbench, or several; all come from 50 sessions at a rate. The trace is made by
DuckDB, the server is a sandbox. `pgdyno replay` and `pgdyno compare` run as a user runs them; memory is the peak of
each process of theirs (VmHWM), the largest of each kind: a file that is mapped counts where its pages are in memory.
`together` is the whole program: the largest sum over its processes at one moment (PSS, so that what they share counts
once), and the CPU of all of them, which is told by kind as well.

What is in the folder is not done again: after a kill the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.linux.processes import child_pids
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.trace.fingerprints import fingerprint
from pgdyno.trace.outcome_file import FACTS, read_facts
from pgdyno.trace.parquet import connection, write_meta, write_parquet
from pgdyno.trace.schema import TRACE, TRACE_VERSION, TraceMeta
from replay_compare import whole

SESSIONS, ACCOUNTS = 50, 100_000
SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
SETUP = """
CREATE TABLE public.pgbench_accounts AS SELECT n AS aid, 0 AS abalance FROM generate_series(1, 100000) AS g (n);
ALTER TABLE public.pgbench_accounts ADD PRIMARY KEY (aid)"""
_IS_SET_UP = "SELECT 1 AS one FROM pg_catalog.pg_tables WHERE tablename = 'pgbench_accounts'"
_ROWS = """
SELECT *, getvariable('user') AS "user", 'postgres' AS "database", 'million' AS application, false AS implied FROM (
SELECT s::INTEGER AS session, 0 AS seq, 'connect' AS kind, s * 1000 AS due_us
FROM (SELECT range AS s FROM range(getvariable('sessions')))
UNION ALL BY NAME
SELECT (n // per % sessions)::INTEGER AS session, (n // per // sessions * per + n % per + 1)::INTEGER AS seq,
  'extended' AS kind, due AS due_us, due + 200 AS end_us, 10::BIGINT AS parse_us, 20::BIGINT AS bind_us,
  100::BIGINT AS execute_us, 'P0' AS statement, getvariable('text') AS sql,
  [(hash(n) % getvariable('accounts') + 1)::VARCHAR] AS params, (n // per // sessions)::INTEGER AS tx,
  getvariable('print') AS fingerprint
FROM (SELECT range AS n, getvariable('per') AS per, getvariable('sessions') AS sessions,
  1000000 + range // per * 1000000 // getvariable('rate') + range % per * 1000 AS due FROM range(getvariable('rows')))
UNION ALL BY NAME
SELECT s::INTEGER AS session, 2147483647 AS seq, 'disconnect' AS kind, getvariable('last') + s * 1000 AS due_us
FROM (SELECT range AS s FROM range(getvariable('sessions')))) ORDER BY due_us, session, seq"""


@dataclass(slots=True)
class Peaks:
    """The largest memory in MB of each kind of process below one and of all together, and each kind's CPU seconds.

    Looked at ten times a second: what a process takes after the last look is in the sum of the CPU alone.
    """

    found: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[int, tuple[str, float]] = field(default_factory=dict)

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Look until the process has ended."""
        while process.poll() is None:
            together = 0.0
            for pid in _tree(process.pid):
                with suppress(OSError, IndexError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                    kind = "engine" if b"pgdyno-engine" in words or b"trace.engine" in words else "pgdyno"
                    self._larger(kind, _megabytes(Path(f"/proc/{pid}/status"), "VmHWM:"))
                    together += _megabytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")
                    used = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
                    self.cpu_s[pid] = kind, sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
            self._larger("together", together)
            time.sleep(0.1)

    def _larger(self, kind: str, megabytes: float) -> None:
        self.found[kind] = max(self.found.get(kind, 0.0), megabytes)

    def words(self) -> str:
        """Return them for people."""
        spent = dict[str, float]()
        for kind, seconds in self.cpu_s.values():
            spent[kind] = spent.get(kind, 0.0) + seconds
        peaks = ", ".join(f"{kind} {peak:.0f} MB" for kind, peak in sorted(self.found.items()))
        return f"{peaks}; CPU {', '.join(f'{kind} {seconds:.1f} s' for kind, seconds in sorted(spent.items()))}"


def _megabytes(path: Path, name: str) -> float:
    return int(path.read_text().split(name)[1].split()[0]) / 1024


def _tree(pid: int) -> list[int]:
    return [pid, *(one for child in child_pids(pid) or () for one in _tree(child))]


@dataclass(frozen=True, slots=True)
class Million:
    """A folder with a trace, outcomes, and what was said of each step."""

    folder: Path
    transactions: int
    statements: int
    rate: int
    engine: str
    order: str

    @property
    def trace(self) -> Path:
        return self.folder / "trace.parquet"

    def make(self, user: str) -> None:
        """Write the trace and what stands beside it."""
        rows = self.transactions * self.statements
        seconds = 1 + self.transactions / self.rate + 1
        given = {
            "user": user, "per": self.statements, "rows": rows, "rate": self.rate, "sessions": SESSIONS,
            "accounts": ACCOUNTS, "text": SELECT, "print": fingerprint(SELECT), "last": int(seconds * 1e6),
        }  # fmt: skip
        with connection(self.folder, memory_mb=2_000) as db:
            for name, value in given.items():
                db.execute(f"SET VARIABLE {name} = ?", [value])
            digest = write_parquet(db, whole(_ROWS, TRACE, db).sql_query(), self.trace)
        meta = TraceMeta(
            TRACE_VERSION, "csvlog B", None, "1", "2026-01-01T00:00:00Z", seconds, SESSIONS, rows, self.transactions,
            0, digest=digest,
        )  # fmt: skip
        write_meta(self.trace, meta)

    def step(self, name: str, argv: Sequence[str]) -> str:
        """Run `pgdyno ARGV` and return what it took; exit code 3 is one of a run that does not count."""
        began, before = time.monotonic(), os.times()
        environment = {**os.environ, "PGDYNO_HOME": str(self.folder / "home")}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "pgdyno", *argv], env=environment, stdout=log, stderr=log)
            peaks = Peaks()
            watcher = threading.Thread(target=peaks.watch, args=(process,))
            watcher.start()
            code = process.wait()
            watcher.join()
        after = os.times()
        if code not in (0, 3):
            raise SystemExit(f"{name} ended with exit code {code}: {(self.folder / f'{name}.log').read_text()[-1000:]}")
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return f"{time.monotonic() - began:.1f} s, {cpu:.1f} s of CPU, peak {peaks.words()}"

    def has_run(self, name: str) -> bool:
        folder = self.folder / name
        return (folder / FACTS).exists() and read_facts(folder).ended == "complete"


def main() -> int:
    """Parse the arguments and do what is not done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--statements", type=int, default=1, help="of each transaction")
    parser.add_argument("--rate", type=int, default=5_000, help="transactions a second")
    parser.add_argument("--order", choices=("session", "table", "row"), default="session")
    parser.add_argument("--engine", choices=("compiled", "python"), default="compiled")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    given.folder.chmod(0o755)
    bench = Million(given.folder.resolve(), given.transactions, given.statements, given.rate, given.engine, given.order)
    kept = bench.folder / "steps.json"
    told: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    if not (all(map(bench.has_run, ("one", "two"))) and {"one", "two"} <= told.keys()):
        sandbox = Sandbox.open_or_create("million", root=bench.folder)
        try:
            sandbox.start()
            postgres = sandbox.target().postgres
            if not postgres.fetch(_IS_SET_UP, dbname="postgres"):
                postgres.execute(SETUP, dbname="postgres")
            if not bench.trace.with_suffix(".json").exists():
                bench.make(postgres.parameters["user"])
            allowed = bench.folder / "home" / "data" / "allowed-targets"
            allowed.parent.mkdir(parents=True, exist_ok=True)
            with opened(TargetRequest(dsn=postgres.conninfo)) as same:
                allowed.write_text(same.name + "\n")
            allowed.chmod(0o600)
            for name in ("one", "two"):
                if name in told and bench.has_run(name):
                    continue
                subprocess.run(["rm", "-rf", "--", str(bench.folder / name)], check=True)
                words = ["--target", postgres.conninfo, "--yes", "--output", str(bench.folder / name)]
                words += ["--engine", bench.engine, "--order", bench.order]
                told[name] = bench.step(name, ["replay", str(bench.trace), *words])
                kept.write_text(json.dumps(told))
        finally:
            sandbox.stop()
        sandbox.destroy()
    if "compare" not in told:
        words = [str(bench.folder / name) for name in ("one", "two")]
        told["compare"] = bench.step("compare", ["compare", "--replay", *words, "--trace", str(bench.trace), "--json"])
        kept.write_text(json.dumps(told))
    wanted = f"{bench.transactions:,} transactions of {bench.statements} at {bench.rate:,} a second"
    print(f"{wanted}, {bench.engine} engine, in the order of {bench.order}s")
    for name, words_of in told.items():
        print(f"  {name}: {words_of}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
