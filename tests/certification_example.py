"""The plan of examples/certification in a folder of a test's own, as it is or as small as it can be."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "certification"
SMALL = {
    "certification.toml": (
        ('time = "2min"', 'time = "6s"'),
        ("clients = 8", "clients = 2"),
        ("rate = 60 ", "rate = 25 "),
        ("runs = 3", "runs = 2"),
        ("runs = 6", "runs = 1"),
    ),
    "data.sql": (("accounts 200000", "accounts 2000"), ("bookings 1000000", "bookings 10000")),
    "day.sql": (("random(1, 20000)", "random(1, 1500)"),),
    "levels.toml": (
        ("repetitions = 12", "repetitions = 4"),
        ("clients = 8", "clients = 2"),
        ("rate = 1200", "rate = 25"),
        ('warmup = "3s"', 'warmup = "1s"'),
        ('measure = "10s"', 'measure = "2s"'),
        ("[[level]]\npercent = 60\ncpus = 0.48\n\n", ""),
        ("cpus = 0.8\n", ""),
        ("cpus = 1.2\n", ""),
    ),
}
"""What makes the example small; levels, two of the three, without bounds need no cgroup."""


def certification(folder: Path, *, programs: Path, small: bool = False) -> Path:
    """Copy the example, with the folder of the old build, and return the plan."""
    shutil.copytree(EXAMPLE, folder)
    plan = folder / "certification.toml"
    edit(plan, "/usr/lib/postgresql/13/bin", str(programs))
    for name, changes in SMALL.items() if small else ():
        for old, new in changes:
            edit(folder / name, old, new)
    return plan


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text in a file that has it."""
    text = path.read_text()
    assert old in text, f"{path.name} has no {old}"
    path.write_text(text.replace(old, new))
