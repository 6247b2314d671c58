"""What held a load back: CPU, disk, WAL flush, locks, network, the client, or nothing, with the figures. Pure.

The only judge of it: of our own runs, and of the load of others that `advise` watched. One currency for all: the part
of the sessions' time that went to a resource (average sessions by what they waited for). A verdict needs that and, for
machines' resources, the resource itself busy. %util never decides: it says that a device had at least one request, and
devices serve many at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pgdyno.model.bottleneck import BottleneckVerdict, Candidate, Resource
from pgdyno.probes.bottleneck_notes import notes
from pgdyno.probes.run_figures import RunFigures
from pgdyno.units import digits_text, percent_text, plural

CPU_BUSY_PCT = 85.0
"""Above it queues for a CPU grow fast (M/M/c); steal counts as busy, because it is not there to be used."""
NETWORK_BUSY = 0.8
DISK_QUEUE = 1.0
"""Requests under way on one device, with waits: %util says only that there was one (it is 100 on striped volumes)."""
WAITING_SHARE = 0.3
"""Part of the sessions' time that goes to one thing."""
WAITING_SESSIONS = 1.0
"""Of a load of others, fewer that wait on average hold nothing back, whatever share of all they are."""
DRIVER_BUSY_PCT = 70.0
"""CPU of a driver's thread above which it answers late, in percent of a core; the load's own warning uses it too."""
OUTSIDE_SHARE = 0.5
"""Sessions that spend more than this outside the server wait for the client's side more than for the server."""
RATE_REACHED = 0.95
FEW_MOMENTS = 10
DRIVER_NEAR_PCT = DRIVER_BUSY_PCT / 2
"""A driver whose threads use less is not what would be next: twice as many transactions would not fill it."""
SEEN_SHARE = 0.05
"""Below it a resource is not named as the next one."""
_WAL = ("io:wal", "lwlock:wal", "ipc:syncrep")
_IO = ("io:", "ipc:bufferio")
_LOCKS = ("lock:", "lwlock:", "bufferpin:", "ipc:procarraygroupupdate", "ipc:xactgroupupdate", "timeout:spindelay")
_SENDING = ("client:clientwrite",)
_SLEEPING = ("timeout:pgsleep",)


def judge_bottleneck(run: RunFigures) -> BottleneckVerdict:
    """Name what held the run back and what would be next.

    Unknown where what was seen cannot decide: a wrong verdict is worse than none.
    """
    if not run.own_host or not run.own_devices:
        run = replace(run, devices=(), disk_read_bytes=None)
    if not run.own_host:
        run = replace(run, cpu=None, driver_host_busy=None if run.cpu is None else run.cpu.busy)
    if run.cpu is None and run.active is None:
        why = "neither the server's sessions nor the machine's CPUs were sampled in the measured window"
        return BottleneckVerdict(Resource.UNKNOWN, None, (why,))
    said = notes(run, few=FEW_MOMENTS)
    run = run if run.is_seen else replace(run, active=None, waits={})
    judged = (_cpu(run), _disk(run), _wal(run), _locks(run), _network(run), _client(run))
    found = sorted((one for one in judged if one is not None), key=lambda one: (not one.is_short, -one.share))
    short = [one for one in found if one.is_short]
    if _rate_is_reached(run) or (not short and (blind := _blind(run)) is None):
        near = max((one for one in found if _may_be_next(run, one)), key=lambda one: one.share, default=None)
        second = near.resource if near is not None and near.share >= SEEN_SHARE else None
        evidence = [_nothing(run), *(one.sentence for one in found if one.resource is second)]
        return BottleneckVerdict(Resource.NONE, second, tuple(evidence), tuple(found), said)
    if not short:
        return BottleneckVerdict(Resource.UNKNOWN, None, (str(blind),), tuple(found), said)
    first = short[0]
    rest = [one for one in found if one is not first and one.share >= SEEN_SHARE and _may_be_next(run, one)]
    second = rest[0].resource if rest else None
    evidence = [f"{first.sentence} {first.threshold}", *(one.sentence for one in rest[:1])]
    return BottleneckVerdict(first.resource, second, tuple(evidence), tuple(found), said)


def _rate_is_reached(run: RunFigures) -> bool:
    """Tell whether the load got what it asked for; a Poisson schedule asks for a little less or more at times."""
    rate, reached = run.load.rate, run.load.throughput
    if rate is None or reached is None or run.seconds <= 0:
        return False
    return reached >= RATE_REACHED * rate - 2 * math.sqrt(rate / run.seconds)


def _nothing(run: RunFigures) -> str:
    if _rate_is_reached(run):
        return (
            f"The load offered {run.load.rate:g} transactions per second and {run.load.throughput:.0f} were done: the "
            "server was not asked for more, so that nothing can have limited it."
        )
    running = _running(run)
    if run.cpu is not None and running >= OUTSIDE_SHARE:
        clients = run.load.clients
        whose = "the sessions" if clients is None else "its one session" if clients == 1 else f"its {clients} sessions"
        return (
            f"{percent_text(running)} of the time {whose} ran, on CPUs that were {run.cpu.busy:.0f} % "
            "busy: a faster core "
            "or less work for each statement would help, and more sessions at once would use what was free."
        )
    table = "" if run.load.clients is None else ": see what each of them showed"  # only pages of runs have it
    return f"No resource met its threshold{table}."


def _blind(run: RunFigures) -> str | None:
    """Say what was not seen and could have held the run back, None when enough was."""
    if run.active is None:
        return "The CPUs had room, and what the sessions waited for was not seen often enough."
    outside = _outside(run) or 0.0
    sending = _part(run, sum(run.waiting(*_SENDING).values()))
    if run.load.clients is None and sending >= WAITING_SHARE:
        return (
            f"{percent_text(sending)} of the sessions' time was sending results: whether the network or the clients "
            "were slow to take them is not known."
        )
    if run.load.on_the_network is None and outside >= OUTSIDE_SHARE:
        missing = "a round trip takes" if run.load.round_trip_ms is None else "many round trips a transaction makes"
        return (
            f"{percent_text(outside)} of the sessions' time passed outside the server, on the network or "
            "in the client: "
            f"how {'long ' if run.load.round_trip_ms is None else ''}{missing} is not known."
        )
    running = _running(run)
    if run.cpu is None and run.load.clients is None:
        return "No session waited long for anything, and how busy the CPUs of the server's host were is not known."
    if run.cpu is None and running >= OUTSIDE_SHARE:
        return (
            f"{percent_text(running)} of the sessions' time was spent running or waiting for a CPU, and "
            "the CPUs of the "
            "server's host were not sampled."
        )
    reading = _part(run, sum(run.waiting(*_IO, but=_WAL).values()))
    if not run.devices and reading >= WAITING_SHARE:
        return (
            f"{percent_text(reading)} of the sessions' time went into I/O of data, and no device that holds them was "
            "sampled: disks and page cache cannot be told apart."
        )
    return None


def _cpu(run: RunFigures) -> Candidate | None:
    cpu = run.cpu
    if cpu is None:
        return None
    is_short = cpu.busy >= CPU_BUSY_PCT
    parts = f" ({cpu.usr:.0f} user, {cpu.sys:.0f} system, {cpu.irq:.0f} interrupts, {cpu.steal:.0f} stolen)"
    counted = "CPUs" if cpu.cpus is None else f"{cpu.cpus:.0f} CPUs"
    said = f"The {counted} were {cpu.busy:.0f} % busy{parts if cpu.is_split else ''}"
    said += "" if cpu.run_queue is None else f"; {cpu.run_queue:.1f} threads ran or were ready"
    driver = cpu.driver_share if run.load.driver_is_here else None  # elsewhere it keeps other CPUs busy
    shares = (("the server had", cpu.server_share), ("the driver", driver), ("others", cpu.foreign_share))
    known = [f"{name} {percent_text(share)}" for name, share in shares if share is not None]
    said += f"; of the busy time {', '.join(known)}." if known else "."
    share = _running(run)
    if is_short and run.load.driver_is_here and not _rate_is_reached(run):
        share += _between(run)  # the driver's turn waits for the same CPUs; who sleeps waits for none
    if run.active is None:
        share = cpu.busy / 100
    bound = f"(Threshold {CPU_BUSY_PCT:.0f} %: above it the queue for a CPU grows fast.)"
    is_wanted = share >= SEEN_SHARE  # others may keep CPUs busy that these sessions hardly asked for
    return Candidate(Resource.CPU, min(1.0, share), is_short and is_wanted, said, bound)


def _disk(run: RunFigures) -> Candidate | None:
    if run.active is None:
        return None
    waits = run.waiting(*_IO, but=_WAL)
    share, device = _part(run, sum(waits.values())), max(run.devices, key=lambda one: one.queue, default=None)
    queue, iowait = 0.0 if device is None else device.queue, 0.0 if run.cpu is None else run.cpu.iowait
    is_busy = queue >= DISK_QUEUE or iowait >= 100 * WAITING_SHARE
    said = f"{percent_text(share)} of the sessions' time went into I/O of data{_named(waits)}"
    if device is not None:
        said += f"; {device.device} had {queue:.1f} requests under way"
        waited = (("read", device.r_await_ms), ("write", device.w_await_ms))
        known = [f"{name} {digits_text(ms)} ms" for name, ms in waited if ms is not None]
        said += f" ({', '.join(known)} each)" if known else ""
    said += f", {iowait:.0f} % iowait." if run.cpu is not None else "."
    if share >= WAITING_SHARE and device is not None and not is_busy:
        said += " No device was busy with it: these were copies from the page cache."
    bound = (
        f"(Threshold {percent_text(WAITING_SHARE)} of the time, and {DISK_QUEUE:.0f} request under way or "
        f"{100 * WAITING_SHARE:.0f} % iowait: waits alone may be the page cache, a busy device alone may be in time.)"
    )
    return Candidate(Resource.DISK, share, share >= WAITING_SHARE and is_busy, said, bound)


def _wal(run: RunFigures) -> Candidate | None:
    if run.active is None:
        return None
    waits = run.waiting(*_WAL)
    share = _part(run, sum(waits.values()))
    is_short = share >= WAITING_SHARE and _are_enough(run, waits)
    flushes = [one for one in run.devices if one.f_await_ms is not None]
    said = f"{percent_text(share)} of the sessions' time was waiting for WAL to be written and flushed{_named(waits)}"
    slow = max(flushes, key=lambda one: one.f_await_ms or 0.0, default=None)
    said += "." if slow is None else f"; a flush of {slow.device} took {digits_text(slow.f_await_ms or 0.0)} ms."
    return Candidate(Resource.WAL_FLUSH, share, is_short, said, _of_time())


def _locks(run: RunFigures) -> Candidate | None:
    if run.active is None:
        return None
    waits = run.waiting(*_LOCKS, but=_WAL)
    share = _part(run, sum(waits.values()))
    said = f"{percent_text(share)} of the sessions' time was waiting for locks{_named(waits)}."
    is_short = share >= WAITING_SHARE and _are_enough(run, waits)
    return Candidate(Resource.LOCKS, share, is_short, said, _of_time())


def _network(run: RunFigures) -> Candidate | None:
    load, busiest = run.load, max(run.links, key=lambda one: one.share or 0.0, default=None)
    if busiest is None and run.interface_share is None and run.active is None:
        return None
    bound = (
        f"(Threshold {percent_text(NETWORK_BUSY)} of an interface's speed, or {percent_text(WAITING_SHARE)} of the "
        "time.)"
    )
    if load.over_network is False:
        said = "No network lies between: the load came by a Unix socket or by loopback."
        return Candidate(Resource.NETWORK, 0.0, False, said, bound)
    used = (run.interface_share if busiest is None else busiest.share) or 0.0
    is_full = used >= NETWORK_BUSY
    sending, network = _sending(run), _on_the_network(run)
    said = ""
    if load.round_trip_ms is not None:
        said = f"A round trip to the server took {load.round_trip_ms:.2f} ms"
        if load.round_trips is not None:
            said += (
                f", and a transaction makes {digits_text(load.round_trips)}: {percent_text(network)} of the sessions' "
                f"time"
            )
        said += ". "
    writes = run.waiting(*_SENDING)
    said += f"{percent_text(_part(run, sum(writes.values())))} of the sessions' time was sending results to the client"
    said += " that is too slow to take them" if writes and not sending and load.clients is not None else ""
    if busiest is None and run.interface_share is None:
        said += "; no interface tells its speed."
    else:
        which = "one" if busiest is None else busiest.interface
        said += f"; of interfaces with a known speed {which} was the busiest, with {percent_text(used)} of it."
    outside = (_outside(run) or 0.0) if is_full else network
    share = min(1.0, max(sending + outside, used if is_full else 0.0))
    return Candidate(Resource.NETWORK, share, is_full or share >= WAITING_SHARE, said, bound)


def _client(run: RunFigures) -> Candidate | None:
    outside, load = _outside(run), run.load
    busy = _driver_busy(run)
    if outside is None and busy is None:
        return None
    writes = _part(run, sum(run.waiting(*_SENDING).values())) - _sending(run)
    network = _on_the_network(run)
    passed = max(0.0, (outside or 0.0) - network)
    machine_is_full = run.cpu is not None and run.cpu.busy >= CPU_BUSY_PCT
    # Time counts once: what waited for the CPUs that are full here is theirs, and not the client's.
    is_the_cpus = machine_is_full and load.driver_is_here and not _is_saturated(run) and not _rate_is_reached(run)
    sleeping = _sleeping(run)
    share = writes + sleeping + (min(passed, load.pausing) if is_the_cpus else passed)
    is_its_turn = not _rate_is_reached(run) and not machine_is_full and load.on_the_network is not None
    is_pausing = load.pausing + sleeping >= OUTSIDE_SHARE and not _rate_is_reached(run)
    is_outside = outside is not None and share >= OUTSIDE_SHARE and (is_its_turn or is_pausing)
    said = []
    if outside is not None:
        how = "passed" if not network else f"passed, without {percent_text(network)} on the network,"
        said.append(
            f"{percent_text(passed)} of the sessions' time {how} outside the server, between an answer and the "
            f"next statement of {plural(load.clients or 0, 'client')}."
        )
    if load.pausing >= SEEN_SHARE:
        said.append(
            f"{percent_text(load.pausing)} were pauses that the load asks for: latencies have those of a "
            "script in them, "
            "not those between two calls of a session."
        )
    if sleeping >= SEEN_SHARE:
        said.append(f"{percent_text(sleeping)} was spent in pg_sleep, which the load's own statements call.")
    if writes:
        said.append(f"{percent_text(writes)} was spent sending results that the client did not take in time.")
    if busy is not None:
        said.append(f"Each of the driver's threads used {busy:.0f} % of a core.")
    if run.driver_host_busy is not None:
        said.append(f"The CPUs of the driver's machine were {run.driver_host_busy:.0f} % busy.")
    if is_outside and not _is_saturated(run) and not writes:
        said.append("More clients would ask more of the server.")
    bound = (
        f"(Threshold {percent_text(OUTSIDE_SHARE)} of the time in a closed loop while CPUs were free or "
        "scripts paused, or "
        f"{DRIVER_BUSY_PCT:.0f} % of a core: a thread that is busier answers late.)"
    )
    return Candidate(Resource.CLIENT, min(1.0, share), is_outside or _is_saturated(run), " ".join(said), bound)


def _may_be_next(run: RunFigures, one: Candidate) -> bool:
    """Tell whether a resource can be what would be next.

    Time between statements is no proof against the load generator: it must be near its own limit, pause, or be slow
    to take results.
    """
    if one.resource is not Resource.CLIENT or one.is_short:
        return True
    busy = _driver_busy(run)
    is_near = (busy is not None and busy >= DRIVER_NEAR_PCT) or _is_saturated(run)
    writes = _part(run, sum(run.waiting(*_SENDING).values())) - _sending(run)
    return is_near or run.load.pausing + _sleeping(run) >= SEEN_SHARE or writes >= SEEN_SHARE


def _between(run: RunFigures) -> float:
    """Return the part of the time between an answer and the next statement in which no pause was asked for."""
    return max(0.0, (_outside(run) or 0.0) - run.load.pausing)


def _sleeping(run: RunFigures) -> float:
    """Return the part of the time in which statements slept in the server because the load told them to."""
    return _part(run, sum(run.waiting(*_SLEEPING).values()))


def _sending(run: RunFigures) -> float:
    """Return the part of the time in which results were sent that is the network's: a client may just not read them.

    Of the clients of others that is not known.
    """
    is_the_clients = run.load.over_network is False or run.load.clients is None or _is_saturated(run)
    return 0.0 if is_the_clients else _part(run, sum(run.waiting(*_SENDING).values()))


def _on_the_network(run: RunFigures) -> float:
    """Return the part of the time that round trips took: no more than what passed outside the server."""
    return min(_outside(run) or 0.0, run.load.on_the_network or 0.0)


def _driver_busy(run: RunFigures) -> float | None:
    """Return what each of the driver's threads used, in percent of a core."""
    load = run.load
    if load.driver_cpu_s is None or load.load_s <= 0:
        return None
    return 100 * load.driver_cpu_s / (load.load_s * max(1, min(load.jobs, load.clients or load.jobs)))


def _is_saturated(run: RunFigures) -> bool:
    busy, machine = _driver_busy(run), run.driver_host_busy
    return (busy is not None and busy >= DRIVER_BUSY_PCT) or (machine is not None and machine >= CPU_BUSY_PCT)


def _outside(run: RunFigures) -> float | None:
    """Return the part of the clients' time that they spent outside the server; None for clients of others."""
    if run.active is None or run.load.clients is None:
        return None
    return max(0.0, 1 - run.active / max(1, run.load.clients))


def _running(run: RunFigures) -> float:
    """Return the part of the sessions' time in which they ran, or waited for a CPU."""
    return _part(run, sum(run.waiting("cpu:").values()))


def _part(run: RunFigures, sessions: float) -> float:
    return min(1.0, sessions / run.base)


def _are_enough(run: RunFigures, waits: Mapping[str, float]) -> bool:
    """Tell whether those that wait can hold a load back: of others' sessions one that waits now and then cannot."""
    return run.load.clients is not None or sum(waits.values()) >= WAITING_SESSIONS


def _named(waits: dict[str, float]) -> str:
    return f" (most in {next(iter(waits))})" if waits else ""


def _of_time() -> str:
    again = "without it the sessions would do nearly half as much again"
    return f"(Threshold {percent_text(WAITING_SHARE)} of the time: {again}.)"
