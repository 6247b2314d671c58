"""What pgbench's transaction log costs: throughput of select-only with `-l` against without, in interleaved pairs.

    python bench/logging_cost.py --pairs 8 --seconds 5

select-only is the worst case: the shortest transactions, so the most lines per second. Runs in a sandbox that it
removes at the end.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import tempfile
from pathlib import Path

from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.stats.paired import log_ratios, t_interval
from pgdyno.targets.target import Target
from pgdyno.workloads.registry import make_workload

_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)


def throughput(target: Target, dbname: str, seconds: int, log_prefix: Path | None) -> float:
    """Run select-only once and return pgbench's own transactions per second."""
    argv = [str(target.program("pgbench")), "-n", "-M", "prepared", "-S", "-c", "4", "-j", "2", "-T", str(seconds)]
    argv += ["-l", f"--log-prefix={log_prefix}"] if log_prefix else []
    done = target.runner.run([*argv, dbname], env=target.postgres.environment(dbname))
    match = _TPS.search(done.stdout)
    if match is None:
        raise ValueError(done.stdout)
    return float(match[1])


def measure(target: Target, folder: Path, pairs: int, seconds: int) -> None:
    """Print each pair and the interval of the ratio."""
    workload = make_workload("select-only", {"scale": 10})
    workload.prepare(target, progress=print)
    dbname = workload.reset(target)
    without, logged = [], []
    for pair in range(pairs):
        for arm in random.sample(["without", "logged"], 2):
            if arm == "without":
                without.append(throughput(target, dbname, seconds, None))
            else:
                logged.append(throughput(target, dbname, seconds, folder / f"transactions{pair}"))
        print(f"pair {pair + 1}: {without[-1]:9.0f} without, {logged[-1]:9.0f} with the log")
    found = t_interval(log_ratios(without, logged))
    print(f"with the log: {found}")


def main() -> None:
    """Parse the arguments and run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a server that was started is removed then, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgdyno-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        sandbox = Sandbox.open_or_create("logging-cost", root=folder)
        try:
            sandbox.start()
            measure(sandbox.target(), folder, arguments.pairs, arguments.seconds)
        finally:
            sandbox.destroy()


if __name__ == "__main__":
    main()
