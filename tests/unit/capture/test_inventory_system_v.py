"""System V objects of other programs: which are the server's own, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captured import made
from pgdyno.capture.kernel_files import read_kernel_files
from pgdyno.capture.texts import Capture
from pgdyno.inventory.reading import read_inventory
from pgdyno.inventory.system_v import read_foreign_ipc
from pgdyno.linux.kernel_tree import Tree
from pgdyno.model.facts import Unknown

SHM = """       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime
    871054    8388613   600                    56   900  6190      7    26    26    26    26 1795313456
    869643    9011220   600                    56  1409  1418      7    26    26    26    26 1795314460
    124075    4063234   660             268435456  1500  1501      9   501   501   501   501 1795314460
"""
SEM = """       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
    871055          0   600         17    26    26    26    26 1795313456 1795313456
    124076          1   660        250   501   501   501   501 1795313456 1795313456
    124077          2   660        250   501   501   501   501 1795313456 1795313456
"""
MSG = """       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime
    124078          0   660          0          0     0     0   501   501   501   501          0
"""
SERVER = {"commands__postmaster.json": '{"pid": 900}', "proc__postmaster__status": "Uid:\t26\t26\t26\t26\n"}


def host(shm: str = SHM, sem: str = SEM, msg: str = MSG, server: dict[str, str] = SERVER) -> Capture:
    return made(proc__sysvipc__shm=shm, proc__sysvipc__sem=sem, proc__sysvipc__msg=msg, **server)


@pytest.mark.requirement("R-IPC-08")
def test_objects_of_others_are_counted_and_the_mark_of_another_server_is_not() -> None:
    assert read_foreign_ipc(host()) == {"shm": 1, "sem": 2, "msg": 1}
    own = SHM.replace("  1500  1501", "   900  1501")
    assert read_foreign_ipc(host(own)) == {"shm": 0, "sem": 2, "msg": 1}


def test_without_a_postmaster_only_what_no_server_owns_is_known() -> None:
    assert read_foreign_ipc(host(server={})) == {"msg": 1}
    empty = [text.splitlines()[0] + "\n" for text in (SHM, SEM, MSG)]
    assert read_foreign_ipc(host(*empty, server={})) == {"shm": 0, "sem": 0, "msg": 0}


def test_what_was_not_captured_is_unknown_with_the_reason() -> None:
    found = read_foreign_ipc(Capture({}, {"proc/sysvipc/shm": "no such file"}))
    assert isinstance(found, Unknown)
    assert "no such file" in found.reason


def test_a_live_kernel_is_read_into_the_capture() -> None:
    texts, missing = read_kernel_files(Tree())
    assert all(f"proc/sysvipc/{kind}" in texts or f"proc/sysvipc/{kind}" in missing for kind in ("shm", "sem", "msg"))
    found = read_inventory(Capture(texts, missing)).host.foreign_ipc
    assert isinstance(found, Unknown) or found["msg"] >= 0


@given(st.integers(0, len(SHM)), st.text(max_size=40))
def test_a_cut_table_never_raises(cut: int, tail: str) -> None:
    found = read_inventory(host(SHM[:cut] + tail)).host.foreign_ipc
    assert isinstance(found, Unknown) or found.get("shm", 0) <= 3
