"""What hatchling asks when it builds a wheel: one that has the compiled engine in it is for this kind of machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ENGINE = "src/pgdyno/trace/bin/pgdyno-engine"


class EngineHook(BuildHookInterface[Any]):
    """Names the wheel by processor and C library where `make engine` has built the engine, else for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the tag (PEP 600: what this C library or a newer one runs)."""
        libc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        if version != "editable" and Path(self.root, ENGINE).exists() and libc[:1] == ["glibc"]:
            major, minor = libc[1].split(".")[:2]
            build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
            build_data["pure_python"] = False
            build_data["artifacts"].append(ENGINE)
