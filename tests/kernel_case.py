"""Cases for the rules on the kernel: hosts with one part changed, and a load that meets the scheduler's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from advisor_case import finding_of, make_host, make_server
from pgdyno.advisor.case import Case
from pgdyno.advisor.engine import judge
from pgdyno.advisor.judgement import Judgement
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Concurrency, DeviceActivity, Evidence, HostActivity, Window
from pgdyno.model.finding import Finding
from pgdyno.model.inventory import HostInventory, Inventory, ServerInventory
from pgdyno.probes.evidence.bottleneck import bottleneck

WINDOW = Window(60.0, "sampled")
RATIOS = {
    "vm.dirty_bytes": "0",
    "vm.dirty_background_bytes": "0",
    "vm.dirty_ratio": "20",
    "vm.dirty_background_ratio": "10",
}
MODERN_IPC = {
    "kernel.sem": "32000\t1024000000\t500\t32000",
    "kernel.msgmni": "32000",
    "kernel.msgmax": "8192",
    "kernel.msgmnb": "16384",
    "kernel.shmall": "18446744073692774399",
    "kernel.shmmax": "18446744073692774399",
    "kernel.shmmni": "4096",
}
"""Of a kernel 6.1 and of a 6.18."""


def with_memory(host: HostInventory | None = None, **parts: object) -> HostInventory:
    """Return a host whose memory is changed in some fields."""
    host = host or make_host()
    return replace(host, memory=replace(host.memory, **parts))


def with_processor(host: HostInventory | None = None, **parts: object) -> HostInventory:
    """Return a host whose processor is changed in some fields."""
    host = host or make_host()
    return replace(host, processor=replace(host.processor, **parts))


def with_kernel(host: HostInventory | None = None, **parts: object) -> HostInventory:
    """Return a host whose kernel is changed in some fields."""
    host = host or make_host()
    return replace(host, kernel=replace(host.kernel, **parts))


def buffers(size: int, major: int = 15, **changed: str) -> ServerInventory:
    """Return a server with shared_buffers of so many bytes."""
    return make_server(major, changed={"shared_buffers": str(size // 8192), **changed})


def judged(rule: str, case: Case) -> Judgement:
    """Return what one rule says of a case, with the proposals of earlier rules that the case holds."""
    return judge(next(one for one in shipped_rules() if one.id == rule), case)


def says(rule: str, target: HostInventory, server: ServerInventory | None = None, /, **evidence: object) -> Finding:
    """Return the finding of one rule; `evidence` are fields of Evidence."""
    return finding_of(rule, Case(Inventory(target, server or make_server()), Evidence(**evidence)))


def busy(**changed: object) -> Mapping[str, object]:
    """Return evidence that meets the four conditions of the migration cost: tasks, idle time, no bottleneck, no locks.

    `changed` are fields of HostActivity, Concurrency, or `devices`; what limited the load is judged from them.
    """
    host = {"idle_pct": 30.0, "iowait_pct": 1.0, "usr_pct": 60.0, "network_utilization": 0.1}
    concurrency = {"active_mean": 64.0, "lock_waiters_mean": 0.5, "waits": {"CPU": 60.0, "IO:DataFileRead": 4.0}}
    device = DeviceActivity("vda", queue=2.0, read_await_ms=0.5, write_await_ms=1.0, util_pct=40.0)
    devices = changed.pop("devices", (device,))
    for name, value in changed.items():
        (host if name in HostActivity.__dataclass_fields__ else concurrency)[name] = value
    activity, sessions = HostActivity(WINDOW, **host), Concurrency(**concurrency)
    limit = bottleneck(activity, devices, sessions, moments=60)
    return {"host": activity, "concurrency": sessions, "devices": devices, "bottleneck": limit}
