"""The vendored files are what VENDOR.toml says, and the check can fail."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def vendor() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vendor_tool", PROJECT / "tools" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vendor_tool"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(vendor: ModuleType, tmp_path: Path) -> Path:
    return Path(shutil.copytree(vendor.VENDOR, tmp_path / "vendor"))


def test_the_vendored_files_are_unchanged(vendor: ModuleType) -> None:
    assert vendor.problems(vendor.VENDOR) == []


def test_a_changed_missing_or_new_file_is_found(vendor: ModuleType, folder: Path) -> None:
    with (folder / "echarts.min.js").open("a") as file:
        file.write(" ")
    (folder / "uplot.LICENSE").unlink()
    (folder / "extra.js").write_text("")
    assert vendor.problems(folder) == [
        "uplot.LICENSE is listed but missing",
        "extra.js is not listed in VENDOR.toml",
        "echarts.min.js differs from its hash",
    ]


def test_a_package_is_replaced_from_its_archive(vendor: ModuleType, folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "uplot.tgz"
    content = {"package.json": json.dumps({"name": "uplot", "version": "9.9.9"})}
    content |= {file.source: f"new {file.source}" for file in vendor.read_manifest(folder)[0].files}
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in content.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    assert vendor.replace_package(folder, archive) == "uplot 9.9.9"
    assert vendor.problems(folder) == []
    assert vendor.read_manifest(folder)[0].version == "9.9.9"
    assert vendor.read_manifest(folder)[1].version == vendor.read_manifest(vendor.VENDOR)[1].version


def test_every_large_chart_is_lower_on_paper() -> None:
    """A chart is never cut in two, so that one as high as on a screen leaves half of the sheet before it empty."""
    sources = [path.read_text() for path in (PROJECT / "src/pgdyno/report/static/figures").glob("*.js")]
    heights = [line for source in sources for line in source.splitlines() if "host.style.height =" in line]
    assert len(heights) >= 5
    assert [line for line in heights if "sheet(" not in line] == []
