"""Which architecture and kernel release a capture is of: from its own texts, never from this machine. Pure."""

from __future__ import annotations

import re

from pgdyno.capture.texts import Capture
from pgdyno.model.facts import Unknown

_MACHINES = re.compile(r"^(x86_64|i[3-6]86|aarch64|armv\w+|ppc64le|ppc64|s390x|riscv64|loongarch64|mips\w*|sparc64)$")
_WORD = re.compile(r"[a-z][a-z0-9_-]{1,15}")
"""How a kernel names a machine; a damaged file names none."""
FIXED_PAGE = {"x86_64": 4096, "s390x": 4096}
"""Architectures whose kernels know one page size only."""


def architecture_of(capture: Capture) -> str | Unknown:
    """Return the architecture of the machine that was captured.

    `uname` first: lscpu reads another machine's files with --sysroot, and then prints its own host's name.
    """
    uname = capture.text("commands/uname.txt")
    if isinstance(uname, str):
        words = [word for word in uname.split() if word != "GNU/Linux"]
        found = [word for word in reversed(words) if _MACHINES.match(word)]
        if found or (len(words) > 3 and _WORD.fullmatch(words[-1])):
            return found[0] if found else words[-1]
    if "IBM/S390" in (capture.maybe("proc/cpuinfo") or ""):
        return "s390x"
    lscpu = lscpu_fields(capture).get("Architecture")
    return lscpu or (uname if isinstance(uname, Unknown) else Unknown("uname names no machine"))


def release_of(capture: Capture) -> str | Unknown:
    """Return the kernel's release."""
    words = (capture.maybe("commands/uname.txt") or "").split()
    if len(words) > 2 and words[0] == "Linux":
        return words[2]
    version = re.search(r"Linux version (\S+)", capture.maybe("proc/version") or "")
    if version:
        return version[1]
    sysctl = re.search(r"^kernel\.osrelease\s*=\s*(\S+)", capture.maybe("commands/sysctl.txt") or "", re.MULTILINE)
    if sysctl:
        return sysctl[1]
    return Unknown("uname shows no release") if words else capture.reason("commands/uname.txt")


def version_of(release: str | Unknown) -> tuple[int, int] | Unknown:
    """Return major and minor version of a release such as 4.18.0-553.el8.s390x."""
    if isinstance(release, Unknown):
        return release
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else Unknown(f'"{release}" is not a kernel release')


def lscpu_fields(capture: Capture) -> dict[str, str]:
    """Return lscpu's `name: value` lines, a value that goes on in the next line joined; none without lscpu."""
    fields: dict[str, str] = {}
    last = ""
    for line in (capture.maybe("commands/lscpu.txt") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith(" " * 10):
            last = name.strip()
            fields.setdefault(last, value.strip())
        elif last:
            fields[last] = f"{fields[last]} {line.strip()}".strip()
    return fields


def lscpu_number(fields: dict[str, str], name: str) -> int | Unknown:
    """Return a number of lscpu's."""
    text = fields.get(name, "")
    return int(text) if text.isdecimal() else Unknown(f'lscpu shows no "{name}"')


def colon_fields(text: str) -> dict[str, str]:
    """Return the first value of each name of `name : value` lines, as /proc/cpuinfo and /proc/sysinfo have them."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields
