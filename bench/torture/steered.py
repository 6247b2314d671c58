"""A tune that comes through all of its phases in a minute or two: its load's speed hangs on a few knobs, by far.

The script sleeps, and for a third of the time where `random_page_cost` is not 4 and for a third where `work_mem` is not
4MB; with Linux knobs for a third where transparent huge pages are not as they were. So the search finds a winner of two
or three settings, the model has something to keep and something to drop, and the proof has arms without each. What is
killed and put back is the same as with any other load.
"""

from __future__ import annotations

from pathlib import Path

from pgdyno.knobs.linux import load_linux_catalogue
from pgdyno.knobs.policy import SearchPolicy
from pgdyno.model.trial import TUNE_PROOF_BLOCKS, Trial

PHASES = ("set-up", "noise", "search", "proof")
KNOBS = ("random_page_cost", "work_mem", "shared_buffers", "effective_io_concurrency")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SCRIPT = """\
SELECT pg_sleep(0.03
  * CASE WHEN current_setting('random_page_cost')::float8 <> 4 THEN 0.33 ELSE 1 END
  * CASE WHEN current_setting('work_mem') <> '4MB' THEN 0.33 ELSE 1 END{linux});
"""
_LINUX = """
  * CASE WHEN pg_read_file('{path}') NOT LIKE '{before}%' THEN 0.33 ELSE 1 END"""
_WORDS = [
    "-c", "2", "--warmup", "1", "--measure", "2", "--trials", "5", "--noise-runs", "3", "--pairs", "3", "4",
    "--foreign-cpu", "10000", "--steal", "100", "--json",
]  # fmt: skip


def steered_tune(folder: Path, sandbox: str, *, linux: bool, seed: int) -> list[str]:
    """Write the script into the folder and return the words of the command."""
    script = folder / "steered.sql"
    script.write_text(_SCRIPT.format(linux=_linux() if linux else ""))
    knobs = [*KNOBS, *(_linux_knobs() if linux else ())]
    only = [word for knob in knobs for word in ("--only", knob)]
    return [
        "tune", "--sandbox", sandbox, "--workload", "custom", "-D", f"scripts={script}", *_WORDS, *only,
        *(["--linux"] if linux else []), "--seed", str(seed),
    ]  # fmt: skip


def phase_of(newest: Trial | None) -> str:
    """Return the phase that a tune was in, by its newest trial."""
    if newest is None:
        return "set-up"
    block = newest.spec.block
    if block >= TUNE_PROOF_BLOCKS:
        return "proof"
    return "noise" if block == 0 else "search"


def _linux() -> str:
    return _LINUX.format(path=_HUGE_PAGES, before=_HUGE_PAGES.read_text().strip()) if _HUGE_PAGES.exists() else ""


def _linux_knobs() -> list[str]:
    """Return the Linux knobs that a tune searches by itself; the two that are counterparts of ratios among them."""
    return [name for name, knob in load_linux_catalogue().items() if knob.search is SearchPolicy.DEFAULT]
