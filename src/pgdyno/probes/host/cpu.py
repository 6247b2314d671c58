"""/proc/stat: processor time of the whole machine, run queue, context switches (proc(5))."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.samples import SampleValue


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Cumulative CPU seconds of all CPUs since boot, and the counters beside them.

    `usr` includes niced code and guests, `irq` hard and soft interrupts.
    """

    cpus: int
    usr: float
    sys: float
    irq: float
    iowait: float
    steal: float
    idle: float
    context_switches: int
    forks: int
    run_queue: int
    blocked: int

    @property
    def busy(self) -> float:
        """Return the seconds in which a CPU ran something of this machine: steal is not ours."""
        return self.usr + self.sys + self.irq


@dataclass(frozen=True, slots=True)
class CpuShares:
    """Cumulative CPU seconds by owner; None where they cannot be told.

    `driver_is_here` is False when the load generator runs on another machine than the server: what it uses is then no
    part of what keeps this host busy. `own` is ours on the server's host.
    """

    server: float | None
    driver: float
    own: float
    driver_is_here: bool = True


def parse(text: str, ticks_per_s: int) -> CpuTimes:
    """Parse /proc/stat; `ticks_per_s` is sysconf's SC_CLK_TCK. Raises ValueError when the `cpu` line is missing."""
    lines = {name: rest for name, _, rest in (line.partition(" ") for line in text.splitlines())}
    if "cpu" not in lines:
        raise ValueError("/proc/stat has no line for all CPUs")
    ticks = [int(field) for field in lines["cpu"].split()[:8]]
    ticks += [0] * (8 - len(ticks))
    user, nice, system, idle, iowait, irq, softirq, steal = (count / ticks_per_s for count in ticks)
    return CpuTimes(
        cpus=sum(name.startswith("cpu") for name in lines) - 1,
        usr=user + nice,
        sys=system,
        irq=irq + softirq,
        iowait=iowait,
        steal=steal,
        idle=idle,
        context_switches=int(lines["ctxt"]),
        forks=int(lines["processes"]),
        run_queue=int(lines["procs_running"]),
        blocked=int(lines["procs_blocked"]),
    )


def foreign_s(busy: float, server: float | None, driver: float, own: float) -> float | None:
    """Return the CPU seconds that were neither server, driver nor ours; None when the server's are not known.

    All are CPU seconds of one interval on one host: `busy` is the whole, `server`, `driver` (0 for one that runs on
    another host) and `own` (pgdyno's) are parts of it. /proc/stat counts whole ticks while the others are exact, so
    that a short interval may come out below 0: that is 0.
    """
    return None if server is None else max(0.0, busy - server - driver - own)


def row(
    before: CpuTimes, after: CpuTimes, shares_before: CpuShares, shares: CpuShares, interval_s: float
) -> tuple[SampleValue, ...]:
    """Return the values of table `cpu` for the interval between two readings, the earlier of which are `before`.

    `shares_before` and `shares` say whose CPU time it was up to `before` and `after`; `interval_s` is the time between
    them in seconds, more than 0.
    """
    spent = {name: max(0.0, getattr(after, name) - getattr(before, name)) for name in _PARTS}
    total = sum(spent.values())
    percent = [100 * spent[name] / total if total else None for name in _PARTS]
    server = _gain(shares_before.server, shares.server)
    driver = max(0.0, shares.driver - shares_before.driver)
    own = max(0.0, shares.own - shares_before.own)
    driver_here = driver if shares.driver_is_here else 0.0
    foreign = foreign_s(spent["usr"] + spent["sys"] + spent["irq"], server, driver_here, own)
    return (
        interval_s,
        after.cpus,
        *percent,
        server,
        driver,
        own,
        None if server is None else 100 * server / interval_s,
        100 * driver / interval_s,
        None if foreign is None else 100 * foreign / interval_s,
        after.run_queue,
        after.blocked,
        (after.context_switches - before.context_switches) / interval_s,
        (after.forks - before.forks) / interval_s,
    )


_PARTS = ("usr", "sys", "irq", "iowait", "steal", "idle")


def _gain(before: float | None, after: float | None) -> float | None:
    """Return the growth; None when either is unknown, or when the count began again with another postmaster."""
    return None if before is None or after is None or after < before else after - before
