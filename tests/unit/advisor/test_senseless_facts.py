"""Figures that nothing has, in captures and configurations: unknown with a reason, no crash, no made-up value."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor_case import GB, finding_of, make_case, make_host, make_server
from captured import CAPTURES
from pgdyno.advisor.engine import judge
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.cli.main import command
from pgdyno.model.finding import Answer, Severity

MEMINFO, PAGE, SYSCTL = "proc/meminfo", "commands/getconf_pagesize.txt", "commands/sysctl.txt"


def advice_json(folder: Path) -> str:
    words = ["advise", "--root", str(folder), "--depth", "deep", "--fail-on", "never", "--json"]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.requirement("R-ADV-05")
@pytest.mark.parametrize(
    ("name", "pattern", "text", "said"),
    [
        (MEMINFO, r"MemTotal: .*", "MemTotal: 0 kB", "MemTotal is 0, which no machine has"),
        (MEMINFO, r"Hugepagesize: .*", "Hugepagesize: 0 kB", "Hugepagesize is 0, which no machine has"),
        (MEMINFO, r"MemAvailable: .*", "MemAvailable: 999999999 kB", "MemAvailable is more than MemTotal"),
        (PAGE, r".+", "0", "the page size is unknown"),
        (SYSCTL, r"kernel.shmall = .*", "kernel.shmall = 3.5", 'its value "3.5" is not a whole number'),
        (SYSCTL, r"kernel.msgmax = .*", "kernel.msgmax = ", 'its value "" is not a whole number'),
        (SYSCTL, r"vm.dirty_bytes = .*", "vm.dirty_bytes = ", 'its value "" is not a whole number'),
        (SYSCTL, r"vm.dirty_ratio = .*", "vm.dirty_ratio = -1", 'its value "-1" is not a whole number'),
        ("postgres/postgresql.conf", r"\Z", "shared_buffers = -1\n", 'its value "-1" is below what the server'),
        ("commands/statvfs.json", r'"block_size": \d+', '"block_size": -1', ""),
    ],
)
def test_a_figure_that_nothing_has_is_unknown(tmp_path: Path, name: str, pattern: str, text: str, said: str) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(CAPTURES / ("ppc64le-64k" if (CAPTURES / "ppc64le-64k" / name).exists() else "x86_64-128g"), folder)
    before = (folder / name).read_text()
    (folder / name).write_text(re.sub(pattern, text, before, count=1))
    assert (folder / name).read_text() != before
    answer = advice_json(folder).replace('\\"', '"')
    assert said in answer
    assert "defect of pgdyno" not in answer
    assert re.search(r"-\d[\d.]* [kKMGT]i?B|\bnan\b|\binf\b", answer) is None


@pytest.mark.requirement("R-ADV-05")
def test_the_fault_of_one_rule_costs_its_own_answer_and_says_so() -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("division by zero")

    rule = replace(next(rule for rule in shipped_rules() if rule.id == "shared-buffers"), judge=broken)  # type: ignore[arg-type]
    answer = judge(rule, make_case())
    assert "please report the defect: ZeroDivisionError at test_senseless_facts.py" in answer.reason  # type: ignore[union-attr]


@pytest.mark.requirement("R-ADV-03")
@pytest.mark.parametrize(("buffers", "severity"), [(80, Severity.WARNING), (200, Severity.CRITICAL)])
def test_less_memory_is_not_advised_with_the_figure_that_more_brought(buffers: int, severity: Severity) -> None:
    server = make_server(17, changed={"shared_buffers": str(buffers * GB // 8192), "effective_cache_size": str(GB)})
    case = make_case(make_host(ram_bytes=128 * GB), server)
    for rule in ("shared-buffers", "effective-cache-size"):
        finding = finding_of(rule, case)
        assert (finding.answer, finding.effects) == (Answer.FINDING, ())
    assert finding_of("shared-buffers", case).severity is severity


@pytest.mark.requirement("R-VER-06")
def test_a_version_below_10_is_called_by_its_two_numbers() -> None:
    findings = json.loads(advice_json(CAPTURES / "pg95"))["findings"]
    reasons = {finding["rule"]: finding["reason"] for finding in findings}
    assert reasons["io-method"] == "it is for PostgreSQL from 18, and this is 9.5"
