"""Take a capture of a target: everything that `pgdyno inspect` wants to know, as raw texts. Reads only."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, replace

from pgdyno import __version__
from pgdyno.capture.device_files import read_block_devices, read_cgroup, read_network
from pgdyno.capture.kernel_files import read_kernel_files, read_processor_folders
from pgdyno.capture.keys import is_key
from pgdyno.capture.programs import run_programs
from pgdyno.capture.server_places import look_at_mounts, look_at_places, server_places, standard_error
from pgdyno.capture.server_queries import read_server
from pgdyno.capture.texts import ENVIRONMENT, HOST, Capture
from pgdyno.linux.kernel_tree import LIVE, reason_of
from pgdyno.targets.surroundings import seen_environment
from pgdyno.targets.target import Target

_TARGET = "postgres/target.json"
_OF_POSTMASTER = ("status", "cgroup", "mountinfo")


def take_capture(target: Target) -> Capture:
    """Read server and host. Over ssh the agent does it there, with this very code.

    The host is left out, with the reason, where the server is elsewhere or only SQL is allowed. Raises ConnectError
    when there is no session with the server.
    """
    if target.remote is not None:
        there = target.remote.capture()
        return replace(there, texts={**there.texts, _TARGET: _target_text(target)})
    texts, missing = read_server(target.postgres)
    elsewhere = _no_host(target)
    if elsewhere is None:
        host, absent = _read_host(target, texts)
        texts |= host
        missing |= absent
    else:
        missing[HOST] = elsewhere
    texts[_TARGET] = _target_text(target)
    rows = json.loads(texts.get("postgres/settings.json", "[]"))
    settings = {row["name"]: row["setting"] for row in rows}
    if {"server_version", "block_size"} <= settings.keys():  # a service of another make may show neither
        texts[ENVIRONMENT] = json.dumps(asdict(seen_environment(target, settings))) + "\n"
    else:
        missing[ENVIRONMENT] = "the server does not show its version and block size among its settings"
    for key in [key for key in texts if not is_key(key)]:  # a device may have any name; a capture keeps usual ones
        missing[key] = "its name is none that a capture keeps"
        del texts[key]
    return Capture(texts, missing, "live", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), f"pgdyno {__version__}")


def _target_text(target: Target) -> str:
    return json.dumps([{"disposable": target.disposable, "same_host": target.local}]) + "\n"


def _no_host(target: Target) -> str | None:
    if target.route is not None:
        from pgdyno.routes.sql_route import SqlRoute  # which most targets do without

        if isinstance(target.route, SqlRoute):
            return "only SQL is used (--sql-only)"
    return None if target.local else f"{target.cpu.reason}; --host ssh://... looks at another host"


def _read_host(target: Target, server: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    texts, missing = read_kernel_files()
    outputs, absent = run_programs(target.runner, platform.machine())
    texts, missing = texts | outputs, missing | absent
    if "commands/lscpu_extended.txt" not in texts:
        texts |= read_processor_folders()
    texts |= read_block_devices() | read_network()
    pid = target.cpu.postmaster()
    texts |= _postmaster(pid, missing)
    cgroups = texts.get("proc/postmaster/cgroup")
    if cgroups is not None:
        texts |= read_cgroup(cgroups, texts.get("proc/self/mountinfo", ""))
    places = server_places(server, target.directory, pid)
    if places:
        texts["commands/places.json"] = look_at_places(places)
    else:
        missing["commands/places.json"] = "the server does not show its data directory to this role"
    texts["commands/statvfs.json"] = look_at_mounts(texts.get("proc/self/mountinfo", ""))
    return texts, missing


def _postmaster(pid: int | None, missing: dict[str, str]) -> dict[str, str]:
    if pid is None:
        missing["proc/postmaster/status"] = "the postmaster's process is not known"
        return {}
    texts: dict[str, str] = {}
    for name in _OF_POSTMASTER:
        path = f"/proc/{pid}/{name}"
        try:
            texts[f"proc/postmaster/{name}"] = LIVE.read(path)
        except OSError as error:
            missing[f"proc/postmaster/{name}"] = reason_of(error, path)
    about = {"pid": pid, "log": standard_error(pid), "cpus": _usable(pid)}
    texts["commands/postmaster.json"] = json.dumps(about) + "\n"
    return texts


def _usable(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return None
