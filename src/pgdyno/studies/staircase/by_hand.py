"""Steps that people do: pgdyno says what to do, waits until it is done, and looks for itself where a command can tell.

What is done by hand holds for all runs that follow and is written into each of them, so that a resumed study knows
in which state a run was measured. The kernel of the gate is pure but for its two seams: asking and verifying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.study import Study
from pgdyno.model.trial import BY_HAND, Trial, TrialSpec
from pgdyno.studies.staircase.plan import Plan, Step
from pgdyno.trial.laboratory import Laboratory

UNDONE = "undone"
_UNKNOWN_UNDO = "take back what was done for this step"

Ask = Callable[[str], bool | None]
"""Asks a person whether it is done; None where there is nobody to ask."""
Verify = Callable[[tuple[str, ...]], str]
"""Runs an argument list on this host and returns what it prints."""


def factors_of(done: Iterable[str], step: str = "") -> dict[str, str]:
    """Return the factors of a trial: the step it belongs to, and what people had done."""
    names = ",".join(sorted(done))
    return {**({"step": step} if step else {}), **({BY_HAND: names} if names else {})}


@dataclass
class StepConfirmation:
    """Waits for people. `confirmed` holds `STEP` or `STEP=undone`, as --confirm gave them."""

    steps: Mapping[str, Step]
    study: str
    confirmed: frozenset[str]
    ask: Ask
    verify: Verify | None
    announce: Callable[[str], None]
    resumed: bool = False
    _done: frozenset[str] = frozenset()
    _sure: bool = field(default=False)

    def replayed(self, factors: Mapping[str, str]) -> None:
        """Note the state in which a recorded run was measured."""
        self._done = _names(factors)

    def ensure(self, factors: Mapping[str, str]) -> None:
        """Wait until what people do is in the state that a run needs.

        On a resumed study everything that is to be done is confirmed or verified again: a machine may have been
        rebooted meanwhile. Raises EnvironmentUnsuitable where nobody can be asked: the study can be resumed.
        """
        wanted = _names(factors)
        doubtful = wanted & self._done if self.resumed and not self._sure else frozenset()
        for name in sorted(self._done - wanted):
            self._wait(name, UNDONE)
        for name in sorted((wanted - self._done) | doubtful):
            self._wait(name, "done")
        self._done, self._sure = wanted, True

    def remind(self, kept: Iterable[str]) -> None:
        """Say at the end what people had done that is still so, and how it is taken back."""
        for name in sorted(self._done):
            why = "kept, and stays as you did it" if name in kept else "not kept, but still done"
            self._tell(name, f"{why}; to take it back", UNDONE)

    def _tell(self, name: str, what: str, state: str) -> None:
        manual = self.steps[name].by_hand
        assert manual is not None, "only steps for people are waited for"
        self.announce(f"step {name}: {what}")
        for line in manual.instructions if state == "done" else manual.undo or (_UNKNOWN_UNDO,):
            self.announce(f"    {line}")

    def _wait(self, name: str, state: str) -> None:
        self._tell(name, "for you to do" if state == "done" else "for you to take back", state)
        key = _key(name, state)
        if key not in self.confirmed:
            answer = self.ask(f"Is step {name} {state}?")
            if not answer:
                raise EnvironmentUnsuitable(
                    f"step {name} waits until it is {state}",
                    detail="Nothing was measured meanwhile; the runs so far are kept.",
                    hint=f"Then: pgdyno experiment --resume {self.study} --confirm {key}",
                )
        self._look(name, state)

    def _look(self, name: str, state: str) -> None:
        manual = self.steps[name].by_hand
        if manual is None or not manual.verify or self.verify is None:
            why = "the server is on another host" if manual and manual.verify else "it has no command to verify it"
            self.announce(f"step {name}: {state} on your word; {why}")
            return
        found = self.verify(manual.verify).strip()
        if manual.expect and (manual.expect in found) is not (state == "done"):
            raise EnvironmentUnsuitable(
                f"step {name} is not {state}: {' '.join(manual.verify)} prints {found!r}",
                detail=f'Its plan expects "{manual.expect}" when it is done.',
                hint=f"Fix it, then: pgdyno experiment --resume {self.study} --confirm {_key(name, state)}",
            )
        self.announce(f"step {name}: {state}, {' '.join(manual.verify)} prints {found!r}")


def _key(name: str, state: str) -> str:
    return name if state == "done" else f"{name}={UNDONE}"


def _names(factors: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name in factors.get(BY_HAND, "").split(",") if name)


def gate_of(
    plan: Plan,
    study: Study,
    confirmed: Iterable[str],
    *,
    ask: Ask,
    verify: Verify | None,
    announce: Callable[[str], None],
    resumed: bool = False,
) -> StepConfirmation:
    """Return the gate of a study. Raises UsageError when --confirm names a step that is not for people.

    The steps for people are those of `plan`; `study` is named in the hint that says how to resume. `confirmed` are
    `STEP` or `STEP=undone`, as --confirm gave them. `ask` is called for steps that are not among them; `verify` None,
    for a server on another host, takes a person's word for all. `announce` takes what is to be done, line by line.
    Where the study is `resumed`, what was done before is confirmed or verified again.
    """
    steps = {step.name: step for step in plan.steps if step.by_hand is not None}
    check_confirmed(plan, confirmed)
    return StepConfirmation(steps, study.id, frozenset(confirmed), ask, verify, announce, resumed)


def check_confirmed(plan: Plan, confirmed: Iterable[str]) -> None:
    """Refuse a confirmation of what is no step for people."""
    for word in confirmed:
        name, _, state = word.partition("=")
        if state not in ("", UNDONE):
            raise UsageError(
                f'--confirm "{word}" is not STEP or STEP={UNDONE}',
                hint=f"Write it as --confirm {name} when it is done.",
            )
        if plan.step(name).by_hand is None:
            raise UsageError(f"step {name} is not for people", hint="Only a manual step is confirmed.")


class GatedRuns:
    """Runs trials as the laboratory does, and waits for people before a run that needs them."""

    def __init__(self, laboratory: Laboratory, gate: StepConfirmation) -> None:
        self.study: Study = laboratory.study
        self.store, self.company = laboratory.store, laboratory.company
        self._laboratory = laboratory
        self._gate = gate

    def run(self, spec: TrialSpec) -> Trial:
        """Run one trial, or give back the recorded one of its place."""
        if self._laboratory.is_replaying:
            self._gate.replayed(spec.factors)
        else:
            self._gate.ensure(spec.factors)
        return self._laboratory.run(spec)

    def expect(self, trials: int, *, at_most: bool = False) -> None:
        """Tell the laboratory how many trials come now."""
        self._laboratory.expect(trials, at_most=at_most)
