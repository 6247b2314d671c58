"""What is said of an init script that failed, by what psql wrote."""

import pytest

from pgdyno.errors import ScriptError
from pgdyno.workloads.custom import _init_error

SYNTAX = (
    'psql:<stdin>:7: ERROR:  42601: syntax error at or near "SELEC"\nLINE 1: SELEC 1;\n        ^\nLOCATION:  scan.l'
)


def test_a_statement_is_told_with_its_line_and_its_code():
    error = _init_error(f"psql:<stdin>:2: NOTICE:  00000: fine\n{SYNTAX}")
    assert isinstance(error, ScriptError)
    assert error.message == 'init script, line 7: syntax error at or near "SELEC"'
    assert error.detail == "SQLSTATE 42601; the statement is: SELEC 1;"


@pytest.mark.parametrize(
    "said",
    [
        "psql:<stdin>:1: ERROR:  53100: could not extend file: No space left on device",
        "psql:<stdin>:1: FATAL:  57P01: terminating connection due to administrator command",
        "psql: error: connection to server failed",
        "",
    ],
)
def test_what_is_not_the_scripts_own_fault_is_no_error_of_the_script(said):
    error = _init_error(said)
    assert not isinstance(error, ScriptError)
    assert error.detail == (said or None)
