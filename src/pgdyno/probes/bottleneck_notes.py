"""What qualifies a bottleneck verdict: physical and cached reads, double buffering, user and system time. Pure."""

from __future__ import annotations

from pgdyno.probes.run_figures import RunFigures
from pgdyno.units import bytes_text

MISSING = 0.01
"""Below this part of all blocks touched, reads say nothing about a run."""
FOREIGN = 0.25
"""Others with this part of the busy time may have made the bottleneck."""
FOREIGN_CORES = 0.15
"""Below this part of one core they are the machine's own background, as for the bound of a disturbed run."""
BUSY_UTIL = 90.0
CACHED = 0.5
"""With less than this part of the reads from devices, the page cache served most of them."""


def physical_share(blocks_read: float, block_bytes: int, device_bytes: float) -> float | None:
    """Return which part of the blocks that the server asked for came from devices, None when it asked for none.

    The rest came from the kernel's page cache. Devices may have been read by others too, hence at most 1.
    """
    asked = blocks_read * block_bytes
    return None if asked <= 0 else min(1.0, device_bytes / asked)


def notes(run: RunFigures, *, few: int) -> tuple[str, ...]:
    """Return the sentences, each made of this run's figures."""
    found = (
        _moments(run, few),
        _others(run),
        _reads(run),
        _double_buffering(run),
        _system_time(run),
        _utilization(run),
    )
    return tuple(text for text in found if text)


def _moments(run: RunFigures, few: int) -> str | None:
    if run.active is None:
        return "The server's sessions were not sampled: waits are unknown, and only the machine was judged."
    if not run.is_seen:
        return (
            f"The server's sessions were seen in {run.moments} of {run.seconds:.0f} seconds, too few for shares of "
            "their time: only the machine was judged."
        )
    if run.moments >= few:
        return None
    return f"Shares of time rest on {run.moments} moments, one a second: they are rough."


def _others(run: RunFigures) -> str | None:
    foreign = None if run.cpu is None else run.cpu.foreign_share
    if run.cpu is None or foreign is None or foreign < FOREIGN:
        return None
    if foreign * run.cpu.busy / 100 * (run.cpu.cpus or 1) < FOREIGN_CORES:
        return None
    return (
        f"{100 * foreign:.0f} % of the CPU time that was used was neither the server's nor the load's: on a quiet "
        "machine the run may be limited by something else."
    )


def _reads(run: RunFigures) -> str | None:
    if run.blocks_read is None or run.blocks_hit is None or run.seconds <= 0:
        return None
    touched = run.blocks_read + run.blocks_hit
    if touched <= 0:
        return None
    asked = run.blocks_read * run.block_bytes / run.seconds
    said = (
        f"Logical reads: {touched / run.seconds:,.0f} blocks a second, {100 * run.blocks_hit / touched:.1f} % of them "
        f"in shared_buffers; {run.blocks_read / run.seconds:,.0f} a second ({bytes_text(asked)}/s) were asked of the "
        "system"
    )
    if run.direct_io:
        return f"{said}, by direct I/O and so past the page cache."
    if run.disk_read_bytes is None:
        return f"{said}; how many of them the devices read is unknown."
    share = physical_share(run.blocks_read, run.block_bytes, run.disk_read_bytes)
    said += f". Physical reads: the devices read {bytes_text(run.disk_read_bytes / run.seconds)}/s"
    if share is None or run.blocks_read < MISSING * touched:
        return f"{said}."
    return (
        f"{said}, {100 * share:.1f} % of that; the other {100 * (1 - share):.1f} % came from the page cache and are "
        f"not IOPS of a disk."
    )


def _double_buffering(run: RunFigures) -> str | None:
    if run.blocks_read is None or run.blocks_hit is None or run.disk_read_bytes is None or run.direct_io:
        return None
    share = physical_share(run.blocks_read, run.block_bytes, run.disk_read_bytes)
    if share is None or share >= CACHED or run.blocks_read < MISSING * (run.blocks_read + run.blocks_hit):
        return None
    copied = bytes_text(run.blocks_read * run.block_bytes * (1 - share))
    where = "" if run.shared_buffers_bytes is None else f" of {bytes_text(run.shared_buffers_bytes)}"
    return (
        f"Double buffering: {copied} were in memory already, in the kernel's page cache, and were copied again into "
        f"shared_buffers{where} during the {run.seconds:.0f} s. It costs system time and the memory of the second copy."
    )


def _system_time(run: RunFigures) -> str | None:
    if run.cpu is None or not run.cpu.is_split or run.cpu.usr + run.cpu.sys <= 0:
        return None
    system = run.cpu.sys / (run.cpu.usr + run.cpu.sys)
    said = f"CPU time: {run.cpu.usr:.0f} % user and {run.cpu.sys:.0f} % system of all CPUs"
    read, hit = run.blocks_read or 0.0, run.blocks_hit or 0.0
    if system >= 0.4 and read > MISSING * (read + hit):
        return f"{said}: copies from the page cache are system time."
    return f"{said}."


def _utilization(run: RunFigures) -> str | None:
    busy = [one for one in run.devices if one.util_pct >= BUSY_UTIL]
    if not busy:
        return None
    told = ", ".join(f"{one.device} {one.util_pct:.0f} % with {one.queue:.1f} requests under way" for one in busy)
    return (
        f"%util of {told}: it only says that there was a request, not that the device could serve no more; it was not "
        "used for the verdict."
    )
