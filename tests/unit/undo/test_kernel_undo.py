"""Linux knobs in a session and after it, on a kernel that a test makes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import ApplyError, EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.configuration import Configuration
from pgdyno.undo import kernel_route
from pgdyno.undo.kernel_route import KernelRoute, is_pool_held, put_back

SWAPPINESS, DIRTY, COUNTERPART = "vm.swappiness", "vm.dirty_bytes", "vm.dirty_ratio"


class Kernel:
    """Knobs with their values; what is done to them is written down, and `broken` ones refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values = {SWAPPINESS: "60", DIRTY: "0", COUNTERPART: "20"}
        self.before = dict(self.values)
        self.said, self.broken, self.rounds = list[str](), set[str](), set[str]()
        patch = monkeypatch.setattr
        patch(kernel_route.kernel, "read_value", lambda name, _: self.values[name])
        patch(kernel_route.kernel, "write", self._write)
        patch(kernel_route.kernel, "restore", self._restore)
        patch(kernel_route.kernel, "is_taken", lambda name, wanted, now: wanted == now or name in self.rounds)
        patch(kernel_route.kernel, "is_in_place", lambda image: self.values[image.knob] == self.before[image.knob])
        patch(kernel_route.sighup, "postmaster", lambda _: None)
        patch(kernel_route, "replace", lambda places, **_: places)

    def _write(self, name: str, value: str, _: object) -> None:
        self.said.append(f"{name}={value}")
        self.values[name] = value

    def _restore(self, image: Any) -> bool:
        if image.knob in self.broken:
            raise OSError(13, "Permission denied")
        is_other = self.values[image.knob] != self.before[image.knob]
        self.values[image.knob] = self.before[image.knob]
        self.said.append(f"{image.knob} back")
        return is_other

    def route(self, *names: str) -> KernelRoute:
        return KernelRoute(cast(Any, images(*names)), cast(Any, "places"), Path("/data"))


def images(*names: str) -> tuple[Any, ...]:
    return tuple(SimpleNamespace(knob=name) for name in names)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_without_knobs_nothing_is_taken_down_and_of_another_host_nothing_can_be() -> None:
    target: Any = SimpleNamespace(name="db1", local=False, directory=None)
    assert KernelRoute.capture(target, []) == KernelRoute()
    for local, directory in ((False, Path("/data")), (True, None)):
        target = SimpleNamespace(name="db1", local=local, directory=directory)
        with pytest.raises(EnvironmentUnsuitable, match="of the host of db1 cannot be changed from here") as raised:
            KernelRoute.capture(target, [SWAPPINESS, DIRTY])
        assert raised.value.detail == f"Asked for: {SWAPPINESS}, {DIRTY}."


def test_old_values_come_first_and_only_what_differs_is_written(kernel: Kernel) -> None:
    kernel.values[DIRTY] = "512"
    kernel.route(SWAPPINESS, DIRTY).set(Configuration.of({SWAPPINESS: "1"}))
    assert kernel.said == [f"{DIRTY} back", f"{SWAPPINESS}=1"]
    kernel.said.clear()
    kernel.route(SWAPPINESS).set(Configuration.of({SWAPPINESS: "1"}))
    assert kernel.said == []
    with pytest.raises(ApplyError, match=rf"{DIRTY} cannot be set: the session did not take down"):
        kernel.route(SWAPPINESS).set(Configuration.of({DIRTY: "1"}))
    kernel.broken = {SWAPPINESS}
    with pytest.raises(ApplyError, match=f"{SWAPPINESS} could not be given its old value: Permission denied"):
        kernel.route(SWAPPINESS).set(Configuration.of({}))


def test_what_the_kernel_did_not_take_is_told(kernel: Kernel) -> None:
    route = kernel.route(SWAPPINESS, COUNTERPART)
    assert route.shortfalls(Configuration.of({})) == []
    assert route.shortfalls(Configuration.of({SWAPPINESS: "1"})) == [
        f"{SWAPPINESS} = 1 was written, but the kernel has 60"
    ]
    kernel.rounds = {SWAPPINESS}
    assert route.shortfalls(Configuration.of({SWAPPINESS: "1"})) == []
    kernel.values[COUNTERPART] = "0"
    assert route.shortfalls(Configuration.of({})) == [f"{COUNTERPART} is not what it was before"]
    assert route.shortfalls(Configuration.of({DIRTY: "512"})) == [], "its counterpart has taken its place"


def bundle(*names: str, boot: str | None = None) -> Any:
    own = ProcessIdentity.own()
    owner = SimpleNamespace(boot_id=own.boot_id if boot is None else boot)
    return SimpleNamespace(manifest=SimpleNamespace(kernel=images(*names), owner=owner))


def test_all_that_can_be_is_put_back_and_the_rest_is_damage(kernel: Kernel) -> None:
    kernel.values |= {SWAPPINESS: "1", DIRTY: "512"}
    kernel.broken = {DIRTY}
    changed, damage = put_back(bundle(DIRTY, SWAPPINESS, COUNTERPART))
    assert changed == [SWAPPINESS]
    assert damage == [f"{DIRTY} could not be put back: Permission denied", f"{DIRTY} is not what it was"]


def test_after_a_reboot_nothing_is_touched(kernel: Kernel) -> None:
    kernel.values[SWAPPINESS] = "1"
    assert put_back(bundle(SWAPPINESS, boot="another")) == ([], [])
    assert put_back(bundle(boot="another")) == ([], [])
    assert kernel.said == []


@pytest.mark.parametrize(
    ("surplus", "knobs", "mapped", "is_held"),
    [
        ("1", ["vm.nr_hugepages"], True, True),
        ("0", ["vm.nr_hugepages"], True, False),
        ("5", [SWAPPINESS], True, False),
        ("5", ["vm.nr_hugepages"], False, False),
        ("5", ["vm.nr_hugepages"], None, False),  # it cannot be seen
        (None, ["vm.nr_hugepages"], True, False),
    ],
)
def test_a_pool_is_held_by_a_server_that_maps_its_pages(
    monkeypatch: pytest.MonkeyPatch, surplus: str | None, knobs: list[str], mapped: bool | None, is_held: bool
) -> None:
    text = "MemTotal: 9 kB\n" + ("" if surplus is None else f"HugePages_Surp:    {surplus}\n")
    monkeypatch.setattr(kernel_route, "LIVE", SimpleNamespace(read=lambda _: text))
    monkeypatch.setattr(kernel_route.processes, "huge_pages_mapped", lambda _: mapped)
    assert is_pool_held(knobs, 7) is is_held
