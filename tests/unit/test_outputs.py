"""Files for the user: whose they are, who can read them, and that no trap is followed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pgdyno import outputs
from pgdyno.capture.folder import write_folder
from pgdyno.capture.texts import Capture
from pgdyno.cli.terminal.files import make_folder
from pgdyno.errors import UsageError
from pgdyno.outputs import (
    PUBLIC,
    check_output,
    ensure_folder,
    new_folder,
    open_new,
    open_to_add,
    output,
    write_output,
)
from pgdyno.store.engine import make_engine, parse_url
from pgdyno.studies.batch.wrapped import WrappedJob, run_wrapped
from pgdyno.trace.parquet import work_folder

OTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another account")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture(autouse=True, params=[0o022, 0o000, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder where everybody writes, as the temporary one."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_new_file_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    write_output(tmp_path / "report.html", "é")
    assert (tmp_path / "report.html").read_text("utf-8") == "é"
    assert mode(tmp_path / "report.html") == 0o600
    new_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700
    assert not mode(tmp_path / "a") & 0o022
    assert list(tmp_path.glob(".*")) == []


def test_a_file_for_other_accounts_is_as_the_umask_allows(tmp_path: Path, umask: int) -> None:
    write_output(tmp_path / "x.service", "", mode=PUBLIC)
    assert mode(tmp_path / "x.service") == 0o644 & ~umask


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    write_output(path, "new")
    assert (mode(path), path.read_text()) == (0o640, "new")
    with pytest.raises(RuntimeError), output(path) as file:  # noqa: PT012 - what fails is the writing
        file.write(b"half")
        raise RuntimeError
    assert (path.read_text(), names(tmp_path)) == ("new", ["report.html"])


@pytest.mark.parametrize(
    ("asked", "file", "folder"), [("0644", 0o644, 0o755), ("640", 0o640, 0o750), ("", 0o600, 0o700)]
)
def test_another_mode_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, file: int, folder: int
) -> None:
    monkeypatch.setenv("PGDYNO_OUTPUT_MODE", asked)
    write_output(tmp_path / "a", b"")
    ensure_folder(tmp_path / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (file, folder)


@pytest.mark.parametrize("asked", ["0755", "0444", "rw", "9", "-1", "0o600", "1" * 50, "066²"])
def test_what_is_no_mode_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("PGDYNO_OUTPUT_MODE", asked)
    with pytest.raises(UsageError, match="PGDYNO_OUTPUT_MODE"):
        write_output(tmp_path / "a", b"")
    assert names(tmp_path) == []


def test_a_link_of_our_own_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "latest.html").symlink_to("reports/7.html")
    (tmp_path / "reports").mkdir(mode=0o755)
    for text in ("one", "two"):
        write_output(tmp_path / "latest.html", text)
        assert (tmp_path / "reports" / "7.html").read_text() == text
    assert (tmp_path / "latest.html").is_symlink()


@needs_root
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "chain"])
def test_a_trap_of_another_account_in_a_shared_folder_is_not_followed(tmp_path: Path, shared: Path, kind: str) -> None:
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    trap = shared / "report.html"
    if kind == "fifo":
        os.mkfifo(trap, 0o666)
    else:
        trap.symlink_to(canary if kind == "link" else tmp_path / "made")
    os.lchown(trap, OTHER, OTHER)
    path = trap
    if kind == "chain":
        path = tmp_path / "mine.html"
        path.symlink_to(trap)
    for act in (lambda: write_output(path, "ours"), lambda: check_output(path)):
        with pytest.raises(UsageError, match=f'"{trap}" (belongs to|was put there by) user') as told:
            act()
        assert told.value.hint is not None
    assert canary.read_text() == "untouched"
    assert not (tmp_path / "made").exists()
    assert names(shared) == ["report.html"]


@needs_root
def test_a_file_of_another_account_is_replaced_and_never_written(shared: Path) -> None:
    theirs = shared / "report.html"
    theirs.write_text("theirs")
    theirs.chmod(0o666)
    os.chown(theirs, OTHER, OTHER)
    with theirs.open() as kept:
        write_output(theirs, "ours")
        assert kept.read() == "theirs"
    assert (theirs.stat().st_uid, mode(theirs)) == (os.geteuid(), 0o600)


WRITERS: dict[str, Callable[[Path], object]] = {
    "file": lambda path: write_output(path, "ours"),
    "look": check_output,
    "new": open_new,
    "added to": lambda path: open_to_add(path, 0o644),
    "folder": new_folder,
    "folder that may be there": lambda path: ensure_folder(path.parent),
    "folder of a verb": make_folder,
    "capture": lambda path: write_folder(Capture({}), path),
    "store": lambda path: make_engine(parse_url(f"sqlite:///{path}")),
    "record": lambda path: run_wrapped(WrappedJob("nightly", "load", 1), ["true"], path),
}
"""Whoever adds a way to write a file of the user's names it here."""


@needs_root
@pytest.mark.parametrize("trap", ["link", "folder", "open"])
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_by_a_way_that_another_account_controls(tmp_path: Path, shared: Path, name: str, trap: str):
    inside = shared / "reports"
    target = tmp_path / "roots"
    target.mkdir(mode=0o755)
    if trap == "link":
        inside.symlink_to(target)
    else:
        inside.mkdir()
        inside.chmod(0o777 if trap == "open" else 0o755)
    if trap != "open":
        os.lchown(inside, OTHER, OTHER)
    for path in (inside / "made", inside / "below" / "made"):
        doubt = "can be written by others" if trap == "open" else "belongs to user"
        with pytest.raises(UsageError, match=f'"{inside}" {doubt}'):
            WRITERS[name](path)
    assert names(target) == []
    assert names(inside) == []


@needs_root
def test_another_account_leads_no_record_of_a_job_elsewhere(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o1777)
        link = Path(place) / "records"
        subprocess.run(["ln", "-s", str(tmp_path), str(link)], user=OTHER, group=OTHER, extra_groups=[], check=True)
        words = ["job", "run", "--process", "p", "--name", "j", "--record", str(link / "jobs.csv"), "--", "true"]
        done = subprocess.run([sys.executable, "-m", "pgdyno", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, names(tmp_path)) == (2, [])
    assert f'"{link}" belongs to user' in done.stderr
    assert "hint: " in done.stderr.lower()


@needs_root
def test_a_file_is_written_where_one_stands_whosever_folder_it_is(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = shared / "home"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    monkeypatch.chdir(theirs)
    for path in (Path("report.html"), theirs / "report.html"):
        write_output(path, "ours")
    assert Path("report.html").read_text() == "ours"
    with open_to_add(Path("jobs.csv"), 0o644) as file:
        file.write(b"row")
    with work_folder(Path("trace.parquet")) as folder:
        open_new(folder / "rows").close()
    (theirs / "mine").mkdir()
    for path in (Path("mine/report.html"), Path("../report.html")):  # its owner may exchange the one, and the other's
        with pytest.raises(UsageError, match=f'"{theirs}" belongs to user'):
            write_output(path, "ours")
    for act in (lambda: new_folder(Path("captured")), lambda: make_engine(parse_url("sqlite:///store.db"))):
        with pytest.raises(UsageError, match=f'"{theirs}" belongs to user'):
            act()  # files are made in it by name, and its owner may exchange it


def test_the_usual_places_are_written(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_folder(tmp_path / "data" / "me")
    (tmp_path / "home").symlink_to("data")  # as a /home that lies elsewhere
    (tmp_path / "data" / "me" / "up").symlink_to("../../shared")
    monkeypatch.chdir(tmp_path / "home" / "me")
    new_folder(shared / "mine")
    for path in (
        shared / "mine" / "a", shared / "a", tmp_path / "home" / "me" / "a", Path("b"), Path("up/c"), Path("../me/d"),
    ):  # fmt: skip
        write_output(path, "x")
        assert path.read_text() == "x"
    (tmp_path / "data" / "me" / "group").mkdir()
    (tmp_path / "data" / "me" / "group").chmod(0o775)
    if os.geteuid() == 0:
        os.chown(tmp_path / "data" / "me" / "group", 0, OTHER)
        with pytest.raises(UsageError, match="can be written by others"):
            write_output(Path("group/a"), "x")
    else:
        write_output(Path("group/a"), "x")  # a umask of 002 is usual where each user has a group


def test_nothing_is_added_to_a_file_of_two_names(tmp_path: Path) -> None:
    (tmp_path / "roots").write_text("roots")
    (tmp_path / "jobs.csv").hardlink_to(tmp_path / "roots")
    os.mkfifo(tmp_path / "pipe")
    for name in ("jobs.csv", "pipe"):
        with pytest.raises(UsageError, match="one name alone"):
            open_to_add(tmp_path / name, 0o644)


def test_a_new_file_is_never_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("link", "."):
        with pytest.raises(OSError, match="exists"):
            open_new(tmp_path / name)


def test_a_pipe_and_a_terminal_are_written_as_they_are() -> None:
    words = [
        "-c",
        "from pathlib import Path; from pgdyno.outputs import write_output as w; w(Path('/dev/stdout'), 'told')",
    ]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "told"
    write_output(Path("/dev/null"), "gone")
    check_output(Path("/dev/null"))


def test_looking_whether_a_file_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    check_output(tmp_path / "report.html")
    assert names(tmp_path) == []
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "report.html").chmod(0o600)
    check_output(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"
    for refused in (tmp_path, tmp_path / "none" / "report.html", tmp_path / "report.html" / "x"):
        with pytest.raises(OSError):  # noqa: PT011 - of several kinds
            check_output(refused)


@pytest.mark.timeout(20)
def test_looking_at_a_pipe_waits_for_nobody_and_ends_no_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_output(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        check_output(tmp_path / "pipe")
        write_output(tmp_path / "pipe", "told")
        assert reader.communicate()[0] == "told"


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_output(tmp_path / "a", "x")


@needs_root
def test_no_mode_is_taken_from_what_another_account_put_in_the_place(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = shared / "home"
    theirs.mkdir()
    for folder in (theirs, shared):
        old = folder / "report.html"
        old.write_text("a file of root's for all to read, moved here")
        old.chmod(0o644)
        os.chown(theirs, OTHER, OTHER)
        monkeypatch.chdir(folder)
        write_output(Path("report.html"), "ours")
        assert mode(old) == 0o600


def test_a_pipe_that_is_exchanged_meanwhile_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary, place = tmp_path / "canary", tmp_path / "pipe"
    canary.write_text("untouched")
    os.mkfifo(place)
    really = outputs._open_special

    def exchanged(path: Path, seen: os.stat_result) -> BinaryIO:
        place.unlink()
        place.symlink_to(canary)
        return really(path, seen)

    monkeypatch.setattr(outputs, "_open_special", exchanged)
    with pytest.raises(UsageError, match="was exchanged meanwhile"):
        write_output(place, "ours")
    assert canary.read_text() == "untouched"


@needs_root
def test_nothing_is_added_to_a_file_of_another_account(shared: Path) -> None:
    theirs = shared / "jobs.csv"
    theirs.write_text("theirs")
    os.chown(theirs, OTHER, OTHER)
    with pytest.raises(OSError, match="denied") if _is_protected() else pytest.raises(UsageError, match="belongs to"):
        open_to_add(theirs, 0o644)
    assert theirs.read_text() == "theirs"


def _is_protected() -> bool:
    """Tell whether the kernel itself refuses it in a folder where all may write: fs.protected_regular of proc(5)."""
    return Path("/proc/sys/fs/protected_regular").read_text().strip() != "0"


@needs_root
def test_a_folder_that_is_missing_is_not_anothers_a_moment_later(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, really = shared / "made" / "link", outputs.doubt_about_parts

    def planted(*given: Any, **named: Any) -> str | None:  # between two looks
        doubt = really(*given, **named)
        if not trap.parent.exists():
            trap.parent.mkdir()
            trap.symlink_to(tmp_path)
            os.chown(trap.parent, OTHER, OTHER)
        return doubt

    monkeypatch.setattr(outputs, "doubt_about_parts", planted)
    with pytest.raises(UsageError, match="belongs to user"):
        open_new(trap / "file")
    assert not (tmp_path / "file").exists()


@needs_root
def test_who_is_named_in_a_list_of_roots_own_folder_may_lead_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "listed"
    folder.mkdir()
    folder.chmod(0o770)
    write_output(folder / "a", "x")
    entries = ((0x01, 7, -1), (0x02, 7, OTHER), (0x04, 0, -1), (0x10, 7, -1), (0x20, 0, -1))
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in entries)
    try:
        os.setxattr(folder, "system.posix_acl_access", content)
    except OSError:
        pytest.skip("no lists on this file system")
    with pytest.raises(UsageError, match="can be written by others"):
        write_output(folder / "a", "x")
