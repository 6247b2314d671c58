"""Every kind of study is an object that shared code asks, and another one is three files of its own."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgdyno
import study_example as example
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.study import StudyKind, result_type
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind
from pgdyno.studies.kinds import judged, kind_of

SOURCE = Path(pgdyno.__file__).parent
FOLDERS = {kind.value for kind in StudyKind}
HEAVY = ("numpy", "scipy", "psycopg", "pydantic", "jinja2", "pgdyno.trial", "pgdyno.workloads", "pgdyno.undo")

RESULT = """
from __future__ import annotations

from dataclasses import dataclass
from pgdyno.model.results.parts import StudyResult

@dataclass(frozen=True, slots=True, kw_only=True)
class ToyResult(StudyResult):
    dice: tuple[int, ...] = ()
"""
KIND = """
from __future__ import annotations

from pgdyno.model.results.toy import ToyResult
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Prose, Section, Tone
from pgdyno.studies.kind import Kind
from pgdyno.studies.kinds import judged

class Toy(Kind):
    def page(self, record):
        from pgdyno.report.page_frame import framed

        said = judged(record.study)
        thrown = Section("dice", "The dice", "What was thrown?", (Prose((said.said,)),))
        return framed(record, said, (thrown,), (thrown,))

    def judged(self, study):
        result = study.told(ToyResult)
        if result is None:
            return None
        return Judgement(f"{sum(result.dice)} eyes", "thrown", Tone.NEUTRAL, " and ".join(map(str, result.dice)))

KIND = Toy()
"""
VERB = """\"\"\"`pgdyno toy`: Throw dice.\"\"\"

from __future__ import annotations

from pgdyno.cli.arguments.flags import JsonFlag, argument, verb
from pgdyno.cli.arguments.store import StoreFlag, open_store
from pgdyno.cli.requests.study import print_result
from pgdyno.model.results.toy import ToyResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.studies.session.new_study import keep_import, study_id

TOY = StudyKind("toy")

class ToyFlags(JsonFlag, StoreFlag):
    dice: tuple[int, ...] = argument("EYES...")

@verb("toy")
def command(flags: ToyFlags):
    load = WorkloadSpec("dice", {}, "dice", "0", read_only=True)
    study = Study(study_id(TOY, 0.0), TOY, "toy", StudyState.RUNNING, 0.0, "table", "unknown", {},
                  load, LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=1.0))
    with open_store(flags.store_url) as store:
        made = keep_import(store, study, lambda: ToyResult(study=study.id, dice=flags.dice))
        print_result(store, made, flags.as_json)
"""


@pytest.mark.parametrize("kind", list(StudyKind))
def test_a_kind_has_an_object_a_result_and_a_page_for_a_study_without_one(kind: StudyKind) -> None:
    study = example.make_study(kind)
    assert issubclass(result_type(kind), StudyResult)
    report = kind_of(kind).page(StudyRecord(study, ()))
    assert (report.study, report.kind) == (study.id, kind.value)
    assert judged(study).title == f"No verdict: the study is {study.state.value}"


def test_a_kind_without_a_page_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="Bare has no page"):

        class Bare(Kind):
            """No page."""


LISTING = (
    "import sys; from pgdyno.model.study import StudyKind; from pgdyno.studies.kinds import kind_of; "
    f"[kind_of(kind) for kind in StudyKind]; print([name for name in {HEAVY!r} if name in sys.modules])"
)

ONE_AFTER_ANOTHER = """
import contextlib, io, json, sys
from pgdyno.cli.main import command
said = []
for words in json.loads(sys.argv[1]):
    study = json.loads(said[0])["study"] if said else ""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        command([word.replace("STUDY", study) for word in words], standalone_mode=False)
    said.append(out.getvalue())
print(json.dumps(said))
"""
"""In one process: to start four takes two seconds more."""

WITHOUT_THE_VERB = (
    "import contextlib, io, sys; from pgdyno.cli.main import VERBS, command; out = io.StringIO()\n"
    "with contextlib.redirect_stdout(out): command(['--help'], standalone_mode=False)\n"
    "print('Throw dice.' in out.getvalue(), any(f'pgdyno.cli.{verb}' in sys.modules for verb in VERBS))"
)


def test_what_lists_studies_loads_nothing_that_measures_or_draws() -> None:
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def compared_kinds(path: Path) -> Iterator[int]:
    """Return the lines on which a member of StudyKind is compared with something."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if "StudyKind" in text else ():
        parts = ast.walk(node) if isinstance(node, ast.Compare) else ()
        if any(isinstance(part, ast.Attribute) and ast.unparse(part.value) == "StudyKind" for part in parts):
            assert isinstance(node, ast.Compare)
            yield node.lineno


def test_nothing_but_a_kind_s_own_folder_asks_which_kind_a_study_is_of() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in compared_kinds(path)
        if path.parts[len(SOURCE.parts) :][:1] != ("studies",) or path.parent.name not in FOLDERS
    }
    was_read = {one for one in found if one.startswith("model/study.py")}  # `Study.was_read`, which many rooms ask
    assert len(was_read) == 1
    assert found == was_read


def test_another_kind_is_three_files_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "src" / "pgdyno"
    shutil.copytree(SOURCE, program)  # with its bytecode: to compile all of it anew takes two seconds
    (program / "studies" / "toy").mkdir()
    for name, text in (("model/results/toy.py", RESULT), ("studies/toy/kind.py", KIND), ("cli/toy.py", VERB)):
        (program / name).write_text(text, "utf-8")

    def python(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(program.parent), "PGDYNO_HOME": str(tmp_path / "home")}
        words = (sys.executable, *words)
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    store = ("--store", str(tmp_path / "toys.db"))
    assert python("-c", LISTING).strip() == "[]", "what the recipe says is no burden to those who list studies"
    assert "9 eyes" in python("-m", "pgdyno", "toy", "4", "5", *store)
    verbs = [["toy", "6", "6", "--json"], ["store", "list", "--json"], ["report", "STUDY"]]
    played, kept, page = json.loads(python("-c", ONE_AFTER_ANOTHER, json.dumps([[*words, *store] for words in verbs])))
    told, rows = json.loads(played), json.loads(kept)
    assert (told["dice"], told["judgement"]["title"]) == ([6, 6], "12 eyes")
    assert {(row["kind"], row["judgement"]["said"]) for row in rows} == {("toy", "6 and 6"), ("toy", "4 and 5")}
    assert "The dice" in page
    listed = python("-m", "pgdyno", "--help").split()
    assert " ".join(listed[listed.index("toy") :][:3]) == "toy Throw dice."
    assert python("-c", WITHOUT_THE_VERB).split() == ["True", "False"], "help imports no verb"
