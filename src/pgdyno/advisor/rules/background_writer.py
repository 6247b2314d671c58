"""The judge of the rule on the background writer, an experiment only."""

from __future__ import annotations

from pgdyno.advisor.amounts import FULL_TIMES
from pgdyno.advisor.case import Case, Missing, known
from pgdyno.advisor.judgement import InOrder, Judgement
from pgdyno.advisor.planned import MEAN_OF_ALL, change_to, counted, proposes, shown, written

OF_THE_ROUNDS = 0.01
"""Share of its rounds at the limit from which the limit holds the background writer back."""
_SETTINGS = ("bgwriter_lru_maxpages", "bgwriter_lru_multiplier", "bgwriter_delay", "shared_buffers")


def background_writer(case: Case) -> Judgement:
    """Offer more pages a round where the background writer stops at its limit."""
    numbers = counted(case, *_SETTINGS)
    stopped = known(numbers.maxwritten_clean, "how often the background writer stopped at its limit")
    name = "bgwriter_lru_maxpages"
    text = f"The background writer stopped {stopped} times at {name} = {shown(case, name)} in the window."
    rounds = numbers.window.seconds / max(case.number("bgwriter_delay"), 0.01)
    if stopped < FULL_TIMES or case.number(name) <= 0:
        return InOrder(text, of_load=True)
    if stopped < OF_THE_ROUNDS * rounds:
        if numbers.window.is_mean_of_all:  # of the busy rounds it may be a large share
            raise Missing(f"in which share of its rounds at load the background writer stops at {name}", MEAN_OF_ALL)
        return InOrder(text, of_load=True)
    delay = written(case, "bgwriter_delay", case.number("bgwriter_delay") / 2)
    multiplier = f"{2 * case.number('bgwriter_lru_multiplier'):g}"
    return proposes(
        case,
        change_to(case, name, 2 * case.number(name)),
        evidence=(
            text,
            f"bgwriter_delay = {shown(case, 'bgwriter_delay')}, "
            f"bgwriter_lru_multiplier = {shown(case, 'bgwriter_lru_multiplier')}.",
        ),
        alternatives=(
            f"In its place, one at a time: bgwriter_delay = {delay} for more rounds, bgwriter_lru_multiplier = "
            f"{multiplier} for twice the expected need.",
        ),
        needs_test=True,
    )
