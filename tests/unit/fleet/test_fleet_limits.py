"""Where the limits of load generators go in either cgroup tree, and lists of CPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.fleet import limits
from pgdyno.fleet.limits import LimitFile, limit_files, make_limits, remove_stale, throttled_pct
from pgdyno.model.cpus import cpus_text, parse_cpus
from pgdyno.model.trial import LoadPlan

PLAN = LoadPlan(1, 1, 1.0, 1.0, instance_memory_bytes=7 << 30, instance_vcpus=2.5)
V1 = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


@pytest.mark.requirement("R-BEN-03")
def test_version_1_limits_are_made_below_our_own_group() -> None:
    files = limit_files(PLAN, "9-0", V1, "4:memory:/jobs/a\n1:cpu:/\n0::/\n")
    assert files == (
        LimitFile(Path("/sys/fs/cgroup/memory/jobs/a/pgdyno-driver-9-0"), "memory.limit_in_bytes", str(7 << 30)),
        LimitFile(Path("/sys/fs/cgroup/cpu/./pgdyno-driver-9-0"), "cpu.cfs_quota_us", "250000"),
    )


@pytest.mark.requirement("R-BEN-03")
def test_version_2_limits_share_one_group() -> None:
    files = limit_files(PLAN, "9-0", V2, "0::/user.slice\n")
    assert {file.directory for file in files} == {Path("/sys/fs/cgroup/pgdyno-driver-9-0")}
    assert [(file.file, file.value) for file in files] == [
        ("memory.max", str(7 << 30)),
        ("cpu.max", "250000 100000"),
    ]


def test_a_host_without_cgroups_is_told() -> None:
    with pytest.raises(EnvironmentUnsuitable, match='controller "memory"'):
        limit_files(PLAN, "9-0", "", "")


def test_a_plan_without_limits_makes_no_group() -> None:
    assert limit_files(LoadPlan(1, 1, 1.0, 1.0), "9-0", "", "") == ()


@given(st.sets(st.integers(0, 2000), min_size=1).map(lambda found: tuple(sorted(found))))
def test_a_list_of_cpus_comes_back(cpus: tuple[int, ...]) -> None:
    assert parse_cpus(cpus_text(cpus)) == cpus


@pytest.mark.parametrize(("text", "cpus"), [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-6:2,1", (0, 1, 2, 4, 6))])
def test_lists_are_read_as_taskset_reads_them(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "3-1", "a", "0-", "0,,1", "-1", "0-3:0"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        parse_cpus(text)


def test_groups_of_a_study_that_was_killed_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    alive, dead = tmp_path / f"pgdyno-driver-{os.getpid()}-0", tmp_path / "pgdyno-driver-99999999-0"
    busy, foreign = tmp_path / "pgdyno-driver-99999998-1", tmp_path / "driver-99999999-0"
    for folder in (alive, dead, busy / "process", foreign):
        folder.mkdir(parents=True)
    remove_stale(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, busy, foreign])


@pytest.mark.requirement("R-BEN-03")
def test_the_most_throttled_generator_is_told_and_a_group_without_a_quota_is_none(tmp_path: Path) -> None:
    counted = {"a": (40, 10), "b": (50, 49), "idle": (0, 0)}
    for name, (periods, throttled) in counted.items():
        (tmp_path / name).mkdir()
        text = f"usage_usec 7\nnr_periods {periods}\nnr_throttled {throttled}\n"
        (tmp_path / name / "cpu.stat").write_text(text)
    (tmp_path / "memory").mkdir()
    groups = [tmp_path / name for name in ("a", "memory", "b", "idle")]
    assert throttled_pct(groups) == 98.0
    assert throttled_pct(groups[1:2]) is None
    assert throttled_pct(groups[3:]) is None


@pytest.mark.requirement("R-BEN-03")
def test_a_quota_is_a_hundredth_of_a_cpu_at_least() -> None:
    """The kernel takes no less than a millisecond of the period of a hundred."""
    quotas = []
    for vcpus in (0.001, 0.0101, 3.0):
        plan = LoadPlan(1, 1, 1.0, 1.0, instance_vcpus=vcpus)
        quotas += [file.value for file in limit_files(plan, "9-0", V2, "0::/user.slice\n")]
    assert quotas == ["1000 100000", "1010 100000", "300000 100000"]


@pytest.mark.parametrize("given", [{"instance_memory_bytes": 1 << 30}, {"instance_vcpus": 0.5}])
def test_a_group_is_made_once_with_all_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    stale, group, other = (tmp_path / f"pgdyno-driver-{name}" for name in ("99999999-0", "9-0", "8-0"))
    stale.mkdir()
    files = (LimitFile(group, "a", "1"), LimitFile(group, "b", "2"), LimitFile(other, "a", "3"))
    monkeypatch.setattr(limits, "limit_files", lambda *_: files)
    assert make_limits(LoadPlan(1, 1, 1.0, 1.0), "9-0") == (), "a plan without limits has none"
    assert make_limits(LoadPlan(1, 1, 1.0, 1.0, **given), "9-0") == (group, other)
    assert [(limit.directory / limit.file).read_text() for limit in files] == ["1", "2", "3"]
    assert not stale.exists()


@pytest.mark.parametrize(("user", "who"), [(0, "cannot be set$"), (1000, "cannot be set by this user$")])
def test_groups_that_cannot_be_made_leave_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, who: str
) -> None:
    group = tmp_path / "pgdyno-driver-9-0"
    files = (LimitFile(group, "a/b", "1"),)  # there is no such file: a group without the controller has none
    monkeypatch.setattr(limits, "limit_files", lambda *_: files)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(EnvironmentUnsuitable, match=who):
        make_limits(PLAN, "9-0")
    assert not group.exists()


def test_a_file_of_counts_that_has_none_was_not_throttled(tmp_path: Path) -> None:
    for name, text in (("empty", ""), ("never", "nr_periods 8\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.stat").write_text(text)
    assert throttled_pct([tmp_path / "empty"]) is None
    assert throttled_pct([tmp_path / "never"]) == 0.0
