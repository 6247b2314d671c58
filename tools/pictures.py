"""Write a picture of the README: the dashboard, or the report of the newest study, in a headless Chromium.

    python tools/pictures.py dashboard|report

Shows what the store of `pgdyno` holds (PGDYNO_HOME). Run `make demo` on a quiet machine; take the dashboard while it
searches and the report when it is over, and look at both before you commit them.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fix_browser import NAMES, Browser  # type: ignore[import-not-found]  # noqa: E402

FOLDER = ROOT / "docs" / "images"
PGDYNO = [sys.executable, "-m", "pgdyno"]
WIDTH, HEIGHT = 1100, 1040
DRAWN = "document.querySelectorAll('.below svg').length > 0 || !document.querySelector('.below')"


def main(which: str) -> int:
    """Write one picture; 1 where no Chromium is installed."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        print(f"none of {', '.join(NAMES)} is installed", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        browser = Browser(program, Path(made))
        try:
            (_report if which == "report" else _dashboard)(browser, Path(made))
        finally:
            browser.close()
    return 0


def _report(browser: Browser, folder: Path) -> None:
    report = folder / "report.html"
    subprocess.run([*PGDYNO, "report", "last", "-o", str(report)], check=True)
    _take(browser, report.as_uri(), "report")


def _dashboard(browser: Browser, _folder: Path) -> None:
    with subprocess.Popen([*PGDYNO, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        _take(browser, server.stdout.readline().strip(), "dashboard")
        server.send_signal(signal.SIGINT)


def _take(browser: Browser, url: str, name: str) -> None:
    page = browser.page()
    page.visit(url, width=WIDTH, height=HEIGHT)
    page.wait_for(DRAWN)
    page.screenshot(FOLDER / f"{name}.png", height=HEIGHT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
