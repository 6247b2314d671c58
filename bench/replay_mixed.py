"""A minute of mixed load, captured and replayed to a restored copy at four speeds and in the order of rows.

    python bench/replay_mixed.py --folder /srv/mixed [--seconds 60]

The load: pgbench's TPC-B-like one, simple and prepared, and six users of an order desk, who reconnect, name
keys that the server made, quote, send NULL and unicode, set savepoints, and run into errors that they expect. The verbs
`capture`, `trace build`, `replay` and `compare` run as a user runs them; the copy is brought back before each run, and
its data are compared with the source's after it. What must come out: all is sent, with all captured errors; no other
error at 0.6 and 1, above that each with a named cause and at most 1 %; the span is within 1 %, and at 1 the overlap of
sessions within 5 %. In the order of rows at most 1 % of the rows differ that do in the order of sessions.

What is in the folder is not done again: after a kill the same command goes on. Servers are stopped at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.trace.parquet import connection

TIMED = "public.pgbench_history"
"""Has the moment of each insertion, so that all of its rows differ."""
RUNS = (("0.6", 0.6, "session"), ("1", 1.0, "session"), ("1.25", 1.25, "session"), ("2.5", 2.5, "session"),
        ("1-row", 1.0, "row"))  # fmt: skip
DATABASE = "shop"
SETUP = """
CREATE TABLE public.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, note text,
  state text NOT NULL DEFAULT 'new', amount numeric);
CREATE TABLE public.taken (id int PRIMARY KEY); INSERT INTO public.taken VALUES (1)"""
ORDER = "INSERT INTO orders (customer, note, amount) VALUES (%s, %s, %s) RETURNING id"
_OVERLAP = """
WITH lives AS (SELECT session, min({0}) AS a, max({0}) AS b FROM read_parquet(?) WHERE {1} GROUP BY session)
SELECT sum(greatest(least(x.b, y.b) - greatest(x.a, y.a), 0)) / 1e6
FROM lives x JOIN lives y ON x.session < y.session"""


def desk(conninfo: str, number: int, until: float) -> None:
    """Work as one user of the order desk until a moment: a session of ten steps, then another one."""
    chance = random.Random(number)
    while time.monotonic() < until:
        with psycopg.connect(conninfo, application_name=f"desk {number}", autocommit=True) as session:
            for _ in range(10):
                step(session, chance)
                time.sleep(chance.uniform(0.02, 0.2))


def step(session: psycopg.Connection[Any], chance: random.Random) -> None:
    """Take an order and pay it, look around, or run into an error that is expected."""
    kind = chance.randrange(5)
    if kind <= 1:
        given = [f"O'Hara ☃ {chance.randrange(99)}", chance.choice([None, "", 'two\nlines, "quoted"']), "12.50"]
        with session.transaction():
            row = session.execute(ORDER, given, prepare=kind == 1).fetchone()
            assert row is not None
        session.execute("UPDATE orders SET state = 'paid' WHERE id = %s", row)
    elif kind == 2:
        with session.transaction():
            session.execute(ORDER, ["saved", None, None])
            with suppress(psycopg.errors.UniqueViolation), session.transaction():
                session.execute("INSERT INTO taken VALUES (%s)", [1])
    elif kind == 3:
        session.execute("SELECT count(*),\n  'it''s; \"two\" lines'\nFROM taken -- ünïcode")
    else:
        with suppress(psycopg.errors.DivisionByZero):
            session.execute("SELECT 1 / 0")


@dataclass(frozen=True, slots=True)
class Mixed:
    """A folder with servers, a trace and outcomes."""

    folder: Path
    seconds: int
    source: Sandbox

    @property
    def trace(self) -> Path:
        return self.folder / "trace.parquet"

    @property
    def conninfo(self) -> str:
        return make_conninfo(self.source.target().postgres.conninfo, dbname=DATABASE)

    def pgdyno(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        environment = {**os.environ, "PGDYNO_HOME": str(self.folder / "home")}
        done = subprocess.run(
            [sys.executable, "-m", "pgdyno", *words], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode not in codes:
            raise SystemExit(f"pgdyno {' '.join(words)} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def run(self, *argv: str) -> None:
        target = self.source.target()
        target.runner.run(argv, user=target.os_user, env=target.postgres.environment(DATABASE), cwd=Path("/"))

    def capture(self) -> None:
        """Set the source up, keep its files from before, and capture the load."""
        target = self.source.target()
        for setting in ("logging_collector = on", "wal_level = logical"):
            target.postgres.execute(f"ALTER SYSTEM SET {setting}")
        target.postgres.execute(f"CREATE DATABASE {DATABASE}")
        target.postgres.execute(SETUP, dbname=DATABASE)
        self.run(str(target.program("pgbench")), "-i", "-q", "-s", "2", DATABASE)
        self.source.stop()
        subprocess.run(["cp", "-a", "--", str(self.source.data_directory), str(self.folder / "before")], check=True)
        self.source.start()
        captured = self.folder / "captured"
        words = ["capture", "start", "--target", self.conninfo, "--yes", "--commit-order", "--output", str(captured)]
        environment = {**os.environ, "PGDYNO_HOME": str(self.folder / "home")}
        with subprocess.Popen(
            [sys.executable, "-m", "pgdyno", *words, "--for", f"{self.seconds + 600}s"],
            env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            for line in process.stderr:
                print(f"  {line}", end="", flush=True)
                if "capturing for" in line:
                    break
            if process.poll() is not None:
                raise SystemExit("the capture did not begin")
            rest = threading.Thread(target=process.stderr.read)
            rest.start()
            self.load()
            self.pgdyno("capture", "stop")
            rest.join()
        self.pgdyno("trace", "build", str(captured), "-o", str(self.trace))

    def load(self) -> None:
        """Send the load."""
        until = time.monotonic() + self.seconds
        words = [str(self.source.target().program("pgbench")), "-n", "-c", "4", "-j", "1", "-T", str(self.seconds)]
        calls = [(*words, "-R", "40", "-M", mode, DATABASE) for mode in ("simple", "prepared")]
        at_work = [
            *(threading.Thread(target=self.run, args=argv) for argv in calls),
            *(threading.Thread(target=desk, args=(self.conninfo, number, until)) for number in range(6)),
        ]
        for one in at_work:
            one.start()
        for one in at_work:
            one.join()

    @contextmanager
    def copy(self) -> Iterator[str]:
        """Start the copy, mark it, and give its conninfo."""
        folder, target = self.folder / "copy", self.source.target()
        if not folder.exists():
            subprocess.run(["cp", "-a", "--", str(self.folder / "before"), str(folder)], check=True)
        ctl = [str(target.program("pg_ctl")), "-D", str(folder), "-w", "-l", str(folder / "ctl.log")]
        options = f"-k {folder} -c listen_addresses= -c log_directory=own"
        self.run(*ctl, "-o", options, "start")
        try:
            dsn = make_conninfo(host=str(folder), user=target.postgres.parameters["user"], dbname=DATABASE)
            words = ["replay", str(self.trace), "--target", dsn, "--dry-run"]
            self.pgdyno(*words, "--mark-copy", self.conninfo)
            yield dsn
        finally:
            self.run(*ctl, "-m", "fast", "stop")

    def replay(self, dsn: str, name: str, speed: float, order: str) -> None:
        """Replay once from the state of before, and keep what was said; a run that does not count is kept, too."""
        out = self.folder / f"{name}.outcome"
        subprocess.run(["rm", "-rf", "--", str(out)], check=True)
        words = ["--target", dsn, "--yes", "--json", "--output", str(out), "--speed", str(speed), "--order", order]
        how = ["--restore", f"directory:{self.folder}/before", "--data-of", self.conninfo]
        said = self.pgdyno("replay", str(self.trace), *words, *how, codes=(0, 3))
        (self.folder / f"{name}.json").write_text(said)

    def told(self, name: str, speed: float) -> str:
        """Say what a run came to."""
        found = json.loads((self.folder / f"{name}.json").read_text())
        answers, kept, out = found["answers"], found["fidelity"], self.folder / f"{name}.outcome"
        unlike = {one: answers[one] for one in ("new", "missing", "changed")}
        causes = dict[str, int]()
        if any(unlike.values()):
            words = ("compare", "--replay", str(self.trace), str(out), "--json")
            for line in json.loads(self.pgdyno(*words, codes=(0, 1, 3)))["errors"]["lines"]:
                causes[line["cause"]] = causes.get(line["cause"], 0) + line["count"]
        gates = next((one["largest"] for one in kept["lateness"] if one["part"] == "gate"), 0.0)
        differing = {table["table"]: sum(table[one] for one in ("missing", "extra", "changed"))
                     for data in found["data"] for table in data["different"] if table["table"] != TIMED}  # fmt: skip
        overlaps = [
            self.overlap([self.trace], "due_us", "refused IS NULL"),
            self.overlap(out.glob("part-*.parquet"), "sent_us", "sent_us IS NOT NULL"),
        ]
        return (
            f"{name:6} sent {kept['sent']:,} of {kept['statements']:,}; errors of the capture {answers['expected']:,}; "
            f"others {sum(unlike.values())} {causes or ''}; schedule {kept['rate_off_percent'] or 0:+.2f} %; "
            f"overlap {overlaps[1] * speed / overlaps[0]:.3f}; {found['gated']:,} gated, {found['stalls']} stalls, "
            f"longest gate {gates:.1f} ms; rows that differ {differing or 0}; {'; '.join(kept['invalid']) or 'counts'}"
        )

    def overlap(self, parts: Iterable[Path], column: str, where: str) -> float:
        """Return the time that pairs of sessions are open together, in seconds, added up."""
        with connection() as db:
            row = db.execute(_OVERLAP.format(column, where), [[str(part) for part in parts]]).fetchone()
        assert row is not None
        return float(row[0])


def main() -> int:
    """Parse the arguments and do what is not done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is stopped then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    given.folder.chmod(0o755)
    folder = given.folder.resolve()
    source = Sandbox.open_or_create("mixed", root=folder)
    mixed = Mixed(folder, given.seconds, source)
    if not mixed.trace.with_suffix(".json").exists() and (folder / "before").exists():
        subprocess.run(["rm", "-rf", "--", str(folder / "before"), str(folder / "captured")], check=True)
        source.destroy()  # killed while it captured: begin anew
        source = Sandbox.open_or_create("mixed", root=folder)
        mixed = Mixed(folder, given.seconds, source)
    source.start()
    try:
        if not mixed.trace.with_suffix(".json").exists():
            mixed.capture()
        missing = [run for run in RUNS if not (folder / f"{run[0]}.json").exists()]
        if missing:
            with mixed.copy() as dsn:
                for name, speed, order in missing:
                    mixed.replay(dsn, name, speed, order)
        for name, speed, _ in RUNS:
            print(mixed.told(name, speed), flush=True)
    finally:
        source.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
