"""A gain that many settings share: where no single one of them is missing, all that was found goes into the next proof.

A part of few settings lost; halving sought the one that it lacked, found one that does nothing, and that lost as well,
until the proofs were spent and nothing was offered of a gain that was shown as a whole.
"""

import pytest

from pgdyno.model.configuration import Configuration
from pgdyno.studies.tune import run as tune_module
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.missing import ARM
from pgdyno.studies.tune.search import Search
from simulated_laboratory import SimulatedLaboratory, shared_buffers_cliff
from simulated_tune import run

pytestmark = pytest.mark.usefixtures("kept_asks")
FOUND = Configuration.of(
    {
        "effective_io_concurrency": "64",
        "jit": "off",
        "random_page_cost": "1.1",
        "shared_buffers": "2GB",
        "wal_compression": "lz4",
        "work_mem": "8MB",
    }
)
IDLE = FOUND.without(*(name for name in FOUND if name != "jit"))


def spread(settings):
    """Each setting is worth a fifth."""
    return 1.2 ** sum(name in settings for name in FOUND if name != "jit")


def proposed(monkeypatch, *parts):
    """Let these parts of FOUND be proved one after the other, and all of it where it is asked for as a whole."""
    asked, left = [], iter(parts)

    def part(search, found, *, whole, idle, **_):
        asked.append((whole, set(idle)))
        if not whole:
            return FrugalWinner(next(left), {}, ())
        return FrugalWinner(found, {}, (), ("effective_io_concurrency", "jit", "random_page_cost"))

    monkeypatch.setattr(Search, "winner", lambda _: FOUND)
    monkeypatch.setattr(tune_module, "frugal", part)
    return asked


def test_where_halving_comes_to_nothing_that_has_the_gain_the_whole_is_proved_next(monkeypatch):
    asked = proposed(monkeypatch, IDLE, IDLE)
    laboratory = SimulatedLaboratory(spread)
    tuned, _ = run(laboratory)
    assert asked == [(False, set()), (True, set())]
    assert tuned.is_offered
    assert {"shared_buffers", "work_mem", "wal_compression"} <= set(tuned.winner)
    halved = [trial.spec.configuration for trial in laboratory.store.kept if trial.spec.arm == ARM]
    assert len(halved[-1]) == 1, "what halving came to ran once before it would have been proved"


def test_where_halving_finds_the_setting_that_has_the_gain_only_that_is_proved(monkeypatch):
    large = FOUND.without(*(name for name in FOUND if name != "shared_buffers"))
    asked = proposed(monkeypatch, IDLE, large)
    tuned, _ = run(SimulatedLaboratory(shared_buffers_cliff))
    assert asked == [(False, set()), (False, set(FOUND) - {"shared_buffers"})]
    assert tuned.winner == large


@pytest.mark.parametrize("second", ["work_mem", "wal_compression"])
def test_the_last_proof_is_that_of_the_whole_where_two_parts_have_lost(monkeypatch, second):
    poor = FOUND.without(*(name for name in FOUND if name != second))
    monkeypatch.setattr(tune_module, "seek_seen", lambda *_, **__: (second,))
    asked = proposed(monkeypatch, IDLE, poor, poor)
    tuned, _ = run(SimulatedLaboratory(spread))
    assert [whole for whole, _ in asked] == [False, False, True]
    assert asked[-1] == (True, set())
    assert tuned.is_offered
    assert "shared_buffers" in tuned.winner
