"""What every Runner must do."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cpu import CpuGroup
from pgdyno.model.facts import Unknown
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.process_image import capture
from pgdyno.owner.runner import LocalRunner, Runner
from server_image import eventually

RUNNERS: dict[str, Callable[[], Runner]] = {"local": LocalRunner}
OF_GLIBC = 0b11 << 31
"""Signals 32 and 33: glibc lets nobody set them, and whoever started these tests may have them ignored."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Runner:
    return RUNNERS[request.param]()


@pytest.fixture
def group() -> Iterator[CpuGroup]:
    made = CpuGroup.create(f"runner-{os.getpid()}")
    if isinstance(made, Unknown):
        pytest.skip(made.reason)
    yield made
    eventually(made.remove, "the group is empty")


def test_output_and_status_come_back(runner: Runner) -> None:
    done = runner.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert done.argv[0] == "sh"


def test_words_are_passed_as_they_are(runner: Runner) -> None:
    words = ["a b", "$HOME", "*", "'", '"', ";", "é", ""]
    assert runner.run(["printf", "%s\n", *words]).stdout.split("\n")[:-1] == words


def test_a_bad_end_is_an_error_with_the_last_lines(runner: Runner) -> None:
    with pytest.raises(EnvironmentUnsuitable, match='"sh" failed with exit status 4') as caught:
        runner.run(["sh", "-c", "echo why >&2; exit 4"])
    assert caught.value.detail == "why"


def test_a_missing_program_is_an_error(runner: Runner, tmp_path: Path) -> None:
    for argv in (["nonesuch-program"], [str(tmp_path / "nonesuch")]):
        with pytest.raises(EnvironmentUnsuitable, match=f'program "{argv[0]}" was not found'):
            runner.run(argv, check=False)
        with pytest.raises(EnvironmentUnsuitable, match="was not found"):
            runner.start(argv, stdout=tmp_path / "o", stderr=tmp_path / "e")


def test_a_file_that_is_no_program_is_an_error(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(EnvironmentUnsuitable, match="cannot be run by this user"):
        runner.run([str(tmp_path / "text")])


def test_a_folder_of_path_that_is_closed_to_us_hides_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not look into one folder of PATH is told so, not that a program that is nowhere is not allowed."""
    (shut := tmp_path / "shut").mkdir(0o700)

    def not_allowed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "nonesuch")

    monkeypatch.setenv("PATH", f"{shut}:/usr/bin:/bin")
    monkeypatch.setattr("pgdyno.owner.runner.os.geteuid", lambda: 1000)
    monkeypatch.setattr("pgdyno.owner.runner.os.access", lambda path, _: str(path) != str(shut))
    monkeypatch.setattr("pgdyno.owner.runner.subprocess.Popen", not_allowed)
    with pytest.raises(EnvironmentUnsuitable, match='"nonesuch" was not found') as caught:
        LocalRunner().run(["nonesuch"])
    assert caught.value.detail == f"These folders of PATH cannot be looked into: {shut}."
    with pytest.raises(EnvironmentUnsuitable, match="cannot be run by this user"):
        LocalRunner().run(["env"])


def test_a_folder_of_path_deep_in_a_closed_one_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`su postgres` keeps root's PATH: advise ended with "/root/go: permission denied" for want of lvs."""
    shut = tmp_path / "shut" / "go" / "bin"
    look = os.stat

    def closed(path: str | Path, **more: bool) -> os.stat_result:
        if str(tmp_path / "shut") in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **more)

    def not_allowed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "nonesuch")

    monkeypatch.setenv("PATH", f"{shut}:/nonesuch/bin:/usr/bin:/bin")
    monkeypatch.setattr("pgdyno.owner.runner.os.geteuid", lambda: 1000)
    monkeypatch.setattr("pgdyno.owner.runner.os.access", lambda path, _: str(path) in ("/usr/bin", "/bin"))
    monkeypatch.setattr("pgdyno.owner.runner.os.stat", closed)
    monkeypatch.setattr("pgdyno.owner.runner.subprocess.Popen", not_allowed)
    with pytest.raises(EnvironmentUnsuitable, match='"nonesuch" was not found') as caught:
        LocalRunner().run(["nonesuch"])
    assert caught.value.detail == f"These folders of PATH cannot be looked into: {shut}."


def test_time_ends_a_program(runner: Runner) -> None:
    began = time.monotonic()
    with pytest.raises(EnvironmentUnsuitable, match=r'"sleep" did not end within 0\.2 s'):
        runner.run(["sleep", "60"], timeout_s=0.2)
    assert time.monotonic() - began < 30


def test_a_daemon_left_behind_does_not_hold_us_up(runner: Runner) -> None:
    began = time.monotonic()
    done = runner.run(["sh", "-c", "sleep 30 & echo $!"])
    assert time.monotonic() - began < 20
    os.kill(int(done.stdout), signal.SIGKILL)


def test_environment_adds_and_input_is_read(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_TIME", "yes")
    done = runner.run(["sh", "-c", "echo $LC_TIME $ADDED; cat"], env={"ADDED": "too"}, input_text="text\n")
    assert done.stdout == "yes too\ntext\n"


SECRETS = ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PGDYNO_PATRONI_AUTH", "PYTHONPATH", "SOME_TOKEN")


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ProgramKind.PROGRAM, ()),
        (ProgramKind.CLIENT, ("PGPASSWORD",)),
        (ProgramKind.BROWSER, ()),
        (ProgramKind.PERSONAL, ("AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PYTHONPATH", "SOME_TOKEN")),
        (ProgramKind.OURSELVES, ("PGPASSWORD", "SSH_AUTH_SOCK", "PGDYNO_PATRONI_AUTH", "PYTHONPATH")),
    ],
)
def test_a_program_is_given_what_its_kind_may_have(
    runner: Runner, kind: ProgramKind, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "here")
    done = runner.run(["env"], kind=kind)
    assert {name for name in SECRETS if f"{name}=here" in done.stdout.splitlines()} == set(given)
    process = runner.start(["env"], stdout=tmp_path / "o", stderr=tmp_path / "e", kind=kind)
    assert process.wait(20) == 0
    assert sorted((tmp_path / "o").read_text().splitlines()) == sorted(done.stdout.splitlines())


def test_a_program_is_as_a_process_that_was_kept(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_OURS", "no")
    own = capture(os.getpid())
    values = {**own.values, "nice value": own.values["nice value"] + 3, "umask": 0o027, "ignored signals": [28]}
    image = replace(own, environment={"OF_OLD": "a b\n=c", "PWD": "/usr"}, values=values)
    program = "env -0; nice; umask; pwd; grep SigIgn /proc/self/status; cat; ulimit -c"
    done = runner.run(["/bin/sh", "-c", program], image=image, input_text="not for it")
    *variables, rest = done.stdout.split("\0")
    assert {"OF_OLD=a b\n=c", "PWD=/usr"} <= set(variables)
    assert not [entry for entry in variables if "OF_OURS" in entry]
    nice, umask, folder, ignored = rest.split("\n")[:4]
    assert (int(nice), umask, folder) == (own.values["nice value"] + 3, "0027", "/usr")
    assert int(ignored.split()[1], 16) & ~OF_GLIBC == 1 << 27
    assert "not for it" not in rest
    missing = runner.run(["/nonesuch"], image=image, check=False)
    assert missing.returncode == 127


def test_without_input_there_is_none(runner: Runner) -> None:
    assert runner.run(["cat"], timeout_s=20).stdout == ""


def test_the_folder_is_entered(runner: Runner, tmp_path: Path) -> None:
    assert runner.run(["pwd", "-P"], cwd=tmp_path).stdout.strip() == str(tmp_path.resolve())


def test_output_that_is_not_text_is_kept_readable(runner: Runner) -> None:
    assert runner.run(["printf", r"a\377b"]).stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_background_program_writes_to_its_files(runner: Runner, tmp_path: Path) -> None:
    process = runner.start(["sh", "-c", "echo o; echo e >&2; exit 5"], stdout=tmp_path / "o", stderr=tmp_path / "e")
    assert process.wait(20) == 5
    assert process.poll() == 5
    assert ((tmp_path / "o").read_text(), (tmp_path / "e").read_text()) == ("o\n", "e\n")
    process.terminate()
    process.kill()


def test_a_background_program_can_be_ended(runner: Runner, tmp_path: Path) -> None:
    for end, status in (("terminate", -signal.SIGTERM), ("kill", -signal.SIGKILL)):
        process = runner.start(["sleep", "60"], stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert process.poll() is None
        with pytest.raises(EnvironmentUnsuitable, match="did not end within"):
            process.wait(0.05)
        getattr(process, end)()
        assert process.wait(20) == status


def test_a_background_program_has_a_session_of_its_own(runner: Runner, tmp_path: Path) -> None:
    process = runner.start(["sleep", "60"], stdout=tmp_path / "o", stderr=tmp_path / "e")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    process.kill()
    process.wait(20)


@needs_root
@pytest.mark.host
@pytest.mark.parametrize("in_group", [False, True])
def test_another_user_has_no_rights_of_ours(runner: Runner, in_group: bool, request: pytest.FixtureRequest) -> None:
    cgroups = request.getfixturevalue("group").paths if in_group else ()
    account = pwd.getpwnam("nobody")
    ours = os.getgroups()
    os.setgroups([*ours, 4242])
    try:
        done = runner.run(["sh", "-c", "id -u; id -G; echo $HOME $USER; pwd"], user="nobody", cgroups=cgroups)
    finally:
        os.setgroups(ours)
    uid, groups, names, folder = done.stdout.splitlines()
    assert int(uid) == account.pw_uid
    assert {int(gid) for gid in groups.split()} == set(os.getgrouplist("nobody", account.pw_gid))
    assert names == f"{account.pw_dir} nobody"
    assert folder == "/"


def test_our_own_name_changes_nothing(runner: Runner) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    assert runner.run(["id", "-un"], user=own).stdout.strip() == own


def test_a_user_who_does_not_exist_is_an_error(runner: Runner) -> None:
    with pytest.raises(EnvironmentUnsuitable, match='user "nonesuch-user" does not exist'):
        runner.run(["true"], user="nonesuch-user")


def test_a_program_is_in_its_cgroup_from_the_beginning(runner: Runner, group: CpuGroup, tmp_path: Path) -> None:
    out = runner.run(["cat", "/proc/self/cgroup"], cgroups=group.paths).stdout
    assert f"/{group.path.name}\n" in out
    process = runner.start(["sleep", "60"], stdout=tmp_path / "o", stderr=tmp_path / "e", cgroups=group.paths)
    while (Path("/proc") / str(process.pid) / "comm").read_text() != "sleep\n":
        time.sleep(0.01)
    assert str(process.pid) in (group.path / "cgroup.procs").read_text().split()
    process.terminate()
    assert process.wait(20) == -signal.SIGTERM


def test_a_missing_cgroup_starts_nothing(runner: Runner, tmp_path: Path) -> None:
    done = runner.run(["touch", str(tmp_path / "ran")], cgroups=[tmp_path / "nonesuch"], check=False)
    assert done.returncode == 126
    assert not (tmp_path / "ran").exists()
