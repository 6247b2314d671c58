"""The words of a rule: for whom it is, and where it was measured. Pure; pages and command line share them."""

from __future__ import annotations

from pgdyno.advisor.rule import Rule, Scope
from pgdyno.advisor.rulebook import Document, documents


def scope_text(scope: Scope) -> str:
    """Return which targets a rule is for, as a phrase; `every target` when it says nothing."""
    parts = [
        " or ".join(scope.architectures),
        " or ".join(scope.flavours),
        version_range(scope),
        kernel_range(scope),
        f"on {' or '.join(scope.virtualization)}" if scope.virtualization else "",
        f"{' or '.join(scope.workloads)} loads" if scope.workloads else "",
        f"not {' or '.join(scope.not_workloads)} loads" if scope.not_workloads else "",
        "primaries only" if scope.not_on_standby else "",
    ]
    return ", ".join(part for part in parts if part) or "every target"


def version_range(scope: Scope) -> str:
    """Return the versions of PostgreSQL that a rule is for; the empty string for all."""
    low, high = scope.from_version, scope.to_version
    if low is not None and high is not None:
        return f"PostgreSQL {low} to {high}" if low != high else f"PostgreSQL {low}"
    if low is not None:
        return f"PostgreSQL {low} and later"
    return f"PostgreSQL up to {high}" if high is not None else ""


def kernel_range(scope: Scope) -> str:
    """Return the kernels that a rule is for; the empty string for all."""
    low = None if scope.from_kernel is None else f"{scope.from_kernel[0]}.{scope.from_kernel[1]}"
    high = None if scope.below_kernel is None else f"{scope.below_kernel[0]}.{scope.below_kernel[1]}"
    if low is not None and high is not None:
        return f"kernel {low} to below {high}"
    if low is not None:
        return f"kernel {low} and later"
    return f"kernel below {high}" if high is not None else ""


def measured_on(rule: Rule) -> tuple[str, ...]:
    """Return platform, version and kernel of what the rule's figures were measured on, each document once."""
    found = dict.fromkeys(effect.source.document for effect in rule.effects if effect.source.platform)
    return tuple(_measured(documents()[name]) for name in found)


def _measured(document: Document) -> str:
    kernel = f"kernel {document.kernel}" if document.kernel else "its kernel is not stated"
    return ", ".join(part for part in (document.platform, document.version, kernel) if part)
