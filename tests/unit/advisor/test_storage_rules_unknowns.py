"""Whatever is unknown of a host, the storage rules answer; they neither fail nor make something up."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor_case import GB, make_case, make_server
from pgdyno.advisor.engine import judge
from pgdyno.advisor.judgement import CannotTell, DoesNotApply, Fires, InOrder
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Statistics, TableActivity, Window, WorkloadClass
from pgdyno.model.facts import Unknown
from storage_case import STORAGE_THEMES, iostat_rows, lvm_host

HIDDEN = Unknown("it is hidden")
PARTS = ("devices", "volumes", "mounts", "places")
TABLES = (TableActivity("public", "stock", "d", 12 * GB, GB, 0.6, 0.6, {"stock_pkey": 0.1}),)


def may_be_unknown(part: object) -> list[str]:
    """Return the fields of a part whose type allows Unknown."""
    return [one.name for one in fields(part) if "Unknown" in str(one.type)]


@settings(max_examples=60)
@given(data=st.data())
def test_any_mixture_of_unknown_facts_is_answered(data):
    host = lvm_host()
    for part in PARTS:
        if data.draw(st.integers(0, 5), label=f"{part} hidden") == 0:
            host = replace(host, **{part: HIDDEN})
            continue
        rows = []
        for row in getattr(host, part):
            hidden = data.draw(st.lists(st.sampled_from(may_be_unknown(row)), max_size=3, unique=True))
            rows.append(replace(row, **dict.fromkeys(hidden, HIDDEN)))
        host = replace(host, **{part: tuple(rows[data.draw(st.integers(0, 1), label=f"{part} from") :])})
    devices = tuple(
        replace(row, **dict.fromkeys(data.draw(st.lists(st.sampled_from(may_be_unknown(row)), max_size=4)), HIDDEN))
        for row in iostat_rows("before")
    )
    case = make_case(
        host,
        make_server(data.draw(st.sampled_from([13, 15, 16, 18]))),
        devices=data.draw(st.sampled_from([HIDDEN, devices])),
        tables=data.draw(st.sampled_from([HIDDEN, TABLES])),
        statistics=Statistics(Window(10, "sampled"), analytic_share=data.draw(st.sampled_from([HIDDEN, 0.0, 0.5]))),
        workload=data.draw(st.sampled_from([HIDDEN, WorkloadClass.READ_ONLY])),
    )
    for rule in shipped_rules():
        if rule.theme not in STORAGE_THEMES:
            continue
        answer = judge(rule, case)
        assert isinstance(answer, Fires | InOrder | CannotTell | DoesNotApply)
