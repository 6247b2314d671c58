"""Judge samples of devices: queueing by waits and queues, and reads where only the log should be written."""

from __future__ import annotations

from contextlib import suppress

from pgdyno.advisor.amounts import DISK_READS_S
from pgdyno.advisor.block_stack import bare_name, device_of, disks_of, place_of, top_name
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.device_figures import DeviceLoad, DeviceState, inconsistencies, load_state
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Resolution
from pgdyno.model.inventory import Purpose
from pgdyno.units import agreeing, percent_text, rate_text

SIGNIFICANT_READS = 0.05
"""Share of the requests on the log's disks; below it a WAL sender or the archiver reads a segment now and then."""


def device_queueing(case: Case) -> Judgement:
    """Judge every sampled device by its waits and its queue, and say what %util does not prove."""
    rows = known(case.evidence.devices, "the activity of devices")
    states = [load_state(row) for row in rows]
    queueing = [state for state in states if state.state is DeviceLoad.QUEUEING]
    full = tuple(_resolution(row, state) for row, state in zip(rows, states, strict=True) if _full(row))
    decided = full[:1] or (_none_full(states),)
    if queueing:
        odd = tuple(problem for row in rows for problem in inconsistencies(row))
        return Fires(
            current=", ".join(state.device for state in queueing),
            proposed="fewer requests, or more disks to serve them",
            evidence=tuple(state.sentence for state in states if state.state is not DeviceLoad.QUIET),
            doubts=odd,
            resolutions=decided,
        )
    judged = [state for state in states if state.state is not DeviceLoad.UNKNOWN]
    if not judged:
        return CannotTell("queues and waits are unknown (the samples have neither aqu-sz nor await)")
    return InOrder(" ".join(state.sentence for state in judged), decided, of_load=True)


def wal_device_reads(case: Case) -> Judgement:
    """Compare reads with all requests on the device of the log, where the log has disks of its own."""
    data, wal = place_of(case, Purpose.DATA), place_of(case, Purpose.WAL)
    if disks_of(data) & disks_of(wal):
        return DoesNotApply("data files and log share disks; the rule wal-placement says what to do")
    row = _row(case, top_name(wal), sorted(disks_of(wal)))
    reads, writes = known(row.reads_s, f"r/s of {row.device}"), known(row.writes_s, f"w/s of {row.device}")
    share = reads / (reads + writes) if reads + writes else 0.0
    said = f"{row.device}, below {wal.path}: {rate_text(reads)} reads and {rate_text(writes)} writes a second."
    if share <= SIGNIFICANT_READS or reads < DISK_READS_S:
        return InOrder(said, of_load=True)
    evidence = [said]
    standbys = known(case.server.standbys, "the number of standbys")
    if standbys:
        evidence.append(
            f"{agreeing(standbys, 'standby', 'is', 'are')} connected; a WAL sender that lags reads the log from disk."
        )
    return Fires(
        changes=(Change(ChangeKind.MANUAL, value="keep reads off the disks of the log"),),
        current=f"{percent_text(share, 1)} of the requests are reads",
        proposed="writes only",
        evidence=tuple(evidence),
    )


def storage_hardware(case: Case) -> Judgement:
    """Speak of hardware only where requests queue."""
    rows = known(case.evidence.devices, "the activity of devices")
    queueing = [state for row in rows if (state := load_state(row)).state is DeviceLoad.QUEUEING]
    if not queueing:
        return DoesNotApply("no device lets requests queue in this window")
    return Fires(
        current="the devices of today",
        proposed="more disks, cache and paths",
        evidence=tuple(state.sentence for state in queueing),
    )


def _row(case: Case, top: str, disks: list[str]) -> DeviceActivity:
    rows = known(case.evidence.devices, "the activity of devices")
    names = {bare_name(top)}
    with suppress(Missing):
        device = device_of(case.host, top)
        names |= {device.name, device.mapper}
    found = next((row for row in rows if row.device in names), None)
    found = found or next((row for row in rows if row.device in disks), None)
    if found is None:
        raise Missing("the activity of the log's device", f"{top} is not among the sampled devices")
    return found


def _full(row: DeviceActivity) -> bool:
    return not isinstance(row.util_pct, Unknown) and row.util_pct >= 99


def _resolution(row: DeviceActivity, state: DeviceState) -> Resolution:
    return Resolution(
        "CON-45",
        f"%util of {row.device} is {row.util_pct:.4g}, which proves nothing; by wait and queue: {state.sentence}",
    )


def _none_full(states: list[DeviceState]) -> Resolution:
    said = " ".join(state.sentence for state in states if state.state is not DeviceLoad.UNKNOWN)
    return Resolution("CON-45", f"No device is at 100 % here; waits and queues decide all the same. {said}".rstrip())
