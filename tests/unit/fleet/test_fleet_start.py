"""Who starts at a gate, with which seed, and what is left of loads that never began: with loads that a test makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.errors import EnvironmentUnsuitable, UsageError, WorkloadError
from pgdyno.fleet import start
from pgdyno.model.trial import LoadPlan

PLAN = LoadPlan(clients=2, jobs=1, warmup_s=0.0, measure_s=1.0)


class Loads:
    """A workload whose loads say that they are ready, as many as `ready`; `ended` is the one that ends before."""

    def __init__(self, ready: int = 9, ended: int | None = None, name: str = "tpcb-like", scale: object = 7) -> None:
        self.ready, self.ended = ready, ended
        self.begun, self.terminated, self.removed = list[Any](), list[int](), list[Path]()
        self.go: int | None = None
        self.told = SimpleNamespace(name=name, parameters={"scale": scale})

    def begin(self, target: object, dbname: str, plan: LoadPlan, folder: Path, **more: Any) -> object:
        self.begun.append((dbname, plan, folder, more))
        number, gate = more.get("instance"), more.get("gate")
        if gate is None or number is None:
            return "alone"
        if number < self.ready:
            os.write(gate.ready_fd, b"r")
        if self.go is None:
            self.go = os.dup(gate.go_fd)
        if number == self.ended:
            (folder / "pgbench.stderr").write_text(" no such table \n")
        return SimpleNamespace(poll=lambda: number == self.ended, terminate=lambda: self.terminated.append(number))

    def spec(self) -> object:
        return self.told


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    monkeypatch.setattr(start, "make_limits", lambda plan, name: (Path("/cgroup") / name.rpartition("-")[2],))
    monkeypatch.setattr(start, "GroupLoad", lambda loads, plan, scale, cgroups: (len(loads), plan, scale, cgroups))

    def begun(loads: Loads, plan: LoadPlan) -> Any:
        monkeypatch.setattr(start, "remove_limits", loads.removed.extend)
        return start.begin_load(loads, None, "db", plan, tmp_path)  # type: ignore[arg-type]

    return begun


def plan(**given: Any) -> LoadPlan:
    return LoadPlan(**{**{name: getattr(PLAN, name) for name in ("clients", "jobs", "warmup_s", "measure_s")}, **given})


def test_one_without_limits_needs_no_gate(begin: Callable[..., Any], tmp_path: Path) -> None:
    loads = Loads()
    assert begin(loads, PLAN) == "alone"
    assert loads.begun == [("db", PLAN, tmp_path, {})]
    with pytest.raises(UsageError, match="instances 0 must be at least 1"):
        begin(loads, plan(instances=0))


@pytest.mark.parametrize(
    "limit", [{"cpus": str(min(os.sched_getaffinity(0)))}, {"instance_memory_bytes": 1 << 20}, {"instance_vcpus": 0.5}]
)
def test_one_with_a_limit_waits_at_a_gate(begin: Callable[..., Any], limit: dict[str, object]) -> None:
    count, _, _, cgroups = begin(loads := Loads(), plan(**limit))
    assert (count, cgroups) == (1, [Path("/cgroup/0")])
    gate = loads.begun[0][3]["gate"]
    assert gate.cpus == ((min(os.sched_getaffinity(0)),) if "cpus" in limit else ())


@pytest.mark.parametrize(("seed", "seeds"), [(None, [None] * 3), (5, [5, 6, 7])])
def test_several_begin_when_the_last_is_ready(
    begin: Callable[..., Any], tmp_path: Path, seed: int | None, seeds: list[int | None]
) -> None:
    loads = Loads()
    several = plan(instances=3, seed=seed)
    cgroups = [Path(f"/cgroup/{number}") for number in range(3)]
    assert begin(loads, several) == (3, several, 7, cgroups)
    assert [one[1].seed for one in loads.begun] == seeds
    assert [one[2] for one in loads.begun] == [tmp_path / f"instance-{number}" for number in range(3)]
    assert loads.go is not None
    assert os.read(loads.go, 100) == start.GO * 3
    os.close(loads.go)
    assert (loads.terminated, loads.removed) == ([], [])


@pytest.mark.parametrize(
    ("name", "scale", "expected"), [("tpcb-like", 7, 7), ("tpcb-like", "x", None), ("shop", 7, None)]
)
def test_the_scale_is_told_where_it_bounds_the_load(
    begin: Callable[..., Any], name: str, scale: object, expected: int | None
) -> None:
    assert begin(Loads(name=name, scale=scale), plan(instances=2))[2] == expected


def test_one_that_ends_before_the_start_ends_them_all_with_its_words(begin: Callable[..., Any]) -> None:
    loads = Loads(ready=1, ended=1)
    with pytest.raises(EnvironmentUnsuitable, match="load generator 1 ended before the start") as raised:
        begin(loads, plan(instances=2))
    assert raised.value.detail == "no such table"
    assert (loads.terminated, loads.removed) == ([0, 1], [Path("/cgroup/0"), Path("/cgroup/1")])


def test_those_that_are_not_ready_in_time_are_given_up(
    begin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 159.0, 160.0, 160.5])
    monkeypatch.setattr(start, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(start, "select", SimpleNamespace(select=lambda *_: ([], [], [])))
    loads = Loads(ready=0)
    with pytest.raises(WorkloadError, match="2 of 2 load generators were not ready after 60 s"):
        begin(loads, plan(instances=2))
    assert next(now, None) is None
    assert loads.terminated == [0, 1]


def test_only_cpus_that_this_process_has_are_given_to_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2, 4})
    assert start.allowed_cpus("") == ()
    assert start.allowed_cpus("1-2") == (1, 2)
    with pytest.raises(UsageError, match=r"CPU 3,5 is not one of those of this process \(1-2,4\)"):
        start.allowed_cpus("2-5")
