"""The way to a file: what an ordinary account has mounted on it is in doubt, whatever owner and mode it shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.outside import mounts
from pgdyno.outside.mounts import device_of, makers_in
from pgdyno.outside.secret_file import read_secret
from pgdyno.outside.way import doubt_about, doubt_about_parts
from pgdyno.owner.account import owner_of_server

OTHER = 65534
LINE = "36 35 {device} / {point} rw,nosuid,nodev,relatime shared:1 - {kind} src {options}\n"


def line(point: Path | str, device: str = "0:77", kind: str = "fuse.sshfs", maker: int = OTHER) -> str:
    options = f"rw,user_id={maker},group_id={maker},default_permissions,allow_other"
    return LINE.format(device=device, point=point, kind=kind, options=options)


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that tells what is mounted."""
    told = tmp_path / "mountinfo"
    told.write_text("")
    monkeypatch.setattr(mounts, "MOUNTS", told)
    return told


def test_a_folder_that_another_account_mounted_is_in_doubt_though_it_says_that_it_is_ours(
    tmp_path: Path, mounted: Path
) -> None:
    place = tmp_path / "of root" / "plan.toml"
    place.parent.mkdir()
    place.write_text("version = 1")
    own = os.geteuid()
    before = doubt_about(place, own, may_be_shared=True)
    mounted.write_text(line(str(place.parent).replace(" ", "\\040")))
    assert f'"{place.parent}" was mounted by ' in (doubt_about(place, own, may_be_shared=True) or "")
    mounted.write_text(line(place.parent, maker=own))
    assert doubt_about(place, own, may_be_shared=True) == before


def test_what_is_reached_without_its_mount_point_is_told_by_its_device(tmp_path: Path, mounted: Path) -> None:
    mounted.write_text(line("/elsewhere", device=device_of(tmp_path.stat())))
    assert "was mounted by" in (doubt_about_parts([tmp_path], os.geteuid()) or "")


def test_a_mount_whose_program_never_answers_is_not_looked_at(
    tmp_path: Path, mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted.write_text(line(tmp_path))

    def hang(path: Path) -> os.stat_result:
        raise AssertionError(f"{path} was asked")

    monkeypatch.setattr(Path, "lstat", hang)
    assert "was mounted by" in (doubt_about_parts([tmp_path], os.geteuid()) or "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (line("/a"), {"/a": OTHER, "0:77": OTHER}),
        (line("/a", kind="fuse"), {"/a": OTHER, "0:77": OTHER}),
        (line("/a", kind="fuseblk", maker=0), {"/a": 0, "0:77": 0}),
        (LINE.format(device="0:3", point="/c", kind="fusectl", options="rw"), {}),
        (LINE.format(device="8:1", point="/d", kind="ext4", options="rw,user_id=5"), {}),
        (line("/a") + LINE.format(device="8:1", point="/a", kind="ext4", options="rw"), {"0:77": OTHER}),
        ("nonsense\n- fuse\n", {}),
        (line("/a\x0cb"), {"/a\x0cb": OTHER, "0:77": OTHER}),
        (line("/a\u2028b\x1c"), {"/a\u2028b\x1c": OTHER, "0:77": OTHER}),
    ],
    ids=range(9),
)
def test_who_made_a_mount_is_read_of_fuse_alone(text: str, found: dict[str, int]) -> None:
    assert makers_in(text) == found


@pytest.fixture
def anonymous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are on a device without a number of its own, as those of FUSE are."""
    monkeypatch.setattr(os, "major", lambda _: 0)


@pytest.mark.usefixtures("anonymous")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root takes on the identity of others")
def test_an_account_s_own_mount_does_not_choose_whose_rights_root_takes_on(tmp_path: Path, mounted: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    status = tmp_path.stat()
    assert owner_of_server(tmp_path, status).uid == 1234
    mounted.write_text(line("/elsewhere", device=device_of(status), maker=1234))
    assert owner_of_server(tmp_path, status).uid == 1234
    mounted.write_text(line("/elsewhere", device=device_of(status), maker=OTHER))
    with pytest.raises(PermissionError, match=f"on a mount of user {OTHER}, which says that it belongs to user 1234"):
        owner_of_server(tmp_path, status)
    os.chown(tmp_path, 0, 0)
    mounted.write_text(line(tmp_path.parent))
    with pytest.raises(PermissionError, match="leads to a directory of root's"):
        owner_of_server(tmp_path, tmp_path.stat())


@pytest.mark.usefixtures("anonymous")
def test_a_token_of_another_account_s_mount_is_not_taken(tmp_path: Path, mounted: Path) -> None:
    path = tmp_path / "token"
    assert read_secret(path, "--token-file", lambda: "x" * 40) == "x" * 40
    mounted.write_text(line("/elsewhere", device=device_of(path.stat())))
    with pytest.raises(UsageError, match="is not a file of yours"):
        read_secret(path, "--token-file", lambda: "x" * 40)
