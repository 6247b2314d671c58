"""/proc/meminfo (proc(5)). Pure."""

from __future__ import annotations


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the sizes in bytes; lines without a unit (HugePages_Total) are counts, others are left out."""
    facts = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            facts[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return facts
