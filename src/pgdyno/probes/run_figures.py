"""The figures of one run's measured window that a bottleneck shows in, from its sample rows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.model.sample_tables import named
from pgdyno.model.samples import SampleRow, SampleValue

FEWEST_MOMENTS, FEWEST_PART = 3, 0.25
"""Moments, and part of the window's seconds, below which waits decide nothing: what is missing is seldom missing by
chance, because a sampler is held up where the server is."""


@dataclass(frozen=True, slots=True)
class LoadShape:
    """How the load was driven and what it reached. `driver_cpu_s` is over the whole load of `load_s` seconds.

    `clients` is None for a load that is not ours: how many users a server has, and what they do between statements, is
    known to nobody here.
    """

    clients: int | None
    jobs: int = 1
    rate: float | None = None
    throughput: float | None = None
    driver_cpu_s: float | None = None
    load_s: float = 0.0
    driver_is_here: bool = True
    """False when the load generator runs on another machine than the server."""
    over_network: bool | None = None
    """False when the load came by a Unix socket or by loopback; None when that was not kept."""
    round_trip_ms: float | None = None
    round_trips: float | None = None
    """How often a transaction waits for the server's answer."""
    pause_s: float = 0.0
    """How long the load's own pauses make a client sleep for each transaction at least."""

    @property
    def pausing(self) -> float:
        """Return the part of the clients' time that they slept because the load told them to."""
        return min(1.0, (self.throughput or 0.0) * self.pause_s / max(1, self.clients or 1))

    @property
    def on_the_network(self) -> float | None:
        """Return the part of the clients' time that round trips took; None over a network where it is unknown."""
        if not self.over_network:
            return 0.0
        if self.round_trip_ms is None or self.round_trips is None or self.throughput is None:
            return None
        return min(1.0, self.throughput * self.round_trips * self.round_trip_ms / 1000 / max(1, self.clients or 1))


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """Means over the window, in percent of all CPUs; `*_share` are parts of the busy time, None where unknown.

    `is_split` is False where only the busy time as a whole is known; `usr` then has it.
    """

    cpus: float | None
    usr: float
    sys: float
    irq: float
    iowait: float
    steal: float
    run_queue: float | None
    server_share: float | None = None
    driver_share: float | None = None
    foreign_share: float | None = None
    is_split: bool = True

    @property
    def busy(self) -> float:
        """Return what was not to be had any more: steal counts, because it is not there to be used."""
        return self.usr + self.sys + self.irq + self.steal


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """Means over the window of one device; a wait is None when there was no such request."""

    device: str
    read_kb_s: float
    write_kb_s: float
    queue: float
    util_pct: float
    r_await_ms: float | None = None
    w_await_ms: float | None = None
    f_await_ms: float | None = None


@dataclass(frozen=True, slots=True)
class InterfaceFigures:
    """The traffic of one interface; `speed_mbit` is None where the kernel does not tell it."""

    interface: str
    rx_kb_s: float
    tx_kb_s: float
    speed_mbit: float | None = None

    @property
    def share(self) -> float | None:
        """Return the busier direction over the speed."""
        if not self.speed_mbit:
            return None
        return max(self.rx_kb_s, self.tx_kb_s) * 1024 * 8 / (self.speed_mbit * 1e6)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Everything that the verdict is made of. What was not sampled is None or empty.

    `waits` are mean numbers of active sessions by `type:event` (`CPU:CPU` for those that did not wait). `own_host` is
    False when the machine that was watched is not the server's but the driver's, `own_devices` when the server's data
    lie on none of its devices; `direct_io` when the server reads them past the page cache.
    """

    load: LoadShape
    seconds: float
    moments: int = 0
    sessions: float | None = None
    active: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)
    cpu: CpuFigures | None = None
    devices: tuple[DeviceFigures, ...] = ()
    interfaces: tuple[InterfaceFigures, ...] = ()
    interface_share: float | None = None
    """The part of its speed that the busiest interface used, where only that is known of them."""
    blocks_read: float | None = None
    blocks_hit: float | None = None
    block_bytes: int = 8192
    disk_read_bytes: float | None = None
    shared_buffers_bytes: float | None = None
    own_host: bool = True
    own_devices: bool = True
    direct_io: bool = False
    driver_host_busy: float | None = None
    """How busy the driver's machine was, in percent of its CPUs, where that is the one that was watched."""

    @property
    def base(self) -> float:
        """Return the sessions that shares are parts of: the load's clients, of a load of others those that worked."""
        return max(1.0, (self.active or 0.0) if self.load.clients is None else self.load.clients)

    @property
    def links(self) -> list[InterfaceFigures]:
        """Return the interfaces whose speed is known, loopback left out."""
        return [one for one in self.interfaces if one.share is not None and one.interface != "lo"]

    @property
    def is_seen(self) -> bool:
        """Tell whether the sessions were looked at often enough for shares of their time to mean anything."""
        return self.active is not None and self.moments >= max(FEWEST_MOMENTS, FEWEST_PART * self.seconds)

    def waiting(self, *prefixes: str, but: tuple[str, ...] = ()) -> dict[str, float]:
        """Return the waits that begin with one of `prefixes` and with none of `but`, the most frequent first."""
        found = {
            n: v for n, v in self.waits.items() if n.lower().startswith(prefixes) and not n.lower().startswith(but)
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def read_figures(
    rows: Iterable[SampleRow],
    load: LoadShape,
    from_s: float,
    to_s: float,
    counters: Mapping[str, float],
    *,
    speeds: Mapping[str, float] | None = None,
) -> RunFigures:
    """Return the figures of [`from_s`, `to_s`]; `counters` are the window's totals as an outcome has them.

    Both bounds are in seconds since the epoch. `rows` are of all sample tables that the figures come from, and may
    reach beyond the window; `load` goes into the result as it is. `speeds` are those of the interfaces in Mbit/s, by
    name; one that is missing is unknown. What the server is set to, and which machine was watched, stays as
    `RunFigures` has it by default.
    """
    tables: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        if from_s < row.t <= to_s + 0.5:
            tables[row.table].append(named(row))
    sessions = tables["sessions"]
    waits: dict[str, float] = defaultdict(float)
    for each in tables["waits"]:
        waits[f"{each['wait_event_type']}:{each['wait_event']}"] += _number(each, "sessions") / len(sessions or [0])
    return RunFigures(
        load=load,
        seconds=to_s - from_s,
        moments=len(sessions),
        sessions=_plain_mean(sessions, "total"),
        active=_plain_mean(sessions, "active"),
        waits=dict(waits),
        cpu=_cpu(tables["cpu"]),
        devices=tuple(_device(name, each) for name, each in _by(tables["disk"], "device").items()),
        interfaces=tuple(
            InterfaceFigures(name, _mean(each, "rx_kb_per_s"), _mean(each, "tx_kb_per_s"), (speeds or {}).get(name))
            for name, each in _by(tables["net"], "interface").items()
        ),
        blocks_read=counters.get("blks_read"),
        blocks_hit=counters.get("blks_hit"),
        disk_read_bytes=counters.get("disk_read_bytes"),
    )


_Row = Mapping[str, SampleValue]


def _by(rows: Sequence[_Row], key: str) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        found[str(row[key])].append(row)
    return found


def _cpu(rows: Sequence[_Row]) -> CpuFigures | None:
    known = [row for row in rows if row["usr_pct"] is not None and row["interval_s"]]
    if not known:
        return None
    cpus = _mean(known, "cpus")
    seconds = sum(_number(row, "interval_s") for row in known)
    shares = [_mean(known, name) for name in ("usr_pct", "sys_pct", "irq_pct")]
    busy_s = sum(shares) / 100 * cpus * seconds

    def part(column: str) -> float | None:
        if busy_s <= 0 or any(row[column] is None for row in known):
            return None
        return min(1.0, sum(_number(row, column) for row in known) / busy_s)

    foreign = None if any(row["foreign_cpu_pct"] is None for row in known) else _mean(known, "foreign_cpu_pct")
    return CpuFigures(
        cpus=cpus,
        usr=shares[0],
        sys=shares[1],
        irq=shares[2],
        iowait=_mean(known, "iowait_pct"),
        steal=_mean(known, "steal_pct"),
        run_queue=_plain_mean(known, "run_queue") or 0.0,
        server_share=part("server_cpu_s"),
        driver_share=part("driver_cpu_s"),
        foreign_share=None if foreign is None or busy_s <= 0 else min(1.0, foreign / 100 * seconds / busy_s),
    )


def _device(name: str, rows: Sequence[_Row]) -> DeviceFigures:
    return DeviceFigures(
        device=name,
        read_kb_s=_mean(rows, "rkb_per_s"),
        write_kb_s=_mean(rows, "wkb_per_s"),
        queue=_mean(rows, "aqu_sz"),
        util_pct=_mean(rows, "util_pct"),
        r_await_ms=_per_request(rows, "r_await_ms", "r_per_s"),
        w_await_ms=_per_request(rows, "w_await_ms", "w_per_s"),
        f_await_ms=_per_request(rows, "f_await_ms", "f_per_s"),
    )


def _per_request(rows: Sequence[_Row], column: str, rate: str) -> float | None:
    """Return a mean over requests, not over seconds: a busy second weighs more."""
    known = [row for row in rows if row[column] is not None and _number(row, rate) > 0]
    weights = sum(_number(row, rate) * _number(row, "interval_s") for row in known)
    total = sum(_number(row, column) * _number(row, rate) * _number(row, "interval_s") for row in known)
    return total / weights if weights else None


def _mean(rows: Sequence[_Row], column: str) -> float:
    """Return the mean over time: a row counts for its `interval_s`."""
    seconds = sum(_number(row, "interval_s") for row in rows)
    return sum(_number(row, column) * _number(row, "interval_s") for row in rows) / seconds if seconds else 0.0


def _plain_mean(rows: Sequence[_Row], column: str) -> float | None:
    return sum(_number(row, column) for row in rows) / len(rows) if rows else None


def _number(row: _Row, column: str) -> float:
    value = row[column]
    return float(value) if isinstance(value, int | float) else 0.0
