"""Which command of a script pgbench gave up on: by its number, its line and its text."""

import pytest

from pgdyno.workloads.script_failure import Failure, read_failure
from pgdyno.workloads.script_statements import commands_of

SCRIPT = """\\set a random(1, 10)
-- a comment; with a semicolon
SELECT ';' AS one,
       2;
\\set b \\
  2
BEGIN; SELECT 1 \\; SELECT 2;
SELECT :a AS x \\gset
\\if :b
/* nothing */ ;
  SELECT 3
\\endif
SELECT 4
"""


def test_commands_have_the_numbers_that_pgbench_gives_them_and_their_lines():
    assert [(one.line, " ".join(one.text.split()), one.is_meta) for one in commands_of(SCRIPT)] == [
        (1, "\\set a random(1, 10)", True),
        (3, "SELECT ';' AS one, 2", False),
        (5, "\\set b \\", True),
        (7, "BEGIN", False),
        (7, "SELECT 1 ; SELECT 2", False),
        (8, "SELECT :a AS x", False),
        (9, "\\if :b", True),
        (11, "SELECT 3", False),
        (12, "\\endif", True),
        (13, "SELECT 4", False),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "pgbench: error: client 1 script 0 aborted in command 2 query 0: ERROR:  division by zero",
            Failure(0, 2, "division by zero"),
        ),
        (
            'pgbench: error: ERROR:  relation "x" does not exist\nLINE 1: SELECT\n'
            'pgbench: error: client 0 script 1 aborted in command 0 query 0: ERROR:  prepared statement "P_0" does not'
            " exist",
            Failure(1, 0, 'relation "x" does not exist'),
        ),
        ("pgbench: error: connection to server failed: FATAL:  the database system is starting up", None),
        ("pgbench: error: client 0 aborted in command 3 (SQL) of script 0; perhaps the backend died", None),
        ("", None),
    ],
)
def test_what_pgbench_says_of_a_statement_that_failed(text, found):
    assert read_failure(text) == found
