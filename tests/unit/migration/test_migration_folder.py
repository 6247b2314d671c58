"""The folder of a rehearsal: nobody else may put something in its place, for what lies there is restored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.migration.mover import MigrationSide, MovePlace
from pgdyno.migration.own_folder import make_folder, require_own, require_own_way, require_reach
from pgdyno.owner.account import Account
from pgdyno.studies.migrate.prepare import require_room
from pgdyno.studies.migrate.run import remove_dump


def test_a_way_that_others_can_change_is_refused(tmp_path: Path) -> None:
    shared, link = tmp_path / "shared", tmp_path / "link"
    shared.mkdir()
    shared.chmod(0o777)
    link.symlink_to(shared)
    for folder in (shared, shared / "not there yet", link / "dumps"):
        with pytest.raises(EnvironmentUnsuitable, match="can be written by others"):
            require_own_way(folder)
        with pytest.raises(EnvironmentUnsuitable):
            make_folder(folder, "study", None)
        assert list(shared.iterdir()) == []
    shared.chmod(0o1777)  # as /tmp: nobody takes away what is not theirs
    require_own_way(shared / "not there yet")


def test_the_folder_is_ours_alone_and_there_again_when_it_goes_on(tmp_path: Path) -> None:
    parent = tmp_path / "a" / "b"
    made = make_folder(parent, "study", None)
    assert made.stat().st_mode & 0o777 == 0o700
    assert make_folder(parent, "study", None) == made
    require_own(made, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="asks for another account")
def test_a_folder_that_the_account_cannot_make_is_refused_beforehand(tmp_path: Path) -> None:
    nobody = Account.of_user(65534)
    with pytest.raises(EnvironmentUnsuitable, match=r'account "nobody" cannot write in ".*", where ".*/copies" of'):
        require_reach(tmp_path / "copies", nobody, writes=True)
    require_reach(tmp_path / "copies", None, writes=True)
    tmp_path.chmod(0o700)
    with pytest.raises(EnvironmentUnsuitable, match=r'account "nobody" cannot enter ".*", where ".*/dumps" of'):
        require_reach(tmp_path / "dumps", nobody, writes=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to another account")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    with pytest.raises(EnvironmentUnsuitable, match="belongs to user 12345"):
        require_own_way(theirs / "dumps")
    with pytest.raises(EnvironmentUnsuitable, match='belongs to user 12345 and not to user "root"'):
        require_own(theirs, None)


def test_a_folder_that_others_read_is_not_copied_to(tmp_path: Path) -> None:
    open_one = tmp_path / "open"
    open_one.mkdir()
    open_one.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(make_folder(tmp_path, "study", None))
    with pytest.raises(EnvironmentUnsuitable, match="is no folder"):
        require_own(link, None)
    with pytest.raises(EnvironmentUnsuitable, match="mode 0755 they may read it") as refused:
        require_own(open_one, None)
    assert refused.value.hint == f"chmod 700 {open_one}, or name another folder by transfer_to."
    open_one.chmod(0o720)
    with pytest.raises(EnvironmentUnsuitable, match="mode 0720 they may write to it"):
        require_own(open_one, None)


def test_the_copy_of_a_dump_goes_with_it(tmp_path: Path) -> None:
    folder, copy = (make_folder(tmp_path / name, "study", None) for name in ("dumps", "copies"))
    beside = make_folder(tmp_path / "copies", "another", None)
    (copy / "1.dat").write_text("rows")
    nobody = cast(MigrationSide, None)
    remove_dump(
        MovePlace(
            source=nobody, target=nobody, folder=folder, jobs=1, tag="x", program=str, halt=lambda: "the stop file",
            options={"transfer_to": str(tmp_path / "copies")},
        )
    )  # fmt: skip
    assert (folder.exists(), copy.exists(), beside.exists()) == (False, False, True)


def test_a_folder_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="what is free for the dump in"):
        require_room({"dump": (tmp_path / ("x" * 300), 1)})
