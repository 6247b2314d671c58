"""Which command of a script pgbench gave up on: by its number, its line and its text."""

from typing import TYPE_CHECKING, cast

import pytest

from pgdyno.errors import ConnectError, ScriptError
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_failure import Failure, read_failure, script_error
from pgdyno.workloads.script_statements import commands_of

if TYPE_CHECKING:
    from pgdyno.server.postgres import Postgres

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
        (
            "pgbench: error: division by zero\n"
            "pgbench: error: client 3 aborted in command 0 (set) of script 1; evaluation of meta-command failed",
            Failure(1, 0, "division by zero"),
        ),
        (
            "pgbench: error: client 3 aborted in command 5 (sleep) of script 0; execution of meta-command failed",
            Failure(0, 5, "execution of meta-command failed"),
        ),
        (
            "pgbench: error: client 0 script 2 command 1 query 0: expected one row, got 0",
            Failure(2, 1, "expected one row, got 0"),
        ),
        ("", None),
    ],
)
def test_what_pgbench_says_of_a_statement_that_failed(text, found):
    assert read_failure(text) == found


SCRIPTS = (Script("s", text="\\set a 0\nSELECT 1/:a\\gset\n\\set b 1/:a\n"),)


class NoServer:
    """Refuses every session: the server is not needed for what is known without it."""

    def for_load(self, dbname: str) -> "NoServer":
        return self

    def connect(self) -> None:
        raise ConnectError("no session")


def error_of(said: str) -> ScriptError | None:
    return script_error(f"pgbench: error: {said}", SCRIPTS, "simple", cast("Postgres", NoServer()), "load")


def test_an_error_that_shows_when_it_runs_promises_nothing_of_the_next_run():
    error = error_of("client 0 script 0 aborted in command 1 query 0: ERROR:  division by zero")
    assert error is not None
    assert (error.message, error.is_certain) == ('script "s", line 2: division by zero', False)
    assert error.hint == "Fix the script, or the --init script that makes its data."
    assert error.detail == "SQLSTATE 22012, by its message; the statement is: SELECT 1/:a"
    raised = error_of("client 0 script 0 aborted in command 1 query 0: ERROR:  no such words")
    assert raised is not None
    assert (raised.detail or "").startswith("SQLSTATE unknown: the error appears only when the statement runs, and")


def test_a_command_of_pgbench_is_told_by_its_line_and_text():
    said = "division by zero\npgbench: error: client 0 aborted in command 2 (set) of script 0; evaluation failed"
    error = error_of(said)
    assert error is not None
    assert (error.message, error.detail) == (
        'script "s", line 3: division by zero',
        "the command is: \\set b 1/:a",
    )


@pytest.mark.parametrize(
    "said",
    [
        "canceling statement due to user request",
        "terminating connection due to administrator command",
        'could not extend file "base/5/1": No space left on device',
        "out of shared memory",
    ],
)
def test_what_a_server_its_host_or_a_person_caused_is_not_the_scripts(said):
    assert error_of(f"client 0 script 0 aborted in command 1 query 0: ERROR:  {said}") is None
