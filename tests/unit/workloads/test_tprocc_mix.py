from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.model.trial import LoadPlan
from pgdyno.workloads.pgbench.command import DriverOptions, Pgbench, RunCommand
from pgdyno.workloads.pgbench.workload import PgbenchWorkload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.script_statements import split_script
from pgdyno.workloads.tprocc import mix, statements
from pgdyno.workloads.tprocc.rows import run_constants
from pgdyno.workloads.tprocc.tables import _statements


def made(**parameters: str | int | float | bool) -> PgbenchWorkload:
    workload = make_workload("tprocc", parameters)
    assert isinstance(workload, PgbenchWorkload)
    return workload


def weights(**parameters: str | int | float | bool) -> dict[str, int]:
    return {script.name: script.weight for script in made(**parameters).scripts}


@pytest.mark.requirement("R-TPC-03")
def test_the_standard_mix_has_its_shares_and_one_percent_rolled_back() -> None:
    found = weights()
    assert sum(found.values()) == 10_000
    assert found["new_order"] + found["new_order_rolled_back"] == 4_500
    assert found["new_order_rolled_back"] == 45
    assert (found["payment"], found["order_status"], found["delivery"], found["stock_level"]) == (4300, 400, 400, 400)


def test_the_mix_of_hammerdb_is_10_10_1_1_1_of_23() -> None:
    found = weights(mix="hammerdb")
    assert sum(found.values()) == 2_300
    assert found["new_order"] + found["new_order_rolled_back"] == found["payment"] == 1_000
    assert found["order_status"] == found["delivery"] == found["stock_level"] == 100


@given(st.lists(st.integers(0, 100), min_size=5, max_size=5).filter(any))
def test_any_five_shares_are_kept(shares: list[int]) -> None:
    found = weights(mix="/".join(map(str, shares)))
    assert sum(found.values()) == 100 * sum(shares)
    assert all(weight > 0 for weight in found.values())


@pytest.mark.parametrize("text", ["", "45/43/4/4", "0/0/0/0/0", "a/b/c/d/e", "1/1/1/1/-1", "tpcc"])
def test_another_mix_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(UsageError, match="mix") as caught:
        mix.shares(text)
    assert "45/43/4/4/4" in (caught.value.hint or "")


@pytest.mark.parametrize(("name", "value"), [("shape", "batch"), ("home", "none"), ("warehouses", 0)])
def test_parameters_out_of_their_range_are_refused(name: str, value: str | int) -> None:
    with pytest.raises(UsageError):
        made(**{name: value})


def test_workloads_of_other_parameters_share_the_data_and_not_the_fingerprint() -> None:
    plain = made(warehouses=2)
    others = [made(warehouses=2, **{name: value}) for name, value in
              [("shape", "interactive"), ("mix", "hammerdb"), ("nurand_seed", 2), ("home", "random")]]  # fmt: skip
    assert {other.data.identity for other in others} == {plain.data.identity}
    assert len({plain.identity.fingerprint, *(other.identity.fingerprint for other in others)}) == 5
    assert made(warehouses=3).data.identity != plain.data.identity
    assert "not TPC-C" in plain.identity.description


@pytest.mark.parametrize("shape", mix.SHAPES)
def test_scripts_use_no_variable_that_nobody_sets(shape: str) -> None:
    workload = made(warehouses=3, shape=shape)
    for script in workload.scripts:
        text = script.text or ""
        known = set(workload.variables) | {"client_id"} | set(re.findall(r"\\set (\w+)", text))
        for line in text.splitlines():
            if line.endswith("\\gset"):
                known |= set(re.findall(r" AS (\w+)", line)) | {"w_tax", "d_tax"}
        assert set(re.findall(r"(?<!:):([a-z]\w*)", text)) <= known, script.name
        assert text.count("\\if") == text.count("\\endif")
        assert "{" not in text


@pytest.mark.parametrize("shape", mix.SHAPES)
def test_what_is_constant_in_a_run_is_a_number_in_the_text_and_no_variable(shape: str) -> None:
    workload = made(warehouses=37, shape=shape, nurand_seed=5)
    drawn_by = run_constants(5)
    texts = {script.name: script.text or "" for script in workload.scripts}
    assert not workload.variables
    assert not any(re.search(r":(wh|c_\w{3,})\b", text) for text in texts.values())
    assert f"+ {drawn_by.customer}) % 3000" in texts["payment"]
    assert f"+ {drawn_by.name}) % 1000" in texts["payment"]
    assert ", 37," in texts["new_order"] or "% 37" in texts["new_order"]


def test_a_customer_is_drawn_once_by_number_or_as_a_negative_name() -> None:
    for name in ("payment", "order_status"):
        text = {script.name: script.text or "" for script in made().scripts}[name]
        drawn = [line for line in text.splitlines() if line.startswith("\\set c ")]
        assert len(drawn) == 1
        assert "random(1, 100) > 60" in drawn[0], "40 of a hundred by number"
        assert "else -(" in drawn[0]


def test_one_call_is_one_transaction_and_the_rolled_back_one_ends_so() -> None:
    texts = {script.name: script.text or "" for script in made().scripts}
    assert "BEGIN" not in texts["new_order"]
    assert texts["new_order_rolled_back"].endswith("ROLLBACK;\n")
    interactive = {script.name: script.text or "" for script in made(shape="interactive").scripts}
    assert interactive["new_order_rolled_back"].endswith("ROLLBACK;\n")
    assert interactive["new_order"].endswith("COMMIT;\n")
    assert interactive["new_order"].count("UPDATE stock") == statements.MOST_LINES


def test_stock_is_locked_in_order_and_the_warehouse_comes_last() -> None:
    interactive = {script.name: script.text or "" for script in made(shape="interactive").scripts}
    assert "ORDER BY s_w_id, s_i_id FOR UPDATE" in interactive["new_order"]
    payment = [line for line in interactive["payment"].splitlines() if "UPDATE" in line]
    assert [re.search(r"UPDATE (\w+)", line)[1] for line in payment] == [  # type: ignore[index]
        "customer",
        "district",
        "warehouse",
    ]


def test_waits_are_those_of_the_specification_and_their_share() -> None:
    texts = {script.name: script.text or "" for script in made(wait_pct=50).scripts}
    assert "\\set pause :think + 1500\n\\sleep :pause ms\n" in texts["payment"]
    assert "* 6000)" in texts["payment"]
    assert not any("\\sleep" in (script.text or "") for script in made().scripts)


def test_a_call_either_pauses_or_works_so_that_no_latency_contains_a_wait() -> None:
    workload = made(wait_pct=50)
    assert workload.options.paced
    assert set(workload.variables) == {"paused", "think"}
    for script in workload.scripts:
        pause, _, work = (script.text or "").partition("\n\\else\n")
        assert pause.startswith("\\if :paused = 0\n\\set paused 1\n")
        assert "tproc_" not in pause
        assert work.startswith("\\set paused 0\n")
        assert "\\sleep" not in work
    assert not made().options.paced


@pytest.mark.parametrize("wrong", [{"rate": 50.0}, {"max_tries": 3}])
def test_waits_are_refused_with_a_rate_and_with_tries(wrong: dict[str, float], tmp_path: Path) -> None:
    plan = LoadPlan(1, 1, 1, 3, rate=wrong.get("rate"))
    options = DriverOptions(int(wrong.get("max_tries", 1)), paced=True)
    command = RunCommand(Pgbench(Path("pgbench"), 18), plan, made(wait_pct=1).scripts, {}, options, tmp_path, "d")
    with pytest.raises(UsageError, match="keying and think"):
        command.argv()


@pytest.mark.requirement("R-TPC-07")
def test_tables_have_plain_storage_and_the_keys_that_the_transactions_need() -> None:
    tables, indexes = _statements("tables"), _statements("indexes")
    assert len(tables) == 9
    assert all(len(made_by) == 1 for made_by in tables.values())
    assert sum(map(len, indexes.values())) == 10
    every = " ".join(text for found in (tables, indexes) for made_by in found.values() for text in made_by)
    assert not re.search(r"TABLESPACE|UNLOGGED|autovacuum", every, re.IGNORECASE)


def test_pages_of_updated_tables_have_room_for_new_versions_and_no_others() -> None:
    found = {table: re.search(r"fillfactor = (\d+)", made_by[0]) for table, made_by in _statements("tables").items()}
    room = {table: 100 - int(match[1]) for table, match in found.items() if match}
    assert room.keys() == {"warehouse", "district", "customer", "stock", "orders", "order_line"}
    assert all(10 <= share <= 50 for share in room.values())


def test_a_new_order_in_statements_reads_price_and_district_in_one_select() -> None:
    text = {script.name: script.text or "" for script in made(shape="interactive").scripts}["new_order"]
    sent = split_script(text)
    selects = [statement for statement in sent if statement.startswith("SELECT") and "i_price" in statement]
    assert len(selects) == 1
    assert "dist_info" in selects[0]
    every_line = len(sent) - 5 * 2  # what is sent for an order of 10 of the 15 lines
    assert every_line == 28


def test_every_call_asks_for_rows() -> None:
    calls = [call for script in made().scripts for call in split_script(script.text or "") if "tproc_" in call]
    assert len(calls) == 6
    assert sum(call.startswith("SELECT * FROM tproc_") for call in calls) == 5, "the stock level is one number"
