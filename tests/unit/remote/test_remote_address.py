"""How a host is named, and what ssh is told: nothing that a shell or an option parser could take for more."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.remote import bootstrap
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import _bootstrap_text
from pgdyno.remote.ssh import SshConnection

NAMES = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}", fullmatch=True)


@given(host=NAMES, user=st.none() | NAMES, port=st.none() | st.integers(1, 65535))
def test_an_address_is_read_as_it_is_written(host: str, user: str | None, port: int | None) -> None:
    address = HostAddress(host, user, port)
    assert HostAddress.parse(str(address)) == address
    assert address.words()[-2:] == ["--", host]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssh://db1", ["--", "db1"]),
        ("ssh://dba@db1:2222/", ["-p", "2222", "-l", "dba", "--", "db1"]),
        ("ssh://dba@[fe80::1]:22", ["-p", "22", "-l", "dba", "--", "fe80::1"]),
        ("ssh://Db1", ["--", "Db1"]),
        ("ssh://dba%40corp@db1", ["-l", "dba@corp", "--", "db1"]),
    ],
)
def test_addresses(text: str, words: list[str]) -> None:
    assert HostAddress.parse(text).words() == words


@pytest.mark.parametrize(
    "text",
    ["db1", "dba@db1", "http://db1", "ssh://", "ssh://dba@", "ssh://db1:port", "ssh://db1:99999", "ssh://db1/path",
     "ssh://-oProxyCommand=x", "ssh://-l@db1", "ssh://a%20b", "ssh://db1?x=1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        HostAddress.parse(text)
    assert caught.value.hint


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        HostAddress.parse("ssh://dba:hunter2@db1")
    assert "hunter2" not in f"{caught.value.message}{caught.value.detail}{caught.value.hint}"


@given(words=st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), max_size=4))
def test_the_remote_shell_gives_back_the_words(words: list[str]) -> None:
    connection = SshConnection(HostAddress("db1"), Path("/nowhere"), ["ssh"])
    line = connection.argv(command=["printf", "%s\\0", *words, "end"])[-1]
    shown = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True)
    assert shown.stdout == b"".join(os.fsencode(word) + b"\0" for word in [*words, "end"])


def test_the_options_that_keep_ssh_from_asking_and_from_doing_more() -> None:
    argv = SshConnection(HostAddress("db1", "dba"), Path("/nowhere"), ["ssh", "-F", "x"]).argv(command=["true"])
    assert argv[:3] == ["ssh", "-F", "x"]
    assert {"BatchMode=yes", "ClearAllForwardings=yes", "ForwardAgent=no", "RequestTTY=no"} <= set(argv)
    assert argv[-5:] == ["-l", "dba", "--", "db1", "true"]


def test_no_ssh_and_no_room_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="no-such-ssh"):
        SshConnection.open(HostAddress("db1"), {"PGDYNO_SSH": "no-such-ssh -F x"})
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(EnvironmentUnsuitable, match="too long"):
        SshConnection.open(HostAddress("db1"), {"PGDYNO_SSH": "true"})
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("No ED25519 host key is known.\nHost key verification failed.", "host key is not known", "ssh -p 7 db1"),
        ("dba@db1: Permission denied (publickey).", "does not let us in", "ssh-add"),
        ("ssh: connect to host db1 port 7: Connection refused", "nobody listens", "port"),
        ("ssh: Could not resolve hostname db1: Name or service not known", "name is not known", "~/.ssh/config"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "not the one", "-R"),
        ("something new", "cannot reach", "ssh -p 7 db1"),
    ],
)
def test_what_ssh_says_becomes_a_reason_and_a_next_command(text: str, reason: str, hint: str) -> None:
    error = SshConnection(HostAddress("db1", port=7), Path("/nowhere"), ["ssh"]).refused(text)
    assert reason in error.message
    assert hint in (error.hint or "")
    assert error.detail == text


def test_the_bootstrap_needs_no_quoting() -> None:
    """Its text passes any login shell inside single quotes, csh's and fish's too: no quote, newline, ! or backslash."""
    assert not set("'\n\\!") & set(_bootstrap_text())
    source = Path(bootstrap.__file__).read_text()
    assert "pgdyno." not in source.split('"""', 2)[2]
    assert shlex.split(shlex.quote(_bootstrap_text())) == [_bootstrap_text()]
