"""All generated pages are written, or looked at, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import generated_pages

TOOLS = Path(generated_pages.__file__).parent


@pytest.mark.parametrize(("codes", "failed"), [((0, 0), 0), ((1, 0), 1), ((0, 1), 1)])
def test_each_runs_whatever_fails(
    codes: tuple[int, int], failed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    for name, code in zip("ab", codes, strict=True):
        (tmp_path / f"{name}.py").write_text(
            "import sys\nfrom pathlib import Path\n"
            f"Path({str(tmp_path)!r}, '{name}.said').write_text(' '.join(sys.argv[1:]))\n"
            f"if __name__ == '__main__':\n    sys.exit({code})\n"
        )
    assert generated_pages.main(["--check"], tmp_path, ["a", "b"]) == failed
    assert [(tmp_path / f"{name}.said").read_text() for name in "ab"] == ["--check"] * 2


def test_no_program_that_makes_pages_is_forgotten() -> None:
    """They are those that end with what `generated` returned."""
    made = {path.stem for path in TOOLS.glob("*.py") if "from generated import" in path.read_text("utf-8")}
    assert made == set(generated_pages.PROGRAMS)
