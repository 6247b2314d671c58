"""The recipes of CONTRIBUTING.md: one more workload, export, rule and Linux knob, each in at most three files.

A study kind is added by `tests/unit/studies/test_kinds.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pgdyno

SOURCE = Path(pgdyno.__file__).parent
WORKLOAD = """
from pgdyno.workloads.dataset import PgbenchTables
from pgdyno.workloads.parameters import Parameter
from pgdyno.workloads.pgbench.command import DriverOptions
from pgdyno.workloads.pgbench.workload import PgbenchWorkload, WorkloadKind
from pgdyno.model.trial import WorkloadSpec
from pgdyno.workloads.script import Script

def make(parameters, pgbench):
    spec = WorkloadSpec("dice", dict(parameters), "0", "throws dice", read_only=True)
    script = Script("throw", text=f"SELECT {parameters['dice']};")
    return PgbenchWorkload(spec, PgbenchTables(1, 100), (script,), DriverOptions(1, None), pgbench=pgbench)

KIND = WorkloadKind("dice", "throws dice", (Parameter("dice", 2, "how many", low=1, high=9),), make)
"""
EXPORT = """
def files(advice):
    return {"names.txt": "".join(f"{item.change.knob}\\n" for item in advice.items)}
"""
RULE = """
[[rule]]
id = "dice"
group = "response time"
depth = "basic"
title = "The dice are loaded"
why = "Because a test says so, in as many words as a reason has to have here, and some more."
mechanism = "None."
judge = "dice"
risk = "None."
risk_level = 1
cost = "none"
apply = "Nothing to do."
persist = "Nothing to do."
verify = "Throw them."
revert = "Nothing to do."
source = [{ document = "postgresql-documentation", section = "19.1" }]
"""
READ_ANEW = """
from pathlib import Path
from pgdyno.advisor import rulebook

(Path(rulebook.__file__).parent / "data/rules.json").write_text(rulebook.shipped_text(), "utf-8")
"""
"""What `make docs` does for a rule, beside its pages."""
JUDGE = """
from pgdyno.advisor.judgement import Fires

def dice(case):
    return Fires(current="six", proposed="throw again", evidence=("They show six and six.",))
"""
KNOB = '''
["vm.vfs_cache_pressure"]
group = "memory"
scale = "log"
low = "10"
high = "400"
takes_effect = "at once"
kernel.path = "/proc/sys/vm/vfs_cache_pressure"
kernel.bounds = [0, 10000]
why = """How willing the kernel is to drop what it knows of names and folders, beside the pages of files."""
source = "kernel documentation, admin-guide/sysctl/vm"
'''
RULING = """
[[rule]]
class = "A"
search = "opt-in"
why = "what the kernel keeps of names and folders: only speed changes"
names = ["vm.vfs_cache_pressure"]
"""
KERNEL = """
import sys
from pathlib import Path
from pgdyno.kernel import kernel, kernel_facts, persist
from pgdyno.linux.block_devices import KernelPlaces
from pgdyno.linux.kernel_tree import Tree

name, places, tree = "vm.vfs_cache_pressure", KernelPlaces((), ()), Tree(Path(sys.argv[1]))
fact = kernel_facts.read_kernel(places, tree=tree)[name]
print(fact.value, fact.minimum, fact.maximum, fact.obstacle)
(image,) = kernel.capture([name], places, tree=tree)
kernel.write(name, "50", places, tree=tree)
print(kernel.read_value(name, places, tree=tree), kernel.restore(image, tree=tree))
print(kernel.read_value(name, places, tree=tree))
print(persist.artefacts({name: "50"}, places, tree=tree)[0].text.splitlines()[-1])
"""


class Copy:
    """A copy of the package in a temporary folder, and the files of it that were added or changed."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "src" / "pgdyno"
        self.touched: set[str] = set()
        self._folder = folder
        shutil.copytree(SOURCE, self.package)  # with its bytecode: to compile all of it anew takes two seconds

    def add(self, name: str, text: str) -> None:
        """Append to a file of the package, or make it."""
        self.touched.add(name)
        with (self.package / name).open("a", encoding="utf-8") as file:
            file.write(text)

    def line(self, name: str, before: str, line: str) -> None:
        """Put a line behind the only place of a file that reads so."""
        text = (self.package / name).read_text("utf-8")
        assert text.count(before) == 1
        self.touched.add(name)
        (self.package / name).write_text(text.replace(before, before + line), "utf-8")

    def run(self, *words: str, beside: Path | None = None) -> str:
        """Return what a program says that imports this copy."""
        path = os.pathsep.join(map(str, filter(None, (self.package.parent, beside))))
        environment = {**os.environ, "PYTHONPATH": path, "PGDYNO_HOME": str(self._folder / "home")}
        argv = (sys.executable, *words)
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=self._folder, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture
def conf(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "postgresql.conf"
    path.write_text("shared_buffers = 128MB\n", "utf-8")
    return ("-m", "pgdyno", "advise", "--pg-conf", str(path), "--pg-version", "16")


def test_a_workload(copy: Copy) -> None:
    copy.add("workloads/dice.py", WORKLOAD)
    copy.line("workloads/registry.py", "WORKLOADS: Mapping[str, WorkloadKind] = {\n", '    "dice": dice.KIND,\n')
    copy.line("workloads/registry.py", "from pgdyno.workloads import custom", ", dice")
    copy.line("model/matrix.py", "MODES = (*BUILTIN, *OWN_SIZE, ", '"dice", ')
    said = copy.run("-m", "pgdyno", "bench", "--workload", "dice", "-D", "dice=3", "--dry-run")
    assert "throws dice" in said
    assert len(copy.touched) <= 3


def test_a_workload_of_another_package(copy: Copy, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "dice-1.0.dist-info").mkdir(parents=True)
    (site / "dice-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: dice\nVersion: 1.0\n", "utf-8")
    (site / "dice-1.0.dist-info" / "entry_points.txt").write_text(
        "[pgdyno.workloads]\ndice = dice_load:KIND\nbroken = dice_load:NOTHING\n", "utf-8"
    )
    (site / "dice_load.py").write_text(WORKLOAD, "utf-8")
    words = ("-m", "pgdyno", "bench", "--dry-run", "--workload")
    assert "throws dice" in copy.run(*words, "dice", "-D", "dice=3", beside=site)
    assert copy.touched == set()
    said = copy.run(*words, "broken", beside=site)
    assert 'workload "broken" of dice_load:NOTHING cannot be used: AttributeError' in said


def test_an_export(copy: Copy, conf: tuple[str, ...]) -> None:
    copy.add("export/names.py", EXPORT)
    copy.line("export/__init__.py", "    ddl,\n", "    names,\n")
    copy.line("export/__init__.py", '    "ddl": ddl.files,\n', '    "names": names.files,\n')
    assert "# --- names.txt" in copy.run(*conf, "--emit", "names")
    assert len(copy.touched) <= 3


def test_a_rule(copy: Copy, conf: tuple[str, ...]) -> None:
    copy.add("advisor/rules/dice.toml", RULE)
    copy.add("advisor/rules/dice.py", JUDGE)
    copy.run("-c", READ_ANEW)
    assert "The dice are loaded" in copy.run(*conf, "--all")
    assert len(copy.touched) <= 3


def test_a_linux_knob(copy: Copy, tmp_path: Path) -> None:
    copy.add("model/linux.toml", KNOB)
    copy.add("knobs/data/policy.toml", RULING)
    place = tmp_path / "tree" / "proc/sys/vm/vfs_cache_pressure"
    place.parent.mkdir(parents=True)
    place.write_text("100\n", "utf-8")
    assert copy.run("-c", KERNEL, str(tmp_path / "tree")).splitlines() == [
        "100 0 10000 None",
        "50 True",
        "100",
        "vm.vfs_cache_pressure = 50",
    ]
    assert "10 .. 400" in copy.run("-m", "pgdyno", "knobs", "show", "vm.vfs_cache_pressure")
    assert len(copy.touched) <= 3
