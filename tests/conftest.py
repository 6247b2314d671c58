"""Plugins of the test suite, and how hypothesis runs in it."""

import fcntl
import gc
import os
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before NumPy is loaded: its threads spin, and the workers of xdist use every core already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell may ask for no bytecode. Every worker would then rewrite the asserts of all tests anew: 15 s of CPU each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Collecting tests makes a million objects that stay: to look through them again and again was a tenth of the CPU time.
gc.set_threshold(50_000)

# Not for a pytest that a test starts: 1/2 is one of two runs beside each other, each of which has files of its own.
PART = os.environ.pop("PGDYNO_TEST_PART", "1/1").split("/")

pytest_plugins = [
    "named_failures",
    "few_messages",
    "templates",
    "warm_program",
    "fix_postgres",
    "fix_store",
    "fix_sshd",
    "fix_browser",
    "fix_patroni",
    "fix_judged_runs",
    "fix_edited_server",
    "fix_kernel",
    "fix_lair",
    "fix_engine",
    "fix_captured_load",
    "fix_asks",
]

# No deadline: the machines that run the suite are shared, and a slow example says nothing about the code. Each commit
# has a seed of its own, so what a push does not draw another one or the night does.
examples = 300 if "PGDYNO_TEST_NIGHT" in os.environ else 25
settings.register_profile("shared machine", deadline=None, max_examples=examples)
settings.load_profile("shared machine")

# A shell has what it starts with & ignore SIGINT, and every test process would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How wide a shell is, is not what reports are read for: as wide as in a pipe.
os.environ.pop("COLUMNS", None)

# Which server, home or store a developer's shell names is not what the tests are about: they name their own.
for name in [one for one in os.environ if one.startswith("PG")]:
    if not name.startswith(("PGDYNO_TEST_", "PGDYNO_BLESS")):
        del os.environ[name]

LONGEST = (
    "patroni", "test_project_run", "tprocc", "matrix-live", "replay", "apply-advice", "litter", "staircase-live",
    "cli-studies", "test_night_live", "test_watchdog_password", "test_control_contract", "test_cli_studies",
    "test_live_search_run", "test_live_switch", "test_two_tuners", "test_migrate_live",
)  # fmt: skip
"""Groups and files that workers are longest at; pytest-xdist must not sort them anew: --no-loadscope-reorder."""

# Root runs no program from below a folder that everybody can write to, and tests make programs.
if os.geteuid() == 0:
    root_of_tests = Path("/var/cache/pgdyno-tests")
    root_of_tests.mkdir(mode=0o755, exist_ok=True)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(root_of_tests)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let the first worker of a run collect alone: it rewrites the asserts, and what it keeps serves the others.

    On a fresh clone each of them did so: 9 CPU seconds for all tests of `unit`, 5 for the others. What is collected
    stays, so nothing of it is looked through for garbage.
    """
    from templates import FOLDER  # a plugin, whose own asserts are to be rewritten first

    gc.disable()
    try:
        if not hasattr(session.config, "workerinput"):
            return (yield)
        done = Path(os.environ[FOLDER]) / "collected"
        with done.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                result = yield
                done.touch()
                return result
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the files of the other parts to the runs beside this one: by the name, so that each has them for sure."""
    number, parts = map(int, PART)
    ours = zlib.crc32(collection_path.name.encode()) % parts == number - 1
    return True if collection_path.match("test_*.py") and not ours else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that share a server, a browser or a study that is over on one worker: each would make its own.

    Pure ones go by files: pytest-xdist looks through all groups of a worker at the end of each test, which took 7 s of
    CPU with 12,000 groups of a test each; and what a file keeps for its tests is made once.
    """
    if item.get_closest_marker("xdist_group"):
        return
    used = item._fixtureinfo.name2fixturedefs.values()
    if "unit" in item.path.parts:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
    elif "web" in item.path.parts:
        item.add_marker(pytest.mark.xdist_group("browser"))
    elif any(fixture.scope == "module" for fixtures in used for fixture in fixtures):
        item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long, in the random order else: what begins last would be waited for by all workers.

    That is LONGEST, then what is marked so, and tests that wait for each other.
    """
    if "PGDYNO_TEST_NIGHT" not in os.environ:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("night")])
        items[:] = [item for item in items if not item.get_closest_marker("night")]
    if astray := [item.nodeid for item in items if item.get_closest_marker("alone") and "host" not in item.path.parts]:
        raise pytest.UsageError(f"marked alone outside tests/host, where alone nobody looks for it: {astray[0]}")
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group is not None else item.path.stem
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + (group is None and item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what a test without a PGDYNO_HOME of its own writes out of the developer's folders."""
    with pytest.MonkeyPatch.context() as patch:
        for part in ("STATE", "DATA"):
            patch.setenv(f"XDG_{part}_HOME", str(tmp_path_factory.mktemp(part.lower())))
        yield
