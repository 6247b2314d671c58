"""Programs of another account by setpriv(1): Python forks for them, which copies the page tables of a large process.

A process of the tests has 150 MB and more: a program of another account cost it 11 ms of CPU, one of its own account,
which Python begins by vfork, 1 ms, and by setpriv 2 ms. What setpriv would tell otherwise than Python (a program that
is missing, or closed to the account) is begun as ever; so is whatever a test of `host` begins.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgdyno.workloads import driver_process

SETPRIV = Path("/usr/bin/setpriv")
REAL_PROGRAMS = "PGDYNO_TEST_REAL_PROGRAMS"
"""Set where a test is about the processes that pgdyno begins, and in what it starts."""
_DONE = ("user", "group", "extra_groups", "preexec_fn")
"""What setpriv does in the place of Python."""
_begin = subprocess.Popen.__init__


def use_setpriv() -> None:
    """Have this process, and its forks, begin programs of other accounts by setpriv."""
    if os.geteuid() == 0 and SETPRIV.exists():
        subprocess.Popen.__init__ = _begin_quickly  # type: ignore[method-assign]


def _begin_quickly(self: subprocess.Popen[Any], args: Any, *more: Any, **given: Any) -> None:
    words = None if more else _as_account(args, given)
    if words is None:
        _begin(self, args, *more, **given)
        return
    rest = {name: value for name, value in given.items() if name not in _DONE}
    _begin(self, words, **rest)
    self.args = args


def _as_account(args: object, given: dict[str, Any]) -> list[str] | None:
    """Return the words by setpriv, None where Python is to begin it."""
    user, group, groups = (given.get(name) for name in ("user", "group", "extra_groups"))
    if not (isinstance(user, int) and isinstance(group, int)) or REAL_PROGRAMS in os.environ:
        return None
    before = given.get("preexec_fn")
    is_load = getattr(before, "func", None) is driver_process._end_with
    if (before is not None and not is_load) or isinstance(args, str | bytes) or not isinstance(args, Sequence):
        return None
    words = [str(word) for word in args]
    path = (given.get("env") or os.environ).get("PATH", os.defpath)
    program = words[0] if "/" in words[0] else shutil.which(words[0], path=path)
    if program is None or not _is_open(program):
        return None
    more = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    ends = ["--pdeathsig=TERM"] if is_load else []
    return [str(SETPRIV), f"--reuid={user}", f"--regid={group}", more, *ends, "--", program, *words[1:]]


def _is_open(program: str) -> bool:
    """Tell whether every account may run a program: its file, its folders and those that links lead to."""
    path = Path(program)
    if not path.is_absolute():
        return False
    try:
        for one in {path, path.resolve(strict=True)}:
            if not all(folder.stat().st_mode & stat.S_IXOTH for folder in (one, *one.parents)):
                return False
    except OSError:
        return False
    return path.is_file()
