"""The load that was watched on a server of others, as the figures that the judge of bottlenecks reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.evidence import Concurrency, DeviceActivity, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.run_figures import CpuFigures, DeviceFigures, LoadShape, RunFigures

_OTHERS = LoadShape(clients=None, driver_is_here=False)


def bottleneck(
    host: HostActivity | Unknown,
    devices: Sequence[DeviceActivity] | Unknown,
    sessions: Concurrency | Unknown,
    *,
    moments: int,
    cpus: int | None = None,
    own_devices: bool = True,
) -> BottleneckVerdict | Unknown:
    """Name what held the load back, by the judge of our own runs; unknown with its reason.

    `host` and `devices` are means over the window, `sessions` what was seen of them at `moments` times, once a second;
    `cpus` is the number of CPUs of the host, None where it is unknown. `own_devices` is False when the server's data
    lie on no device of this host.
    """
    if isinstance(host, Unknown) and isinstance(sessions, Unknown):
        return Unknown(f"{host.reason}; {sessions.reason}")
    verdict = judge_bottleneck(_figures(host, devices, sessions, moments, cpus, own_devices=own_devices))
    if verdict.resource is Resource.UNKNOWN:
        said = verdict.evidence[0].rstrip(".")
        return Unknown(said[:1].lower() + said[1:])
    return verdict


def _figures(
    host: HostActivity | Unknown,
    devices: Sequence[DeviceActivity] | Unknown,
    sessions: Concurrency | Unknown,
    moments: int,
    cpus: int | None,
    *,
    own_devices: bool,
) -> RunFigures:
    seen = None if isinstance(sessions, Unknown) else sessions
    return RunFigures(
        _OTHERS,
        seconds=float(moments) if isinstance(host, Unknown) else host.window.seconds,
        moments=moments,
        active=None if seen is None else _number(seen.active_mean),
        waits={} if seen is None else {_event(name): count for name, count in seen.waits.items()},
        cpu=None if isinstance(host, Unknown) else _cpu(host, cpus),
        devices=() if isinstance(devices, Unknown) else tuple(map(_device, devices)),
        interface_share=None if isinstance(host, Unknown) else _number(host.network_utilization),
        own_devices=own_devices,
    )


def _event(name: str) -> str:
    return "CPU:CPU" if name == "CPU" else name


def _cpu(host: HostActivity, cpus: int | None) -> CpuFigures | None:
    if isinstance(host.idle_pct, Unknown):
        return None
    iowait = _number(host.iowait_pct) or 0.0
    busy = max(0.0, 100.0 - host.idle_pct - iowait)
    usr, sys, steal = _number(host.usr_pct), _number(host.sys_pct), _number(host.steal_pct)
    if usr is None or sys is None or steal is None:
        usr, sys, steal, is_split = busy, 0.0, 0.0, False
    else:
        is_split = True
    return CpuFigures(
        cpus=None if cpus is None else float(cpus),
        usr=usr,
        sys=sys,
        irq=max(0.0, busy - usr - sys - steal),
        iowait=iowait,
        steal=steal,
        run_queue=_number(host.run_queue),
        is_split=is_split,
    )


def _device(row: DeviceActivity) -> DeviceFigures:
    return DeviceFigures(
        row.device,
        read_kb_s=_number(row.read_kb_s) or 0.0,
        write_kb_s=_number(row.write_kb_s) or 0.0,
        queue=_number(row.queue) or 0.0,
        util_pct=_number(row.util_pct) or 0.0,
        r_await_ms=_number(row.read_await_ms),
        w_await_ms=_number(row.write_await_ms),
    )


def _number(value: float | Unknown) -> float | None:
    return None if isinstance(value, Unknown) else float(value)
