"""Programs whose output a capture keeps: none of them changes anything, each is an argument list without a shell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pgdyno.capture.secrets import public_text
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.runner import Runner

_JSON = ("--reportformat", "json", "--units", "b")
_LV_FIELDS = "lv_name,vg_name,lv_path,lv_size,stripes,stripe_size,lv_read_ahead,lv_kernel_read_ahead,devices"
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "lscpu.txt": ("lscpu",),
    "lscpu_extended.txt": ("lscpu", "--extended"),
    "lsblk.json": ("lsblk", "-J", "-O", "-b"),
    "lvs.json": ("lvs", *_JSON, "-o", _LV_FIELDS),
    "vgs.json": ("vgs", *_JSON),
    "pvs.json": ("pvs", *_JSON),
    "tuned_adm.txt": ("tuned-adm", "active"),
    "multipath.txt": ("multipath", "-ll"),
    "lsscsi.txt": ("lsscsi",),
}
S390X: Mapping[str, tuple[str, ...]] = {
    "lscss.txt": ("lscss",),
    "lsdasd.txt": ("lsdasd",),
    "lszfcp.txt": ("lszfcp", "-D"),
}
PPC64: Mapping[str, tuple[str, ...]] = {
    "ppc64_cpu_smt.txt": ("ppc64_cpu", "--smt"),
    "ppc64_cpu_info.txt": ("ppc64_cpu", "--info"),
}
TIMEOUT_S = 5.0
_SUPERUSER_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def run_programs(runner: Runner, machine: str) -> tuple[dict[str, str], dict[str, str]]:
    """Run what this machine may have; return outputs by key and reasons by key. Never raises."""
    wanted = dict(PROGRAMS)
    if machine.startswith("s390"):
        wanted |= S390X
    if machine.startswith("ppc64"):
        wanted |= PPC64
    outputs: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name, argv in wanted.items():
        key = f"commands/{name}"
        try:
            done = runner.run([_found(argv[0]), *argv[1:]], env={"LC_ALL": "C"}, timeout_s=TIMEOUT_S, check=False)
        except EnvironmentUnsuitable as error:
            absent = "was not found" in error.message
            missing[key] = f"{argv[0]} is not installed" if absent else error.message
            continue
        if done.returncode == 0:
            outputs[key] = public_text(done.stdout)
        else:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            missing[key] = f"{argv[0]} failed with exit status {done.returncode}" + (f": {last[0]}" if last else "")
    return outputs, missing


def _found(name: str) -> str:
    """Return where a program is: those for root are often not on a user's PATH, and some of them work for him too."""
    for folder in (*os.environ.get("PATH", "").split(":"), *_SUPERUSER_FOLDERS):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return str(Path(folder) / name)
    return name
