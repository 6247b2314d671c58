"""What systemd alone does: its start limit, units without ExecReload, and how sure the detection is."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import systemctl_double
from fix_postgres import find_build
from pgdyno.control import PgCtl, SystemdControl, for_restore
from pgdyno.control.detect import ServerSigns, Undetected, find_control, read_signs
from pgdyno.errors import RestartError
from pgdyno.owner.runner import LocalRunner
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.undo import activation
from systemctl_double import Unit

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("systemd")]

UNIT = "postgresql@15-lab.service"
CGROUP = f"0::/system.slice/system-postgresql.slice/{UNIT}\n"


@dataclasses.dataclass
class Lab:
    """A sandbox that the double of systemctl runs as a unit."""

    sandbox: Sandbox
    folder: Path
    unit: Unit

    def control(self, **changes: object) -> SystemdControl:
        systemctl_double.install(self.folder, dataclasses.replace(self.unit, **changes))  # type: ignore[arg-type]  # by name
        target = self.sandbox.target()
        return SystemdControl(LocalRunner(), target.postgres, UNIT, self.sandbox.data_directory, timeout_s=60)

    def write(self, text: str) -> None:
        path = self.sandbox.data_directory / "pgdyno.conf"
        path.write_text(text)
        path.chmod(0o644)

    def signs(self, **changes: object) -> ServerSigns:
        pid = postmaster_of(self.sandbox)
        found = read_signs(pid, self.sandbox.data_directory, str(self.sandbox.data_directory / "postgresql.conf"))
        return dataclasses.replace(found, **{"cgroups": CGROUP, **changes})  # type: ignore[arg-type]  # by name


def postmaster_of(sandbox: Sandbox) -> int:
    return int((sandbox.data_directory / "postmaster.pid").read_text().split()[0])


@pytest.fixture
def lab(make_sandbox: Callable[..., Sandbox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    sandbox = make_sandbox("systemd", bin_dir=find_build("debian-15"))
    sandbox.start()
    return lab_of(sandbox, tmp_path, monkeypatch)


@pytest.fixture
def shared_lab(shared_servers: Callable[[str], Sandbox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give one for those who only look at its server."""
    return lab_of(shared_servers("debian-15"), tmp_path, monkeypatch)


def lab_of(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    own = sandbox.target().control
    assert isinstance(own, PgCtl)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    words = [str(own.bin_dir / "pg_ctl")]
    return Lab(sandbox, tmp_path / "bin", Unit(UNIT, words, own.user, str(own.data_directory), str(own.log_file)))


def test_too_many_starts_are_named_and_do_not_stop_a_restore(lab: Lab) -> None:
    control = lab.control(burst=2)
    control.stop()
    lab.write("shared_buffers = 'many'\n")
    for _ in range(2):
        with pytest.raises(RestartError, match="did not start") as caught:
            control.start()
        assert "shared_buffers" in (caught.value.detail or "")
    with pytest.raises(RestartError, match=r"started too often \(StartLimitBurst\)") as caught:
        control.start()
    assert f"systemctl reset-failed {UNIT}" in (caught.value.hint or "")
    lab.write("")
    with pytest.raises(RestartError, match="StartLimitBurst"):
        control.start()
    restoring = for_restore(control)
    assert restoring is not None
    restoring.start()
    assert control.is_running()
    assert control.state().active == "active"


def test_a_unit_without_its_own_reload_is_reloaded_by_sql(lab: Lab) -> None:
    control = lab.control(can_reload=False)
    lab.write("work_mem = '7MB'\n")
    activation.reload(control.postgres, control)
    assert control.postgres.fetch("SHOW work_mem") == [{"work_mem": "7MB"}]


def test_a_unit_that_is_not_there(shared_lab: Lab) -> None:
    control = dataclasses.replace(shared_lab.control(), unit="none.service", data_directory=None)
    with pytest.raises(RestartError, match=r'unit "none\.service" did not restart'):
        control.restart()


def test_detection_is_sure_when_the_units_main_process_is_the_server(lab: Lab) -> None:
    control = lab.control()
    found = find_control(LocalRunner(), control.postgres, lab.signs(), None)
    assert isinstance(found, SystemdControl)
    assert (found.unit, found.data_directory) == (UNIT, control.data_directory)
    found.restart()
    assert found.is_running()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pid": 999_999}, "whose main process is"),
        ({"is_patroni": True}, "--patroni"),
        ({"pid_namespace": "pid:[1]"}, "container"),
        ({"pid": 1}, "first process of this container"),
        ({"cgroups": "0::/\n", "we_are_root": False, "we_are_owner": False}, "neither it nor root"),
        ({"cgroups": "0::/\n"}, "there is no pg_ctl"),
        ({"cgroups": "0::/system.slice/supervisor.service\n"}, "whose main process is 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_detection_that_is_not_sure_says_what_it_saw(shared_lab: Lab, changes: dict[str, object], words: str) -> None:
    found = find_control(LocalRunner(), shared_lab.control().postgres, shared_lab.signs(**changes), None)
    assert isinstance(found, Undetected)
    assert words in found.saw
