"""The wheel that pip and pipx install: it has every file of the package, and works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    return next(folder.glob("pgdyno-*.whl"))


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    ours = {
        str(path.relative_to(source))
        for path in (source / "pgdyno").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("pgdyno/")}
    assert shipped == ours
    assert any(name.endswith(".data/data/share/man/man1/pgdyno.1") for name in zipfile.ZipFile(wheel).namelist())


def test_one_with_the_compiled_engine_is_for_its_machine(wheel: Path) -> None:
    engine = [one for one in zipfile.ZipFile(wheel).infolist() if one.filename == "pgdyno/trace/bin/pgdyno-engine"]
    assert ("-py3-none-any" in wheel.name) == (not engine)
    assert ("-py3-none-manylinux_" in wheel.name) == bool(engine)
    assert all(one.external_attr >> 16 & 0o111 for one in engine)


def test_it_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--target",
        str(installed),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    conf = tmp_path / "postgresql.conf"
    conf.write_text("shared_buffers = 128MB\n")

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(installed / "bin" / "pgdyno"), *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed), "XDG_DATA_HOME": str(tmp_path / "data")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.stdout

    where = [sys.executable, "-c", "import pgdyno; print(pgdyno.__file__)"]
    found = subprocess.run(where, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True)
    assert found.stdout.startswith(str(installed)), "not the checkout's, which this interpreter has too"
    assert "shared_buffers" in run("knobs", "show", "shared_buffers")
    assert "pg-stat-statements" in run("advise", "--pg-conf", str(conf), "--pg-version", "16")
    assert run("store", "list", "--json").strip() == "[]", "the migrations of the store are there"
    assert "_PGDYNO_COMPLETE=bash_complete" in run("completion", "bash")
    assert (installed / "share" / "man" / "man1" / "pgdyno.1").is_file(), "where pipx and pip look for pages"
