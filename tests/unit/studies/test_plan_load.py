"""What a plan file says of its load, and how it meets the flags."""

from __future__ import annotations

import pytest

from pgdyno.cli.arguments.planned import named_plan
from pgdyno.errors import UsageError
from pgdyno.studies.session.plan_load import planned_load

TEXT = """
version = 1
[plan]
[workload]
name = "ybio"
parameters = { class = "exceeds", batch_size = 500 }
[load]
clients = 3
warmup = 2.5
connect_each = true
[sandbox]
memory = "1GB"
"""


def test_tables_become_flags():
    load = planned_load(TEXT)
    assert load.flags == {
        "workload": "ybio",
        "clients": 3,
        "warmup": 2.5,
        "connect_each": True,
        "sandbox_memory": "1GB",
    }
    assert load.parameters == {"class": "exceeds", "batch_size": 500}
    assert planned_load("version = 1").flags == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[load]\nclents = 3", 'line 2: load: unknown key "clents"'),
        ('[load]\nclients = "3"', '"clients" is text and not a whole number'),
        ("[load]\nclients = true", '"clients" is true or false and not a whole number'),
        ("[sandbox]\nsize = 1", 'unknown key "size"'),
        ("[workload]\nparameters = 3", "not a table"),
        ("[workload]\nparameters = { a = [1] }", "line 2: workload: parameters: parameter a"),
        ("[workload]\nkind = 'x'", 'unknown key "kind"'),
        ("load = 3", "not a table"),
        ("= 3", "not TOML"),
    ],
)
def test_what_is_not_known_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        planned_load(text, source="my.toml")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--plan", "a.toml", "-c", "2"], "a.toml"),
        (["--plan=b.toml"], "b.toml"),
        (["-c", "2"], None),
        (["--plan"], None),
    ],
)
def test_the_plan_is_found_among_the_words(words, name):
    found = named_plan(words)
    assert (None if found is None else str(found)) == name
