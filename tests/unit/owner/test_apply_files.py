"""Durable writing, and the exact image of a file."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.shapes import shaped
from pgdyno.owner import durable, file_image
from pgdyno.owner.durable import Attributes
from pgdyno.owner.file_image import FileImage
from pgdyno.owner.hands import OURS

OWN = Attributes(os.getuid(), os.getgid(), 0o640)


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_replace_makes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    durable.replace(path, b"one", OWN)
    durable.replace(path, b"two", OWN)
    assert path.read_bytes() == b"two"
    assert Attributes.of(path).without_time() == OWN
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.conf"]


def test_replace_removes_what_a_crash_left(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    durable.temporary_path(path).write_bytes(b"half")
    durable.replace(path, b"whole", OWN)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.conf"]


@pytest.mark.parametrize("failing", ["write", "fsync", "fchmod"])
def test_a_failed_replace_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, no_space)
        with pytest.raises(OSError, match="No space"):
            durable.replace(path, b"new", OWN)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.conf"]


def test_replace_syncs_file_then_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real_fsync, real_rename = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        order.append("fsync directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "fsync file")
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> Path:
        order.append("rename")
        return real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    durable.replace(tmp_path / "a.conf", b"new", OWN)
    assert order == ["fsync file", "rename", "fsync directory"]


def test_write_new_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        durable.write_new(tmp_path / "link", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_reserved_space_is_really_allocated(tmp_path: Path) -> None:
    durable.reserve_space(tmp_path / "reserve", 1 << 20)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 1 << 20


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 2**62), st.sampled_from([0o600, 0o640, 0o644]))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_image_comes_back_exactly(tmp_path: Path, old: bytes, new: bytes, mtime_ns: int, mode: int) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(old)
    path.chmod(mode)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    image, data = file_image.capture(path)
    assert image.is_in_place()
    durable.replace(path, new, OWN)
    assert file_image.restore(image, data)
    assert path.read_bytes() == old
    assert Attributes.of(path) == Attributes(os.getuid(), os.getgid(), mode, path.stat().st_mtime_ns)
    assert image.is_in_place()
    assert not file_image.restore(image, data)


def test_absence_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    image, data = file_image.capture(path)
    durable.replace(path, b"new", OWN)
    durable.temporary_path(path).write_bytes(b"half")
    assert file_image.restore(image, data)
    assert list(tmp_path.iterdir()) == []
    assert not file_image.restore(image, data)


def test_a_leftover_goes_even_when_the_file_is_right(tmp_path: Path) -> None:
    image, data = file_image.capture(tmp_path / "a.conf")
    durable.temporary_path(tmp_path / "a.conf").write_bytes(b"half")
    assert not file_image.restore(image, data)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_does_not_stop_a_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"port = 5432\n")
    image, data = file_image.capture(path)
    path.write_bytes(b"port = 5432\ninclude_if_exists 'pgdyno.conf'\n")
    monkeypatch.setattr(durable, "write_new", no_space)
    assert file_image.restore(image, data)
    assert image.is_in_place()


def test_an_error_that_is_no_full_disk_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    image, data = file_image.capture(path)
    path.write_bytes(b"new")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(durable, "write_new", denied)
    with pytest.raises(PermissionError):
        file_image.restore(image, data)
    assert path.read_bytes() == b"new"


def test_an_image_survives_json(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    for name in ("a", "absent"):
        image, _ = file_image.capture(tmp_path / name)
        assert shaped(FileImage, image.to_json()) == image


NOBODY = 0xFFFFFFFF
_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who)
    for tag, rights, who in ((1, 6, NOBODY), (2, 4, 65534), (4, 4, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))
)
"""user::rw-,user:65534:r--,group::r--,mask::r--,other::--- (acl(5), linux/posix_acl_xattr.h)."""


def give(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"the file system of {path} has no {name}: {error.strerror}")


@pytest.mark.parametrize("mode", [0o640, 0o440])
def test_extended_attributes_and_acl_stay_through_a_session(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    give(path, "user.backup", b"daily\0x")
    give(path, "system.posix_acl_access", _ACL)
    path.chmod(mode)
    kept = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    image, data = file_image.capture(path)
    assert shaped(FileImage, json.loads(json.dumps(image.to_json()))) == image
    OURS.check_replaceable([path])
    durable.replace(path, b"new", Attributes.of(path).without_time())
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == kept
    os.removexattr(path, "user.backup")
    os.setxattr(path, "user.other", b"1")
    os.removexattr(path, "system.posix_acl_access")
    assert not image.is_in_place()
    assert file_image.restore(image, data)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == kept
    assert path.stat().st_mode & 0o777 == mode
    assert image.is_in_place()


def test_what_a_directory_gives_to_new_files_is_not_for_one_that_had_none(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    path.chmod(0o640)
    give(tmp_path, "system.posix_acl_default", _ACL)
    durable.replace(path, b"new", Attributes.of(path))
    assert os.listxattr(path) == []
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_with_a_second_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    (tmp_path / "copy").hardlink_to(path)
    with pytest.raises(EnvironmentUnsuitable, match="has 2 names") as caught:
        OURS.check_replaceable([tmp_path / "absent", path])
    assert "--sql-only" in (caught.value.hint or "")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.conf", "copy"]


def test_attributes_that_cannot_be_kept_are_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.conf"
    path.write_bytes(b"old")
    give(path, "user.backup", b"daily")

    def denied(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setxattr", denied)
    with pytest.raises(EnvironmentUnsuitable, match="attributes cannot be kept: operation not permitted"):
        OURS.check_replaceable([path])
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.setattr(os, "setxattr", lambda *_: None)
    with pytest.raises(EnvironmentUnsuitable, match="gives a new file another owner"):
        OURS.check_replaceable([path])


def test_what_is_no_file_is_refused_by_its_name_and_leaves_nothing_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="not a regular file") as caught:
            durable.read_regular(tmp_path / name, 10)
        assert caught.value.filename == str(tmp_path / name)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
