"""Which settings a capture wants, what it leaves as it is, and what it costs."""

from __future__ import annotations

import pytest

from pgdyno.knobs.policy import class_of, load_policy
from pgdyno.routes.route_names import is_ours
from pgdyno.trace.capture_cost import LoadRate, cost_of
from pgdyno.trace.capture_logging import files_of, is_hole, logging_for, style_words, to_change

GB = 1 << 30
FOUND = {
    "log_destination": "stderr",
    "log_min_duration_statement": "-1",
    "log_timezone": "UTC",
    "log_file_mode": "0640",
    "log_min_error_statement": "error",
    "log_min_messages": "warning",
    "log_connections": "off",
    "log_disconnections": "on",
    "log_parameter_max_length": "-1",
    "log_error_verbosity": "default",
    "log_rotation_age": "1440",
}


def wanted(style: str = "csvlog", version: int = 130_000, sampled: float | None = None, **found: str) -> dict[str, str]:
    return logging_for("c", style, {**FOUND, **found}, version, max_bytes=20 * GB, sampled=sampled)


def test_every_statement_is_logged_once_with_all_its_values_and_read_by_nobody_else() -> None:
    found = to_change(wanted(), FOUND)
    assert found == {
        "log_connections": "on",
        "log_destination": "csvlog",
        "log_file_mode": "0600",
        "log_filename": "pgdyno-c-%Y%m%d-%H%M%S.log",
        "log_min_duration_statement": "0",
        "log_parameter_max_length_on_error": "-1",
        "log_rotation_age": "0",
        "log_rotation_size": "1048576kB",
    }


def test_what_is_so_already_is_left_alone() -> None:
    want = wanted()
    assert to_change(want, {**want, "log_rotation_size": "1048576", "log_connections": "true"}) == {}


def test_all_that_is_set_is_known_for_ours_on_the_way_back_and_risks_no_data() -> None:
    names = {*wanted(sampled=0.1), *wanted("jsonlog", 180_000)}
    assert names <= load_policy().capture
    assert all(is_ours(name) and class_of(name) is None for name in load_policy().capture)


@pytest.mark.parametrize(
    ("name", "level", "becomes"),
    [
        ("log_min_error_statement", "panic", "error"),
        ("log_min_error_statement", "notice", "notice"),
        ("log_min_messages", "fatal", "warning"),
        ("log_min_messages", "error", "error"),
    ],
)
def test_errors_are_logged_whatever_the_level_and_lower_ones_stay(name: str, level: str, becomes: str) -> None:
    assert wanted(**{name: level})[name] == becomes


@pytest.mark.parametrize(
    ("before", "becomes"),
    [
        ("", "receipt,authentication,authorization"),
        ("off", "receipt,authentication,authorization"),
        ("setup_durations", "setup_durations,receipt,authentication,authorization"),
        ("all", "all"),
        ("on", "on"),
    ],
)
def test_from_18_on_connections_are_a_list_to_which_what_was_there_belongs(before: str, becomes: str) -> None:
    assert wanted(version=180_000, log_connections=before)["log_connections"] == becomes


def test_a_sample_is_of_whole_transactions_and_the_log_of_slow_statements_rests() -> None:
    found = wanted(sampled=0.1, log_min_duration_statement="500", log_duration="on")
    assert found["log_transaction_sample_rate"] == "0.1"
    assert found["log_min_duration_statement"] == found["log_min_duration_sample"] == "-1"
    assert found["log_duration"] == "off"


@pytest.mark.parametrize(
    ("name", "value", "hole"),
    [
        ("log_min_duration_statement", "-1", True),
        ("log_min_duration_statement", "0", False),
        ("log_parameter_max_length", "100", True),
        ("work_mem", "4MB", False),
    ],
)
def test_a_role_that_logs_less_is_a_hole(name: str, value: str, *, hole: bool) -> None:
    assert is_hole(name, value, wanted()) is hole


def test_the_files_of_a_capture_are_told_from_others_and_from_its_standard_error() -> None:
    names = [
        "pgdyno-c-2.csv",
        "pgdyno-c-1.csv",
        "pgdyno-c-1.log",
        "pgdyno-d-1.csv",
        "postgresql.csv",
        "pgdyno-c-1.json",
    ]
    assert files_of("c", "csvlog", names) == ["pgdyno-c-1.csv", "pgdyno-c-2.csv"]
    assert files_of("c", "jsonlog", names) == ["pgdyno-c-1.json"]


@pytest.mark.parametrize(("log_statement", "words"), [("none", "csvlog B"), ("ddl", "csvlog B"), ("all", "csvlog A")])
def test_the_style_says_whether_statements_are_logged_at_their_begin_too(log_statement: str, words: str) -> None:
    assert style_words("csvlog", log_statement) == words


@pytest.mark.parametrize("size", [1 << 20, GB, 40 * GB, 1 << 50])
def test_a_file_is_a_gigabyte_or_two_whatever_the_bound(size: int) -> None:
    kilobytes = int(logging_for("c", "csvlog", FOUND, 130_000, max_bytes=size)["log_rotation_size"].removesuffix("kB"))
    assert 1 << 20 <= kilobytes <= 2_097_151


def test_the_cost_is_that_of_the_study_for_its_statements() -> None:
    cost = cost_of(LoadRate(5.0, 400.0, 2800.0, 0.042, 90.0), "csvlog")
    assert cost.bytes_per_statement == pytest.approx(600)
    assert cost.bytes_per_hour == pytest.approx(600 * 2800 * 3600)
    assert cost.cpu_per_s == pytest.approx((0.0493, 0.0812), rel=0.01)
    assert cost.seconds_to_fill(600 * 2800 * 10) == pytest.approx(10)
    assert any("42 to 69 % more" in line for line in cost.lines())


def test_a_sample_costs_its_share_and_json_more_than_csv() -> None:
    rate = LoadRate(5.0, 400.0, 2800.0, 0.042, 90.0)
    assert cost_of(rate, "csvlog", 0.1).bytes_per_s == pytest.approx(60 * 2800)
    assert cost_of(rate, "jsonlog").bytes_per_statement == pytest.approx(972)


def test_without_counted_statements_transactions_are_the_least_and_nothing_is_made_up() -> None:
    cost = cost_of(LoadRate(3.0, 100.0), "csvlog")
    assert cost.bytes_per_s == pytest.approx(60_000)
    assert "100 transactions, each at least one statement a second" in cost.lines()[0]
    assert not any("takes" in line for line in cost.lines())


def test_a_server_without_a_load_never_fills_its_disk() -> None:
    assert cost_of(LoadRate(3.0, 0.0, 0.0), "csvlog").seconds_to_fill(GB) is None
