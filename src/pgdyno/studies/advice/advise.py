"""Compose advice: what is known of a target, what happened on it, what the rules say, what was proved. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.advisor.applicability import generic_remark
from pgdyno.advisor.case import Case
from pgdyno.advisor.engine import advise, facts_used
from pgdyno.advisor.rulebook import load_rules
from pgdyno.advisor.selection import depth_for
from pgdyno.errors import PgdynoError
from pgdyno.inventory.inspection import inspect, inspect_capture
from pgdyno.model.advice import Advice
from pgdyno.model.classes import Criticality
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, Depth, RuleProof
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.gather import evidence_of_capture, gather
from pgdyno.probes.evidence.own_work import OwnWork, log_zone
from pgdyno.units import some_text

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store
    from pgdyno.targets.target import Target

Progress = Callable[[str], None]
StoreFor = Callable[[Inventory], "Store | None"]
"""Gives the store where it may have something of the server of an inventory: opening it takes as long as the advice."""
_MOST_MISSING = 3


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """What was asked for. `depth` None is chosen by the criticality; `window_s` None takes what the views hold."""

    rules: tuple[Path, ...] = ()
    depth: Depth | None = None
    criticality: Criticality | None = None
    window_s: float | None = None
    logs: tuple[Path, ...] = ()
    iostat: Path | None = None
    sadf: Path | None = None
    wal_device: str | None = None
    """The device of the WAL as iostat or sadf names it; None takes it from the inventory."""


@dataclass(frozen=True, slots=True)
class OfflineFiles:
    """What stands for a target: a captured folder, and pg_settings or a postgresql.conf with its version."""

    root: Path | None = None
    pg_settings: Path | None = None
    pg_conf: Path | None = None
    pg_version: str | None = None


def advise_target(target: Target, request: AdviceRequest, *, store_for: StoreFor, progress: Progress) -> Advice:
    """Return advice for a live target. Reads only; waits for the window when one was asked for.

    `request` has the further rules and files to read, the seconds to watch, and how much to tell. `store_for` is given
    the target's inventory, once; where it returns None, no earlier study counts. `progress` takes each step in words.
    """
    load_rules(request.rules)  # a mistake in a rule file is told before anybody waits
    progress("reading host and server")
    inventory = inspect(target)
    store = store_for(inventory)
    progress("reading statistics and logs" if request.window_s is None else f"watching for {request.window_s:g} s")
    work = _work(store, inventory)
    evidence = gather(
        target,
        inventory,
        window_s=request.window_s or 0.0,
        logs=request.logs or None,
        iostat=request.iostat,
        sadf=request.sadf,
        progress=progress,
        wal_device=request.wal_device,
        matrix=_matrix(store, inventory),
        work=work,
    )
    advice = advise_case(target.name, inventory, evidence, request, proofs=_proofs(store, inventory))
    return replace(found := _with_remark(advice, work), remarks=(*_open_sessions(target), *found.remarks))


def advise_offline(files: OfflineFiles, request: AdviceRequest, *, store_for: StoreFor) -> Advice:
    """Return advice for a captured folder, for settings from a file, or for both together. Needs no server.

    Raises UsageError when a file cannot be read, EnvironmentUnsuitable when the folder holds nothing that is known.
    """
    load_rules(request.rules)
    settings, conf, version = files.pg_settings, files.pg_conf, files.pg_version
    inventory = inspect_capture(files.root, settings=settings, conf=conf, version=version)
    store = store_for(inventory)
    work = _work(store, inventory)
    evidence = evidence_of_capture(
        files.root,
        inventory,
        logs=request.logs or None,
        iostat=request.iostat,
        sadf=request.sadf,
        wal_device=request.wal_device,
        matrix=_matrix(store, inventory),
        work=work,
    )
    return _with_remark(
        advise_case(inventory.origin, inventory, evidence, request, proofs=_proofs(store, inventory)), work
    )


def advise_case(
    target: str,
    inventory: Inventory,
    evidence: Evidence,
    request: AdviceRequest,
    *,
    proofs: Mapping[str, RuleProof] | None = None,
) -> Advice:
    """Judge all rules on what is known. Pure but for reading the rule files.

    `target` is its name on the page, `inventory` what is known of it and `evidence` what happened on it. Of `request`
    only rules, depth and criticality count. `proofs` has, by rule id, what was measured here; None for nothing.
    """
    if request.criticality is not None:
        inventory = replace(inventory, criticality=request.criticality)
    case = Case(inventory, evidence)
    found = dict(proofs or {})
    return Advice(
        target=target,
        inventory=inventory,
        evidence=evidence,
        findings=advise(inventory, evidence, load_rules(request.rules), found),
        depth=request.depth or depth_for(inventory.criticality),
        proofs=found,
        remarks=tuple(_remarks(case)),
        facts=facts_used(case),
        environment=inventory.environment_name,
    )


def _remarks(case: Case) -> Sequence[str]:
    remarks = [generic_remark(case)]
    if isinstance(case.inventory.server, Unknown):
        remarks.append(f"the server is {case.inventory.server}: only rules on the host were judged")
    elif waiting := sorted(row.name for row in case.inventory.server.settings.values() if row.pending_restart):
        remarks.append(f"what is set waits for a restart, and was judged as it is in force: {', '.join(waiting)}")
    missing = sorted(case.inventory.missing.items())
    if missing:
        told = some_text([f"{name} ({reason})" for name, reason in missing], _MOST_MISSING)
        rest = ", which pgdyno inspect lists" if len(missing) > _MOST_MISSING else ""
        remarks.append(f"not everything could be read: {told}{rest}")
    return [remark for remark in remarks if remark is not None]


def _open_sessions(target: Target) -> Sequence[str]:
    """Say which session has the server now: what is advised is of its settings, and they go when it ends."""
    if target.remote is not None:
        return ()  # its sessions are of the whole host, whichever server
    from pgdyno.server import places
    from pgdyno.undo.journal import may_be_open

    undo_root = places.state_dir() / "undo"
    try:
        if not may_be_open(undo_root):
            return ()
    except OSError:  # who may not look at them gets advice all the same
        return ()
    from pgdyno.undo.rollback import SessionState, sessions_of  # brings all that undoes a session

    told = {
        SessionState.RUNNING: "runs here: the settings in force are those of its trials. Ask again when it has ended",
        SessionState.ABANDONED: "was killed and not restored: settings of its trials are in force. First run "
        "pgdyno rollback {}",
    }
    try:
        found = sessions_of(target, undo_root)
    except (PgdynoError, OSError):
        return ()
    names = [(info.directory.name, told[info.state]) for info in found if info.state in told]
    return [f"session {name} {words.format(name)}" for name, words in names]


def _proofs(store: Store | None, inventory: Inventory) -> Mapping[str, RuleProof]:
    if store is None:
        return {}
    # Brings the store's libraries, which advice without one does without.
    from pgdyno.studies.advice.proofs import proofs_of

    return proofs_of(store, inventory)


def _work(store: Store | None, inventory: Inventory) -> OwnWork:
    if store is None:
        return OwnWork()
    from pgdyno.studies.advice.proofs import own_work

    return own_work(store, inventory)


def _with_remark(advice: Advice, work: OwnWork) -> Advice:
    """Name the studies of ours in the time that the evidence covers."""
    evidence = advice.evidence
    remark = work.remark(evidence.statistics, evidence.log, log_zone(advice.inventory))
    return advice if remark is None else replace(advice, remarks=(*advice.remarks, remark))


def _matrix(store: Store | None, inventory: Inventory) -> Sequence[tuple[int, float]]:
    if store is None:
        return ()
    from pgdyno.studies.advice.client_matrix import client_matrix

    return client_matrix(store, inventory)


def plan_of(advice: Advice) -> str:
    """Return an experiment plan in TOML: one factor a step, in the order of their dependencies."""
    from pgdyno.studies.advice.steps import plan_text  # brings the plans of staircases

    return plan_text(advice.answered(Answer.FINDING), advice.inventory)
