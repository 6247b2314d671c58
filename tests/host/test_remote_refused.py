"""A host that cannot be used says why and what to type next; a traceback never."""

from __future__ import annotations

import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from fix_sshd import Sshd, start_sshd
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, UsageError
from pgdyno.remote import deploy
from pgdyno.remote.address import HostAddress
from pgdyno.remote.deploy import HostLook, HostRequest
from pgdyno.remote.host import opened_host
from pgdyno.remote.ssh import SshConnection

pytestmark = [pytest.mark.host]


@pytest.fixture
def sshd(bare_sshd: Sshd) -> Sshd:
    """Give a host where nobody has put an agent."""
    return bare_sshd


def open_and_close(url: str) -> None:
    with opened_host(HostRequest(HostAddress.parse(url))):
        pass


def test_a_host_key_that_nobody_knows(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_SSH", sshd.client(known=False))
    with pytest.raises(ConnectError, match="host key is not known") as caught:
        open_and_close(sshd.url)
    assert f"-p {sshd.port} -l postgres 127.0.0.1" in (caught.value.hint or "")
    assert "fingerprint" in (caught.value.hint or "")


def test_a_host_key_that_has_changed(sshd: Sshd) -> None:
    known = sshd.folder / "known_hosts"
    other = (sshd.folder / "user_key.pub").read_text()
    known.write_text(f"[127.0.0.1]:{sshd.port} {other}")
    with pytest.raises(ConnectError, match="not the one that is known"):
        open_and_close(sshd.url)


def test_a_key_that_is_not_let_in(sshd: Sshd) -> None:
    (sshd.folder / "authorized_keys").write_text("")
    with pytest.raises(ConnectError, match="does not let us in") as caught:
        open_and_close(sshd.url)
    assert "ssh-add" in (caught.value.hint or "")


def test_a_port_where_nobody_listens(sshd: Sshd) -> None:
    with pytest.raises(ConnectError, match="nobody listens there"):
        open_and_close(sshd.url.replace(str(sshd.port), "1"))


def test_a_name_that_nobody_knows(sshd: Sshd) -> None:
    with pytest.raises(ConnectError) as caught:
        open_and_close("ssh://no-such-host.invalid")
    assert "no-such-host.invalid" in caught.value.message
    assert caught.value.hint


def test_a_host_without_python(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sshd gives its user a PATH that leads to a shell alone."""
    folder, bare = sshd.folder / "second", sshd.folder / "bare"
    for made in (folder, bare):
        made.mkdir()
        made.chmod(0o755)
    (bare / "sh").symlink_to("/bin/sh")
    shutil.copy(sshd.folder / "user_key", folder / "user_key")
    shutil.copy(sshd.folder / "user_key.pub", folder / "user_key.pub")
    second, daemon = start_sshd(folder, sshd.home, f"PATH={bare}")
    monkeypatch.setenv("PGDYNO_SSH", second.client())
    try:
        with pytest.raises(EnvironmentUnsuitable, match=r"no python3 of version 3\.11") as caught:
            open_and_close(second.url)
        assert "apt install python3" in (caught.value.hint or "")
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)


def test_a_host_without_libpq(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    real = deploy.look_at

    def blind(connection: SshConnection, *, for_sudo: bool) -> HostLook:
        return replace(real(connection, for_sudo=for_sudo), libpq=None)

    monkeypatch.setattr(deploy, "look_at", blind)
    with pytest.raises(EnvironmentUnsuitable, match="no libpq") as caught:
        open_and_close(sshd.url)
    assert "libpq5" in (caught.value.hint or "")


def test_a_cache_that_cannot_be_written(sshd: Sshd) -> None:
    (sshd.home / "cache").write_text("")
    with pytest.raises(EnvironmentUnsuitable) as caught:
        open_and_close(sshd.url)
    assert str(sshd.home) in f"{caught.value.message} {caught.value.detail}"


def test_a_server_that_is_not_there(sshd: Sshd) -> None:
    with opened_host(HostRequest(HostAddress.parse(sshd.url))) as host:
        with pytest.raises(ConnectError, match="cannot connect"):
            host.target("host=/nonexistent")
        assert host.sessions() == []


def test_variables_that_lead_past_the_tunnel(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    with (
        opened_host(HostRequest(HostAddress.parse(sshd.url))) as host,
        pytest.raises(UsageError, match="PGHOSTADDR"),
    ):
        host.target("")


def test_nothing_is_left_on_either_side(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="pgdyno-", dir="/tmp") as short:  # a socket's path must be short
        monkeypatch.setattr("tempfile.tempdir", short)
        open_and_close(sshd.url)
        assert list(Path(short).iterdir()) == []
    assert {path.name for path in sshd.home.iterdir()} == {"cache"}
