"""What a page of advice ends with: the commands to type next, and none that would be refused."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from advice_example import make_advice, make_finding, whole
from pgdyno.model.advice import Again, Hindrance
from pgdyno.model.finding import Change, ChangeKind
from pgdyno.model.inventory import ServerInventory
from pgdyno.report.advice.parts import next_rows
from pgdyno.report.advice.text import print_advice


def test_the_end_speaks_of_the_same_target_in_lines_that_can_be_copied() -> None:
    again = Again(look=f"--root /captures/{'a' * 90} --depth deep", act="--target CONNINFO")
    stream = StringIO()
    print_advice(whole(), stream, width=80, again=again)
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert f"pgdyno advise {again.look} --explain shared-buffers" in lines
    assert f"pgdyno advise {again.look} --plan plan.toml" in lines
    assert "pgdyno experiment --target CONNINFO --rule shared-buffers" in lines
    assert "pgdyno apply --target CONNINFO shared-buffers" in lines


def test_nothing_is_proposed_that_only_root_may_set_to_somebody_else() -> None:
    """The first candidate of a server without huge pages is a Linux setting: apply and experiment refused it."""
    linux = Change(ChangeKind.LINUX, "vm.nr_hugepages", "3200", "0")
    advice = make_advice(make_finding("huge-pages", changes=(linux,)), make_finding("shared-buffers"))
    for again, rule in ((Again(), "huge-pages"), (Again(may_set_linux=False), "shared-buffers")):
        rows = [command for command, _ in next_rows(advice, again, is_whole=True)]
        assert f"pgdyno apply {rule}" in rows
        assert f"pgdyno experiment --rule {rule}" in rows
    alone = make_advice(make_finding("huge-pages", changes=(linux,)))
    rows = [command for command, _ in next_rows(alone, Again(may_set_linux=False), is_whole=True)]
    assert rows == ["pgdyno advise --explain huge-pages", "pgdyno advise --emit sysctl"]


def test_nothing_is_proposed_that_a_standby_does_not_take() -> None:
    """apply and experiment refused it: a standby has its settings from a person, and no load."""
    advice = whole()
    assert isinstance(advice.inventory.server, ServerInventory)
    standby = replace(advice.inventory, server=replace(advice.inventory.server, in_recovery=True))
    rows = [command for command, _ in next_rows(replace(advice, inventory=standby), Again(), is_whole=True)]
    assert rows == ["pgdyno advise --explain shared-buffers", "pgdyno advise --emit postgresql.conf --emit sysctl"]


@pytest.mark.parametrize(
    ("hindrance", "left"),
    [
        (Hindrance(), ["pgdyno experiment", "--plan", "--emit", "pgdyno apply"]),
        (Hindrance(rules={"shared-buffers": "it is set on the command line"}), ["--emit"]),
        (Hindrance("the files are not on this machine"), ["--emit"]),
        (Hindrance(lacks={"apply": ("pg_reload_conf()",), "experiment": ("CREATEDB",)}), ["--emit", "privileges"]),
        (Hindrance(lacks={"apply": (), "experiment": ("CREATEDB",)}), ["--emit", "pgdyno apply", "privileges"]),
    ],
)
def test_nothing_is_proposed_that_would_be_refused_from_here(hindrance: Hindrance, left: list[str]) -> None:
    """A role with pg_monitor was told to experiment and to apply, and both ended with exit code 6."""
    advice = make_advice(make_finding("shared-buffers"), hindrance=hindrance)
    rows = next_rows(advice, Again("--target x --window 60", "--target x", "--target x"), is_whole=True)
    commands = [command for command, _ in rows]
    assert len(commands) == 1 + len(left)
    assert all(word in command for word, command in zip(left, commands[1:], strict=True)), commands
    words = " ".join(why for _, why in rows)
    for reason in (hindrance.whole, *hindrance.rules.values(), *hindrance.lacks.get("experiment", ())):
        assert reason in words
    if "privileges" in left:
        assert commands[-1] == "pgdyno privileges --target x --for experiment"


def test_the_next_candidate_is_proposed_where_the_first_would_be_refused() -> None:
    hindrance = Hindrance(rules={"huge-pages": "it is set by the argument -c huge_pages=off"})
    advice = make_advice(make_finding("huge-pages"), make_finding("shared-buffers"), hindrance=hindrance)
    commands = [command for command, _ in next_rows(advice, Again(), is_whole=True)]
    assert "pgdyno apply shared-buffers" in commands
    assert not [command for command in commands if "apply huge-pages" in command]
