"""From studies back to rules: which verdict was measured for a rule on this target, in this environment.

An A/B and a live comparison test what their option says; every step of a staircase tests the rules that it came from.
The store also says when studies ran on the target: advice must not take their work for the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.inventory.directory import directory_of
from pgdyno.model.environment import same_environment
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import RuleProof
from pgdyno.model.inventory import Inventory, Processor
from pgdyno.model.linux import THP_DEFRAG, THP_ENABLED
from pgdyno.model.results.ab import AbResult
from pgdyno.model.results.live import LiveResult
from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.shapes import inner
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.verdict import Verdict, Word
from pgdyno.probes.evidence.own_work import OwnStudy, OwnWork
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard

OPTION = "rule"
"""The key of a study's options that says which rule it tests."""
_RAM_SLACK = 0.01
"""Memory that the kernel keeps for itself differs a little from boot to boot."""
AFTER_S = 15.0
"""What a study still does after its last trial: it restores the server and drops its databases."""
OF_USERS = frozenset({StudyKind.LIVE, StudyKind.WATCH})
"""Kinds that load nothing: what is counted in their time is of the server's users."""


def rule_option(rules: tuple[str, ...], settings: Mapping[str, str], *, plan: str = "", step: str = "") -> object:
    """Return what a study's options hold about the rules that it tests: ids, what B adds to A, the plan's step.

    `rules` are the ids, `settings` the values that B adds, by knob. `plan` and `step` name the plan and its step; both
    are empty outside of a plan.
    """
    return {"ids": list(rules), "settings": dict(settings), "plan": plan, "step": step}


def proofs_of(store: Store, inventory: Inventory) -> Mapping[str, RuleProof]:
    """Return the newest verdict for each rule that was measured on this target in this environment.

    The same target means the same data directory; what the same environment means, `is_here` says. A study of several
    rules at once (a step of a plan) counts for each of them. Reads the store only.
    """
    proofs: dict[str, RuleProof] = {}
    for study in studies_on(store, inventory):
        tested = _tested(study)
        if not tested or not is_here(study, inventory):
            continue
        for tried, proof in tested:
            for rule in _rules(tried):
                proofs.setdefault(rule, proof)
    return proofs


def studies_on(store: Store, inventory: Inventory) -> list[Study]:
    """Return the studies on the server of an inventory, the newest first; none where its directory is unknown."""
    directory = directory_of(inventory)
    found = [] if directory is None else store.studies_on(directory)
    return [one for one in found if is_same_server(one, inventory)]


def is_here(study: Study, inventory: Inventory) -> bool:
    """Tell whether a study was measured on the target and in the environment of an inventory.

    That is one of the same name. Another name is let pass where nothing tells but what a proof may differ in: memory
    that moves from boot to boot, Linux values that the study itself set, and what one of the two could not read.
    """
    server, host = inventory.server, inventory.host
    then_server, then_host = inner(study.facts, "server"), inner(study.facts, "host")
    if isinstance(server, Unknown) or not is_same_server(study, inventory):
        return False
    if same_environment(study.environment, inventory.environment_name):
        return True
    pairs = (
        (then_server.get("version_num"), server.version_num),
        (then_host.get("kernel"), host.kernel.release),
        (then_host.get("page_size"), host.memory.page_size),
    )
    if any(isinstance(now, Unknown) or then != now for then, now in pairs):
        return False
    return not _other_processors(then_host, host.processor) and _same_kernel_values(study, inventory)


def is_same_server(study: Study, inventory: Inventory) -> bool:
    """Tell whether a study was on the server of an inventory, whatever release and kernel with what values it had then.

    By data directory, architecture and memory: servers that differ in none of these are taken for the same.
    """
    host, directory = inventory.host, directory_of(inventory)
    if directory is None:
        return False
    then_server, then_host = inner(study.facts, "server"), inner(study.facts, "host")
    return (
        then_server.get("data_directory") == directory
        and then_host.get("architecture") == host.processor.architecture
        and _same_memory(then_host.get("ram_bytes"), host.memory.ram_bytes)
    )


def _same_memory(then: object, now: int | Unknown) -> bool:
    return isinstance(then, int) and isinstance(now, int) and abs(then - now) <= _RAM_SLACK * now


def _other_processors(then: Mapping[str, object], now: Processor) -> bool:
    """Tell whether a machine has other processors than it had, such as a virtual one that was made larger.

    A study counts the CPUs that the server may run on, whatever its quota.
    """
    counts = [one for one in (now.cpus, now.usable) if isinstance(one, int)]
    pairs = ((then.get("cores"), counts), (then.get("cpu_model"), [now.model] if isinstance(now.model, str) else []))
    return any(isinstance(was, int | str) and known and was not in known for was, known in pairs)


def _same_kernel_values(study: Study, inventory: Inventory) -> bool:
    then, host = inner(study.facts, "kernel"), inventory.host
    now = dict(host.kernel.sysctls) if not isinstance(host.kernel.sysctls, Unknown) else {}
    for name, value in ((THP_ENABLED, host.memory.thp_enabled), (THP_DEFRAG, host.memory.thp_defrag)):
        if isinstance(value, str):
            now[name] = value
    own = {name for tried, _ in _tested(study) for name in inner(tried, "settings")}
    return all(now[name] == value for name, value in then.items() if name in now and name not in own)


def _tested(study: Study) -> list[tuple[Mapping[str, object], RuleProof]]:
    """Return what a study tried, with its proof: the option of an A/B, the measured steps of a staircase.

    Steps of the sandbox stage prove nothing, and neither does what could not be interleaved.
    """
    result = study.result if study.state is StudyState.COMPLETE else None
    tried: list[tuple[Mapping[str, object], Verdict | None]] = []
    if isinstance(result, AbResult) and study.options.get(OPTION):
        tried = [(inner(study.options, OPTION), result.verdict)]
    elif isinstance(result, LiveResult) and (told := inner(study.asked, OPTION)):
        tried = [(told, _live_verdict(result))]
    elif isinstance(result, StaircaseResult) and result.stage != "sandbox":
        tried = [
            ({"ids": list(step.rules), "settings": step.settings}, step.verdict)
            for step in result.steps
            if step.interleaved
        ]
    return [(what, _proof(study, what, verdict)) for what, verdict in tried if verdict is not None]


def _live_verdict(result: LiveResult) -> Verdict | None:
    """Return the verdict on the live load; None where something speaks against what was better, or it says nothing."""
    switch = result.switch
    if switch is None or switch.verdict is None or switch.says_nothing:
        return None
    return None if switch.verdict.word is Word.BETTER and not switch.is_acceptable else switch.verdict


def _proof(study: Study, tried: Mapping[str, object], verdict: Verdict) -> RuleProof:
    low, high = verdict.interval.form().ci
    return RuleProof(
        study=study.id,
        verdict=verdict.word.value,
        ratio=verdict.interval.ratio,
        lo=low,
        hi=high,
        metric=verdict.metric.value,
        settings=tuple(sorted((name, str(value)) for name, value in inner(tried, "settings").items())),
    )


def _rules(tried: Mapping[str, object]) -> list[str]:
    ids = tried.get("ids")
    return [str(rule) for rule in ids] if isinstance(ids, list) else []


def own_work(store: Store, inventory: Inventory) -> OwnWork:
    """Return the times in which studies loaded this server, of whichever kernel then. Reads the store only.

    A study that runs, or was killed, lasts until its last sign of life.
    """
    alive = {live.study: live.at for live in LiveBoard(store).running()}
    found = []
    for study in studies_on(store, inventory):
        if not study.was_read and IMPORTED not in study.options and study.kind not in OF_USERS:
            last = max(_ends(store, study), default=study.created_at)
            found.append(OwnStudy(study.id, study.created_at, max(last, alive.get(study.id, last)) + AFTER_S))
    return OwnWork(tuple(sorted(found, key=lambda one: one.began)))


def _ends(store: Store, study: Study) -> list[float]:
    """Return the moments at which a study was surely at work still; one without trials tells how long it took."""
    took = None if study.result is None else study.result.elapsed_s
    ends = [trial.outcome.ended_at for trial in store.trials(study.id) if trial.outcome is not None]
    return [end for end in (*ends, None if took is None else study.created_at + took) if end is not None]
