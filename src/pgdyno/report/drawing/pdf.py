"""Print a report to PDF by a Chromium or Chrome of this machine: the page's own print style, no network, no service.

The browser opens a copy of the page that lies in a new private folder, which is its profile too, and both are removed.
Nothing but that file is opened, which is why its own sandbox may be off for root, where Chromium insists.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.temporary import temporary
from pgdyno.report.drawing.html import write_drawn, write_html
from pgdyno.report.sections import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
TIMEOUT_S = 120.0
_BUDGET_MS = 20_000
"""Virtual time that the page may take to draw its figures before it is printed."""
_PAGE = re.compile(rb"/Type\s*/Page\b(?!s)")
Which = Callable[[str], str | None]


def write_pdf(report: Report, path: Path, *, which: Which = shutil.which, timeout_s: float = TIMEOUT_S) -> int:
    """Print the report and return how many pages it has.

    `path` is the PDF to write. `which` looks up a program on the PATH, as `shutil.which` does, and the browser has
    `timeout_s` seconds. Raises EnvironmentUnsuitable when there is no browser, when it fails, or when the file cannot
    be written.
    """
    browser = find_browser(which)
    with temporary("pdf") as folder:
        page, printed = folder / "report.html", folder / "report.pdf"
        write_html(report, page)
        told = _run(command(browser, page, printed, folder / "profile"), timeout_s)
        pages = page_count(printed.read_bytes()) if printed.exists() else 0
        if not pages:
            raise EnvironmentUnsuitable(
                f'"{browser}" printed no page',
                detail=told[-400:] or None,
                hint="Write the report as HTML with --output report.html and print it from a browser.",
            )
        write_drawn(path, printed.read_bytes())
    return pages


def find_browser(which: Which = shutil.which) -> str:
    """Return the path of a browser. Raises EnvironmentUnsuitable when none is on the PATH."""
    found = next((path for name in BROWSERS if (path := which(name))), None)
    if found is None:
        raise EnvironmentUnsuitable(
            "a PDF needs a browser, and there is none on the PATH",
            detail=f"looked for {', '.join(BROWSERS)}",
            hint="Install chromium, or write --output report.html and print that from any browser.",
        )
    return found


def command(browser: str, page: Path, printed: Path, profile: Path) -> list[str]:
    """Return the argument list that prints `page` into `printed`; `profile` is a folder for the browser's own files."""
    return [
        browser,
        "--headless",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--no-pdf-header-footer",
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={_BUDGET_MS}",
        f"--print-to-pdf={printed}",
        page.as_uri(),
    ]


def page_count(content: bytes) -> int:
    """Return the number of pages that a PDF names, 0 when it is none."""
    return len(_PAGE.findall(content)) if content.startswith(b"%PDF") else 0


def _run(argv: list[str], timeout_s: float) -> str:
    """Run the browser in a process group of its own and return what it said; the group ends with it."""
    try:
        process = subprocess.Popen(
            argv,
            env=inherited(ProgramKind.BROWSER),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'"{argv[0]}" cannot be started: {error.strerror}', hint="Write -o report.html and print it from a browser."
        ) from error
    try:
        _, told = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise EnvironmentUnsuitable(
            f'"{argv[0]}" did not print within {timeout_s:g} s',
            hint="Write the report as HTML with --output report.html and print it from a browser.",
        ) from None
    finally:
        _end(process)
    return told.decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()
