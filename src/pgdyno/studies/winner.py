"""What a study offers for keeping, as one finding, so that it is applied, recorded and exported as advice is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.knobs.values import canonical_text
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.finding import (
    OF_STUDY,
    Answer,
    Change,
    ChangeKind,
    Cost,
    Depth,
    Finding,
    ProofState,
    RuleGroup,
    RuleProof,
)
from pgdyno.model.shapes import inner
from pgdyno.model.study import Study, StudyState
from pgdyno.model.verdict import Word
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.studies.kind import Offered
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.session.environment_change import facts_image, other_server
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.trial.restarts import needs_restart

ORIGIN = OF_STUDY
"""The `origin` of a finding that is a study's winner; its `rule` is then the study's id."""
_RAM_SLACK = 0.01
"""Memory that the kernel keeps for itself differs a little from boot to boot."""


def study_of(store: Store, name: str) -> Study:
    """Return the study of this id or its beginning; `last` is the newest one that may have a winner.

    Raises UsageError as the store does.
    """
    if name != "last":
        return store.study(name)
    found = next((study for study in store.studies() if kind_of(study.kind).offers), None)
    if found is None:
        raise UsageError(
            f'the store "{store.name}" holds no study with a winner', hint="pgdyno tune and pgdyno live make one."
        )
    return found


def offered_by(study: Study, *, conservative: bool = False) -> Offered:
    """Return what a study proved better than what was there, or the leanest of that where it is to be `conservative`.

    Raises UsageError where it offers nothing, with why.
    """
    kind = kind_of(study.kind)
    if not kind.offers:
        raise UsageError(
            f"study {study.id} is of kind {study.kind.value}: only a tune and a live study have a winner",
            hint="What an experiment proved is applied by its rule: pgdyno apply RULE.",
        )
    if study.state is not StudyState.COMPLETE or study.result is None:
        verb = kind.continued_by(study)
        again = f"Finish it first: pgdyno {verb} --resume {study.id}." if verb else "Run it again."
        raise UsageError(f"study {study.id} is {study.state.value} and has no verdict", hint=again)
    offered = kind.conservative(study) if conservative else kind.offered(study)
    if not offered.settings:
        raise UsageError(
            f"study {study.id} has no confirmed winner: {offered.withheld}",
            detail="Keep the configuration that is there.",
            hint=f"pgdyno report {study.id} says what was measured; a longer study may resolve more.",
        )
    return offered


def request_of(study: Study) -> TargetRequest:
    """Return where a study was made, as it was asked for: the server and its host, without the programs it named.

    A store may be shared, and what runs here is named by whoever types. Raises UsageError where it is not known.
    """
    kept = study.options.get("target")
    if IMPORTED in study.options or not isinstance(kept, Mapping):
        raise UsageError(
            f"study {study.id} was not made here: its server has to be named",
            hint="Add --target CONNINFO or --sandbox NAME.",
        )
    return TargetRequest.from_json({**kept, "restart_command": None, "sandbox_bin": None, "keep": True})


def check_server(study: Study, facts: Facts) -> None:
    """Raise EnvironmentUnsuitable where a study was made on another server than these facts' one, or none can tell."""
    then, now = study.facts, facts_image(facts)
    found = other_server(then, now)
    differs = [*(found or ()), *_other_machine(then, now)]
    if found is not None and not differs:
        return
    raise EnvironmentUnsuitable(
        f"study {study.id} was made on another server" if differs else f"study {study.id} does not say on which server",
        detail=f"{'; '.join(differs)}." if differs else "Neither identifier nor data directory is known on both sides.",
        hint="Name the server that it was made on, or measure here; --other-server takes the winner as it is.",
    )


def _other_machine(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Name what makes another machine of a host: a winner was proved for its processors and its memory."""
    found = []
    for name in ("architecture", "cores", "ram_bytes"):
        was, here = (_known(inner(image, "host").get(name)) for image in (then, now))
        is_near = isinstance(was, int) and isinstance(here, int) and abs(was - here) <= _RAM_SLACK * here
        if was is not None and here is not None and was != here and not (name == "ram_bytes" and is_near):
            found.append(f"{name} was {was}, is {here}")
    return found


def _known(value: object) -> object:
    return None if isinstance(value, Mapping) else value  # a mapping says why it is unknown


def winner_of(study: Study, facts: Facts, *, conservative: bool = False) -> Finding:
    """Return a study's winner as a finding that was tested. `facts` are those of the server now. Errors as above."""
    offered = offered_by(study, conservative=conservative)
    settings, verdict = Configuration.of(dict(offered.settings)), offered.verdict
    assert verdict is not None, "it is better"
    span, metric = verdict.interval, verdict.metric.value
    figure = f", {verdict.metric.label} {span.ratio:.3g} times that of the baseline"
    linux = settings.linux()
    return Finding(
        rule=study.id,
        answer=Answer.FINDING,
        group=RuleGroup.GENERAL,
        depth=Depth.BASIC,
        title=f"It won the {study.kind.value} study {study.id}{figure}",
        changes=tuple(
            Change(
                ChangeKind.LINUX if name in linux else ChangeKind.POSTGRESQL,
                name,
                value,
                in_force(name, facts),
            )
            for name, value in settings.items()
        ),
        cost=Cost.RESTART if any(needs_restart(name, facts) for name in settings) else Cost.RELOAD,
        origin=ORIGIN,
        state=ProofState.TESTED,
        proof=RuleProof(study.id, Word.BETTER.value, span.ratio, *span.form().ci, metric, tuple(settings.items())),
    )


def in_force(name: str, facts: Facts) -> str | None:
    """Return the value of a setting with its unit, as the server takes it; None where the server has none such."""
    row = facts.row(name)
    if row is None:
        return None
    try:
        return canonical_text(row, row.setting)
    except UsageError:
        return row.setting
