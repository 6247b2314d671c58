"""The order of a trial, asserted as text."""

import itertools

import pytest

from pgdyno.model.trial import TrialState
from pgdyno.trial.lifecycle import Phase, TrialAction, TrialEvent, begin, step


def walk(*happenings: TrialEvent) -> str:
    transition = begin()
    lines = [f"{transition.phase}: {', '.join(transition.instructions)}"]
    for happening in happenings:
        transition = step(transition.phase, happening)
        state = f" [{transition.state}]" if transition.state else ""
        lines.append(f"{transition.phase}: {', '.join(transition.instructions)}{state}")
    return "\n".join(lines)


def test_a_good_trial_runs_in_this_order():
    assert walk(
        TrialEvent.ACCEPTED, TrialEvent.IN_FORCE, TrialEvent.READY, TrialEvent.LOAD_ENDED, TrialEvent.ASSESSED
    ) == (
        "planned: check\n"
        "applying: apply\n"
        "resetting: reset\n"
        "loading: start sampling, run load\n"
        "collecting: stop sampling, assess\n"
        "done: conclude"
    )


def test_a_refused_configuration_never_reaches_the_server():
    assert walk(TrialEvent.REFUSED) == "planned: check\ndone: conclude [refused]"


def test_a_configuration_that_is_not_in_force_is_not_loaded():
    text = walk(TrialEvent.ACCEPTED, TrialEvent.NOT_IN_FORCE)
    assert text.endswith("done: conclude [void]")
    assert "load" not in text


def test_a_failing_load_still_stops_the_sampling():
    text = walk(TrialEvent.ACCEPTED, TrialEvent.IN_FORCE, TrialEvent.READY, TrialEvent.FAILED)
    assert text.endswith("done: stop sampling, conclude [failed]")


@pytest.mark.parametrize(
    "so_far",
    [
        [],
        [TrialEvent.ACCEPTED],
        [TrialEvent.ACCEPTED, TrialEvent.IN_FORCE],
        [TrialEvent.ACCEPTED, TrialEvent.IN_FORCE, TrialEvent.READY],
        [TrialEvent.ACCEPTED, TrialEvent.IN_FORCE, TrialEvent.READY, TrialEvent.LOAD_ENDED],
    ],
)
def test_an_interrupt_concludes_from_every_phase(so_far):
    assert walk(*so_far, TrialEvent.INTERRUPTED).endswith(f"conclude [{TrialState.ABANDONED}]")


def test_every_road_ends_in_one_conclusion_and_what_is_not_a_road_raises():
    roads = 0
    for length in range(1, 6):
        for happenings in itertools.product(TrialEvent, repeat=length):
            transition, concluded = begin(), 0
            try:
                for happening in happenings:
                    transition = step(transition.phase, happening)
                    concluded += transition.instructions.count(TrialAction.CONCLUDE)
            except ValueError:
                continue
            roads += 1
            assert concluded == (1 if transition.phase is Phase.DONE else 0)
            if transition.state is None:
                assert transition.phase is not Phase.DONE or happenings[-1] is TrialEvent.ASSESSED
    assert roads == 17
