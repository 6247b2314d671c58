"""Every program that is started is given a list of variables: what a shell has exported may be a secret."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pgdyno

STARTS = {"run", "Popen", "call", "check_call", "check_output"}
EXEC = {"execl", "execle", "execlp", "execv", "execvp", "system", "popen", "posix_spawn", "posix_spawnp", "spawnv"}
NAMED = re.compile(rf"\bsubprocess\b|\bos\s*\.\s*({'|'.join(sorted(EXEC))})\b")
TAKES_ITS_OWN = {"remote/bootstrap.py", "workloads/held_start.py", "owner/enter_cgroup.py", "owner/launch.py"}
"""Steps that turn into the program whose variables are chosen by whoever starts them."""


def calls() -> list[tuple[str, ast.Call, str, str]]:
    root = Path(pgdyno.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        if not NAMED.search(text):  # to parse all costs seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name):
                    found.append((str(path.relative_to(root)), node, owner.id, node.func.attr))
    return found


def test_no_program_inherits_all_variables_and_none_is_started_by_a_shell() -> None:
    started = [(place, call) for place, call, owner, name in calls() if owner == "subprocess" and name in STARTS]
    assert started, "there are such calls"
    for place, call in started:
        given = {keyword.arg for keyword in call.keywords}
        assert "env" in given, f"{place}:{call.lineno}"
        assert "shell" not in given, f"{place}:{call.lineno}"


def test_no_program_is_started_past_subprocess() -> None:
    others = [
        f"{place}:{call.lineno} os.{name}"
        for place, call, owner, name in calls()
        if owner == "os" and name in EXEC and place not in TAKES_ITS_OWN
    ]
    assert others == []
