from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.workloads.parameters import Parameter, resolve
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.registry import WORKLOADS, make_workload

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "workloads.md"


def made(name: str, **parameters: str | int | float | bool) -> PgbenchWorkload:
    workload = make_workload(name, parameters)
    assert isinstance(workload, PgbenchWorkload)
    return workload


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "one.sql"
    path.write_text("SELECT 1;\n")
    return str(path)


def test_the_names() -> None:
    sections = re.findall(r"^## ([a-z][\w-]*)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [*WORKLOADS, "replay"]  # which comes by an entry point, as those of other packages
    assert {"tpcb-like", "simple-update", "select-only", "ybio", "tprocc", "custom"} <= set(sections)


@pytest.mark.parametrize("name", ["tpcb-like", "simple-update", "select-only", "ybio"])
def test_a_spec_makes_the_same_workload_again(name: str) -> None:
    spec = make_workload(name, {}).spec()
    assert make_workload(name, spec.parameters).spec() == spec


def test_a_custom_spec_makes_the_same_workload_again(script: str) -> None:
    spec = make_workload("custom", {"scripts": f"{script}@3,select-only@2", "scale": 1}).spec()
    assert make_workload("custom", spec.parameters).spec() == spec
    assert spec.description == "scripts one@3, select-only@2"


@pytest.mark.requirement("R-TUN-16")
def test_what_only_reads() -> None:
    assert [made(name).spec().read_only for name in ("tpcb-like", "simple-update", "select-only", "ybio")] == [
        *(False, False, True, True)
    ]
    assert not made("ybio", pct_update=1).spec().read_only


def test_workloads_on_the_same_data_share_them() -> None:
    assert made("tpcb-like", scale=7).data.identity == made("select-only", scale=7).data.identity
    assert made("tpcb-like", scale=7).data.identity != made("tpcb-like", scale=8).data.identity
    assert made("ybio").data.identity == made("ybio", pct_update=10, batch_size=5, run_tab_rows=100).data.identity
    assert made("ybio").data.identity != made("ybio", filler=401).data.identity
    fingerprints = {made("tpcb-like").spec().fingerprint, made("select-only").spec().fingerprint}
    assert len(fingerprints) == 2


def test_ybio_names_its_table_and_counts_rows() -> None:
    workload = made("ybio", tab_num=12, tab_prefix="lab", batch_size=500, pct_update=30)
    texts = [script.text or "" for script in workload.scripts]
    assert all("lab0012" in text and "{" not in text for text in texts)
    assert [(script.name, script.weight) for script in workload.scripts] == [("read", 70), ("update", 30)]
    assert workload.spec().rows_per_transaction == 500
    assert workload.variables == {"run_tab_rows": "1000000", "batch_size": "500"}
    assert [script.name for script in made("ybio", pct_update=100).scripts] == ["update"]
    assert made("ybio", tab_rows="5e8", run_tab_rows="1e8").variables["run_tab_rows"] == "100000000"


@pytest.mark.parametrize(
    "parameters",
    [
        {"tab_prefix": "bench; drop table x"},
        {"tab_rows": 100, "run_tab_rows": 101, "batch_size": 1},
        {"tab_rows": 100},
        {"pct_update": 101},
        {"tab_rows": 3e9},
        {"tab_rows": 1.5},
        {"colour": "red"},
    ],
)
def test_ybio_refuses(parameters: dict[str, str | int | float]) -> None:
    with pytest.raises(UsageError):
        make_workload("ybio", parameters)


def test_custom_refuses_what_cannot_run(tmp_path: Path, script: str) -> None:
    twin = tmp_path / "deeper" / "one.sql"
    twin.parent.mkdir()
    twin.write_text("SELECT 2;\n")
    for scripts in ("", "missing.sql", f"{script}@0", f"{script}@x", f"{script},{twin}"):
        with pytest.raises(UsageError):
            make_workload("custom", {"scripts": scripts})
    with pytest.raises(UsageError, match="name=value"):
        make_workload("custom", {"scripts": script, "variables": "rows"})


def test_a_custom_script_counts_by_its_content(tmp_path: Path, script: str) -> None:
    before = made("custom", scripts=script).spec().fingerprint
    moved = tmp_path / "elsewhere" / "one.sql"
    moved.parent.mkdir()
    moved.write_text("SELECT 1;\n")
    assert made("custom", scripts=str(moved)).spec().fingerprint == before
    moved.write_text("SELECT 2;\n")
    assert made("custom", scripts=str(moved)).spec().fingerprint != before
    init = tmp_path / "init.sql"
    init.write_text("CREATE TABLE t ();\n")
    assert made("custom", scripts=script, init=str(init)).spec().fingerprint != before


def test_custom_variables(script: str) -> None:
    workload = made("custom", scripts=script, scale=4, variables="rows=10, share=0.5")
    assert workload.variables == {"scale": "4", "rows": "10", "share": "0.5"}


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(UsageError) as error:
        make_workload("tpcc", {})
    assert "ybio" in (error.value.hint or "")
    with pytest.raises(UsageError) as error:
        make_workload("select-only", {"scales": 1})
    assert "fillfactor" in (error.value.hint or "")


DECLARED = (
    Parameter("whole", 5, "", low=0, high=10**6),
    Parameter("real", 0.5, ""),
    Parameter("flag", False, ""),
    Parameter("text", "a", ""),
)


@given(st.integers(0, 10**6), st.floats(-1e9, 1e9), st.booleans(), st.text())
def test_texts_of_the_command_line_resolve_to_the_same_values(whole: int, real: float, flag: bool, text: str) -> None:
    given_values = {"whole": whole, "real": real, "flag": flag, "text": text}
    as_texts = {name: str(value) for name, value in given_values.items()}
    assert resolve("w", DECLARED, as_texts) == resolve("w", DECLARED, given_values) == given_values


@pytest.mark.parametrize(
    "values",
    [
        {"whole": "2.5"},
        {"whole": "many"},
        {"whole": -1},
        {"flag": "maybe"},
        {"real": "x"},
        {"whole": True},
        {"real": True},
    ],
)
def test_wrong_values_are_usage_errors(values: dict[str, str | int]) -> None:
    with pytest.raises(UsageError):
        resolve("w", DECLARED, values)


@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf", "-inf", "1e999", "1e30", "banana", "", "1.5", "x; drop"])
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_any_value_of_any_parameter_is_taken_or_refused_with_a_hint(name: str, value: str, script: str) -> None:
    refused: list[UsageError] = []
    for parameter in WORKLOADS[name].parameters:
        known = {"scripts": script} if name == "custom" else {}
        try:
            make_workload(name, {**known, parameter.name: value})
        except UsageError as error:
            refused.append(error)
    assert [error.message for error in refused if not error.hint] == []


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_no_number_is_infinite(text: str) -> None:
    for name in ("whole", "real"):
        with pytest.raises(UsageError, match=f'"{name}"'):
            resolve("w", DECLARED, {name: text})


@pytest.mark.parametrize(
    ("bounds", "value", "words"),
    [
        ({"low": 1}, 0, "must be at least 1, not 0"),
        ({"high": 9999}, 10_000, "must be at most 9999, not 10000"),
        ({"low": 1, "high": 2**31 - 1}, 0, "must be at least 1 and at most 2147483647, not 0"),
    ],
)
def test_a_bound_on_one_side_or_on_both_is_told_in_full(bounds: dict[str, float], value: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        resolve("w", (Parameter("whole", 5, "", **bounds),), {"whole": value})


def test_the_reference_lists_every_parameter_and_no_other() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for kind in WORKLOADS.values():
        section = re.search(rf"^## {re.escape(kind.name)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, f"no section for {kind.name}"
        rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.*) \|$", section[1], re.MULTILINE)
        assert rows == [(p.name, str(p.default) or "-", p.doc) for p in kind.parameters]
