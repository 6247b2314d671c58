"""What differs between the objects of two databases, and which differences are no fault. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pgdyno.migration.validation.aspects import Aspect
from pgdyno.migration.validation.programs import VIEWS
from pgdyno.migration.validation.rights import OWNERS, PRIVILEGES
from pgdyno.migration.validation.surroundings import COLLATION_VERSIONS, EXTENSION_VERSIONS
from pgdyno.model.results.migrate import ValidationFinding

Objects: TypeAlias = Mapping[str, tuple[str | None, ...]]
_THERE, _MISSING = "there", "missing"
_QUALIFIER = re.compile(r'(?:"(?:[^"]|"")+"|[a-z_][\w$]*)\.(?=["a-z_])')
_EXCERPT, _BEFORE = 120, 30


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """The `server_version_num` of source and target."""

    source: int
    target: int

    def cross(self, version: int) -> bool:
        """Return whether the first of both sides that has what came with a version is only one of them."""
        return (self.source >= version) != (self.target >= version)

    @property
    def are_other_majors(self) -> bool:
        """Return whether they are of two major versions."""
        return self.source // 10_000 != self.target // 10_000


def differences(aspect: Aspect, a: Objects, b: Objects, versions: TwoVersions) -> Iterator[ValidationFinding]:
    """Return what differs in one aspect: objects on one side alone, and values that are known on both.

    `a` (source) and `b` (target) map an object's name to its values in the order of `aspect.values`, None for one that
    is not compared. `versions` tells whether the two servers write the text of a view differently, which is no
    difference.
    """
    for name in sorted(a.keys() | b.keys()):
        before, after = a.get(name), b.get(name)
        if before is None or after is None:
            first, second = (_MISSING if side is None else _THERE for side in (before, after))
            yield ValidationFinding(topic=aspect.topic, object=name, expected=first, found=second)
            continue
        for value, *texts in zip(aspect.values, before, after, strict=True):
            if None in texts:
                continue
            one, other = (_normal(aspect, value, text or "", versions) for text in texts)
            if one != other:
                first, second = (f"{value} {text or 'none'}".strip() for text in _excerpts(one, other))
                yield ValidationFinding(topic=aspect.topic, object=name, expected=first, found=second)


def no_fault(aspect: Aspect, finding: ValidationFinding, versions: TwoVersions) -> str:
    """Return why a difference is no fault of the migration; empty where it is one."""
    if aspect.is_shared and finding.expected == _MISSING:
        return "the target's server may have more than what was moved"
    if aspect is EXTENSION_VERSIONS and versions.are_other_majors and _MISSING not in (finding.expected, finding.found):
        return "each version of PostgreSQL brings its own"
    if aspect in COLLATION_VERSIONS and finding.found != _MISSING:
        return "the library of the target's machine; text may sort differently than before"
    is_public = finding.object == "schema public" or " on schema public to " in finding.object
    if is_public and aspect in (OWNERS, PRIVILEGES) and versions.cross(150_000):
        return "since 15 schema public belongs to the database owner, and nobody else may create in it"
    return ""


def without_parts(findings: Sequence[ValidationFinding]) -> list[ValidationFinding]:
    """Return the findings but for those of parts and rights of an object that one side does not have at all."""
    gone = {f"{one.topic} {one.object}" for one in findings if {one.expected, one.found} == {_THERE, _MISSING}}

    def is_part(one: ValidationFinding) -> bool:
        if one.topic == "column":
            return f"table {one.object.rpartition('.')[0]}" in gone
        if one.topic == "owner":
            return one.object in gone
        if one.topic in ("constraint", "trigger", "rule", "policy"):
            return f"table {one.object.rpartition(' on ')[2]}" in gone
        return one.topic == "privilege" and one.object.partition(" on ")[2].rpartition(" to ")[0] in gone

    return [one for one in findings if not is_part(one)]


def _normal(aspect: Aspect, value: str, text: str, versions: TwoVersions) -> str:
    """Return a text as both versions write it: 16 leaves a view's columns without their table where it can.

    Which columns a view reads is compared beside it, so nothing is lost.
    """
    return _QUALIFIER.sub("", text) if aspect is VIEWS and value == "text" and versions.cross(160_000) else text


def _excerpts(one: str, other: str) -> tuple[str, str]:
    """Return two texts on one line each; of long ones what is around the first place where they differ."""
    first, second = (" ".join(text.split()) for text in (one, other))
    if max(len(first), len(second)) <= _EXCERPT:
        return first, second
    same = next((at for at, (x, y) in enumerate(zip(first, second, strict=False)) if x != y), 0)
    begin = max(0, same - _BEFORE)

    def cut(text: str) -> str:
        end = begin + _EXCERPT
        return ("... " if begin else "") + text[begin:end] + (" ..." if end < len(text) else "")

    return cut(first), cut(second)
