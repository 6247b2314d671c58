"""Plans of experiments: one factor a step, in order, strict to read, the same after a round trip."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import make_host, make_server
from pgdyno.errors import PolicyError, UsageError
from pgdyno.model.finding import (
    Answer,
    Change,
    ChangeKind,
    Confidence,
    Cost,
    Depth,
    Finding,
    ProofState,
    Provenance,
    RuleGroup,
    RuleProof,
    StatedEffect,
)
from pgdyno.model.inventory import BlockDevice, Inventory
from pgdyno.studies.advice.advise import AdviceRequest, OfflineFiles, advise_offline
from pgdyno.studies.advice.steps import from_document, plan_text
from pgdyno.studies.staircase import plan_file
from pgdyno.studies.staircase.plan import Expected
from pgdyno.studies.staircase.plan_file import parse_plan

SOURCE = Provenance("z16-epas-guide", "Huge pages", 2023, platform="IBM z16")
ROOT = Path(__file__).parents[3]
SHORT = 'version = 2\n[plan]\n[[step]]\nname = "a"\nsettings = { work_mem = "8MB" }\n'


def finding(rule, *changes, **fields):
    values = {"answer": Answer.FINDING, "group": RuleGroup.GENERAL, "depth": Depth.BASIC, "title": f"{rule} is so"}
    return Finding(rule=rule, changes=changes, provenance=(SOURCE,), **{**values, **fields})


def pg(knob, value, current=None):
    return Change(ChangeKind.POSTGRESQL, knob, value, current)


def sysctl(knob, value, current=None):
    return Change(ChangeKind.LINUX, knob, value, current)


def known(**host):
    return Inventory(make_host(**host), make_server(), taken_at="2026-01-31T10:00:00Z")


BUFFERS = finding("shared-buffers", pg("shared_buffers", "32GB", "128MB"), cost=Cost.RESTART)
POOL = finding("huge-page-pool", sysctl("vm.nr_hugepages", "17000", "0"), after=("shared-buffers",))
HUGE = finding("huge-pages", pg("huge_pages", "on", "try"), after=("huge-page-pool",), cost=Cost.RESTART)
WAL = finding(
    "max-wal-size",
    pg("max_wal_size", "16GB", "1GB"),
    cost=Cost.RELOAD,
    origin="run-time analysis",
    verify="No too-frequently hint is in the log after a reload.",
    effects=(StatedEffect("Throughput rose by 9 %.", SOURCE, 0.09, 0.12),),
)


@pytest.mark.requirement("R-ADV-04", "R-ADV-14", "R-ADV-19")
def test_one_factor_a_step_in_the_order_of_dependencies():
    plan = parse_plan(plan_text([HUGE, WAL, POOL, BUFFERS], known()))
    assert [step.name for step in plan.steps] == ["max-wal-size", "shared-buffers", "huge-pages"]
    huge = plan.step("huge-pages")
    assert huge.rules == ("huge-pages", "huge-page-pool")
    assert huge.group == "huge pages"
    assert huge.after == ("shared-buffers",)
    assert huge.settings == {"huge_pages": "on", "vm.nr_hugepages": "17000"}
    assert huge.found == {"huge_pages": "try", "vm.nr_hugepages": "0"}
    wal = plan.step("max-wal-size")
    assert wal.origin == "run-time analysis"
    assert wal.cost is Cost.RELOAD
    assert wal.check.startswith("No too-frequently hint")
    assert wal.expected == Expected("Throughput rose by 9 %. Source: z16-epas-guide (IBM z16).", 0.09, 0.12)
    assert wal.sources == ("z16-epas-guide, Huge pages, 2023",)


@pytest.mark.requirement("R-ADV-03")
def test_the_command_of_a_plan_needs_the_flags_of_its_server():
    """As it stood it was taken, and measured a sandbox."""
    head = plan_text([WAL], known()).partition("version =")[0]
    assert "pgdyno experiment --plan FILE, with the flags that name the server" in head


def test_a_step_is_as_confident_as_the_finding_whose_figure_it_quotes():
    said = StatedEffect("More memory helps.", SOURCE)
    pool = replace(POOL, confidence=Confidence.UNKNOWN, effects=(said,))
    huge = replace(HUGE, confidence=Confidence.LOW, effects=(StatedEffect("Faster.", SOURCE, 0.05, 0.11),))
    plan = parse_plan(plan_text([pool, huge, replace(BUFFERS, confidence=Confidence.UNKNOWN)], known()))
    assert {step.name: (step.confidence.value, step.expected and step.expected.low) for step in plan.steps} == {
        "huge-page-pool": ("low", 0.05), "shared-buffers": ("unknown", None),
    }  # fmt: skip
    assert parse_plan(SHORT).step("a").confidence is Confidence.UNKNOWN, "a plan of a person states no figure"


@pytest.mark.requirement("R-ADV-03")
def test_no_step_of_a_real_plan_is_confident_of_a_figure_that_no_source_gives():
    files = OfflineFiles(ROOT / "tests/data/captures/ppc64le-64k")
    advice = advise_offline(files, AdviceRequest(), store_for=lambda _: None)
    steps = parse_plan(plan_text(advice.findings, advice.inventory)).steps
    stated = [step for step in steps if step.expected is not None and step.expected.low is not None]
    assert stated
    assert len(stated) < len(steps)
    assert {step.name for step in steps if step.confidence is not Confidence.UNKNOWN} == {s.name for s in stated}


def test_dirty_pages_go_together_and_read_ahead_by_stack():
    dirty = [finding("dirty", sysctl("vm.dirty_bytes", "536870912", "0")),
             finding("dirty-background", sysctl("vm.dirty_background_bytes", "67108864", "0"))]  # fmt: skip
    ahead = [finding(f"ahead-{name}", Change(ChangeKind.BLOCK, "read_ahead_kb", "0", "512", device=name))
             for name in ("dm-0", "sda", "sdb")]  # fmt: skip
    devices = (BlockDevice("dm-0", "lvm", ("sda",)), BlockDevice("sda", "disk"), BlockDevice("sdb", "disk"))
    plan = parse_plan(plan_text([*dirty, *ahead], known(devices=devices)))
    assert [step.rules for step in plan.steps] == [
        ("dirty", "dirty-background"),
        ("ahead-dm-0", "ahead-sda"),
        ("ahead-sdb",),
    ]
    assert plan.steps[1].commands == ("blockdev --setra 0 /dev/dm-0", "blockdev --setra 0 /dev/sda")
    assert plan.steps[1].undo == ("blockdev --setra 1024 /dev/sda", "blockdev --setra 1024 /dev/dm-0")


def test_what_was_tested_and_class_x_are_left_out_with_the_reason():
    refuted = finding(
        "a", pg("work_mem", "8MB"), state=ProofState.REFUTED, proof=RuleProof("s1", "worse", 0.9, 0.8, 0.95)
    )
    text = plan_text([refuted, finding("b", pg("fsync", "off"))], known())
    assert parse_plan(text).steps == ()
    assert "# left out: a: refuted here by study s1" in text
    assert "# left out: b: fsync is of class X" in text


def test_a_circle_of_dependencies_ends():
    one, two = finding("one", pg("work_mem", "8MB"), after=("two",)), finding("two", pg("jit", "off"), after=("one",))
    plan = parse_plan(plan_text([one, two], known()))
    assert {step.name for step in plan.steps} == {"one", "two"}


@given(
    title=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    low=st.floats(-1, 5, allow_nan=False),
)
def test_round_trip_of_any_text(title, value, low):
    source = Provenance(title, value, 2017, platform=title)
    odd = finding("odd", pg("work_mem", value, title), title=title, risk=value, verify=title,
                  effects=(StatedEffect(value, source, low),))  # fmt: skip
    step = parse_plan(plan_text([odd], known())).step("odd")
    assert step.settings == {"work_mem": value}
    assert step.found == {"work_mem": title}
    assert step.why == " ".join(title.split())
    assert step.expected.low == low


GOOD = """version = 1
[plan]
[[step]]
name = "one"
rules = ["a"]
origin = "document"
cost = "reload"
check = "none"
settings = { work_mem = "8MB" }
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "version = 3", "version 3 is not 1 or 2"),
        ("[plan]", '[plan]\nfoo = "x"', 'unknown key "foo"'),
        ('check = "none"', 'check = "none"\nspeed = 1', 'unknown key "speed"'),
        ('check = "none"', "", '"check" is missing'),
        ('cost = "reload"', 'cost = "cheap"', 'cost "cheap" is not one of'),
        ('origin = "document"', 'origin = "hearsay"', 'origin "hearsay" is not one of'),
        ('"8MB"', "8", 'work_mem in "settings" is not text'),
        ('name = "one"', 'name = "One!"', "lower-case"),
        ('check = "none"', 'check = "none"\nafter = ["two"]', "is not an earlier step"),
        ('settings = { work_mem = "8MB" }', "", "there is nothing to do"),
        ('rules = ["a"]', "rules = [1]", "not a list of text"),
        ("[plan]", "[plan", "not TOML"),
    ],
)
def test_a_slip_is_refused(old, new, words):
    assert parse_plan(GOOD).steps[0].settings == {"work_mem": "8MB"}
    with pytest.raises(UsageError, match=words):
        parse_plan(GOOD.replace(old, new, 1))


@pytest.mark.requirement("R-SAF-04")
@pytest.mark.parametrize("knob", ["fsync", "Full_Page_Writes", "synchronous_commit", "autovacuum"])
def test_class_x_is_refused_in_a_plan_of_a_person(knob):
    with pytest.raises(PolicyError, match="class X"):
        parse_plan(GOOD.replace("work_mem", knob))


@pytest.mark.parametrize("path", sorted((ROOT / "examples/plans").glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_plan(path):
    text = path.read_text()
    assert parse_plan(text, source=path.name).steps
    assert tomllib.loads(text)["version"] in plan_file.READABLE


@pytest.mark.requirement("R-EXP-13")
@pytest.mark.parametrize("name", ["2017", "003", "postgresql-z13-2017"])
def test_an_older_guide_is_tried_again_step_by_step_on_another_platform(name):
    files = OfflineFiles(ROOT / "tests/data/captures/ppc64le-64k")
    advice = advise_offline(files, AdviceRequest(), store_for=lambda _: None)
    plan = parse_plan(plan_text(from_document(advice.findings, name), advice.inventory))
    assert len(plan.steps) >= 6
    assert all(any(source.startswith("postgresql-z13-2017") for source in step.sources) for step in plan.steps)


def test_a_document_that_nobody_knows_or_that_recommends_nothing_here():
    with pytest.raises(UsageError, match='there is no document "1999"'):
        from_document([BUFFERS], "1999")
    with pytest.raises(UsageError, match="is to be changed here"):
        from_document([BUFFERS], "postgresql-z13-2017")


def test_several_knobs_of_one_rule_are_written_as_its_group():
    both = finding("both", pg("work_mem", "8MB"), pg("jit", "off"))
    assert parse_plan(plan_text([both], known())).step("both").group == "rule both"
