"""Put findings in force for good: checked, journalled, read back, recorded, and undone by `pgdyno rollback`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.advisor.settable import SettableParts, parts_of
from pgdyno.capture.server_queries import FILE_SETTINGS, is_of_session
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, PolicyError, UsageError
from pgdyno.inventory.server_values import server_values
from pgdyno.knobs.constraints import check
from pgdyno.knobs.policy import check_settings
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.finding import Finding, ProofState
from pgdyno.owner.signals import signals_interrupt
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.study_session import begin_session, linux_knobs, put_back_abandoned
from pgdyno.studies.who import who
from pgdyno.studies.winner import ORIGIN as WINNER
from pgdyno.studies.winner import in_force
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trial.restarts import needs_restart
from pgdyno.undo.applied import Applied
from pgdyno.undo.watch import Deadlines

STUDY = "apply"
"""What a bundle of this verb says of its study."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What will be put in force; nothing where all of it is already, which is `there`.

    `before` holds the values as found, `restart` the knobs that need one.
    """

    findings: tuple[Finding, ...]
    configuration: Configuration
    there: Configuration
    before: Mapping[str, str]
    restart: tuple[str, ...]
    parts: SettableParts
    facts: Facts

    def rule_of(self, knob: str) -> Finding:
        """Return the finding that proposes a knob."""
        return next(found for found in self.findings for change in found.changes if change.knob == knob)


@dataclass(frozen=True, slots=True)
class InForce:
    """What came into force, and the session whose bundle takes it back."""

    session: str
    applied: Applied


def prepare(target: Target, findings: Sequence[Finding], *, force: bool = False) -> Acceptance:
    """Check findings against policy, server and the memory that is there. Reads only.

    Raises PolicyError for class X, whatever the flags; UsageError for a finding that was found worse here, unless
    forced, and for one with nothing that a session can set; EnvironmentUnsuitable for a standby, and where a joint
    constraint forbids it.
    """
    for finding in findings:
        _refuse_refuted(finding, force=force)
    parts = parts_of(findings)
    if parts.refused:
        name, why = next(iter(parts.refused.items()))
        raise PolicyError(
            f'knob "{name}" is of class X and is not applied, whatever the flags',
            detail=f"{why[0].upper()}{why[1:]}.",
            hint=f"pgdyno knobs show {name} says what it risks; set it yourself, if you must.",
        )
    facts = _of_server(read_facts(target), target)
    if facts.server.in_recovery:
        raise EnvironmentUnsuitable(f"{target.name} is a standby", hint="Apply on the primary.")
    wanted = check_settings(parts.settings, facts)
    if not wanted:
        raise _for_hands(findings)
    there = Configuration.of({name: value for name, value in wanted.items() if in_force(name, facts) == value})
    configuration = Configuration.of({name: value for name, value in wanted.items() if name not in there})
    connections = int(facts.settings["max_connections"].setting) if "max_connections" in facts.settings else 100
    refusal = check(configuration, facts, connections=connections)
    if refusal is not None and not force:
        raise EnvironmentUnsuitable(
            f"this would not be safe here: {refusal.reason}",
            hint=f"{_instead(findings)}; --force overrules this one check, never the policy.",
        )
    return Acceptance(
        findings=tuple(findings),
        configuration=configuration,
        there=there,
        before={name: in_force(name, facts) or "unknown" for name in configuration},
        restart=tuple(name for name in configuration if needs_restart(name, facts)),
        parts=parts,
        facts=facts,
    )


def _of_server(facts: Facts, target: Target) -> Facts:
    """Return the facts with the values that every session is given, in place of those of our own role and database.

    A role that may not read pg_file_settings keeps its own: they are all that it is told.
    """
    own = [name for name, fact in facts.settings.items() if is_of_session(name, fact.source)]
    if not own:
        return facts
    try:
        lines = target.postgres.fetch(FILE_SETTINGS, {"names": own})
    except PgdynoError:
        return facts
    return replace(facts, settings={**facts.settings, **server_values(facts.settings, lines).settings})


def put_in_force(
    target: Target,
    acceptance: Acceptance,
    store: Store,
    *,
    announce: Callable[[str], None],
    clock: Callable[[], float] = time.time,
    by: str | None = None,
) -> InForce:
    """Bring it into force in a session and keep it; any error or signal on the way restores the server.

    `acceptance` is what `prepare` returned for `target`. It is recorded in `store` before it is kept, as done `by` the
    user of this process unless another is named: what stays is on record. `clock` gives the time of the records, in
    seconds since the epoch; `announce` takes lines of progress. Errors as `Session.apply`.
    """
    undo_root = places.ensure(places.state_dir() / "undo")
    configuration = acceptance.configuration
    kernel = linux_knobs(configuration)
    with signals_interrupt():
        put_back_abandoned(target, undo_root, announce, may_change=True)
        with begin_session(target, STUDY, undo_root, kernel, Deadlines()) as session:
            announce(f"session {session.id}: the undo bundle is on disk, the watchdog is ready")
            applied = session.apply(configuration, restart="as-needed")
            records = _records(target, acceptance, session.id, clock(), by or who())
            store.add_changes(records)
            try:
                session.keep()
            except BaseException:
                store.add_changes(taken_back(records, clock()))
                raise
    return InForce(session.id, applied)


def taken_back(records: Sequence[ChangeRecord], at: float, by: str | None = None) -> list[ChangeRecord]:
    """Return the records of the rollback of these changes, by the user of this process unless another is named."""
    swapped = [replace(record, old=record.new, new=record.old) for record in records]
    return [replace(record, at=at, who=by or who(), action=ChangeAction.ROLLBACK) for record in swapped]


def record_rollback(store: Store, session: str, at: float, by: str | None = None) -> int:
    """Record that a session's changes were taken back, once, as `taken_back`; return how many they were.

    `session` is the id under which `store` has the changes, and `at` the time of the rollback in seconds since the
    epoch; `by` None means the user of this process. Returns 0 where the store has no change of it, or its rollback
    already.
    """
    known = store.changes(session=session)
    if not known or any(record.action is ChangeAction.ROLLBACK for record in known):
        return 0
    store.add_changes(taken_back(known, at, by))
    return len(known)


def _refuse_refuted(finding: Finding, *, force: bool) -> None:
    proof = finding.proof
    if finding.state is not ProofState.REFUTED or proof is None or proof.verdict != "worse" or force:
        return
    raise UsageError(
        f'rule "{finding.rule}" was refuted here: study {proof.study} found it {proof.verdict}',
        hint="Leave it out, measure it again, or add --force.",
    )


def _for_hands(findings: Sequence[Finding]) -> UsageError:
    """Return the error for findings that hold nothing to set, with what there is to do."""
    return UsageError(
        f"{' and '.join(found.rule for found in findings)}: nothing of this can be set by pgdyno",
        detail="; ".join(_for_people(found) for found in findings),
        hint=f"pgdyno advise --explain {findings[0].rule}, with the flags that name the server, says how it is done "
        "and undone.",
    )


def _for_people(finding: Finding) -> str:
    lines = [line for change in finding.changes for line in change.commands]
    return f"{finding.rule} is for you to do: {'; '.join(lines) or finding.proposed or finding.title}"


def _records(target: Target, acceptance: Acceptance, session: str, at: float, by: str) -> list[ChangeRecord]:
    records = []
    for knob, value in acceptance.configuration.items():
        finding = acceptance.rule_of(knob)
        records.append(
            ChangeRecord(
                at=at,
                who=by,
                action=ChangeAction.APPLY,
                target=target.name,
                environment=acceptance.facts.environment_hash(),
                session=session,
                rule="" if finding.origin == WINNER else finding.rule,
                knob=knob,
                old=acceptance.before[knob],
                new=value,
                study=finding.proof.study if finding.proof else None,
            )
        )
    return records


def _instead(findings: Sequence[Finding]) -> str:
    if all(finding.origin == WINNER for finding in findings):
        return "Measure it with less memory, or let the server admit fewer sessions"
    return "Leave that rule out"
