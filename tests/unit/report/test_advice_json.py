"""The JSON of advice: what its published schema says, and that the schema finds what breaks it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advice_example import whole
from json_schema import errors
from pgdyno.report.advice.document import advice_json

PROJECT = Path(__file__).parents[3]
SCHEMA = json.loads((PROJECT / "docs" / "reference" / "advice.schema.json").read_text("utf-8"))


@pytest.mark.requirement("R-ADV-15")
def test_json_is_what_the_published_schema_says() -> None:
    document = json.loads(advice_json(whole()))
    assert list(errors(document, SCHEMA)) == []
    assert document["summary"]["statements_first"] == ["slow-statement"]
    assert {one["answer"] for one in document["findings"]} == {"finding", "ok", "unknown", "not applicable"}
    assert {"name": "swap", "value": None, "unknown": "EPERM"} in document["facts"]
    assert document["contradictions"][0]["first"].startswith("With -N there is almost 20 %")


@pytest.mark.requirement("R-ADV-15")
def test_the_schema_finds_what_breaks_it() -> None:
    document = json.loads(advice_json(whole()))
    document["findings"][0]["severity"] = "dreadful"
    document["findings"][1]["colour"] = "red"
    del document["findings"][2]["undo" if "undo" in document["findings"][2] else "risk"]
    document["format"] = "1"
    found = " ".join(errors(document, SCHEMA))
    for word in ("dreadful", "colour is not in the schema", "risk is missing", "is no integer"):
        assert word in found


@pytest.mark.requirement("R-ADV-01")
def test_the_schema_asks_for_every_field_of_a_finding() -> None:
    finding = SCHEMA["$defs"]["Finding"]
    asked = {"rule", "current", "proposed", "why", "effects", "risk", "apply", "persist", "verify", "revert", "cost"}
    assert asked <= set(finding["required"])
