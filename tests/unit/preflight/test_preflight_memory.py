"""Shared memory, the commit limit and huge pages, judged from facts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdyno.model.facts import Unknown
from pgdyno.preflight.huge_pages import huge_pages, pages_needed
from pgdyno.preflight.memory import commit_limit, shared_memory
from pgdyno.preflight.reading_host import SharedSegment, parse_limits, segment_of, semaphore_sets_of
from pgdyno.preflight.result import State
from preflight_facts import GB, MB, UNKNOWN, host, plan, pool

ON = {"huge_pages": "on"}


@pytest.mark.parametrize(
    ("need", "expected"),
    [(1 * GB, State.OK), (13 * GB, State.NOTE), (16 * GB + 1, State.REFUSED), (UNKNOWN, State.NOT_APPLICABLE)],
)
def test_shared_memory_against_the_limit(need: int, expected: State) -> None:
    assert shared_memory(plan(), need, host()).state is expected


def test_a_cgroup_counts_as_the_memory_there_is() -> None:
    result = shared_memory(plan({"shared_buffers": "3GB"}), 3 * GB, host(memory_limit=2 * GB))
    assert (result.state, result.asked, result.there) == (State.REFUSED, "3 GB", "2 GB")
    assert "shared_buffers = 3GB" in result.sentence
    assert result.hint


def test_what_the_running_server_holds_is_given_back() -> None:
    held = host(segment=SharedSegment(4 * GB, None))
    assert shared_memory(plan(), 13 * GB, held).state is State.OK


def test_a_reload_takes_no_memory() -> None:
    reload = plan(restart=False)
    checks = [shared_memory(reload, 99 * GB, host()), huge_pages(reload, 99, host()), commit_limit(reload, 1, host())]
    assert {result.state for result in checks} == {State.NOT_APPLICABLE}


def test_strict_overcommit() -> None:
    memory = {"CommitLimit": 8 * GB, "Committed_AS": 6 * GB}
    strict = host(sysctl={"vm/overcommit_memory": "2"}, memory=memory)
    assert commit_limit(plan(), 3 * GB, strict).state is State.REFUSED
    assert commit_limit(plan(), 2 * GB + 150 * MB, strict).state is State.OK  # 150 MB are the running server's
    assert commit_limit(plan(ON), 3 * GB, strict).state is State.NOT_APPLICABLE
    assert commit_limit(plan(), 3 * GB, host()).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("on", State.REFUSED), ("true", State.REFUSED), ("try", State.NOTE), ("off", State.NOT_APPLICABLE)],
)
def test_an_empty_pool(mode: str, expected: State) -> None:
    result = huge_pages(plan({"huge_pages": mode}), 144, host())
    assert result.state is expected
    assert expected is State.NOT_APPLICABLE or "144 pages of 2 MB" in result.sentence
    assert expected is not State.REFUSED or "vm.nr_hugepages=144" in (result.hint or "")


def test_promised_pages_are_not_there_and_the_running_servers_are() -> None:
    held = SharedSegment(200 * MB, 2 * MB)
    promised = host(pools={2 * MB: pool(150, free=150, reserved=100)})
    assert huge_pages(plan(ON), 51, promised).state is State.REFUSED
    assert huge_pages(plan(ON), 50, promised).state is State.OK
    assert huge_pages(plan(ON), 150, host(pools=promised.pools, segment=held)).state is State.OK
    other_size = SharedSegment(2 * GB, GB)
    assert huge_pages(plan(ON), 150, host(pools=promised.pools, segment=other_size)).state is State.REFUSED


@example(total=10, reserved=10, overcommit=0, held=0, need=5)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(1, 2000))
def test_the_hint_is_enough(total: int, reserved: int, overcommit: int, held: int, need: int) -> None:
    """Whoever types the hint gets the configuration in force."""
    segment = SharedSegment(held * 2 * MB, 2 * MB)
    before = pool(total, reserved=min(reserved, total), overcommit=overcommit)
    result = huge_pages(plan(ON), need, host(pools={2 * MB: before}, segment=segment))
    if result.state is State.REFUSED:
        more = int((result.hint or "").partition("=")[2].partition(",")[0])
        after = pool(more, free=before.free + more - total, reserved=before.reserved, overcommit=overcommit)
        assert huge_pages(plan(ON), need, host(pools={2 * MB: after}, segment=segment)).state is State.OK


@given(
    need=st.integers(1, 12_000) | st.integers(1, 1 << 40),
    available=st.integers(0, 16 * GB),
    limit=st.integers(GB, 16 * GB) | st.just(UNKNOWN),
    total=st.integers(0, 4000),
)
def test_the_hint_never_proposes_more_than_fits(need: int, available: int, limit: int | Unknown, total: int) -> None:
    memory = {"MemTotal": 16 * GB, "MemAvailable": available, "Hugepagesize": 2 * MB}
    there = host(pools={2 * MB: pool(total, free=0)}, memory=memory, memory_limit=limit, segment=UNKNOWN)
    hint = huge_pages(plan(ON), need, there).hint or ""
    if "sysctl" in hint:
        proposed = int(hint.partition("=")[2].partition(",")[0])
        assert isinstance(limit, int)
        assert proposed * 2 * MB < limit
        assert (proposed - total) * 2 * MB <= available
    else:
        assert hint.startswith("Choose smaller shared_buffers, or huge_pages = off: of the")


def test_an_absurd_number_of_pages_is_answered_by_what_there_is_room_for() -> None:
    result = huge_pages(plan(ON), 500_000_000, host())
    assert result.state is State.REFUSED
    assert result.hint == (
        "Choose smaller shared_buffers, or huge_pages = off: of the 500000000 pages that are missing, memory has room "
        "for 5529 at the moment."
    )
    one_more = huge_pages(plan({**ON, "huge_page_size": "1GB"}), 1 << 30, host(pools={GB: pool(page_bytes=GB)}))
    assert "Write" not in (one_more.hint or "")


def test_surplus_pages_a_cgroup_and_other_sizes() -> None:
    assert huge_pages(plan(ON), 10, host(pools={2 * MB: pool(overcommit=12, surplus=2)})).state is State.OK
    assert huge_pages(plan(ON), 11, host(pools={2 * MB: pool(overcommit=12, surplus=2)})).state is State.REFUSED
    bounded = huge_pages(plan(ON), 11, host(pools={2 * MB: pool(50, cgroup_bytes=20 * MB)}))
    assert (bounded.state, bounded.there) == (State.REFUSED, "20 MB")
    large = huge_pages(plan({**ON, "huge_page_size": "1GB"}), 1, host())
    assert (large.state, large.asked) == (State.REFUSED, "pages of 1 GB")
    there = host(pools={GB: pool(page_bytes=GB)})
    assert "hugepages-1048576kB" in (huge_pages(plan({**ON, "huge_page_size": "1GB"}), 1, there).hint or "")
    assert huge_pages(plan({**ON, "shared_memory_type": "sysv"}), 1, host()).state is State.REFUSED


@given(st.integers(1, 1 << 45), st.sampled_from([2 * MB, GB]))
def test_pages_cover_the_need_and_no_more(need: int, size: int) -> None:
    pages = pages_needed(need, size)
    assert isinstance(pages, int)
    assert (pages - 1) * size < need <= pages * size


SMAPS = """7fe598e0c000-7fe5a2600000 rw-s 00000000 00:01 62285                      /dev/zero (deleted)
Size:             155600 kB
KernelPageSize:        {page} kB
7fe5a6a6a000-7fe5a6a6b000 rw-s 00000000 00:01 4227075                    /SYSV009e2244 (deleted)
Size:                  4 kB
KernelPageSize:        4 kB
7fe5a6a6c000-7fe5b6a6b000 rw-p 00000000 00:00 0
Size:                  4 kB
KernelPageSize:        4 kB
"""


def test_the_running_servers_segment() -> None:
    size = 0x7FE5A2600000 - 0x7FE598E0C000
    assert segment_of(SMAPS.format(page=4)) == SharedSegment(size, None)
    huge = SMAPS.format(page=2048).replace("/dev/zero", "/anon_hugepage")
    assert segment_of(huge) == SharedSegment(size, 2 * MB)
    assert "shows no shared memory" in str(segment_of(""))


def test_limits_and_semaphores() -> None:
    text = "Limit  Soft Limit Hard Limit Units\nMax processes   unlimited  unlimited processes\n"
    limits = parse_limits(text + "Max open files            20000                20000                files\n")
    assert (limits.processes, limits.open_files, limits.locked_bytes) == (None, 20000, None)
    table = "key semid perms nsems uid gid cuid cgid otime ctime\n 1 2 600 17 999 9 9 9 0 0\n 1 3 600 17 1 9 9 9 0 0\n"
    assert (semaphore_sets_of(table, 999), semaphore_sets_of(table, 5), semaphore_sets_of("", None)) == (1, 0, 0)
