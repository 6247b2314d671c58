"""Changes, compounds and rounding, on the rows that the sources print."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.stats.ratios import RatioChange, per, rounded, signed
from seed_tables import seed_row, seed_rows

positive = st.floats(1e-3, 1e6)


def change(table: str, before: dict[str, object], after: dict[str, object], column: str = "tps") -> RatioChange:
    return RatioChange(seed_row(table, **before)[column], seed_row(table, **after)[column])


@pytest.mark.parametrize(
    ("table", "before", "after", "said"),
    [
        ("pgbench_N", "Without -N", "With -N", "+20.96 %"),
        ("fsync", "fsync On", "fsync Off", "+15.05 %"),
        ("network_adapter", "Diff N/W Adapter", "Same N/W adapter", "+3.79 %"),
    ],
)
def test_the_gains_of_the_source_are_computed_from_its_rows(table: str, before: str, after: str, said: str) -> None:
    found = change(table, {"test": before}, {"test": after})
    assert found.text() == said
    assert RatioChange(found.before, found.after * 1.01).text() != said


def test_locks_cpu_and_latency_of_the_shorter_mix() -> None:
    plain, short = {"test": "Without -N"}, {"test": "With -N"}
    locks = [change("pgbench_N", plain, short, name) for name in ("row_exclusive", "access_share", "exclusive")]
    assert [one.text(1) for one in locks] == ["\N{MINUS SIGN}63.5 %", "\N{MINUS SIGN}28.9 %", "\N{MINUS SIGN}21.4 %"]
    assert change("pgbench_N", plain, short, "cpu_pct").points == pytest.approx(-16.0)
    assert change("pgbench_N", plain, short, "lat_ms").text(1) == "\N{MINUS SIGN}17.3 %"


@pytest.mark.parametrize(
    ("table", "base", "percents"),
    [
        ("power_smt8", "Default", [7.39, 12.17, 10.55]),
        ("power_smt4", "Default", [2.09, 2.43]),
        ("x86_ht", "No Tune", [1.49, 2.46]),
    ],
)
def test_what_tuning_gained_at_each_number_of_pods(table: str, base: str, percents: list[float]) -> None:
    pods = sorted({row["pods"] for row in seed_rows(table)})
    found = [change(table, {"test": base, "pods": n}, {"test": "Tune", "pods": n}).percent for n in pods]
    assert found == pytest.approx(percents, abs=0.005)


@given(positive, positive)
def test_a_change_and_its_way_back_cancel(before: float, after: float) -> None:
    there, back = RatioChange(before, after), RatioChange(after, before)
    assert there.ratio * back.ratio == pytest.approx(1)


@given(st.floats(-1e9, 1e9), st.integers(0, 4))
def test_rounding_moves_a_number_by_half_a_digit_at_most(value: float, digits: int) -> None:
    assert abs(float(rounded(value, digits).replace(",", "")) - value) <= 0.5000001 * 10**-digits
    assert rounded(-0.0, 0) == "0"


@pytest.mark.requirement("R-REP-09")
def test_halves_are_rounded_up_and_thousands_are_set_apart() -> None:
    assert [rounded(one) for one in (1.005, 2.675, -0.004, 61963.9, 1.995)] == [
        "1.01",
        "2.68",
        "0.00",
        "61,963.90",
        "2.00",
    ]
    assert [signed(one, 1) for one in (0.04, -0.05, 0.5, 3.0)] == ["0.0", "\N{MINUS SIGN}0.1", "+0.5", "+3.0"]


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_what_has_no_ratio_is_refused(before: float, after: float) -> None:
    with pytest.raises(UsageError):
        RatioChange(before, after)


def test_nothing_is_divided_by_nothing() -> None:
    assert per(10, 4) == 2.5
    with pytest.raises(UsageError, match="not a number to divide by"):
        per(10, 0)


def tps(table: str, **wanted: object) -> float:
    value = seed_row(table, **wanted)["tps"]
    assert isinstance(value, float | int)
    return float(value)


def test_the_fsync_row_is_the_tuned_one_and_not_the_default() -> None:
    kept = seed_row("fsync", test="fsync On")
    assert kept["tps"] == tps("power_smt8", test="Tune", pods=64) != tps("power_smt8", test="Default", pods=64)
    off = tps("fsync", test="fsync Off")
    assert RatioChange(tps("power_smt8", test="Default", pods=64), off).percent == pytest.approx(27.2, abs=0.05)


def test_the_faster_network_came_with_more_locks() -> None:
    before, after = {"test": "Diff N/W Adapter"}, {"test": "Same N/W adapter"}
    locks = [
        change("network_adapter", before, after, name).percent
        for name in ("row_exclusive", "access_share", "exclusive")
    ]
    assert locks == pytest.approx([77.0, 78.3, 23.4], abs=0.05)


def test_past_the_knee_and_with_fewer_threads_throughput_falls() -> None:
    falls = [change("power_smt8", {"test": t, "pods": 32}, {"test": t, "pods": 64}) for t in ("Default", "Tune")]
    assert [fall.percent for fall in falls] == pytest.approx([-5.91, -7.27], abs=0.005)
    smt = [
        RatioChange(tps("power_smt8", test="Default", pods=n), tps("power_smt4", test="Default", pods=n))
        for n in (16, 32)
    ]
    assert [fall.percent for fall in smt] == pytest.approx([-10.57, -11.88], abs=0.005)


def test_the_pods_of_a_platform_have_the_same_cpus_and_memory_in_all() -> None:
    for table, vcpus in (("pods_power", 64), ("pods_x86", 32)):
        rows = seed_rows(table)
        assert {row["pods"] * row["vcpu"] for row in rows} == {vcpus}
        assert {row["pods"] * row["mem_gb"] for row in rows} == {224}


def test_a_rate_is_told_for_a_part_of_one_too() -> None:
    assert per(3.0, 0.5) == 6.0
