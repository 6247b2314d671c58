"""The second that a row of samples is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.trial.run_evidence import by_second, second_of
from study_recording import sample_row


def sessions(t, active=2):
    return sample_row("sessions", t, total=4, active=active, waiting=0, idle=0, idle_in_transaction=0)


@pytest.mark.requirement("R-MON-07")
@given(second=st.integers(0, 2_000_000_000), late=st.floats(-0.4, 0.49))
def test_a_row_is_about_the_second_that_ends_when_it_is_taken(second, late):
    assert second_of(second + 1 + late) == second


@pytest.mark.parametrize(("t", "second"), [(10.0, 9), (10.4921875, 9), (10.5, 10), (11.0, 10)])
def test_a_row_of_half_a_second_later_is_about_the_next_one(t, second):
    assert second_of(t) == second


@pytest.mark.requirement("R-MON-07")
def test_columns_of_host_and_server_meet_in_the_same_seconds():
    rows = [sessions(11.02), sessions(12.3), sample_row("memory", 11.02, shared_bytes=5), sample_row("memory", 12.3)]
    assert by_second(rows, "sessions", "active") == {10: 2.0, 11: 2.0}
    assert by_second(rows, "memory", "shared_bytes") == {10: 5.0}


def test_of_two_rows_of_a_second_the_later_one_wins():
    assert by_second([sessions(11.0, 3), sessions(11.4, 7)], "sessions", "active") == {10: 7.0}
    assert by_second([sessions(11.0, 3)], "sessions", "total") == {10: 4.0}
