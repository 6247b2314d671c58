"""Rules on System V limits: the table, its formula and misprints, floors that lower nothing, who needs them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, make_host, make_server
from kernel_case import MODERN_IPC, says
from pgdyno.advisor.system_v import parse_semaphores, semaphore_floor, shared_memory_floors, shared_memory_rows
from pgdyno.model.finding import Answer

TABLE = [
    (2, 400000, 4096, 1700000000),
    (4, 912600, 4096, 3774873600),
    (8, 1971200, 4096, 8074035200),
    (12, 3020800, 4096, 12373196800),
    (16, 4070400, 4096, 16672358400),
    (20, 5120000, 4096, 20971520000),
    (24, 6169600, 4096, 25270681600),
]
OLD = {**MODERN_IPC, "kernel.shmmax": "33554432", "kernel.shmall": "2097152", "kernel.sem": "250 32000 32 128"}
SYSV = make_server(18, changed={"shared_memory_type": "sysv"})


@pytest.mark.requirement("R-IPC-01")
def test_table_is_that_of_the_source():
    assert [(row.memory_gb, row.shmall, row.shmmni, row.shmmax) for row in shared_memory_rows()] == TABLE


@pytest.mark.requirement("R-IPC-03")
@pytest.mark.parametrize("row", TABLE)
def test_formula_fits_every_row(row):
    memory, _, shmmni, shmmax = row
    floors = shared_memory_floors(memory * GB, 4096)
    assert (floors["kernel.shmmax"], floors["kernel.shmmni"]) == (shmmax, shmmni)


@pytest.mark.requirement("R-IPC-02", "R-IPC-03", "R-ARC-02")
def test_32_gb_and_pages_of_64_kib():
    floors = shared_memory_floors(32 * GB, 4096)
    assert floors["kernel.shmmax"] == 32300 * MB
    assert floors["kernel.shmall"] == 32300 * MB // 4096
    assert shared_memory_floors(32 * GB, 65536)["kernel.shmall"] == 32300 * MB // 65536


@given(ram=st.integers(256 * MB, 64 * 1024 * GB), page=st.sampled_from([4096, 65536]))
def test_all_shared_memory_always_holds_one_segment(ram, page):
    floors = shared_memory_floors(ram, page)
    assert floors["kernel.shmall"] * page >= floors["kernel.shmmax"]
    assert floors["kernel.shmmax"] <= shared_memory_floors(ram + GB, page)["kernel.shmmax"]


@pytest.mark.requirement("R-IPC-04", "CON-27")
def test_two_rows_contradict_themselves_and_are_reported():
    assert [row.memory_gb for row in shared_memory_rows() if not row.is_consistent] == [2, 4]
    finding = says("shared-memory-limits", make_host(sysctls=OLD), SYSV)
    assert "2 GB and 4 GB" in next(one.decided for one in finding.resolutions if one.id == "CON-27")


@pytest.mark.requirement("R-IPC-07", "R-IPC-08", "CON-26")
def test_modern_limits_are_never_lowered():
    finding = says("shared-memory-limits", make_host(sysctls=MODERN_IPC), SYSV)
    assert (finding.answer, finding.changes) == (Answer.OK, ())
    assert "Already above" in finding.reason
    assert "left as they are" in next(one.decided for one in finding.resolutions if one.id == "CON-26")


@pytest.mark.requirement("R-IPC-08", "CON-26")
def test_limits_bind_system_v_main_memory_only():
    mapped = says("shared-memory-limits", make_host(sysctls=OLD))
    assert mapped.answer is Answer.NOT_APPLICABLE
    assert "mmap" in mapped.reason
    assert "already above" not in mapped.reason
    modern = says("shared-memory-limits", make_host(sysctls=MODERN_IPC))
    assert modern.reason.endswith("already above the table for 128 GiB: nothing to do.")
    finding = says("shared-memory-limits", make_host(sysctls=OLD, ram_bytes=32 * GB), SYSV)
    assert {change.knob: int(change.value) for change in finding.changes} == {
        "kernel.shmmax": 32300 * MB,
        "kernel.shmall": 32300 * MB // 4096,
    }
    others = replace(make_host(sysctls=OLD), foreign_ipc={"shm": 3})
    assert says("shared-memory-limits", others).answer is Answer.FINDING


@pytest.mark.requirement("R-IPC-05")
def test_kernel_sem_is_read_in_the_kernels_order():
    assert parse_semaphores("32000\t1024000000\t500\t32000") == (32000, 1024000000, 500, 32000)
    assert semaphore_floor() == (250, 256000, 32, 1024)
    assert parse_semaphores("250 32000 32") is None
    assert parse_semaphores("a b c d") is None


@pytest.mark.requirement("R-IPC-05", "R-IPC-07")
def test_floors_of_semaphores_are_for_others_on_the_host():
    alone = says("semaphores", make_host(sysctls=OLD))
    assert alone.answer is Answer.OK
    others = replace(make_host(sysctls=OLD), foreign_ipc={"sem": 12})
    (change,) = says("semaphores", others).changes
    assert (change.knob, change.value) == ("kernel.sem", "250 256000 32 1024")
    modern = replace(make_host(sysctls=MODERN_IPC), foreign_ipc={"sem": 12})
    assert says("semaphores", modern).answer is Answer.OK


@pytest.mark.requirement("R-IPC-09")
def test_need_of_18_is_what_the_server_says():
    server = replace(make_server(18), semaphores=40000)
    (change,) = says("semaphores", make_host(sysctls=OLD), server).changes
    sets = 2500
    assert change.value == f"250 {40000 + sets} 32 {sets}"
    assert "num_os_semaphores" in says("semaphores", make_host(sysctls=MODERN_IPC), server).reason
    assert "max_connections" in says("semaphores", make_host(sysctls=MODERN_IPC), make_server(13)).reason


@given(limits=st.tuples(*[st.integers(1, 10**9)] * 4), need=st.integers(1, 10**6))
def test_no_number_of_kernel_sem_is_ever_lowered(limits, need):
    text = " ".join(str(number) for number in limits)
    server = replace(make_server(18), semaphores=need)
    finding = says("semaphores", make_host(sysctls={"kernel.sem": text}), server)
    for change in finding.changes:
        assert all(int(new) >= old for new, old in zip(change.value.split(), limits, strict=True))


@pytest.mark.requirement("R-IPC-06", "R-IPC-07")
def test_message_floors_are_for_others_only():
    assert says("message-limits", make_host(sysctls=MODERN_IPC)).answer is Answer.NOT_APPLICABLE
    old = {"kernel.msgmni": "16", "kernel.msgmax": "8192", "kernel.msgmnb": "16384"}
    finding = says("message-limits", replace(make_host(sysctls=old), foreign_ipc={"msg": 1}))
    assert {change.knob: change.value for change in finding.changes} == {
        "kernel.msgmni": "1024",
        "kernel.msgmax": "65536",
        "kernel.msgmnb": "65536",
    }
    modern = says("message-limits", replace(make_host(sysctls=MODERN_IPC), foreign_ipc={"msg": 1}))
    assert "kernel.msgmni" not in {change.knob for change in modern.changes}


@pytest.mark.requirement("R-IPC-10")
def test_texts_say_where_limits_are_read_and_persisted():
    for rule in ("shared-memory-limits", "semaphores", "message-limits"):
        finding = says(rule, make_host(sysctls=MODERN_IPC))
        assert "/proc/sys/kernel/" in finding.verify
        assert "/etc/sysctl.d" in finding.persist
