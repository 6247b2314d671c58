"""Which words of a statement count as names: rather too many than one too few."""

import pytest

from pgdyno.server.planning_code import LONGEST_NAME, names_in


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SELECT Evil(1)", {"evil", "Evil"}),
        ("SELECT 'evil' -- evil2\n/* evil3 */", {"evil", "evil2", "evil3"}),
        ('SELECT "E vil"(1)', {"E vil"}),
        ('SELECT \'"\' AS x, "e-vil"(1) FROM t', {"e-vil", "x", "t"}),
        ("SELECT $$evil$$, a$b, überall, Ärger", {"evil", "a$b", "überall", "Ärger", "ärger"}),
        ("SELECT t.evil, (t).evil2 FROM t", {"t", "evil", "evil2"}),
        ("SELECT 😀(1), ٣x(2), a\u00a0b(3)", {"😀", "٣x", "a\u00a0b"}),
        (f"SELECT {'x' * (LONGEST_NAME + 1)}(1)", {"x" * LONGEST_NAME}),
        (f"SELECT {'€' * 22}(1)", {"€" * 21}),
        (f'SELECT "e vil{"x" * LONGEST_NAME}"(1)', {f"e vil{'x' * (LONGEST_NAME - 5)}"}),
    ],
)
def test_words_of_text_literals_comments_and_quotes_all_count(statement, names):
    assert names <= names_in(statement)


@pytest.mark.parametrize("statement", ['SELECT U&"e\\0076il"(1)', 'SELECT "a""b"', "SELECT EVİL(1)"])
def test_names_that_are_written_in_other_ways_are_not_guessed(statement):
    assert names_in(statement) is None
