"""Hold the branch coverage of the rooms that judge and put back: it may rise, and never falls.

    python tools/coverage_gate.py            compare; exits with 1 where a room is below its floor
    python tools/coverage_gate.py --raise    write what was measured where it is above

Each room of tests/coverage_floors.toml is measured by its own unit tests alone, so that what only a real server would
reach does not count. The tracer of Python 3.11 doubles their time: part of `make nightly`, not of a push.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FLOORS = ROOT / "tests" / "coverage_floors.toml"
_SLACK = 0.05
"""A branch that only some random examples take is none of a change's."""


def measured(room: str) -> float:
    """Return the branches of a room that its unit tests take, in per cent. Raises SystemExit where a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "data"), "COVERAGE_CORE": "ctrace"}
        coverage = [sys.executable, "-m", "coverage"]
        tests = ["-m", "pytest", "-q", "-p", "no:randomly", "--hypothesis-seed=1", f"tests/unit/{room}"]
        source = f"--source={ROOT / 'src' / 'pgdyno' / room}"
        found = subprocess.run([*coverage, "run", "--branch", source, *tests], cwd=ROOT, env=environment, check=False)
        if found.returncode != 0:
            raise SystemExit(f"the unit tests of {room} fail: their coverage says nothing")
        report = Path(folder) / "report.json"
        subprocess.run([*coverage, "json", "-q", "-o", str(report)], cwd=ROOT, env=environment, check=True)
        totals = json.loads(report.read_text())["totals"]
    return float(100.0 * totals["covered_branches"] / totals["num_branches"])


def complaints(floors: dict[str, float], found: dict[str, float]) -> list[str]:
    """Return what fell, a line each."""
    return [
        f"{room}: {found[room]:.1f} % of the branches are tested, {floor:.1f} % were: test what the change adds"
        for room, floor in floors.items()
        if found[room] < floor - _SLACK
    ]


def raised(floors: dict[str, float], found: dict[str, float]) -> dict[str, float]:
    """Return the floors after a measurement, in tenths rounded down; none of them is lower."""
    return {room: max(floor, int(found[room] * 10) / 10) for room, floor in floors.items()}


def main(words: list[str]) -> int:
    """Measure, and compare or raise."""
    text = FLOORS.read_text()
    floors: dict[str, float] = tomllib.loads(text)["branches"]
    found = {room: measured(room) for room in floors}
    for room, floor in floors.items():
        print(f"{room:10} {found[room]:5.1f} %, floor {floor:.1f} %")
    if words == ["--raise"]:
        head = text.partition("[branches]")[0]
        lines = (f"{room} = {floor:.1f}\n" for room, floor in raised(floors, found).items())
        FLOORS.write_text(f"{head}[branches]\n{''.join(lines)}")
    said = complaints(floors, found)
    print("\n".join(said))
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
