"""The hooks of a commit work on a fresh clone: they make the environment first, and each program of theirs is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


def test_the_environment_is_made_before_anything_is_asked_of_it() -> None:
    first, *others = (hook["entry"].split() for hook in HOOKS)
    assert first == ["make", "--no-print-directory", ".venv/.dev-stamp"]
    assert HOOKS[0]["fail_fast"]
    there = Path(sys.executable).parent
    assert [entry[0] for entry in others if not (there / Path(entry[0]).name).exists()] == []
    rules = subprocess.run(["make", "-pnq", "help"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert "\n.venv/.dev-stamp:" in rules
