"""A hostile database host: whatever its agent answers is a value of ours or an error, and stays where it belongs."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile_agent
from agent_line import agent_line
from facts_from_params import make_facts
from fix_postgres import NIGHT
from pgdyno.capture.folder import write_folder
from pgdyno.capture.keys import is_key
from pgdyno.capture.texts import Capture, from_json
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, PgdynoError, RollbackError
from pgdyno.inventory.reading import read_inventory
from pgdyno.linux.host_texts import DistantReading, read_texts
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import plain, shaped
from pgdyno.owner.file_image import FileImage
from pgdyno.probes.guards.reader import HostTick
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.reading import parse_host
from pgdyno.remote import client as client_module
from pgdyno.remote import wire
from pgdyno.remote.address import HostAddress
from pgdyno.remote.control import RemoteControl
from pgdyno.remote.deploy import HostLook, HostRequest
from pgdyno.remote.host import RemoteHost, opened_host
from pgdyno.remote.session import RemoteSession
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.manifest import Manifest
from pgdyno.undo.rollback import BundleInfo, SessionState
from pgdyno.undo.watch import Deadlines

REQUEST = HostRequest(HostAddress.parse("ssh://db1"))
OUTSIDE = [
    "../../outside",
    "/outside",
    "proc/../../outside",
    "sys/class/net/../../../outside",
    "etc/sysctl.d/../../../outside.conf",
    "sys/fs/cgroup/../../../../outside/memory.max",
    "proc/cpuinfo/../../outside",
    "capture.json",
    "evidence/first.json",
    "~/.ssh/authorized_keys",
    "proc/cpuinfo\n",
    "proc//cpuinfo",
    "",
    ".",
    "sys/class/net/a\u202eb/mtu",
    "sys/class/net/" + "a" * 300 + "/mtu",
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("9" * 400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORST: list[object] = [
    None, True, -1, 1 << 63, 1e308, "", "9" * 400, "\x1b[2J", "\udc80",
    [], {}, [[]], {"unknown": 1}, "../..", ["x"] * 100,
]  # fmt: skip


class Line:
    """A client whose every call gets one answer, as it comes out of a line."""

    is_cut = False

    def __init__(self, answer: object) -> None:
        try:
            self.answer = wire.from_line(json.dumps({"gives": answer}).encode())["gives"]
        except ValueError as error:  # which ends the conversation
            raise ConnectError("the line was cut") from error

    def call(self, name: str, given: object = None, *, timeout_s: float | None = None) -> object:
        return self.answer

    def close(self) -> None:
        pass


class Tunnel:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def forward(self, local: Path, remote: str) -> None:
        assert local.parent == self.folder
        raise ConnectError("no tunnel here")


def host_that_says(answer: object, folder: Path = Path("/nonexistent")) -> RemoteHost:
    host = RemoteHost.__new__(RemoteHost)
    host.request, host.client, host.connection = REQUEST, cast(Any, Line(answer)), cast(Any, Tunnel(folder))
    host.look = HostLook("/usr/bin/python3", "3.11", "u", "libpq.so.5", "/c", None)
    host._password = "of this side"
    return host


def session(host: RemoteHost) -> RemoteSession:
    return RemoteSession("s", cast(Any, host.client), lambda: cast(Any, host.client))


def _guards(host: RemoteHost) -> None:
    there = host.read_guards()
    with suppress(ValueError):  # what the reader of the guards expects
        shaped(HostTick, there)


def _reading(host: RemoteHost) -> None:
    there = host.read_host()
    parse_host(0.0, CpuShares(there.server_cpu_s, 0.0, there.own_cpu_s), there.texts)


CALLS: dict[str, Callable[[RemoteHost], object]] = {
    "open": lambda host: host.target("dbname=x"),
    "facts": lambda host: host.facts().environment_hash(),
    "capture": lambda host: read_inventory(host.capture()),
    "read_host": _reading,
    "log_files": lambda host: host.log_files(),
    "read_log": lambda host: host.read_log("/x", 0, 10),
    "guards": _guards,
    "examine": lambda host: host.examine(Configuration.of({}), []),
    "begin": lambda host: host.begin(study="s", watch=Deadlines()),
    "may_change": lambda host: host.check_changes(),
    "abandoned": lambda host: host.abandoned(),
    "sessions": lambda host: host.sessions(),
    "roll_back": lambda host: host.roll_back("s"),
    "apply": lambda host: session(host).apply(Configuration.of({})),
    "rollback": lambda host: session(host).rollback(),
    "is_running": lambda host: RemoteControl(cast(Any, host.client)).is_running(),
}


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=25)
@given(answer=JUNK)
def test_any_answer_is_a_value_or_an_error(name: str, answer: object) -> None:
    with suppress(PgdynoError):
        CALLS[name](host_that_says(answer))


def valid_answers() -> dict[str, Any]:
    owner = ProcessIdentity(1, 2, "boot")
    manifest = Manifest(
        "s1", "study", 1.0, "db", "host=/tmp user=u", "/d", "/d/postgresql.conf", "/b", None, owner,
        (FileImage("/d/postgresql.conf", "0" * 64, 3, None),),
    )  # fmt: skip
    folder = Path("/state/undo/s1")
    info = BundleInfo(folder, UndoBundle(folder, manifest), SessionState.CLOSED, 2, None, "session")
    restored = {"files": ["/a"], "settings_differences": [], "restarted": True, "seconds": 1.0, "damage": [],
                "ended": [], "already_closed": False}  # fmt: skip
    result = {"check": "c", "state": "ok", "sentence": "s", "asked": None, "there": None, "hint": None}
    place = {"socket_path": "/tmp/.s.PGSQL.5432", "host": None, "port": None}
    return {
        "open": {"name": "db", "parameters": {"user": "u", "port": "5432"}, "listens_at": place,
                 "can_restart": None, "no_control": "none"},
        "facts": plain(make_facts(18)),
        "capture": {"texts": {"proc/cpuinfo": "x\n", "sys/class/net/eth0/mtu": "1500\n"}, "missing": {"host": "y"},
                    "origin": "live", "taken_at": "", "made_by": "p"},
        "read_host": plain(DistantReading(read_texts(), 1.0, 0.5)),
        "log_files": {"files": [{"path": "/l", "size": 5, "changed": 1.5}]},
        "read_log": {"block": "YWJj"},
        "guards": {"memory": {"available": 1, "bound": 2, "bounded_by": "RAM", "stalled_us": {"reason": "no"},
                              "kills": 0, "swapped_in": 0, "own_kills": {"group": "/g", "count": 0}},
                   "volumes": {"reason": "none"}},
        "examine": [result],
        "begin": {"id": "s1"},
        "may_change": {"file": "/d/pgdyno.conf"},
        "abandoned": ["s1"],
        "sessions": [plain(wire.info_to_json(info))],
        "roll_back": restored,
        "apply": {"restarted": True, "seconds": 1.0, "values": {"work_mem": "4"}, "fingerprint": "f", "outage_s": None},
        "rollback": restored,
        "is_running": {"running": True},
    }  # fmt: skip


def leaves(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inner)[:40]:
        yield from leaves(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: object) -> Any:
    """Return the value with another part at this path; what is not on the path is shared with it."""
    if not path:
        return by
    found = copy.copy(value)
    found[path[0]] = replaced(value[path[0]], path[1:], by)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_right_answer_is_taken_and_a_wrong_part_of_it_is_none_of_ours(name: str) -> None:
    answer = json.loads(json.dumps(valid_answers()[name]))
    with suppress(ConnectError):  # the tunnel of `open`
        CALLS[name](host_that_says(answer))
    draw = random.Random(name)
    places = list(leaves(answer))
    for path in draw.sample(places, min(25 if NIGHT else 10, len(places))):
        for worst in WORST:
            with suppress(PgdynoError):
                CALLS[name](host_that_says(replaced(answer, path, worst)))


def test_what_is_said_of_a_rollback_must_be_understood() -> None:
    host = host_that_says({"files": 7})
    with pytest.raises(RollbackError, match="cannot be understood"):
        session(host).rollback()


@pytest.mark.parametrize("key", OUTSIDE)
def test_a_text_of_a_capture_has_a_name_that_captures_have(key: str, tmp_path: Path) -> None:
    assert not is_key(key)
    with pytest.raises(ValueError, match="which no capture has"):
        from_json({"texts": {key: "x"}, "missing": {}})
    with pytest.raises(EnvironmentUnsuitable, match="which no capture has"):
        write_folder(Capture({"proc/cpuinfo": "x", key: "x"}), tmp_path / "capture")
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "", "sys", "class", "net", "block", "eth0", "mtu",
                                                        "proc", "\0", "~", "fs", "cgroup"])).map("/".join))  # fmt: skip
def test_no_name_of_a_text_leads_out_of_a_folder(key: str) -> None:
    if is_key(key):
        parts = key.split("/")
        assert not key.startswith("/")
        assert not {"", ".", ".."} & set(parts)
        assert "\0" not in key


def test_a_capture_of_this_machine_has_names_that_captures_have() -> None:
    from pgdyno.capture.device_files import read_block_devices, read_network
    from pgdyno.capture.kernel_files import read_kernel_files, read_processor_folders

    texts = {**read_kernel_files()[0], **read_processor_folders(), **read_block_devices(), **read_network()}
    assert [key for key in texts if not is_key(key)] == []


def test_links_in_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "capture"
    outside.mkdir()
    (outside / "cpuinfo").write_text("mine")
    folder.mkdir()
    (folder / "sys").symlink_to(outside)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be written"):
        write_folder(Capture({"sys/hypervisor/type": "xen\n"}), folder)
    (folder / "proc").mkdir()
    (folder / "proc" / "cpuinfo").symlink_to(outside / "cpuinfo")
    (folder / "capture.json").symlink_to(outside / "cpuinfo")
    write_folder(Capture({"proc/cpuinfo": "theirs"}), folder)
    assert (outside / "cpuinfo").read_text() == "mine"
    assert (folder / "proc" / "cpuinfo").read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["cpuinfo"]


def test_a_capture_beyond_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="no host has more"):
        from_json({"texts": {f"sys/class/net/e{n}/mtu": "1" for n in range(60_000)}, "missing": {}})
    with pytest.raises(ValueError, match="larger than"):
        from_json({"texts": {"proc/cpuinfo": "x" * (9 << 20)}, "missing": {}})
    odd = from_json({"texts": {"proc/cpuinfo": "9" * 5000, "proc/meminfo": "x"}, "missing": {}})
    assert "5,000 digits" in odd.missing["proc/cpuinfo"]
    assert set(odd.texts) == {"proc/meminfo"}


SAYS = "import sys, time; sys.stdout.write('{\"hello\": {}}\\n'); sys.stdout.flush(); sys.stdin.readline();"


@pytest.mark.parametrize(
    "does",
    [
        'sys.stdout.write(\'{"id": [1], "gives": 1}\\n\')',
        "sys.stdout.write('{\"id\": 1}\\n')",
        'sys.stdout.write(\'{"id": 1, "error": 7}\\n\')',
        'sys.stdout.write(\'{"id": 1, "error": {"class": [], "message": {}}}\\n\')',
        "sys.stdout.write('{\"id\": 1, \"gives\": ' + '[' * 200000 + '\\n')",
        "sys.stdout.write('{\"id\": 1, \"gives\": ' + '9' * 5000 + '}\\n')",
        "sys.stdout.write('[]\\n')",
        "[sys.stdout.write('x' * 100000) for _ in range(60)]",
    ],
)
def test_a_line_that_no_agent_writes_ends_the_call(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 1 << 20)
    with agent_line(tmp_path, f"{SAYS} {does}; sys.stdout.flush()") as client:
        client.first_words()
        with pytest.raises(PgdynoError):
            client.call("facts", timeout_s=20)


def test_greetings_have_an_end(tmp_path: Path) -> None:
    endless = "import sys\nwhile True:\n  try: sys.stdout.write('hello\\n' * 1000)\n  except BrokenPipeError: break"
    with agent_line(tmp_path, endless) as client:
        with pytest.raises(ConnectError):
            client.first_words(timeout_s=20)
        client._process.kill()


@pytest.mark.parametrize("name", ["SystemExit", "PgdynoError.__init__", "contextmanager", "__builtins__", "IntEnum"])
def test_a_host_names_no_class_but_an_error_of_ours(name: str) -> None:
    assert type(wire.error_from_json({"class": name, "message": "m"})) is EnvironmentUnsuitable


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HostRequest]:
    def answers(**said: object) -> HostRequest:
        file = tmp_path / "answers.json"
        file.write_text(json.dumps(said))
        monkeypatch.setenv("PGDYNO_SSH", f"{sys.executable} {hostile_agent.__file__} {file}")
        return HostRequest(HostAddress.parse("ssh://db1"))

    return answers


@pytest.mark.parametrize("key", OUTSIDE[:7])
def test_a_capture_of_a_hostile_host_writes_nothing(
    hostile: Callable[..., HostRequest], tmp_path: Path, key: str
) -> None:
    request = hostile(capture={"texts": {"proc/cpuinfo": "x", key: "pwned"}, "missing": {}})
    with opened_host(request) as host, pytest.raises(EnvironmentUnsuitable, match="no agent of pgdyno says") as caught:
        write_folder(host.capture(), tmp_path / "a" / "b" / "capture")
    assert "which no capture has" in (caught.value.detail or "")
    assert not (tmp_path / "a").exists()
    assert not list(tmp_path.rglob("*outside*"))


def test_a_hostile_host_chooses_neither_the_server_nor_whose_password(
    hostile: Callable[..., HostRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("prod.example:5432:*:admin:the secret of another server\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    session_there = valid_answers()["sessions"][0]
    session_there["manifest"]["conninfo"] = "host=prod.example user=admin dbname=x"
    request = hostile(sessions=[session_there], open=valid_answers()["open"] | {"parameters": {"port": "../../x"}})
    with opened_host(request) as host:
        sent: list[object] = []
        real = host.client.call

        def call(name: str, given: Any = None, *, timeout_s: float | None = None) -> object:
            sent.append(given)
            return real(name, given, timeout_s=timeout_s)

        monkeypatch.setattr(host.client, "call", call)
        with suppress(PgdynoError):
            host.roll_back("s1")
        assert {"password": None} in sent
        with pytest.raises(EnvironmentUnsuitable, match="no agent"):
            host.target("user=u")


@pytest.mark.parametrize("look", [[], {"python": 7}, {"python": "x"}, "not JSON", "9" * 5000])
def test_a_host_that_looks_odd_is_told(hostile: Callable[..., HostRequest], look: object) -> None:
    with pytest.raises(PgdynoError), opened_host(hostile(look=look)):
        pass
