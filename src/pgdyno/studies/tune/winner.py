"""The winner of a tune as one finding, so that it is applied, recorded and exported as advice is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.finding import Answer, Change, ChangeKind, Cost, Depth, Finding, ProofState, RuleGroup, RuleProof
from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.verdict import Word
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.target_request import TargetRequest

ORIGIN = "tune"
"""The `origin` of a finding that is the winner of a tune; its `rule` is then the study's id."""
_RAM_SLACK = 0.01
"""Memory that the kernel keeps for itself differs a little from boot to boot."""


def tune_of(store: Store, name: str) -> Study:
    """Return the tune of this id or its beginning; `last` is the newest one. Raises UsageError as the store does."""
    if name == "last":
        found = next((study for study in store.studies() if study.kind is StudyKind.TUNE), None)
        if found is None:
            raise UsageError(f'the store "{store.name}" holds no tune', hint="pgdyno tune makes one.")
        return found
    return store.study(name)


def settings_of(study: Study) -> Mapping[str, str]:
    """Return the settings of a tune's confirmed winner. Raises UsageError where it has none, with its verdict."""
    if study.kind is not StudyKind.TUNE:
        raise UsageError(
            f"study {study.id} is of kind {study.kind.value}: only a tune has a winner",
            hint="What an experiment proved is applied by its rule: pgdyno apply RULE.",
        )
    if study.state is not StudyState.COMPLETE or study.result is None:
        raise UsageError(
            f"study {study.id} is {study.state.value} and has no verdict",
            hint=f"Finish it first: pgdyno tune --resume {study.id}.",
        )
    result = study.result
    assert isinstance(result, TuneResult), "the result of a tune"
    settings = {} if result.winner is None else dict(result.winner.settings)
    word = "none, nothing but the baseline was measured" if result.verdict is None else result.verdict.word.value
    if result.keep or word != Word.BETTER or not settings:
        raise UsageError(
            f"study {study.id} has no confirmed winner: its verdict is {word}",
            detail="Keep the configuration that is there.",
            hint=f"pgdyno report {study.id} says what was measured; a longer tune may resolve more.",
        )
    return settings


def request_of(study: Study) -> TargetRequest:
    """Return where a tune was made, as it was asked for: the server and its host, without the programs it named.

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
    """Raise EnvironmentUnsuitable where a tune was made on another server than these facts are of, or none can tell."""
    then, now = study.facts, facts_image(facts)
    places = (("server", "system_identifier"), ("server", "data_directory"))
    known = [(name, _of(then, part, name), _of(now, part, name)) for part, name in places]
    compared = [(name, was, here) for name, was, here in known if was is not None and here is not None]
    differs = [f"{name} was {was}, is {here}" for name, was, here in compared if was != here]
    differs += _other_machine(then, now)
    if compared and not differs:
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
        was, here = _of(then, "host", name), _of(now, "host", name)
        is_near = isinstance(was, int) and isinstance(here, int) and abs(was - here) <= _RAM_SLACK * here
        if was is not None and here is not None and was != here and not (name == "ram_bytes" and is_near):
            found.append(f"{name} was {was}, is {here}")
    return found


def _of(image: Mapping[str, object], part: str, name: str) -> object:
    value = _table(image.get(part)).get(name)
    return None if isinstance(value, Mapping) else value  # a mapping says why it is unknown


def winner_of(study: Study, facts: Facts) -> Finding:
    """Return a tune's winner as a finding that was tested. `facts` are those of the server now. Errors as above."""
    settings = Configuration.of(dict(settings_of(study)))
    result = study.told(TuneResult)
    assert result is not None, "it has settings"
    assert result.verdict is not None, "it is better"
    span, metric = result.verdict.interval, result.verdict.metric.value
    figure = f", {metric} {span.ratio:.3g} times that of the baseline"
    linux = settings.linux()
    return Finding(
        rule=study.id,
        answer=Answer.FINDING,
        group=RuleGroup.GENERAL,
        depth=Depth.BASIC,
        title=f"It won the tune {study.id}{figure}",
        changes=tuple(
            Change(
                ChangeKind.LINUX if name in linux else ChangeKind.POSTGRESQL,
                name,
                value,
                None if (row := facts.row(name)) is None else row.setting,
            )
            for name, value in settings.items()
        ),
        cost=Cost.RESTART,
        origin=ORIGIN,
        state=ProofState.TESTED,
        proof=RuleProof(study.id, Word.BETTER.value, span.ratio, *span.form().ci, metric, tuple(settings.items())),
    )


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
