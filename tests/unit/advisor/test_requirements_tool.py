"""The coverage of requirements: marks are found without running a test, and a gap is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import requirements_docs

PROJECT = Path(__file__).parents[3]
MARKED = """
import pytest
pytestmark = [pytest.mark.pg, pytest.mark.requirement("R-INV-01")]

@pytest.mark.requirement("R-PG-03", "CON-19")
def test_a(): ...

class TestB:
    @pytest.mark.requirement("R-PG-04")
    def test_c(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("R-PG-05"))])
def test_d(x): ...
"""
LIST = '[PG]\nname = "PostgreSQL"\ntitles = ["one", "two", "three"]\n[CON]\nname = "C"\ntitles = ["x"]\n[reasons]\n'


def test_marks_are_found_on_functions_methods_modules_and_parameters(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_x.py").write_text(MARKED)
    assert requirements_docs.marked(folder) == {
        "R-INV-01": ["tests/test_x.py"],
        "R-PG-03": ["tests/test_x.py::test_a"],
        "CON-19": ["tests/test_x.py::test_a"],
        "R-PG-04": ["tests/test_x.py::TestB::test_c"],
        "R-PG-05": ["tests/test_x.py::test_d"],
    }


def test_every_gap_and_every_strange_id_is_told() -> None:
    wanted = requirements_docs.requirements(LIST + 'R-PG-02 = "no hardware"\nR-PG-01 = "not now"\n')
    found = requirements_docs.problems(
        wanted, {"R-PG-01": ["t"], "R-PG-77": ["t"], "R-SAF-04": ["t"]}, {"CON-99": ["rule"]}
    )
    assert found == [
        "R-PG-03 has neither a test nor a reason: three",
        "CON-01 has neither a test nor a reason: x",
        "R-PG-01 has a test and a reason: drop the reason",
        "t names R-PG-77, which is no requirement",
        "rule rule names CON-99, which is no requirement",
    ]


def test_a_reason_for_no_requirement_is_refused() -> None:
    with pytest.raises(ValueError, match="R-PG-09"):
        requirements_docs.requirements(LIST + 'R-PG-09 = "no hardware"\n')


def test_open_ids_of_a_pending_section_are_shown_and_not_told() -> None:
    wanted = requirements_docs.requirements(LIST.replace('name = "PostgreSQL"', 'name = "PostgreSQL"\npending = true'))
    assert requirements_docs.problems(wanted, {"R-PG-01": ["t"], "R-PG-77": ["t"]}, {}) == [
        "CON-01 has neither a test nor a reason: x",
        "t names R-PG-77, which is no requirement",
    ]
    assert "| R-PG-02 | two |  | **open** |" in requirements_docs.page(wanted, {}, {})


def test_the_page_counts_what_is_shown() -> None:
    wanted = requirements_docs.requirements(LIST + 'R-PG-02 = "no hardware"\n')
    page = requirements_docs.page(wanted, {"R-PG-01": ["tests/unit/test_x.py::test_a"]}, {"R-PG-01": ["max-wal-size"]})
    assert "4 requirements: 1 shown by a test, 1 with a reason why no test can, 2 open." in page
    assert "| R-PG-01 | one | [max-wal-size](rules/max-wal-size.md) | `test_x.py::test_a` |" in page
    assert "| R-PG-02 | two |  | no test: no hardware |" in page
    assert "| R-PG-03 | three |  | **open** |" in page


def test_every_id_of_advisor_and_laboratory_is_listed() -> None:
    wanted = requirements_docs.requirements(requirements_docs.LIST.read_text("utf-8"))
    counts = {key: sum(one.id.startswith(f"{key}-") for one in wanted) for key in ("R-INV", "R-ADV", "R-PG", "CON")}
    assert counts == {"R-INV": 23, "R-ADV": 19, "R-PG": 43, "CON": 45}
    laboratory = {
        "MON": 16,
        "BEN": 24,
        "TPC": 9,
        "YBI": 10,
        "EXP": 25,
        "PRJ": 7,
        "CMP": 10,
        "REP": 12,
        "TUN": 23,
        "SAF": 12,
        "RPL": 18,
        "BAT": 10,
        "SCA": 6,
        "MIG": 10,
    }
    assert {key: sum(one.id.startswith(f"R-{key}-") for one in wanted) for key in laboratory} == laboratory
    assert len(wanted) == 242 + sum(laboratory.values())
    assert len({one.id for one in wanted}) == len(wanted)
