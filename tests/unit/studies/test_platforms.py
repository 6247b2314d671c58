"""Two platforms by every denominator, on the rows of source 002."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.facts import Unknown
from pgdyno.model.platform import Denominator, Matchup, Platform, PlatformComparison
from pgdyno.studies.platforms.comparing import compare_platforms
from platform_example import TUNED, power, x86


def at(comparison: PlatformComparison, pods: int, configuration: str = TUNED) -> Matchup:
    (found,) = [one for one in comparison.equal if (one.a.instances, one.a.configuration) == (pods, configuration)]
    return found


def ratio(matchup: Matchup | None, denominator: Denominator) -> float:
    assert matchup is not None
    found = matchup.by(denominator).ratio
    assert isinstance(found, float)
    return round(found, 4)


@pytest.mark.requirement("R-CMP-01", "R-CMP-02", "R-CMP-03")
def test_the_five_figures_of_the_source_by_their_denominators() -> None:
    found = compare_platforms(power(), x86())
    assert ratio(at(found, 32), Denominator.CORE) == 2.7195
    assert ratio(at(found, 16), Denominator.CORE) == 2.5438
    assert ratio(found.best, Denominator.CORE) == 2.5992
    assert ratio(at(found, 32), Denominator.THREAD) == 0.6799
    assert ratio(at(found, 32), Denominator.TOTAL) == 1.3597
    assert ratio(at(found, 32), Denominator.VCPU) == 0.6799
    assert found.invalid == ()


@pytest.mark.requirement("R-CMP-03")
def test_32_pods_are_past_the_best_of_one_of_them_only() -> None:
    found = compare_platforms(power(), x86())
    assert found.best is not None
    assert (found.best.a.instances, found.best.b.instances) == (32, 16)
    assert (at(found, 32).past_best, at(found, 16).past_best) == (("x86",), ())
    assert found.best.past_best == ()


def test_one_changed_row_changes_its_figures_and_no_others() -> None:
    found = compare_platforms(power({32: 60000.0}), x86())
    assert ratio(at(found, 32), Denominator.CORE) != 2.7195
    assert ratio(at(found, 16), Denominator.CORE) == 2.5438
    assert found.best is not None
    assert found.best.a.instances == 16
    assert ratio(found.best, Denominator.CORE) == 2.5438


@pytest.mark.requirement("R-CMP-05", "R-CMP-10")
def test_by_the_cpu_that_was_used_and_marked_as_an_estimate() -> None:
    busy = at(compare_platforms(power(), x86()), 32).by(Denominator.BUSY_CORE)
    assert busy.is_estimate
    assert ratio(at(compare_platforms(power(), x86()), 32), Denominator.BUSY_CORE) == pytest.approx(
        2.7195 * 93.63 / 79.49, abs=2e-4
    )
    assert [one.value for one in Denominator if one.value == "per core kept busy"]


@pytest.mark.requirement("R-CMP-06")
def test_by_price_when_prices_are_given() -> None:
    without = at(compare_platforms(power(), x86()), 32)
    assert Denominator.PRICE not in {one.denominator for one in without.ratios}
    both = compare_platforms(replace(power(), price=20000.0), replace(x86(), price=10000.0))
    assert ratio(at(both, 32), Denominator.PRICE) == pytest.approx(1.3597 / 2, abs=1e-4)
    one = at(compare_platforms(replace(power(), price=1.0), x86()), 32).by(Denominator.PRICE).ratio
    assert isinstance(one, Unknown)
    assert one.reason == "x86: no price was given"


@pytest.mark.requirement("R-CMP-02")
def test_a_denominator_that_was_not_told_is_unknown_and_says_of_whom() -> None:
    found = at(compare_platforms(power(), x86()), 32).by(Denominator.SOCKET)
    assert isinstance(found.ratio, Unknown)
    assert found.ratio.reason == "power: it was not told"


@pytest.mark.requirement("R-CMP-04")
def test_what_is_unlike_is_listed_and_what_is_alike_is_not() -> None:
    found = {one.what: (one.a, one.b) for one in compare_platforms(power(), x86()).unlike}
    assert found["cores"] == ("8", "16")
    assert found["page size"] == ("64 KiB", "4 KiB")
    assert found["file system block"] == ("64 KiB", "4 KiB")
    assert found["threads per core"] == ("8", "2")
    assert found["CPU used at the best row"] == ("79.49 %", "92.36 %")
    assert set(found["kernel"]) == {"4.18.0-425.el8.ppc64le", "4.18.0-372.9.1.el8.x86_64"}
    assert "operating system" not in found


@pytest.mark.requirement("R-CMP-07")
@pytest.mark.parametrize("what", ["workload", "data set", "driver", "period", "configuration"])
def test_what_has_to_agree_and_does_not_makes_it_invalid(what: str) -> None:
    other = replace(x86(), same={**x86().same, what: "another"})
    found = compare_platforms(power(), other)
    assert [one.split(" differs")[0] for one in found.invalid] == [what]
    accepted = compare_platforms(power(), other, own_settings=True)
    assert bool(accepted.invalid) == (what != "configuration")
    unknown = replace(x86(), same={name: value for name, value in x86().same.items() if name != what})
    assert (compare_platforms(power(), unknown).unchecked, compare_platforms(power(), unknown).invalid) == ((what,), ())


def test_platforms_without_a_common_configuration_or_load_are_not_compared() -> None:
    renamed = replace(x86(), rows=tuple(replace(row, configuration="other") for row in x86().rows))
    assert compare_platforms(power(), renamed).invalid == ("the two have no row of the same configuration and mode",)
    elsewhere = replace(x86(), rows=tuple(replace(row, clients=9) for row in x86().rows))
    assert compare_platforms(power(), elsewhere).invalid == ("no load was measured on both platforms",)


def repeated(platform: Platform, *factors: float) -> Platform:
    rows = (replace(row, throughputs=tuple(row.tps * factor for factor in factors)) for row in platform.rows)
    return replace(platform, rows=tuple(rows))


def test_repeated_runs_on_both_sides_give_an_interval_in_every_denominator() -> None:
    once = at(compare_platforms(repeated(power(), 0.99, 1.0, 1.01), x86()), 32)
    assert {one.interval for one in once.ratios} == {None}
    found = at(compare_platforms(repeated(power(), 0.99, 1.0, 1.01), repeated(x86(), 0.98, 1.0, 1.02)), 32)
    whole, core = found.by(Denominator.TOTAL).interval, found.by(Denominator.CORE).interval
    assert whole is not None
    assert core is not None
    assert whole.lo < 1.3597 < whole.hi
    assert core.lo / whole.lo == pytest.approx(core.hi / whole.hi) == pytest.approx(2)
