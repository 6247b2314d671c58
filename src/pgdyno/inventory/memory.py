"""Memory, page sizes, huge pages and swap. Pure."""

from __future__ import annotations

import re

from pgdyno.capture.texts import Capture
from pgdyno.inventory.cgroups import group_available, group_oom_kills, memory_limit
from pgdyno.inventory.machine import FIXED_PAGE, architecture_of
from pgdyno.inventory.processor import features_of
from pgdyno.linux.host import chosen
from pgdyno.linux.meminfo import parse_meminfo
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Memory, SwapArea

_WHOLE = re.compile(r"^(?:\S+:\s+\d+ kB|HugePages_\w+:\s+\d+)$", re.MULTILINE)
"""Lines of /proc/meminfo that were not cut: a size has its unit."""
_NEVER_ZERO = ("MemTotal", "Hugepagesize")
_HUGE = "sys/kernel/mm/hugepages"
_THP = "sys/kernel/mm/transparent_hugepage"


def read_memory(capture: Capture) -> Memory:
    """Return what the capture knows of memory."""
    text = capture.text("proc/meminfo")
    fields = {} if isinstance(text, Unknown) else parse_meminfo("\n".join(_WHOLE.findall(text)))

    def field(name: str) -> int | Unknown:
        absent = text if isinstance(text, Unknown) else Unknown(f"/proc/meminfo has no {name}")
        if name in _NEVER_ZERO and fields.get(name) == 0:
            return Unknown(f"/proc/meminfo says that {name} is 0, which no machine has")
        return fields.get(name, absent)

    def part(name: str, whole: str) -> int | Unknown:
        value = field(name)
        if name in fields and whole in fields and fields[name] > fields[whole]:
            return Unknown(f"/proc/meminfo says that {name} is more than {whole}, and one of the two is wrong")
        return value

    ram = field("MemTotal")
    limit, limited_by = memory_limit(capture, ram)
    sizes = _sizes(capture)
    supported = _supported(capture, sizes, "Hugepagesize" in fields)
    return Memory(
        ram_bytes=ram,
        available_bytes=part("MemAvailable", "MemTotal"),
        limit_bytes=limit,
        limited_by=limited_by,
        page_size=_page_size(capture),
        huge_page_bytes=field("Hugepagesize") if supported is not False else Unknown("there are none here"),
        huge_page_sizes=() if supported is False else sizes,
        huge_pages_supported=supported,
        huge_pages_total=field("HugePages_Total"),
        huge_pages_free=part("HugePages_Free", "HugePages_Total"),
        huge_pages_reserved=field("HugePages_Rsvd"),
        thp_enabled=_choice(capture, f"{_THP}/enabled"),
        thp_defrag=_choice(capture, f"{_THP}/defrag"),
        swap=_swap(capture),
        page_cache_bytes=_page_cache(fields) if fields else field("Cached"),
        group_available_bytes=group_available(capture),
        group_oom_kills=group_oom_kills(capture),
    )


def _page_size(capture: Capture) -> int | Unknown:
    given = capture.maybe("commands/getconf_pagesize.txt")
    if given is not None and given.strip().isdecimal() and int(given) > 0:
        return int(given)
    smaps = re.search(r"KernelPageSize:\s+(\d+) kB", capture.maybe("commands/auxv_pagesize.txt") or "")
    if smaps and int(smaps[1]) > 0:
        return int(smaps[1]) * 1024
    architecture = architecture_of(capture)
    if isinstance(architecture, str) and architecture in FIXED_PAGE:
        return FIXED_PAGE[architecture]
    return capture.reason("commands/getconf_pagesize.txt")


def _sizes(capture: Capture) -> tuple[int, ...] | Unknown:
    names = " ".join(capture.members(_HUGE)) or capture.maybe("commands/hugepages.txt")
    if names is None:
        return capture.reason(_HUGE)
    return tuple(sorted(int(size) * 1024 for size in re.findall(r"hugepages-(\d+)kB", names) if int(size)))


def _supported(capture: Capture, sizes: tuple[int, ...] | Unknown, in_meminfo: bool) -> bool | Unknown:
    """Tell whether there can be huge pages; on s390x the hardware must have `edat` (kernel: arch/s390, hugetlb)."""
    if architecture_of(capture) == "s390x":
        features = features_of(capture)
        return features if isinstance(features, Unknown) else "edat" in features
    if sizes == ():
        return False
    if in_meminfo or isinstance(sizes, tuple):
        return True
    return Unknown("neither /proc/meminfo nor sysfs tells of huge pages")


def _choice(capture: Capture, key: str) -> str | Unknown:
    text = capture.text(key)
    if isinstance(text, Unknown):
        return text
    if "No such file" in text:
        return Unknown(f"this kernel has no /{key}")
    return chosen(text)


def _swap(capture: Capture) -> tuple[SwapArea, ...] | Unknown:
    text = capture.text("proc/swaps")
    if isinstance(text, Unknown):
        return text
    if not text.startswith("Filename"):
        return Unknown("proc/swaps does not begin as the kernel writes it")
    areas = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 5 or not all(word.lstrip("-").isdecimal() for word in words[-3:]):
            return Unknown("proc/swaps has a line that was cut")
        name, kind = words[0].replace("\\040", " "), words[-4]
        areas.append(SwapArea(name, kind, int(words[-3]) * 1024, int(words[-2]) * 1024, int(words[-1])))
    return tuple(areas)


def _page_cache(fields: dict[str, int]) -> int | Unknown:
    """Return what of memory holds file data: shared memory counts as cached, and is the server's own."""
    if "Cached" not in fields:
        return Unknown("/proc/meminfo has no Cached")
    return max(0, fields["Cached"] + fields.get("Buffers", 0) - fields.get("Shmem", 0))
