"""Write findings as an experiment plan: one factor a step, in the order of their dependencies. Pure text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.advisor.rulebook import documents
from pgdyno.advisor.settable import SettableParts, parts_of
from pgdyno.errors import UsageError
from pgdyno.model import linux
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, ChangeKind, Finding, ProofState, StatedEffect
from pgdyno.model.inventory import HostInventory, Inventory
from pgdyno.studies.staircase.plan_file import VERSION

_TOGETHER: Mapping[str, frozenset[str]] = {
    "huge pages": frozenset({linux.NR_HUGEPAGES, "huge_pages", "huge_page_size"}),
    "dirty pages": frozenset({
        linux.DIRTY_BYTES, linux.DIRTY_RATIO, linux.BACKGROUND_BYTES, linux.BACKGROUND_RATIO,
    }),
}  # fmt: skip
"""Knobs that mean nothing without each other: a pool without huge_pages lies idle, and without it the server may fail
to start; the background threshold must stay below the foreground one."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_RATIO_CHECK = "Better by its A/B verdict: kept; worse: dropped; no difference: left out."


@dataclass(frozen=True, slots=True)
class _Draft:
    """The findings of one step."""

    findings: tuple[Finding, ...]
    group: str

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(finding.rule for finding in self.findings)


def plan_text(findings: Sequence[Finding], inventory: Inventory) -> str:
    """Return the plan in TOML for `pgdyno experiment --plan`.

    Every finding with a change that is not refuted here is a step of its own; findings whose knobs have no meaning
    without each other share one. Steps come after those that they depend on, else in the order of the findings. What
    was tested here already, and class X, is left out and listed in a comment.
    """
    chosen, left_out = _choose(findings)
    drafts = _ordered(_grouped(chosen, inventory.host))
    names = {rule: _name(draft) for draft in drafts for rule in draft.rules}
    server = inventory.server
    version = "unknown" if isinstance(server, Unknown) else f"{server.flavour} {server.version}"
    host = inventory.host
    environment = f"{host.processor.architecture}, kernel {host.kernel.release}, {host.processor.cpus} CPUs"
    head = [
        "# An experiment plan of pgdyno: one factor per step; see docs/reference/plan.md.",
        "# The baseline is the server as it is: each step is measured against what was accepted before it.",
        "# Review it, leave out what you do not want, then",
        "# pgdyno experiment --plan FILE, with the flags that name the server: without them it runs on a sandbox.",
        *(f"# left out: {' '.join(text.split())}" for text in left_out),
        f"version = {VERSION}",
        "",
        "[plan]",
        f"target = {_text(f'{version} ({inventory.origin})')}",
        f"environment = {_text(environment)}",
        f"created = {_text(inventory.taken_at)}",
    ]
    if not drafts:
        head.insert(-5, "step = []")
    return "\n".join([*head, *(line for draft in drafts for line in _step_lines(draft, names))]) + "\n"


def from_document(findings: Sequence[Finding], name: str) -> tuple[Finding, ...]:
    """Keep what one document recommends: an older guide is tried again, step by step, on the platform of today.

    `name` is a key of documents.toml, its code or its year. Raises UsageError when nothing here comes from it.
    """
    keys = document_keys(name)
    kept = tuple(found for found in findings if any(source.document in keys for source in found.provenance))
    if not any(finding.answer is Answer.FINDING for finding in kept):
        raise UsageError(
            f'nothing that "{name}" recommends is to be changed here', hint="pgdyno advise --all says why."
        )
    return kept


def document_keys(name: str) -> frozenset[str]:
    """Return the documents that a key, a code or a year names. Raises UsageError when there is none."""
    known = documents()
    keys = frozenset(key for key, document in known.items() if name in (key, document.code, str(document.year)))
    if not keys:
        raise UsageError(f'there is no document "{name}"', hint=f"There are {', '.join(known)}, or their years.")
    return keys


def _choose(findings: Sequence[Finding]) -> tuple[list[Finding], list[str]]:
    chosen: list[Finding] = []
    left_out: list[str] = []
    for finding in findings:
        if finding.answer is not Answer.FINDING or not finding.changes:
            continue
        parts = parts_of([finding])
        left_out += [f"{finding.rule}: {knob} is of class X: {why}" for knob, why in parts.refused.items()]
        if finding.state in (ProofState.REFUTED, ProofState.TESTED):
            study = f" by study {finding.proof.study}" if finding.proof else ""
            left_out.append(f"{finding.rule}: {finding.state}{study}")
        elif parts.settings or parts.commands:
            chosen.append(finding)
    return chosen, left_out


def _grouped(findings: Sequence[Finding], host: HostInventory) -> list[_Draft]:
    """Put findings that must go together into one draft, at the place of the first of them."""
    drafts: list[_Draft] = []
    for finding in findings:
        group = _group_of(finding)
        for index, draft in enumerate(drafts):
            if group and draft.group == group and (group != "read-ahead" or _one_stack(draft, finding, host)):
                drafts[index] = _Draft((*draft.findings, finding), group)
                break
        else:
            drafts.append(_Draft((finding,), group))
    return drafts


def _group_of(finding: Finding) -> str:
    if any(change.knob.endswith("read_ahead_kb") for change in finding.changes):
        return "read-ahead"
    knobs = {change.knob for change in finding.changes}
    return next((name for name, together in _TOGETHER.items() if knobs & together), "")


def _one_stack(draft: _Draft, finding: Finding, host: HostInventory) -> bool:
    """Tell whether the devices of a finding lie above or below those of a draft: the kernel uses the topmost one."""
    ours = {device for found in draft.findings for device in _devices(found)}
    theirs = _devices(finding)
    if not ours or not theirs:  # the catalogue's knob means all devices of the server
        return True
    return bool(_with_relatives(ours, host) & _with_relatives(theirs, host))


def _devices(finding: Finding) -> set[str]:
    kinds = (ChangeKind.BLOCK, ChangeKind.LINUX)
    changes = (change for change in finding.changes if change.kind in kinds and change.device)
    return {change.device.removeprefix("/dev/") for change in changes}


def _with_relatives(devices: Iterable[str], host: HostInventory) -> set[str]:
    known = () if isinstance(host.devices, Unknown) else host.devices
    below = {device.name: set(device.below) for device in known}
    found = set(devices)
    queue = list(found)
    while queue:
        for name in below.get(queue.pop(), set()) - found:
            found.add(name)
            queue.append(name)
    places = () if isinstance(host.places, Unknown) else host.places
    stacks = [set(place.stack) for place in places if not isinstance(place.stack, Unknown)]
    return found.union(*(stack for stack in stacks if stack & found))


def _ordered(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts with each one after those that it depends on; a circle is cut at its first."""
    waiting, done, placed = list(drafts), list[_Draft](), set[str]()
    planned = {rule for draft in drafts for rule in draft.rules}
    while waiting:
        free = (draft for draft in waiting if not (_needs(draft) & planned) - placed)
        following = next(free, waiting[0])
        waiting.remove(following)
        done.append(following)
        placed |= set(following.rules)
    return done


def _needs(draft: _Draft) -> set[str]:
    return {rule for finding in draft.findings for rule in finding.after} - set(draft.rules)


def _name(draft: _Draft) -> str:
    return draft.rules[0]


def _step_lines(draft: _Draft, names: Mapping[str, str]) -> list[str]:
    first, parts = draft.findings[0], parts_of(draft.findings)
    after = dict.fromkeys(names[rule] for rule in sorted(_needs(draft)) if rule in names)
    listed = list(names.values())
    after = {name: None for name in after if listed.index(name) < listed.index(_name(draft))}
    cost = max((finding.cost for finding in draft.findings), key=lambda cost: cost.rank)
    sources = dict.fromkeys(
        f"{source.document}, {source.section}, {source.year}" for found in draft.findings for source in found.provenance
    )
    lines = ["", "[[step]]", f"name = {_text(_name(draft))}", f"rules = {_list(draft.rules)}"]
    group = draft.group or f"rule {draft.rules[0]}"
    if len(parts.settings) + len(parts.commands) > 1 and (draft.group or len(parts.settings) > 1):
        lines.append(f"group = {_text(group)}")
    lines += [f"after = {_list(after)}"] if after else []
    lines += [
        f"origin = {_text(first.origin)}",
        f"sources = {_list(sources)}",
        f"cost = {_text(cost)}",
        f"confidence = {_text((_quoted(draft) or first).confidence)}",
        f"why = {_text(_joined(found.title for found in draft.findings))}",
        f"risk = {_text(_joined(found.risk for found in draft.findings))}",
        *_expected_lines(draft),
        *_change_lines(parts),
        f"check = {_text(_check(draft))}",
    ]
    return lines


def _expected_lines(draft: _Draft) -> list[str]:
    quoted = _quoted(draft)
    if quoted is None or quoted.main_effect is None:
        return []
    return [f"expected = {{ {', '.join(_expected(quoted.main_effect))} }}"]


def _quoted(draft: _Draft) -> Finding | None:
    """Return the finding whose effect stands for the step: the largest figure, else the first in words."""

    def figure(finding: Finding) -> float:
        known = None if finding.main_effect is None else finding.main_effect.figure
        return float("-inf") if known is None else known

    return max((finding for finding in draft.findings if finding.main_effect is not None), key=figure, default=None)


def _expected(effect: StatedEffect) -> list[str]:
    where = f"{effect.source.document} ({effect.source.platform or 'platform not said'})"
    words = effect.text.rstrip().rstrip(".")
    parts = [f"text = {_text(f'{words}. Source: {where}.')}"]
    parts += [f"low = {effect.low!r}"] if effect.low is not None else []
    parts += [f"high = {effect.high!r}"] if effect.high is not None else []
    return [*parts, f"metric = {_text(effect.metric)}"]


def _change_lines(parts: SettableParts) -> list[str]:
    lines = [f"settings = {_table(parts.settings)}"] if parts.settings else []
    lines += [f"found = {_table(parts.found)}"] if parts.found else []
    lines += [f"commands = {_list(parts.commands)}"] if parts.commands else []
    return [*lines, *([f"undo = {_list(parts.undo)}"] if parts.undo else [])]


def _check(draft: _Draft) -> str:
    return _joined([*(finding.verify for finding in draft.findings), _RATIO_CHECK])


def _joined(texts: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))


def _text(value: str) -> str:
    """Write a basic string of TOML: as JSON does, which escapes all that TOML wants escaped but DEL."""
    clean = value.encode("utf-8", "replace").decode()
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(_text(value) for value in values)}]"


def _table(values: Mapping[str, str]) -> str:
    pairs = (f"{name if _BARE.fullmatch(name) else _text(name)} = {_text(value)}" for name, value in values.items())
    return f"{{ {', '.join(pairs)} }}"
