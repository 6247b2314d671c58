"""The words of advice: effects, changes, costs and facts, said alike on every page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.advisor.rulebook import documents
from pgdyno.model.advice import Advice
from pgdyno.model.bottleneck import WORDS, in_short
from pgdyno.model.facts import LittleLoad, NoLoad, Unknown
from pgdyno.model.finding import (
    Answer,
    Change,
    ChangeKind,
    Cost,
    Finding,
    ProofState,
    Provenance,
    RuleProof,
    StatedEffect,
)
from pgdyno.model.inventory import Memory, Processor
from pgdyno.model.verdict import Metric
from pgdyno.units import bytes_text, digits_text, first_text, plural, seconds_text

MIB = 1 << 20
RISKS = ("none", "low", "medium", "high")
COSTS = {
    Cost.NONE: "in force at once",
    Cost.RELOAD: "a reload",
    Cost.RESTART: "a restart of the server",
    Cost.REBOOT: "a reboot of the machine",
}
STATES = {
    ProofState.PROPOSED: "proposed: not measured here yet",
    ProofState.NEEDS_TEST: "needs-test: measure it here before it is kept",
    ProofState.TESTED: "tested here",
    ProofState.REFUTED: "refuted here",
}
ANSWERS = {
    Answer.FINDING: "finding",
    Answer.UNKNOWN: "unknown",
    Answer.OK: "ok",
    Answer.NOT_APPLICABLE: "does not apply",
}


def percent(share: float) -> str:
    """Write a relative gain with its sign: `+35 %`, `+5.7 %`, `-2 %`, `0 %`."""
    value = round(share * 100, 1)
    return f"{value:+g} %" if value else "0 %"


def figure_text(effect: StatedEffect) -> str:
    """Return an effect's bare figure; the empty string where it has words only."""
    figures = [figure for figure in (effect.low, effect.high) if figure is not None]
    if not figures:
        return ""
    low, high = figures[0], figures[-1]
    return percent(low) if low == high else f"{percent(low).removesuffix(' %')} to {percent(high)}"


def gain(effect: StatedEffect) -> str:
    """Return an effect's figure as its source states it, with what else was changed then; empty for words only."""
    figure = figure_text(effect)
    also = f" together with {effect.together_with}" if effect.together_with else ""
    return f"{figure} {effect.metric}{also}" if figure else ""


def source_short(source: Provenance) -> str:
    """Return a source in a few words: its year and what it was measured on."""
    document = documents().get(source.document)
    where = document.architecture if document and document.architecture else ""
    return f"{source.year}, {where}" if where else f"{source.document}, {source.year}"


def source_long(source: Provenance) -> str:
    """Return a source in full: document, section, year, platform, version and load."""
    document = documents().get(source.document)
    title = document.title if document else source.document
    measured = ", ".join(part for part in (source.platform, source.version, source.workload) if part)
    section = f', "{source.section}"' if source.section else ""
    return f"{title}{section} ({source.year}){f'; measured on {measured}' if measured else ''}"


def effect_text(finding: Finding) -> str:
    """Return what may be expected, on one line: what was measured here, else the source's figure and the confidence."""
    if finding.proof is not None and finding.proof.ratio is not None:
        return proof_text(finding.proof)
    effect = finding.main_effect
    if effect is None:
        return "no source gives a figure"
    if not gain(effect):
        return f"{effect.text.rstrip('.')} ({source_short(effect.source)})"
    return f"{gain(effect)} ({source_short(effect.source)}), confidence {finding.confidence}"


def proof_text(proof: RuleProof) -> str:
    """Return a measured verdict: its word, ratio, interval and study."""
    if proof.ratio is None:
        return f"{proof.verdict} here (study {proof.study})"
    interval = "" if proof.lo is None or proof.hi is None else f" [{digits_text(proof.lo)}, {digits_text(proof.hi)}]"
    metric = Metric(proof.metric).label if proof.metric in [*Metric] else proof.metric
    return f"{proof.verdict} here: {metric} {digits_text(proof.ratio)}x{interval} (study {proof.study})"


def state_text(finding: Finding) -> str:
    """Return the state with its verdict and study."""
    if finding.proof is None:
        return STATES[finding.state]
    is_open = finding.state in (ProofState.PROPOSED, ProofState.NEEDS_TEST)
    text = f"{finding.state} and measured" if is_open else STATES[finding.state]
    return f"{text}: {proof_text(finding.proof)}"


def change_text(change: Change) -> str:
    """Return a change on one line: now -> proposed, or the first of its commands."""
    if change.knob:
        name = f"{change.knob} of {change.device}" if change.device else change.knob
        now = "unknown" if change.current is None else change.current or "empty"
        return f"{name}: {now} -> {change.value}{_in_words(change)}"
    return first_text(change.commands) or "by hand"


def _in_words(change: Change) -> str:
    """Return the size of a kernel value in bytes for people; PostgreSQL's values have their units."""
    in_bytes = change.kind is ChangeKind.LINUX and change.knob.endswith(("_bytes", "swap.area"))
    return (
        f" ({int(change.value) / MIB:g} MiB)" if in_bytes and change.value.isdecimal() and change.value != "0" else ""
    )


def proposal_text(finding: Finding) -> str:
    """Return now -> proposed on one line; the empty string for a finding that proposes no value."""
    named = [change_text(change) for change in finding.changes if change.knob]
    if named:
        return "; ".join(named)
    if finding.proposed:
        return f"{finding.current} -> {finding.proposed}" if finding.current else finding.proposed
    return change_text(finding.changes[0]) if finding.changes else finding.current


def cost_text(finding: Finding) -> str:
    """Return what putting it in force costs and risks, on one line."""
    return f"{finding.cost if finding.cost is not Cost.NONE else 'no restart'}; risk {risk_text(finding)}"


def risk_text(finding: Finding) -> str:
    """Return the level of the risk and its words, which may begin with the level themselves."""
    level = RISKS[min(finding.risk_level, len(RISKS) - 1)]
    return f"{level}: {finding.risk.removeprefix(f'{level.capitalize()}: ')}"


def count_text(advice: Advice) -> str:
    """Return how many rules gave which answer."""
    found = [len(advice.answered(answer)) for answer in (Answer.FINDING, Answer.UNKNOWN, Answer.OK)]
    other = len(advice.answered(Answer.NOT_APPLICABLE))
    return (
        f"{plural(len(advice.findings), 'rule')}: {plural(found[0], 'finding')}, {found[1]} unknown, "
        f"{found[2]} in order, {other} not applicable"
    )


def window_text(advice: Advice) -> str:
    """Return what time the evidence covers."""
    statistics = advice.evidence.statistics
    if isinstance(statistics, Unknown):
        return f"statistics {statistics}"
    window = statistics.window
    return f"statistics of {seconds_text(window.seconds)}, {window.source}"


def seen_text(advice: Advice) -> str:
    """Say of a server without a load whether it had none, or too little for settings to matter."""
    return "too little was seen" if isinstance(advice.evidence.workload, LittleLoad) else "none was seen"


def load_text(advice: Advice) -> str:
    """Return what the load is on one line, as far as it is known; empty when nothing is."""
    seen = advice.evidence
    if isinstance(seen.workload, NoLoad):
        return f"{seen_text(advice)}: {seen.workload.reason}"
    working_set = "" if isinstance(seen.working_set, Unknown) else f"the working set {seen.working_set.kind}"
    parts = [
        "" if isinstance(seen.workload, Unknown) else str(seen.workload),
        working_set,
        "" if isinstance(seen.bottleneck, Unknown) else f"limited by {WORDS[seen.bottleneck.resource]}",
        "" if (busy := _utilization(advice)).startswith("unknown") else f"utilization {busy}",
    ]
    return ", ".join(part for part in parts if part)


def _utilization(advice: Advice) -> str:
    """Return how busy the database is, as somebody said it, else as the window shows it."""
    said = advice.inventory.utilization
    return str(advice.evidence.utilization if isinstance(said, Unknown) else said)


def _bottleneck(advice: Advice) -> str:
    found = advice.evidence.bottleneck
    return str(found) if isinstance(found, Unknown) else in_short(found)


def server_text(advice: Advice) -> str:
    """Return flavour and version of the server."""
    server = advice.inventory.server
    return f"server {server}" if isinstance(server, Unknown) else f"{server.flavour} {server.version}".strip()


def machine_text(advice: Advice) -> str:
    """Return the machine on one line; what is not known is left to the environment's list."""
    return ", ".join(value for _, value in _machine(advice) if not value.startswith("unknown"))


def _machine(advice: Advice) -> Iterator[tuple[str, str]]:
    host = advice.inventory.host
    yield "architecture", str(host.processor.architecture)
    yield "CPUs", _cpus(host.processor)
    yield "RAM", _memory(host.memory)
    yield (
        "kernel",
        f"kernel {host.kernel.release}" if isinstance(host.kernel.release, str) else str(host.kernel.release),
    )


def _cpus(processor: Processor) -> str:
    """Return the CPUs; how many the server may use where it may not use all."""
    counted, usable = _counted(processor.cpus, "CPU"), processor.usable
    limited = isinstance(usable, int) and isinstance(processor.cpus, int) and usable < processor.cpus
    return f"{usable} of {counted}" if limited else counted


def _memory(memory: Memory) -> str:
    """Return the memory; the limit of a cgroup where it is below it."""
    ram, limit = memory.ram_bytes, memory.limit_bytes
    limited = isinstance(limit, int) and isinstance(ram, int) and limit < ram
    return f"{_size(limit)} of {_size(ram)} ({memory.limited_by})" if limited else _size(ram)


def environment_rows(advice: Advice) -> tuple[tuple[str, str], ...]:
    """Return the environment as names and values, unknown ones with the reason."""
    host, server = advice.inventory.host, advice.inventory.server
    processor, memory, kernel = host.processor, host.memory, host.kernel
    rows = [
        ("target", advice.target),
        ("looked at", advice.inventory.taken_at or "unknown"),
        ("server", server_text(advice)),
        ("architecture", str(processor.architecture)),
        ("machine", str(processor.machine)),
        ("processor", str(processor.model)),
        ("CPUs", str(processor.cpus)),
        ("cores", str(processor.cores)),
        ("threads per core", str(processor.threads_per_core)),
        ("virtualization", str(host.virtualization.layer)),
        ("RAM", _size(memory.ram_bytes)),
        ("memory limit", _size(memory.limit_bytes)),
        ("page size", _size(memory.page_size)),
        ("huge page size", _size(memory.huge_page_bytes)),
        ("transparent huge pages", str(memory.thp_enabled)),
        ("kernel", str(kernel.release)),
        ("scheduler", str(kernel.scheduler)),
        ("distribution", str(kernel.distribution)),
        ("workload", str(advice.evidence.workload)),
        ("working set", _working_set(advice)),
        ("limited by", _bottleneck(advice)),
        ("evidence", window_text(advice)),
        ("utilization", _utilization(advice)),
        ("size of the databases", str(advice.inventory.size)),
        ("criticality", str(advice.inventory.criticality)),
    ]
    if not isinstance(server, Unknown):
        rows.insert(3, ("data checksums", str(server.data_checksums)))
    if advice.environment:
        rows.append(("environment", str(advice.environment)))
    return tuple(rows)


def _working_set(advice: Advice) -> str:
    found = advice.evidence.working_set
    if isinstance(found, Unknown):
        return str(found)
    return f"{found.kind}: {bytes_text(found.low_bytes)} to {bytes_text(found.high_bytes)} ({found.method})"


def _size(value: int | Unknown) -> str:
    return str(value) if isinstance(value, Unknown) else bytes_text(value)


def _counted(value: int | Unknown, noun: str) -> str:
    return str(value) if isinstance(value, Unknown) else plural(value, noun)
