"""The sample that README.md shows of a tune's end has the words that the program prints."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PRINTED = Path(__file__).with_name("golden") / "summary-tune.txt"
OTHERS = {"found"}
"""Begin lines whose ends go by their figures."""


def _words(text: str) -> str:
    """Return the words of a text: figures, names of rivals and settings, and columns are another run's."""
    plain = re.sub(r"of [\w-]+ \(\w+ = \w+\)", "of it", text)
    return " ".join(re.findall(r"[A-Za-z]{3,}", re.sub(r"[\d.,]+ ?(?:%|x\b|ms|tps|[MG]B)?", " ", plain)))


def _sample() -> list[str]:
    after = (ROOT / "README.md").read_text().split("What `make demo` prints at the end", 1)[1].split("\n\n", 1)[1]
    lines = after.split("**The nouns.**", 1)[0].strip("\n").splitlines()
    joined: list[str] = []
    for line in lines:
        text = line.removeprefix("    ")
        if text.startswith("        ") and joined:
            joined[-1] += f" {text.strip()}"
        elif text.strip():
            joined.append(text.strip(" -"))
    return joined


def test_every_line_of_the_sample_in_the_readme_is_printed_so():
    printed = _words(" ".join(PRINTED.read_text().split()))
    sample = _sample()
    assert len(sample) >= 10
    for line in sample:
        if line.split("  ", 1)[0] in OTHERS or re.match(r"\w+_\w+ ", line):
            continue  # settings and figures of that run
        said = line.rpartition(":")[0] if line.startswith("rival ") else line  # the word goes by the figures
        for part in said.split("..."):
            assert _words(part) in printed, line
