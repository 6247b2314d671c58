"""Numbers and times of flags: units as PostgreSQL writes them, bounds in the flag's own unit, words for people."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.cli import tune
from pgdyno.cli.arguments.numbers import Finite, Share, Time, Whole, max_bytes, settle_number
from pgdyno.errors import UsageError

SECONDS, MINUTES = Time("s", 2), Time("min", 0, min_open=True)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SECONDS, "30", 30.0),
        (SECONDS, "30s", 30.0),
        (SECONDS, "1.5min", 90.0),
        (SECONDS, "2 h", 7200.0),
        (SECONDS, "2500ms", 2.5),
        (SECONDS, "5m", 300.0),
        (MINUTES, "5", 5.0),
        (MINUTES, "90s", 1.5),
        (MINUTES, "2h", 120.0),
        (MINUTES, " 5 m ", 5.0),
        (MINUTES, "1e1", 10.0),
    ],
)
def test_a_time_has_a_unit_or_is_in_that_of_the_flag(kind, text, value):
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize("text", ["abc", "5 parsecs", "5MB", "1m30s", "m", ""])
def test_what_is_no_time_is_refused_with_how_to_write_one(text):
    with pytest.raises(click.BadParameter) as caught:
        SECONDS.convert(text, None, None)
    assert "range" not in caught.value.message
    assert not text or repr(text) in caught.value.message


@pytest.mark.parametrize(("kind", "text"), [(SECONDS, "1s"), (SECONDS, "0.01min"), (MINUTES, "0s"), (MINUTES, "-5")])
def test_bounds_hold_whatever_the_unit(kind, text):
    with pytest.raises(click.BadParameter, match="is not in the range"):
        kind.convert(text, None, None)


def test_a_time_out_of_bounds_is_told_as_it_was_typed_with_the_unit_of_its_bounds():
    with pytest.raises(click.BadParameter, match=r"5s is not in the range x>=0\.1 min"):
        Time("min", 0.1).convert("5s", None, None)


def test_help_shows_a_default_time_with_its_unit():
    option = click.Option(["--reference"], default=30.0, type=Time("min", 1), show_default=True)
    settle_number(option)
    with click.Command("live", params=[option]).make_context("live", []) as context:
        assert context.params["reference"] == 30.0
        assert "[default: 30min; x>=1 min]" in str(option.get_help_record(context))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "Infinity", "1e400", "1e400s"])
def test_a_time_has_an_end(text):
    with pytest.raises(click.BadParameter):
        SECONDS.convert(text, None, None)


@given(st.floats(2, 1e6), st.sampled_from(["s", "min", "h", "d"]))
def test_units_are_multiples_of_each_other(number, unit):
    factor = {"s": 1, "min": 60, "h": 3600, "d": 86400}[unit]
    assert SECONDS.convert(f"{number!r}{unit}", None, None) == pytest.approx(number * factor)


@pytest.mark.parametrize(("kind", "said"), [(Whole(1), "'x' is not a valid whole number"), (Finite(0), "valid number")])
def test_what_is_no_number_is_called_so(kind, said):
    with pytest.raises(click.BadParameter, match=said):
        kind.convert("x", None, None)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), (" 20 %", 0.2), ("0", 0.0)])
def test_a_share_is_written_in_percent_or_as_a_part_of_one(text, share):
    assert Share().convert(text, None, None) == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "100%", "-1%", "nan%", "inf", "five%", "%"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(click.BadParameter):
        Share().convert(text, None, None)


@pytest.mark.requirement("R-TUN-08")
@pytest.mark.parametrize("word", ["20%", "0.2"])
def test_the_tolerance_of_a_tune_is_a_share(word):
    with tune.command.make_context("tune", ["--tolerance", word]) as context:
        _, options = tune._new(tune._Flags.of(context.params))
    assert options.tolerance == pytest.approx(0.2)


@pytest.mark.parametrize("text", ["-1", "-1MB", "0", "1023kB", "9999999999TB"])
def test_a_database_that_may_be_so_large_has_a_size(text):
    with pytest.raises(UsageError, match=f"--max-size {text} is out of range"):
        max_bytes(text)


def test_a_size_is_in_bytes_or_has_a_unit():
    assert (max_bytes("1MB"), max_bytes("1048576"), max_bytes("200GB")) == (1 << 20, 1 << 20, 200 << 30)
