"""What lies below the operating system: hypervisors of each architecture, and containers. Pure."""

from __future__ import annotations

import re
from pathlib import Path

from pgdyno.capture.texts import Capture
from pgdyno.inventory.machine import architecture_of, colon_fields, lscpu_fields
from pgdyno.linux.host import MARKS, container_of
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Virtualization

_VENDORS = {"Microsoft": "Hyper-V", "pHyp": "PowerVM", "IBM": "PowerVM", "pSeries": "PowerVM", "oracle": "VirtualBox"}


def read_virtualization(capture: Capture) -> Virtualization:
    """Return the layer below the server's operating system, and the container that it runs in."""
    sysinfo = capture.maybe("proc/sysinfo")
    if sysinfo is not None:
        layer, detail = _on_z(colon_fields(sysinfo))
    else:
        layer, detail = _by_lscpu(capture)
    return Virtualization(layer, _container(capture), detail)


def _on_z(fields: dict[str, str]) -> tuple[str | Unknown, str]:
    """Return the innermost hypervisor: /proc/sysinfo lists a guest's levels as VM00, VM01 ..."""
    names = [name for name in fields if re.fullmatch(r"VM\d\d Control Program", name)]
    lpar = fields.get("LPAR Name", "").strip()
    detail = f"LPAR {lpar}" if lpar else ""
    if names:
        program = fields[min(names)]
        layer = "KVM" if program.startswith("KVM") else "z/VM" if program.startswith("z/VM") else program
        return layer, ", ".join(part for part in (" ".join(program.split()), detail) if part)
    if "LPAR Number" in fields or "LPAR Characteristics" in fields:
        characteristics = fields.get("LPAR Characteristics", "")
        return "LPAR", f"{detail}, {characteristics}".strip(", ")
    return Unknown("/proc/sysinfo names neither an LPAR nor a hypervisor"), ""


def _by_lscpu(capture: Capture) -> tuple[str | Unknown, str]:
    fields = lscpu_fields(capture)
    product = (capture.maybe("sys/class/dmi/id/product_name") or "").strip()
    vendor = fields.get("Hypervisor vendor") or (capture.maybe("sys/hypervisor/type") or "").strip()
    if vendor:
        kind = fields.get("Virtualization type", "")
        return _VENDORS.get(vendor, "Xen" if vendor == "xen" else vendor), ", ".join(w for w in (product, kind) if w)
    cpuinfo = colon_fields(capture.maybe("proc/cpuinfo") or "")
    platform = cpuinfo.get("platform", "")
    if platform == "PowerNV":
        return "none", platform
    if platform == "pSeries":
        return "PowerVM", platform
    architecture = architecture_of(capture)
    flags = cpuinfo.get("flags") or fields.get("Flags") or ""
    if architecture == "x86_64" and flags:
        if "hypervisor" in flags.split():
            return Unknown("there is a hypervisor that does not give its name"), product
        return "none", product
    if isinstance(architecture, Unknown):
        return architecture, product
    return Unknown(f"no sign of it is known for {architecture} in this capture"), product


def _container(capture: Capture) -> str | Unknown | None:
    groups = [capture.maybe(f"proc/{who}/cgroup") for who in ("postmaster", "1", "self")]
    text = "\n".join(group for group in groups if group is not None)
    marks = [mark for mark in MARKS if f"run/{Path(mark).name}" in capture.texts]
    found = container_of(capture.maybe("run/systemd/container"), marks, text)
    if found is not None:
        return found
    if re.search(r"^\d+:[^:]*:/", text, re.MULTILINE):
        return None
    return capture.reason("proc/1/cgroup") if not text else Unknown("the cgroup's file does not read as expected")
