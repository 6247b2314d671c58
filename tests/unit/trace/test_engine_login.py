"""Opening sessions: whatever goes wrong is the session's, and needs no file that the engine may no longer read."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

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


def test_roots_that_cannot_be_read_are_each_sessions_reason_and_no_end_of_the_engine(tmp_path: Path) -> None:
    end_point = EndPoint("db", 1, "verify-ca", str(tmp_path / "none.crt"))
    login.read_roots(end_point)
    with pytest.raises(FileNotFoundError):
        login._tls(end_point)


@pytest.mark.parametrize(
    ("mode", "checks", "names"),
    [("prefer", False, False), ("require", False, False), ("verify-ca", True, False), ("verify-full", True, True)],
)
def test_a_server_is_checked_as_its_mode_says_and_what_by_is_read_once(mode: str, checks: bool, names: bool) -> None:
    end_point = EndPoint("db", 1, mode)
    login.read_roots(end_point)
    found = login._tls(end_point)
    assert (found.verify_mode is ssl.CERT_REQUIRED, found.check_hostname) == (checks, names)
    assert login._tls(EndPoint("db", 1, mode)) is found
