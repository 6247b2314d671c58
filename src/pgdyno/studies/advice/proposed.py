"""What one rule proposes on a server, as settings that a study may try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgdyno.advisor.settable import parts_of
from pgdyno.errors import PolicyError, UsageError
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice import advised
from pgdyno.studies.advice.proofs import rule_option
from pgdyno.targets.target import Target


@dataclass(frozen=True, slots=True)
class Proposed:
    """A rule's settings; `option` is what a study keeps to prove or refute it, `commands` are for people."""

    settings: Mapping[str, str]
    commands: tuple[str, ...]
    option: object


def proposed_by(
    target: Target, rule: str, source: advised.AdviceSource, *, store: Store, progress: Callable[[str], None]
) -> Proposed:
    """Ask the advisor on a server and return what this rule would set; its commands are announced, and never run.

    Raises PolicyError where it names what is never tried, and UsageError where it proposes nothing to set.
    """
    findings, _ = advised.advise_on(target, source, store=store, progress=progress)
    parts = parts_of(advised.chosen(findings, [rule]))
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
