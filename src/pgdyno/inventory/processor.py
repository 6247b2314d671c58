"""The processors: how many, of which kind, and how they lie to one another. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from pgdyno.capture.texts import Capture
from pgdyno.inventory.cgroups import usable_cpus
from pgdyno.inventory.machine import architecture_of, colon_fields, lscpu_fields, lscpu_number
from pgdyno.inventory.topology import distinct, read_rows, threads_by_core
from pgdyno.linux.host import cpu_model
from pgdyno.model.cpus import CpuRow, count_of_cpus
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Processor

_CPU = "sys/devices/system/cpu"


def read_processor(capture: Capture) -> Processor:
    """Return what the capture knows of the processors."""
    architecture, fields = architecture_of(capture), lscpu_fields(capture)
    rows = read_rows(capture)
    online = [row for row in rows if row.online]
    threads = max(threads_by_core(online).values()) if _has_cores(online) else None
    per_core = lscpu_number(fields, "Thread(s) per core") if threads is None else threads
    cpus = len(online) or _online(capture, fields)
    return Processor(
        architecture=architecture,
        machine=_machine(capture),
        model=_model(capture, fields),
        cpus=cpus,
        cpus_configured=sum(row.configured for row in rows) if rows else lscpu_number(fields, "CPU(s)"),
        cores=len(threads_by_core(online)) if _has_cores(online) else _cores(cpus, per_core),
        threads_per_core=per_core,
        max_threads=_max_threads(capture, per_core),
        sockets=_level(online, "socket", fields, "Socket(s)"),
        books=_level(online, "book", fields, "Book(s)"),
        drawers=_level(online, "drawer", fields, "Drawer(s)"),
        numa_nodes=_level(online, "node", fields, "NUMA node(s)"),
        last_level_caches=_caches(online),
        scattered=_scattered(online, architecture, fields),
        polarization=_polarization(online, fields, architecture),
        entitlement=_entitlement(online, architecture),
        shared=_shared(capture),
        features=_features(capture, fields),
        governor=capture.word(f"{_CPU}/cpu0/cpufreq/scaling_governor"),
        usable=usable_cpus(capture, cpus),
        layout=tuple(rows) or _no_layout(capture),
    )


def features_of(capture: Capture) -> frozenset[str] | Unknown:
    """Return the processor's features."""
    return _features(capture, lscpu_fields(capture))


def _no_layout(capture: Capture) -> Unknown:
    key = "commands/lscpu_extended.txt"
    return Unknown("the table of lscpu was cut, or is none") if key in capture.texts else capture.reason(key)


def _has_cores(rows: list[CpuRow]) -> bool:
    return bool(rows) and all(row.core is not None for row in rows)


def _online(capture: Capture, fields: dict[str, str]) -> int | Unknown:
    listed = fields.get("On-line CPU(s) list") or (capture.maybe(f"{_CPU}/online") or "").strip()
    if listed:
        return count_of_cpus(listed) or Unknown(f'"{listed[:40]}" is not a list of CPUs')
    text = capture.text("proc/cpuinfo")
    if isinstance(text, Unknown):
        return text
    told = re.search(r"^# processors\s*:\s*(\d+)", text, re.MULTILINE)
    if told:
        return int(told[1])
    counted = len(re.findall(r"^(?:processor\s*:|cpu number\s*:)", text, re.MULTILINE))
    return counted or Unknown("/proc/cpuinfo lists no processor")


def _cores(cpus: int | Unknown, threads: int | Unknown) -> int | Unknown:
    if isinstance(cpus, int) and isinstance(threads, int) and threads > 0 and cpus % threads == 0:
        return cpus // threads
    return Unknown("the capture does not say which CPUs share a core")


def _machine(capture: Capture) -> str | Unknown:
    sysinfo = colon_fields(capture.maybe("proc/sysinfo") or "")
    if sysinfo.get("Type"):
        return sysinfo["Type"]
    cpuinfo = capture.maybe("proc/cpuinfo") or ""
    s390x = re.search(r"machine = (\w+)", cpuinfo)
    if s390x:
        return s390x[1]
    tree = (capture.maybe("proc/device-tree/model") or "").strip("\0 \n")
    power = tree or colon_fields(cpuinfo).get("machine", "")
    if power:
        return power.removeprefix("CHRP ").removeprefix("IBM,")
    vendor, product = (
        (capture.maybe(f"sys/class/dmi/id/{name}") or "").strip() for name in ("sys_vendor", "product_name")
    )
    return " ".join(word for word in (vendor, product) if word) or Unknown("no file names the machine's type")


def _model(capture: Capture, fields: dict[str, str]) -> str | Unknown:
    text = capture.maybe("proc/cpuinfo")
    found = cpu_model(text) if text is not None else capture.reason("proc/cpuinfo")
    named = fields.get("Model name", "-")
    return named if isinstance(found, Unknown) and named != "-" else found


def _max_threads(capture: Capture, threads: int | Unknown) -> int | Unknown:
    """Return the highest SMT level: what Power lists of a core, what s390x calls the highest thread id."""
    highest = [threads] if isinstance(threads, int) else []
    known = False
    info = f"{capture.maybe('commands/ppc64_cpu_smt.txt') or ''}\n{capture.maybe('commands/ppc64_cpu_info.txt') or ''}"
    for line in info.splitlines():
        if re.match(r"Core\s+\d+:", line):
            known = True
            highest.append(len(re.findall(r"\d+", line.partition(":")[2])))
    last_thread = colon_fields(capture.maybe("proc/cpuinfo") or "").get("max thread id", "")
    if last_thread.isdecimal():
        known = True
        highest.append(int(last_thread) + 1)
    control = (capture.maybe(f"{_CPU}/smt/control") or "").strip()
    if control in ("on", "notsupported"):
        known = True
    if not known:
        return Unknown(f"SMT is {control}, and nothing tells its highest level" if control else "no file tells it")
    return max(highest) if highest else Unknown("nothing tells the threads of a core")


def _level(rows: list[CpuRow], name: str, fields: dict[str, str], heading: str) -> int | Unknown:
    found = distinct(getattr(row, name) for row in rows)
    if found is not None:
        return found
    # "Book(s) per drawer" and the like would have to be multiplied: only a plain total is taken.
    return lscpu_number(fields, heading)


def _caches(rows: list[CpuRow]) -> int | Unknown:
    found = distinct(row.last_cache for row in rows)
    return Unknown("no last-level cache of level 3 is shown") if found is None else found


def _scattered(rows: list[CpuRow], architecture: str | Unknown, fields: dict[str, str]) -> bool | Unknown:
    """Tell whether the CPUs span several chips, nodes, books, drawers or, on x86-64, level 3 caches.

    Power gives each pair of cores a cache of its own on one chip, so that caches say nothing there.
    """
    spans = [distinct(getattr(row, level) for row in rows) for level in ("node", "drawer", "book", "socket")]
    if architecture not in ("ppc64le", "ppc64"):
        spans.append(distinct(row.last_cache for row in rows))
    known = [span for span in spans if span is not None]
    if known:
        return any(span > 1 for span in known)
    totals = (lscpu_number(fields, name) for name in ("Socket(s)", "NUMA node(s)"))
    if any(isinstance(total, int) and total > 1 for total in totals):
        return True
    return Unknown("the capture does not say where the CPUs lie")


def _polarization(rows: list[CpuRow], fields: dict[str, str], architecture: str | Unknown) -> str | Unknown:
    words = {row.polarization for row in rows if row.polarization}
    shown = words or {fields["Dispatching mode"]} if "Dispatching mode" in fields or words else set()
    if any(word.startswith("vert") for word in shown):
        return "vertical"
    if "horizontal" in shown:
        return "horizontal"
    return _only_s390x(architecture)


def _entitlement(rows: list[CpuRow], architecture: str | Unknown) -> Mapping[str, int] | Unknown:
    words = [row.polarization for row in rows if row.polarization]
    if not words:
        return _only_s390x(architecture)
    kinds = (re.sub(r"^vert(?:ical)?[-:]", "", word) for word in words if word.startswith("vert"))
    return dict(sorted(Counter({"med": "medium"}.get(kind, kind) for kind in kinds).items()))


def _only_s390x(architecture: str | Unknown) -> Unknown:
    if isinstance(architecture, Unknown) or architecture == "s390x":
        return Unknown("the capture does not show it")
    return Unknown("only s390x has it")


def _shared(capture: Capture) -> bool | Unknown:
    sysinfo = capture.maybe("proc/sysinfo")
    if sysinfo is not None:
        return _shared_on_z(colon_fields(sysinfo))
    power = re.search(r"^shared_processor_mode=(\d)", capture.maybe("proc/ppc64/lparcfg") or "", re.MULTILINE)
    if power:
        return power[1] == "1"
    return Unknown("this hypervisor, if there is one, does not tell its guests")


def _shared_on_z(fields: dict[str, str]) -> bool | Unknown:
    lpar = fields.get("LPAR Characteristics", "")
    by_lpar = fields.get("LPAR CPUs Shared", "0") != "0" or "Shared" in lpar
    if "VM00 Control Program" not in fields:
        return by_lpar or (False if "Dedicated" in lpar else Unknown("/proc/sysinfo does not say it"))
    if by_lpar:
        return True
    dedicated, total = fields.get("VM00 CPUs Dedicated"), fields.get("VM00 CPUs Total")
    if dedicated is not None and dedicated == total:
        return False
    return Unknown(f"{fields['VM00 Control Program']} does not tell its guests")


def _features(capture: Capture, fields: dict[str, str]) -> frozenset[str] | Unknown:
    found = colon_fields(capture.maybe("proc/cpuinfo") or "")
    text = next((found[name] for name in ("flags", "features", "Features", "isa") if name in found), None)
    text = text if text is not None else fields.get("Flags")
    return Unknown("/proc/cpuinfo lists no features") if text is None else frozenset(text.split())
