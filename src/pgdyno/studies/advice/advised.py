"""Findings on a live target, and what one rule proposes there, for the verbs that act on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.advisor.rulebook import load_rules, require_rule
from pgdyno.advisor.settable import parts_of
from pgdyno.errors import PolicyError, UsageError
from pgdyno.model.finding import Answer, Finding, ProofState
from pgdyno.model.inventory import Inventory
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.advise import AdviceRequest, advise_target
from pgdyno.studies.advice.proofs import rule_option
from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class AdviceSource:
    """What advice is made from: folders of further rules, the window that is watched, and log files."""

    rules: tuple[Path, ...] = ()
    window_s: float | None = None
    logs: tuple[Path, ...] = ()


Advised = tuple[Sequence[Finding], Inventory]


def advise_on(target: Target, source: AdviceSource, *, store: Store, progress: Callable[[str], None]) -> Advised:
    """Return the findings on a target with what was proved here before, and the inventory. Reads only.

    `source` says what the advice is made from, `store` has what was proved, and `progress` takes each step in words.
    """
    request = AdviceRequest(rules=source.rules, window_s=source.window_s, logs=source.logs)
    advice = advise_target(target, request, store_for=lambda _: store, progress=progress)
    return advice.findings, advice.inventory


def require(rules: Sequence[str], source: AdviceSource) -> None:
    """Refuse names that no rule has, before anybody waits for a server. Raises UsageError with names that are near."""
    known = [rule.id for rule in load_rules(source.rules)]
    for name in rules:
        require_rule(name, known)


def chosen(findings: Sequence[Finding], rules: Sequence[str], *, all_proved: bool = False) -> tuple[Finding, ...]:
    """Return the findings of these rules, in the order of the findings; `all_proved` adds those tested here.

    Raises UsageError for a rule that is not there, or has nothing to say on this target, with its reason.
    """
    by_rule = {finding.rule: finding for finding in findings}
    for rule in rules:
        found = by_rule.get(rule)
        if found is None:
            fires = [finding.rule for finding in findings if finding.answer is Answer.FINDING]
            raise UsageError(f'there is no rule "{rule}"', hint=f"Here fire: {', '.join(fires) or 'none'}.")
        if found.answer is not Answer.FINDING:
            raise UsageError(
                f'rule "{rule}" proposes nothing here: it answers {found.answer}',
                detail=found.reason or None,
                hint=f"pgdyno advise --explain {rule}, with the flags that name the server, says what it looked at.",
            )
    return tuple(
        finding
        for finding in findings
        if finding.rule in rules
        or (all_proved and finding.answer is Answer.FINDING and finding.state is ProofState.TESTED)
    )


@dataclass(frozen=True, slots=True)
class Proposed:
    """A rule's settings; `option` is what a study keeps to prove or refute it, `commands` are for people."""

    settings: Mapping[str, str]
    commands: tuple[str, ...]
    option: object


def proposed_by(
    target: Target, rule: str, source: AdviceSource, *, store: Store, progress: Callable[[str], None]
) -> Proposed:
    """Ask the advisor on a server and return what this rule would set; its commands are announced, and never run.

    `rule` is an id; `target`, `source`, `store` and `progress` are as in `advise_on`, and `progress` takes the commands
    too. Raises PolicyError where it names what is never tried, and UsageError where it proposes nothing to set.
    """
    findings, _ = advise_on(target, source, store=store, progress=progress)
    parts = parts_of(chosen(findings, [rule]))
    if parts.refused:
        raise PolicyError(
            f'rule "{rule}" names {", ".join(parts.refused)} of class X, which is never tried',
            hint=f"pgdyno knobs show {next(iter(parts.refused))} says why.",
        )
    if not parts.settings:
        raise UsageError(
            f'rule "{rule}" proposes nothing that a session could set',
            detail="\n".join(parts.commands) or None,
            hint="Measure before and after by hand: pgdyno bench, then pgdyno compare.",
        )
    for line in parts.commands:
        progress(f"not run, for you to decide: {line}")
    return Proposed(parts.settings, parts.commands, rule_option((rule,), parts.settings))
