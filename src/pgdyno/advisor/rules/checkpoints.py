"""Judges of the rules on checkpoints: how often they come, how they are spread, and what a crash then costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pgdyno.advisor.case import Case, Missing
from pgdyno.advisor.judgement import Fires, InOrder, Judgement
from pgdyno.advisor.planned import (
    change_to,
    log_of,
    number_or,
    planned,
    proposes,
    shown,
    statistics_of,
    writes,
)
from pgdyno.advisor.wal_pressure import (
    HeavyImages,
    WalRate,
    cap_bytes,
    checkpoints_unseen,
    cycles,
    heavy_images,
    is_of_earlier_size,
    no_rate,
    power_of_two,
    pressure_by_rate,
    pressure_of,
    wal_file_system,
    wal_rate,
    wanted_bytes,
)
from pgdyno.model.evidence import CHECKPOINT_SETTINGS, WAL_RATE_BY_LOG
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Resolution, Severity
from pgdyno.units import bytes_text, percent_text, seconds_text

MIN = 60.0
LONG_TIMEOUT_S = 15 * MIN


def max_wal_size(case: Case) -> Judgement:
    """Size max_wal_size so that checkpoints come by time, within what the WAL file system holds."""
    current = case.number("max_wal_size")
    pressure = tuple(pressure_of(case))
    rate = wal_rate(case)
    if not pressure:
        unseen = checkpoints_unseen(case)
        if unseen is None:
            text = f"Checkpoints do not come by WAL: max_wal_size = {shown(case, 'max_wal_size')} is enough."
            log = case.evidence.log
            return InOrder(text, of_load=isinstance(log, Unknown) or not log.starts)
        if rate is None:
            raise Missing("why checkpoints start", _unseen(case, unseen))
        return _by_rate_alone(case, current, rate, unseen)
    if rate is None:
        return _measure_first(case, pressure)
    return _sized(case, current, rate, pressure)


def _unseen(case: Case, starts: str) -> str:
    """Return why neither log nor counters (`starts`) nor a rate of WAL are there, each reason once."""
    rate = case.evidence.wal_rate_bytes_s
    reasons = [*starts.split("; "), *(rate.reason.split("; ") if isinstance(rate, Unknown) else ())]
    return "; ".join(dict.fromkeys(reasons))


def _by_rate_alone(case: Case, current: float, rate: WalRate, unseen: str) -> Judgement:
    """Judge by arithmetic where neither a log nor counters say what starts the checkpoints.

    A log's rate from before a setting changed tells no need of another change: fewer checkpoints write fewer images of
    whole pages, so it may be lower now.
    """
    sentence = pressure_by_rate(case, rate)
    if sentence is None:
        return InOrder(f"At {bytes_text(rate.bytes_s)} of WAL a second ({rate.source}) checkpoints come by time.")
    if rate.source == WAL_RATE_BY_LOG and _changed_since(case):
        raise Missing("why checkpoints start", unseen)
    found = _sized(case, current, rate, (sentence,))
    computed = "no log and no counters with a checkpoint were there to confirm that WAL starts them: it is computed"
    return replace(found, doubts=(*found.doubts, computed)) if isinstance(found, Fires) else found


def _changed_since(case: Case) -> bool:
    """Tell whether a setting of checkpoints changed after the last checkpoint of the log, or no new value shows yet."""
    log = case.evidence.log
    if isinstance(log, Unknown):
        return False
    changed = [at for name, at in log.changed.items() if name in CHECKPOINT_SETTINGS]
    is_last = bool(changed) and (not log.checkpoints or max(changed) > str(log.checkpoints[-1].at))
    return is_last or is_of_earlier_size(case, log)


def _sized(case: Case, current: float, rate: WalRate, pressure: tuple[str, ...]) -> Judgement:
    timeout_s, target = case.number("checkpoint_timeout"), planned(case, "checkpoint_completion_target")
    major = case.server.major
    needed = wanted_bytes(rate.bytes_s, timeout_s, target, major)
    least = number_or(case, "min_wal_size", 0.0)
    proposal = power_of_two(max(needed, least))
    size, where, doubts = wal_file_system(case)
    cap = None if size is None else cap_bytes(size, proposal)
    capped = proposal if cap is None else cap
    beyond = f" that min_wal_size = {bytes_text(least)} leaves" if least > needed else ""
    sizing = (
        f"WAL is written at {bytes_text(rate.bytes_s)}/s ({rate.source}): in checkpoint_timeout = "
        f"{seconds_text(timeout_s)} that is {bytes_text(rate.bytes_s * timeout_s)}, times "
        f"{cycles(target, major):g} makes {bytes_text(needed)}; the next power of two{beyond} is "
        f"{bytes_text(proposal)}."
    )
    evidence = [*pressure, sizing]
    if cap is not None and size is not None:
        evidence.append(
            f"It is capped at {bytes_text(capped)}, half of what {where} offers ({bytes_text(size)}): a WAL file "
            "system that is full stops the server, and WAL beyond max_wal_size is normal while a standby or the "
            "archiver lags."
        )
    if capped <= current:
        return _nothing_to_raise(case, tuple(evidence), capped=cap is not None)
    evidence.append(_recovery(min(capped, rate.bytes_s * timeout_s * (1 + target)), rate))
    change = change_to(case, "max_wal_size", capped)
    return proposes(
        case,
        change,
        evidence=tuple(evidence),
        doubts=doubts,
        resolutions=(
            Resolution(
                "CON-19",
                f"Neither 16GB nor 256GB is copied: {bytes_text(rate.bytes_s)}/s of WAL on this machine give "
                f"{change.value}. A faster platform writes more WAL and needs more.",
            ),
        ),
    )


def max_wal_size_sides(case: Case) -> Iterator[Resolution]:
    """Decide CON-18 by the setting's context on this server, and CON-19 by the rate or the start of checkpoints."""
    context = case.row("max_wal_size").context
    needs = "restart is needed" if context == "postmaster" else "reload is enough"
    version = case.server.version or case.server.major
    if context != "unknown":  # a list of settings may come without this column
        yield Resolution("CON-18", f"A {needs}: max_wal_size has the context {context} in version {version}.")
    current, rate = shown(case, "max_wal_size"), wal_rate(case)
    if rate is not None:
        timeout_s, target = case.number("checkpoint_timeout"), planned(case, "checkpoint_completion_target")
        needed = wanted_bytes(rate.bytes_s, timeout_s, target, case.server.major)
        yield Resolution(
            "CON-19",
            f"Neither 16GB nor 256GB is copied: {bytes_text(rate.bytes_s)}/s of WAL ({rate.source}) need "
            f"{bytes_text(needed)}, and max_wal_size is {current}.",
        )
    elif not (isinstance(case.evidence.log, Unknown) and isinstance(case.evidence.statistics, Unknown)):
        starts = "WAL starts the checkpoints" if any(pressure_of(case)) else "WAL does not start the checkpoints"
        starts = checkpoints_unseen(case) or starts
        yield Resolution(
            "CON-19", f"Neither 16GB nor 256GB is copied: {starts} with max_wal_size = {current}; its rate is unknown."
        )


def _nothing_to_raise(case: Case, evidence: tuple[str, ...], *, capped: bool) -> Judgement:
    current = shown(case, "max_wal_size")
    text = (
        "give the WAL a larger file system, then size max_wal_size again"
        if capped
        else f"measure the WAL rate while the hints appear: the rate seen needs less than {current}"
    )
    return Fires(
        current=f"max_wal_size = {current}",
        proposed=text,
        values={"proposed": "a value from the rate at load"},
        evidence=evidence,
        needs_test=True,
    )


def _measure_first(case: Case, pressure: tuple[str, ...]) -> Judgement:
    return Fires(
        current=f"max_wal_size = {shown(case, 'max_wal_size')}",
        proposed="measure the WAL rate at load, then size it",
        values={"proposed": "a value from the WAL rate"},
        evidence=(
            *pressure,
            "The WAL rate is not known, so no value is proposed. Measure it at load: `pgdyno advise --window 300`, or "
            "pg_wal_lsn_diff() of two pg_current_wal_lsn() some minutes apart; with log_checkpoints on, the "
            "distance= of the log's checkpoint lines shows it too.",
        ),
        needs_test=True,
    )


def _recovery(redo_bytes: float, rate: WalRate) -> str:
    return (
        f"After a crash up to {bytes_text(redo_bytes)} of WAL are replayed, by one process. At the rate at which the "
        f"load writes it that takes {seconds_text(redo_bytes / rate.bytes_s)}; measure it with a kill -9 on a copy."
    )


def checkpoint_timeout(case: Case) -> Judgement:
    """Offer a longer checkpoint_timeout where the load writes, the log shows no pressure by WAL and space allows."""
    current = case.number("checkpoint_timeout")
    if current >= LONG_TIMEOUT_S:
        return InOrder(f"checkpoint_timeout = {shown(case, 'checkpoint_timeout')} is long already.")
    if not writes(case):
        return InOrder("The load hardly writes: checkpoints cost it next to nothing.")
    if "max_wal_size" in case.earlier or any(pressure_of(case)):
        return InOrder(
            "max_wal_size comes first: WAL and not time starts the checkpoints, so that a longer time changes nothing."
        )
    rate = wal_rate(case)
    if rate is None:
        raise no_rate(case)
    target = planned(case, "checkpoint_completion_target")
    needed = power_of_two(wanted_bytes(rate.bytes_s, LONG_TIMEOUT_S, target, case.server.major))
    size, where, doubts = wal_file_system(case)
    if size is not None and cap_bytes(size, needed) is not None:
        return InOrder(
            f"With {seconds_text(LONG_TIMEOUT_S)} the WAL of {bytes_text(rate.bytes_s)}/s would need max_wal_size = "
            f"{bytes_text(needed)}, more than half of {where}: WAL would start the checkpoints all the same."
        )
    changes = [change_to(case, "checkpoint_timeout", LONG_TIMEOUT_S)]
    if needed > planned(case, "max_wal_size"):
        changes.append(change_to(case, "max_wal_size", needed))
    return proposes(
        case,
        *changes,
        evidence=(
            f"WAL is written at {bytes_text(rate.bytes_s)}/s ({rate.source}); {seconds_text(LONG_TIMEOUT_S)} between "
            f"checkpoints need max_wal_size = {bytes_text(needed)}, and it is {shown(case, 'max_wal_size')}.",
            f"A crash recovery then replays the WAL of up to {seconds_text(LONG_TIMEOUT_S * (1 + target))}, against "
            f"{seconds_text(current * (1 + target))} now.",
        ),
        doubts=doubts,
        needs_test=True,
    )


def checkpoint_completion_target(case: Case) -> Judgement:
    """Propose 0.9 where the version's default is 0.5 and nobody chose another value."""
    current, major = case.number("checkpoint_completion_target"), case.server.major
    newer = major >= 14
    default = Resolution(
        "CON-20",
        f"This is version {case.server.version or major}, whose default is {'0.9' if newer else '0.5'}: "
        + _decided(newer, current),
    )
    if current >= 0.9:
        return InOrder(f"checkpoint_completion_target = {current:g}.", (default,))
    if newer or current > 0.5:
        return InOrder(f"checkpoint_completion_target = {current:g} was chosen by somebody; it is left.", (default,))
    spread = case.number("checkpoint_timeout")
    return proposes(
        case,
        change_to(case, "checkpoint_completion_target", 0.9),
        evidence=(
            f"Version {major} spreads a checkpoint over {current:g} of checkpoint_timeout: "
            f"{seconds_text(current * spread)} of {seconds_text(spread)}; with 0.9 it is {seconds_text(0.9 * spread)}.",
        ),
        resolutions=(default,),
    )


def _decided(newer: bool, current: float) -> str:
    if newer or current > 0.5:
        return f"{'the advice is for older versions' if newer else 'nothing is to be changed'}, {current:g} is set."
    return "0.9 is proposed."


def full_page_burst(case: Case) -> Judgement:
    """Explain the burst of full-page images where they make up most of the WAL."""
    images = heavy_images(case)
    if not isinstance(images, HeavyImages):
        return images
    per_commit, evidence = statistics_of(case).wal_bytes_per_commit, [images.sentence]
    if not isinstance(per_commit, Unknown):
        evidence.append(f"A transaction writes {bytes_text(per_commit)} of WAL on average.")
    return Fires(
        current=f"checkpoint_timeout = {shown(case, 'checkpoint_timeout')}, "
        f"max_wal_size = {shown(case, 'max_wal_size')}",
        proposed="longer distances between checkpoints (max-wal-size, checkpoint-timeout)",
        values={"share": percent_text(images.share)},
        evidence=tuple(evidence),
        severity=Severity.NOTE,
    )


def recovery_time(case: Case) -> Judgement:
    """Warn where a crash recovery would replay more than half an hour of the load's WAL."""
    size, rate = planned(case, "max_wal_size"), wal_rate(case)
    if rate is None:
        raise no_rate(case)
    seconds = min(
        size / rate.bytes_s,
        planned(case, "checkpoint_timeout") * (1 + planned(case, "checkpoint_completion_target")),
    )
    text = (
        f"With max_wal_size = {bytes_text(size)} and {bytes_text(rate.bytes_s)}/s of WAL ({rate.source}) a crash "
        f"leaves up to {seconds_text(seconds)} of the load's work to replay: {bytes_text(seconds * rate.bytes_s)}."
    )
    if seconds <= 30 * MIN:
        return InOrder(text)
    return Fires(evidence=(text,), values={"time": seconds_text(seconds)})


def log_checkpoints(case: Case) -> Judgement:
    """Ask for log_checkpoints where it is off: without it the log does not say why checkpoints start."""
    if case.text("log_checkpoints") == "on":
        return InOrder("log_checkpoints is on.")
    change = change_to(case, "log_checkpoints", "on")
    default = "off by default up to 14" if case.server.major <= 14 else "on by default since 15, and was turned off"
    seen = (
        ()
        if isinstance(case.evidence.log, Unknown)
        else (f"{len(log_of(case).checkpoints)} checkpoint lines were found in the log.",)
    )
    return proposes(
        case, change, evidence=(f"This is version {case.server.version or case.server.major}: it is {default}.", *seen)
    )
