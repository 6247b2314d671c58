"""Which targets a rule is for, and how far a target differs from the one on which its figures were measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.kernel_table import dotted
from pgdyno.advisor.planned import memory_of, planned
from pgdyno.advisor.rule import Scope
from pgdyno.advisor.rulebook import Document, documents
from pgdyno.model.finding import StatedEffect

_KNOWN_ARCHITECTURES = ("x86_64", "s390x", "ppc64le")


def why_not(scope: Scope, case: Case) -> str | None:
    """Return why a rule is not for this target, None when it is. Raises Missing when that cannot be told."""
    if scope.architectures:
        here = known(case.host.processor.architecture, "the architecture")
        if here not in scope.architectures:
            return f"it is for {_list(scope.architectures)}, and this is {here}"
    if scope.from_version is not None or scope.to_version is not None or scope.flavours:
        reason = _version(scope, case)
        if reason:
            return reason
    if scope.from_kernel is not None or scope.below_kernel is not None:
        version = known(case.host.kernel.version, "the kernel's version")
        if scope.from_kernel is not None and version < scope.from_kernel:
            return f"it is for kernels from {dotted(scope.from_kernel)}, and this is {dotted(version)}"
        if scope.below_kernel is not None and version >= scope.below_kernel:
            return f"it is for kernels below {dotted(scope.below_kernel)}, and this is {dotted(version)}"
    if scope.virtualization:
        layer = known(case.host.virtualization.layer, "the virtualization layer")
        if layer not in scope.virtualization:
            return f"it is for {_list(scope.virtualization)}, and this is {layer}"
    if scope.workloads or scope.not_workloads:
        workload = str(known(case.evidence.workload, "the workload's class"))
        if scope.workloads and workload not in scope.workloads:
            return f"it is for {_list(scope.workloads)} loads, and this one is {workload}"
        if workload in scope.not_workloads:
            return f"it is not for {workload} loads"
    return scope.not_on_standby if scope.not_on_standby and case.server.in_recovery is True else None


def _version(scope: Scope, case: Case) -> str | None:
    server = case.server
    if scope.flavours and server.flavour not in scope.flavours:
        return f"it is for {_list(scope.flavours)}, and this is {server.flavour}"
    if scope.from_version is not None and server.major < scope.from_version:
        return f"it is for PostgreSQL from {scope.from_version}, and this is {_version_text(case)}"
    if scope.to_version is not None and server.major > scope.to_version:
        return f"it is for PostgreSQL up to {scope.to_version}, and this is {_version_text(case)}"
    return None


def _version_text(case: Case) -> str:
    """Return the version as people call it: two numbers up to 9.6, one from 10 on."""
    server = case.server
    return ".".join(server.version.split(".")[:2]) if server.major < 10 and server.version else str(server.major)


def closest_first(effects: Sequence[StatedEffect], case: Case) -> tuple[StatedEffect, ...]:
    """Return the effects in the order of how few differences there are between this target and where they were seen.

    Of those that are alike in this, the one comes first that was seen with the nearest share of shared_buffers.
    """
    return tuple(sorted(effects, key=lambda effect: (len(doubts_of(effect, case)), _distance(effect, case))))


def _distance(effect: StatedEffect, case: Case) -> float:
    if effect.buffers_share is None:
        return 0.0
    try:
        return abs(effect.buffers_share - planned(case, "shared_buffers") / memory_of(case))
    except Missing:
        return 0.0


def doubts_of(effect: StatedEffect, case: Case) -> tuple[str, ...]:
    """Return where this target differs from where an effect was measured; each lowers the confidence."""
    document = documents()[effect.source.document]
    return tuple(_differences(document, case)) if document.platform else ()


def _differences(document: Document, case: Case) -> Iterator[str]:
    processor, layer = case.host.processor, case.host.virtualization.layer
    where = f"the figure was measured on {document.platform}"
    if not document.architecture:
        yield f"{where}, whose architecture the source does not name"
    elif processor.architecture != document.architecture:
        yield f"{where}; the architecture here is {processor.architecture}"
    elif document.virtualization and layer != document.virtualization:
        yield f"{where}, {document.virtualization}; the layer below here is {layer}"
    workload = case.evidence.workload
    if document.workload and workload != document.workload:
        article = "an" if document.workload[0] in "AEIOUaeiou" else "a"
        yield f"the figure was measured with {article} {document.workload} load; the load here is {workload}"
    try:
        major = case.server.major
    except Missing:
        return
    if document.major is not None and abs(major - document.major) > 3:
        yield f"the figure was measured with {document.version}; this is version {major}"


def generic_remark(case: Case) -> str | None:
    """Return a remark for an architecture that no source covers; None where there is one."""
    here = case.host.processor.architecture
    if isinstance(here, str) and here not in _KNOWN_ARCHITECTURES:
        return f"no source covers {here}: only rules that hold on every architecture were judged"
    return None


def _list(words: tuple[str, ...]) -> str:
    return " or ".join(words)
