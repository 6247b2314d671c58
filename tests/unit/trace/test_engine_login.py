"""Opening sessions: whatever goes wrong is the session's, and needs no file that the engine may no longer read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pgdyno.trace.engine import login
from pgdyno.trace.engine.plan import EndPoint, EnginePlan
from pgdyno.trace.engine.scram import LoginError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LookupError("unknown encoding: idna"), "unknown encoding: idna"),
        (ModuleNotFoundError(), "ModuleNotFoundError"),
        (OSError("no route to host"), "no route to host"),
    ],
)
def test_whatever_goes_wrong_is_the_sessions_reason(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(login, "_connected", fail)
    with pytest.raises(LoginError, match=words):
        login.open_session(EnginePlan(-1, -1, EndPoint("db", 1)), "u", "d", "a")


def test_an_engine_has_loaded_what_a_name_is_looked_up_by_before_it_gives_its_rights_up() -> None:
    code = "import sys, pgdyno.trace.engine.__main__; sys.exit('encodings.idna' not in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
