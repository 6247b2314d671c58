"""Judge every rule on one case and turn the judgements into findings. Pure and deterministic."""

from __future__ import annotations

import string
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath

from pgdyno.advisor.applicability import closest_first, doubts_of, why_not
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder, Judgement
from pgdyno.advisor.planned import shown, written
from pgdyno.advisor.rule import ChangeRow, Rule, title_without_target
from pgdyno.advisor.selection import rank
from pgdyno.advisor.vocabulary import FACTS
from pgdyno.errors import UsageError
from pgdyno.model.evidence import Evidence
from pgdyno.model.facts import NoLoad, Unknown
from pgdyno.model.finding import (
    Answer,
    Change,
    ChangeKind,
    Confidence,
    Finding,
    ProofState,
    Resolution,
    RuleProof,
    StatedEffect,
)
from pgdyno.model.inventory import Inventory
from pgdyno.units import BYTES, MICROSECONDS, bytes_text, parse_quantity

NEAR = 0.1
"""How far a proposal may be from what was tried and still be the same."""
_BYTES_OR_TIME = {**dict.fromkeys(BYTES, "B"), **dict.fromkeys(MICROSECONDS, "us")}


def advise(
    inventory: Inventory, evidence: Evidence, rules: Sequence[Rule], proofs: Mapping[str, RuleProof] | None = None
) -> tuple[Finding, ...]:
    """Return one finding a rule, the best candidates first.

    `inventory` is what is known of the target, `evidence` what was seen of it at work. `rules` are in the order of
    `rulebook.ordered`; what an early one proposes is what later ones compute with. `proofs` are verdicts that were
    measured on this target, by rule id; None for none.
    """
    case = Case(inventory, evidence)
    findings = []
    for rule in rules:
        finding = _with_proof(_finding(rule, case), (proofs or {}).get(rule.id))
        findings.append(finding)
        proposed = {
            change.knob: change.value
            for change in finding.changes
            if change.kind in (ChangeKind.POSTGRESQL, ChangeKind.LINUX) and finding.state is not ProofState.REFUTED
        }
        case = replace(case, earlier={**case.earlier, **proposed})
    return tuple(sorted(findings, key=rank))


def judge(rule: Rule, case: Case) -> Judgement:
    """Return what a rule says of a case; a fact that is missing is an answer, not an error.

    What an idle server did not show is missing too: a load may.
    """
    said, load = _judged(rule, case), case.evidence.workload
    if isinstance(said, InOrder) and said.of_load and isinstance(load, NoLoad):
        return CannotTell(f"what a load would show is unknown ({load.reason})")
    return said


def _judged(rule: Rule, case: Case) -> Judgement:
    try:
        reason = why_not(rule.scope, case)
        if reason is not None:
            return DoesNotApply(reason)
        if rule.judge is not None:
            return rule.judge(case)
        if rule.when is None or not rule.when.holds(case):
            return InOrder(_filled(rule.in_order, case, {}))
        return _fires(rule, case)
    except Missing as missing:
        return missing.answer()
    except (ArithmeticError, ValueError) as error:  # one rule's fault costs its own answer, not those of all others
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {PurePath(frame.filename).name}:{frame.lineno}"
        return CannotTell(f"pgdyno failed to judge it by the facts of this target; please report the defect: {where}")


def _fires(rule: Rule, case: Case) -> Fires:
    return Fires(
        changes=tuple(_change(row, case) for row in rule.changes),
        evidence=tuple(_filled(text, case, {}) for text in rule.evidence),
    )


def _change(row: ChangeRow, case: Case) -> Change:
    return Change(
        kind=row.kind,
        knob=row.knob,
        value=_value_text(row, case),
        current=current_text(row.kind, row.knob, case),
        device=row.device,
        commands=row.commands,
        undo=row.undo,
    )


def current_text(kind: ChangeKind, knob: str, case: Case) -> str | None:
    """Return what a knob stands at, as people write it; None when it is not known."""
    with suppress(Missing):
        if kind is ChangeKind.POSTGRESQL and knob:
            return shown(case, knob)
        if kind is ChangeKind.LINUX and knob:
            return case.sysctl(knob)
    return None


def _value_text(row: ChangeRow, case: Case) -> str:
    if row.value_of is None:
        return row.value
    value = row.value_of.value(case)
    if not isinstance(value, int | float):
        return str(value)
    if row.kind is not ChangeKind.POSTGRESQL:
        return str(round(value))
    return written(case, row.knob, value)


def _filled(text: str, case: Case, values: Mapping[str, str]) -> str:
    """Fill `{name}` places from values, then from the vocabulary; bytes are written for people."""
    words = {}
    for _, name, _, _ in string.Formatter().parse(text):
        if name is None or name in words:
            continue
        if name in values:
            words[name] = values[name]
        elif name in FACTS:
            words[name] = _people(name, FACTS[name](case))
        elif case.has(name):
            words[name] = current_text(ChangeKind.POSTGRESQL, name, case) or "unknown"
        else:
            raise UsageError(f'the text "{text}" names "{name}", which is not a fact, a value or a setting')
    return text.format_map(words)


def _people(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name in ("ram", "memory", "swap", "database_size", "page_size", "huge_page", "wal_rate", "temp_bytes_s"):
        return bytes_text(value)
    return f"{value:.4g}"


def _finding(rule: Rule, case: Case) -> Finding:
    found = _answered(rule, case)
    return replace(found, resolutions=(*found.resolutions, *_settled(rule, case, found.resolutions)))


def _settled(rule: Rule, case: Case, judged: Sequence[Resolution]) -> list[Resolution]:
    """Return what is decided of contradictions without the judge: by facts, where it lacked evidence or is not for."""
    found: list[Resolution] = []
    if rule.settle is None:
        return found
    with suppress(Missing):
        for resolution in rule.settle(case):
            if resolution.id not in [one.id for one in judged]:
                found.append(resolution)
    return found


def _answered(rule: Rule, case: Case) -> Finding:
    judgement = judge(rule, case)
    base = Finding(
        rule=rule.id,
        answer=Answer.OK,
        group=rule.group,
        depth=rule.depth,
        title=title_without_target(rule),
        severity=rule.severity,
        mechanism=rule.mechanism,
        effects=closest_first(rule.effects, case),
        risk=rule.risk,
        risk_level=rule.risk_level,
        cost=rule.cost,
        apply=rule.apply,
        persist=rule.persist,
        verify=rule.verify,
        revert=rule.revert,
        provenance=rule.provenance,
        origin=rule.origin,
        requirements=rule.requirements,
        after=rule.after,
        waits_for_load=rule.under_load and isinstance(case.evidence.workload, NoLoad),
    )
    match judgement:
        case InOrder(reason=reason, resolutions=resolutions):
            return replace(base, reason=reason, resolutions=resolutions)
        case CannotTell(reason=reason):
            return replace(base, answer=Answer.UNKNOWN, reason=reason)
        case DoesNotApply(reason=reason, resolutions=resolutions):
            return replace(base, answer=Answer.NOT_APPLICABLE, reason=reason, resolutions=resolutions)
        case Fires() as fires:
            return _fired(base, rule, case, fires)


def _fired(base: Finding, rule: Rule, case: Case, fires: Fires) -> Finding:
    if fires.effects_from is not None:
        base = replace(base, effects=tuple(e for e in base.effects if e.source.document in fires.effects_from))
    effect = base.main_effect
    doubts = (*(() if effect is None else doubts_of(effect, case)), *fires.doubts)
    named = [change for change in fires.changes if change.knob]
    return replace(
        base,
        answer=Answer.FINDING,
        title=_filled(rule.title, case, fires.values),
        why=_filled(rule.why, case, fires.values),
        severity=fires.severity or rule.severity,
        cost=fires.cost or rule.cost,
        current=fires.current or ", ".join(f"{change.knob} = {change.was}" for change in named),
        proposed=fires.proposed or ", ".join(f"{change.knob} = {change.value}" for change in named),
        changes=fires.changes,
        evidence=(*fires.evidence, *_overridden(case, fires.changes), *_waiting(case, fires.changes)),
        confidence=_confidence(effect, doubts),
        doubts=doubts,
        resolutions=fires.resolutions,
        alternatives=(*rule.alternatives, *fires.alternatives),
        state=ProofState.NEEDS_TEST if rule.needs_test or fires.needs_test else ProofState.PROPOSED,
    )


def _overridden(case: Case, changes: Sequence[Change]) -> Iterator[str]:
    """Yield what roles and databases set for themselves: for their sessions the change changes nothing."""
    for change in changes:
        if change.kind is ChangeKind.POSTGRESQL and change.knob and (others := case.overrides(change.knob)):
            yield f"{change.knob} is set apart for {'; '.join(others)}: those sessions keep it."


def _waiting(case: Case, changes: Sequence[Change]) -> Iterator[str]:
    """Yield what is in the files and not in force: the change may have been made already."""
    for change in changes:
        is_setting = change.kind is ChangeKind.POSTGRESQL and change.knob and case.has(change.knob)
        with suppress(Missing):
            if is_setting and case.row(change.knob).pending_restart:
                yield f"A new value of {change.knob} waits for a restart; this is judged by the one in force."


def _confidence(effect: StatedEffect | None, doubts: Sequence[str]) -> Confidence:
    """Return how far a source's figure can be expected here: it is of the figure, and unknown where there is none."""
    if effect is None or effect.figure is None:
        return Confidence.UNKNOWN
    return Confidence.HIGH.lowered(len(doubts))


def _with_proof(finding: Finding, proof: RuleProof | None) -> Finding:
    """A measured verdict replaces the expectation: worse refutes, better and equivalent are results."""
    if proof is None or finding.answer is not Answer.FINDING or not is_of(proof, finding):
        return finding
    if proof.verdict == "not resolved":
        return replace(finding, proof=proof)
    refuted = proof.verdict in ("worse", "equivalent")
    return replace(finding, proof=proof, state=ProofState.REFUTED if refuted else ProofState.TESTED)


def is_of(proof: RuleProof, finding: Finding) -> bool:
    """Tell whether a study tried what is proposed now: no knob at another value than it had, within a tenth.

    Figures that are computed from a measured rate are a little different every time; a tenth is no other proposal.
    """
    tried = dict(proof.settings)
    kinds = (ChangeKind.POSTGRESQL, ChangeKind.LINUX)
    proposed = [change for change in finding.changes if change.kind in kinds and change.knob in tried]
    return all(_is_near(tried[change.knob], change.value) for change in proposed)


def _is_near(tried: str, proposed: str) -> bool:
    if tried == proposed:
        return True
    try:
        numbers = [parse_quantity(text, _BYTES_OR_TIME.get(text.strip("-+.0123456789 "))) for text in (tried, proposed)]
    except UsageError:
        return False
    one, other = numbers
    return abs(one - other) <= NEAR * max(abs(one), abs(other))


def facts_used(case: Case) -> dict[str, str]:
    """Return every fact of the vocabulary as text, unknown ones with their reason; for `advise --facts`."""
    found = {}
    for name, fact in FACTS.items():
        try:
            value = fact(case)
            found[name] = str(value) if isinstance(value, Unknown) else _people(name, known(value, name))
        except Missing as missing:
            found[name] = f"unknown ({missing.reason})"
    return found
