"""Drives a headless Chromium over its debugging pipe, and keeps whatever the page should not have done.

The fixture `browser` skips the test where no Chromium is installed. A page records JavaScript errors, console errors,
violations of its Content-Security-Policy, and every request but the one for the page itself.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 60.0
LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", e => violations.push(`${e.violatedDirective} ${e.blockedURI}`));
"""


@dataclass
class Page:
    """One tab. `problems` are lines that a clean page does not have; `requests` are URLs beyond its own."""

    browser: Browser
    session: str
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    url: str = ""
    loaded: bool = False
    patience_s: float = TIMEOUT_S

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, as somebody without a mouse does."""
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {}
            code = {"Enter": 13, "Tab": 9, " ": 32}[key]
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression holds, `patience_s` at the most; what is asserted next says what is missing."""
        deadline = time.monotonic() + self.patience_s
        while not self.evaluate(expression) and time.monotonic() < deadline:
            time.sleep(0.05)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a file and wait until it is loaded and two frames have been drawn."""
        self.visit(path.as_uri(), width=width, height=height, dark=dark)

    def visit(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a page by its URL and wait until it is loaded and two frames have been drawn.

        A tab behind another one draws none, and would be waited for until the end of patience.
        """
        self.url, self.loaded = url, False
        self.call("Page.bringToFront")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=self.url)
        self.browser.wait(lambda: self.loaded)
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        self.problems += [f"CSP: {one}" for one in self.evaluate("window.violations")]

    def screenshot(self, path: Path, *, top: int = 0, height: int | None = None) -> None:
        """Save the page, or the band of it that begins at `top`, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page to A4, as a reader would."""
        printed = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))

    def hear(self, method: str, event: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(f"exception: {event['exceptionDetails']}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console: {event['args']}")
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"log: {event['entry']['text']}")
        elif method == "Network.requestWillBeSent" and event["request"]["url"] != self.url:
            self.requests.append(event["request"]["url"])


class Browser:
    """A running Chromium. Commands go to its file descriptor 3, answers and events come from 4, ended by NUL."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._out = _high_pipe()
        self._in, answers = _high_pipe()
        log = str(profile / "chromium.log")
        actions = [
            (os.POSIX_SPAWN_DUP2, commands, 3),
            (os.POSIX_SPAWN_DUP2, answers, 4),
            (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT, 0o600),
        ]
        argv = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.pid = os.posix_spawn(program, argv, os.environ, file_actions=actions, setsid=True)
        os.close(commands)
        os.close(answers)
        self._buffer, self._number = b"", 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}
        self._reader: str | None = None

    def page(self, *, private: bool = False) -> Page:
        """Open an empty tab that is listened to; a `private` one has cookies of its own, as another browser has."""
        where = {"browserContextId": self.call("Target.createBrowserContext")["browserContextId"]} if private else {}
        target = self.call("Target.createTarget", url="about:blank", **where)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=LISTEN)
        return page

    def reader(self) -> Page:
        """Return the tab for whoever looks at one file after the other: empty lists, and a process that is warm.

        A tab of its own has a process of its own, which compiles every script anew: half of what such a test cost.
        Who needs two at once, or what no page before has touched, opens a `page`.
        """
        if self._reader is None or self._reader not in self._pages:
            self._reader = self.page().session
        used = self._pages[self._reader]
        used.call("Page.bringToFront")  # a tab that another one hides draws no frames
        used.visit("about:blank")  # what the page before had still to say is heard by its own
        self._pages[self._reader] = Page(self, self._reader)
        return self._pages[self._reader]

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._out, content) :]
        self.wait(lambda: number in self._answers)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def wait(self, is_done: Any) -> None:
        """Read messages until `is_done()`; fail after a minute."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser has ended"
            *messages, self._buffer = (self._buffer + chunk).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        elif message.get("sessionId") in self._pages:
            self._pages[message["sessionId"]].hear(message["method"], message["params"])

    def close(self) -> None:
        """End the browser and all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._in)
        os.close(self._out)


def _high_pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are out of the way of 3 and 4."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Give a running browser; skip where there is none."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    running = Browser(program, tmp_path_factory.mktemp("browser"))
    try:
        yield running
    finally:
        running.close()
