"""Read what a load generator in a cluster printed (`pods/drive.sh`): who it was, what pgbench said, its logs. Pure.

A pod that was killed, or whose output the cluster cut off, has no end in its text: it measured nothing that counts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.matrix import Cell
from pgdyno.model.samples import SampleRow
from pgdyno.model.trial import LoadPlan
from pgdyno.outside.documents import load_json, unpack
from pgdyno.workloads.pgbench.log import PgbenchLogFormat, parse_lines
from pgdyno.workloads.pgbench.log_fold import LogFold
from pgdyno.workloads.pgbench.progress import count_aborted, first_reason
from pgdyno.workloads.result import LoadResult, SecondHistograms, count_bins

PODS = Path(__file__).with_name("pods")
"""The folder of the scripts that run in a cluster."""
VERSION = "1"
_FIRST = re.compile(r"^pgdyno-pod (\S+) (\d+) (\{.*\})$", re.MULTILINE)
_FAILED = re.compile(r"^pgdyno-failed (.*)$", re.MULTILINE)
_NOTE = re.compile(r"^pgdyno-note (.*)$", re.MULTILINE)
_SERVER = re.compile(r"^pgdyno-server (\d+) (.+)$", re.MULTILINE)
_BEGIN = re.compile(r"^pgdyno-begin (\d+)$", re.MULTILINE)
_END = re.compile(r"^pgdyno-end (\d+) (?:(\d+)m([\d.]+)s) (?:(\d+)m([\d.]+)s)$", re.MULTILINE)
_COMPLETE = re.compile(r"^pgdyno-complete$", re.MULTILINE)
_FILE = "^pgdyno-file {name} ([0-9a-f]{{64}})$(.*?)^pgdyno-close {name}$"
_SAMPLE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})? [0-9]{1,18} [0-9]{1,18}")
_SESSIONS_COLUMNS = 6
MOST_UNPACKED = 2 << 30
"""A log of transactions packs fivefold; an hour of a hundred thousand a second does not come through kubectl."""
_MOST = 100_000
"""Load generators, and clients and threads of one: more is no run of a cluster, but a damaged text."""


@dataclass(frozen=True, slots=True)
class PodRunLog:
    """What all pods of one Job say of it: the cell, its place in the order, and how it was driven."""

    cell: Cell
    number: int
    repetition: int
    plan: LoadPlan
    told: str
    """The whole of it as it was printed: pods of one Job say the same, letter by letter."""
    settings: Mapping[str, str] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PodLog:
    """The output of one pod: what its load came to, None with a `reason` when it measured nothing that counts.

    `samples` of sessions and locks, by the server's clock, its `version` and the size of the data are of the first pod.
    """

    name: str
    index: int
    run: PodRunLog
    result: LoadResult | None
    reason: str | None = None
    samples: tuple[SampleRow, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    database_bytes: int | None = None


def read_pod(text: str, *, name: str) -> PodLog:
    """Return what a pod printed. Raises UsageError for a text that no pod of pgdyno wrote."""
    try:
        return _read(text, name)
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise UsageError(f'"{name}" is damaged', detail=str(error)[:500], hint=_AGAIN) from error


def _read(text: str, name: str) -> PodLog:
    first = _FIRST.search(text)
    if first is None:
        raise UsageError(
            f'"{name}" is not the output of a load generator of pgdyno',
            hint="Fetch it with kubectl logs POD, or let run.sh beside the manifests do it.",
        )
    if first[1] != VERSION:
        raise UsageError(
            f'"{name}" has version {first[1]} of the output of pods, and {VERSION} is known',
            hint="Read it with the pgdyno that wrote the manifests.",
        )
    index, run = int(first[2]), _run(first[3], name)
    notes = tuple(_NOTE.findall(text))
    result, reason = _result(text, index, run, name)
    samples = _samples(_file(text, "samples", name)) if index == 0 and result is not None else ()
    version, size = ("", None) if (told := _SERVER.search(text)) is None else (told[2].strip(), int(told[1]))
    return PodLog(name, index, run, result, reason, samples, notes, version, size)


def _result(text: str, index: int, run: PodRunLog, name: str) -> tuple[LoadResult | None, str | None]:
    if failed := _FAILED.search(text):
        return None, failed[1].strip() or "it failed and did not say why"
    begin, end = _BEGIN.search(text), _END.search(text)
    if begin is None:
        return None, "it ended before the start"
    if end is None or not _COMPLETE.search(text):
        return None, "its output has no end: killed, or cut off by the cluster"
    said, code = text[begin.end() : end.start()], int(end[1])
    aborted, reason = count_aborted(said), None
    if aborted or code:
        clients = f"{aborted} of {run.plan.clients} clients aborted" if aborted else "pgbench gave up"
        reason = f"{clients} (exit code {code}): {first_reason(said) or 'no reason given'}"
    parsed = parse_lines(_file(text, "transactions", name), PgbenchLogFormat())
    if not len(parsed.log):
        return None, reason or "not a single transaction"
    cpu_s = 60.0 * (int(end[2]) + int(end[4])) + float(end[3]) + float(end[5])
    fold = LogFold(first_client=index * run.plan.clients)
    fold.add(parsed.log)
    log = fold.folded()
    began_at, counts = log.first_began_us / 1e6, log.tally()
    return LoadResult(
        began_at=began_at,
        ended_at=log.last_end_us / 1e6,
        transactions=counts.committed,
        failed=counts.failed,
        retried=counts.retried,
        skipped=counts.skipped,
        driver_cpu_s=cpu_s,
        bins=count_bins(log, began_at=began_at),
        histograms=SecondHistograms(((log, (run.cell.mode,), index),)),
        warnings=(),
        log_files=(),
        argv=(),
        exit_code=code,
        aborted_clients=aborted,
        malformed_lines=parsed.malformed,
        reason=reason,
        log=log,
    ), reason


def _run(text: str, name: str) -> PodRunLog:
    try:
        told = load_json(text)
        cell = Cell.of_factors(told["cell"])
        if not all(1 <= count <= _MOST for count in (cell.instances, cell.clients, cell.jobs)):
            raise ValueError(f"{cell.instances} load generators of {cell.clients} clients and {cell.jobs} threads")
        memory = told["memory_bytes"]
        return PodRunLog(
            cell=cell,
            number=int(told["number"]),
            repetition=int(told["repetition"]),
            plan=LoadPlan(
                clients=cell.clients,
                jobs=cell.jobs,
                warmup_s=float(told["warmup_s"]),
                measure_s=float(told["measure_s"]),
                protocol=str(told["protocol"]),
                instances=cell.instances,
                instance_vcpus=None if told["vcpus"] is None else float(told["vcpus"]),
                instance_memory_bytes=None if memory is None else int(memory),
                host=cell.placement,
            ),
            told=text,
            settings={str(key): str(value) for key, value in told["settings"].items()},
            network={str(key): str(value) for key, value in told["network"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f'"{name}" does not say what it ran', detail=str(error), hint=_AGAIN) from error


def _file(text: str, which: str, name: str) -> bytes:
    """Return one file out of the text. Raises UsageError when it is damaged."""
    found = re.search(_FILE.format(name=which), text, re.MULTILINE | re.DOTALL)
    if found is None:
        return b""
    try:
        packed = base64.b64decode("".join(found[2].split()), validate=True)
    except binascii.Error as error:
        raise UsageError(f'file {which} in "{name}" is damaged', detail=str(error), hint=_AGAIN) from error
    if hashlib.sha256(packed).hexdigest() != found[1]:
        raise UsageError(f'file {which} in "{name}" is damaged', detail="its SHA-256 is another", hint=_AGAIN)
    try:
        return unpack(packed, at_most=MOST_UNPACKED)
    except ValueError as error:
        raise UsageError(f'file {which} in "{name}" is damaged', detail=str(error), hint=_AGAIN) from error


_AGAIN = "Fetch the output of the pod once more."


def _samples(data: bytes) -> tuple[SampleRow, ...]:
    """Return sessions and locks, one moment a second; a line that is none is left out, as the last one may be."""
    rows = []
    for line in data.decode("utf-8", errors="replace").splitlines():
        words = line.split(" ")
        if len(words) == len(("t", "mode", "locktype", "granted", "waiting")) and _numbers(words):
            t, granted, waiting = float(words[0]), int(words[3]), int(words[4])
            if words[1] == "sessions":
                rows.append(SampleRow("sessions", t, (granted, *(None,) * _SESSIONS_COLUMNS)))
            else:
                rows.append(SampleRow("locks", t, (words[1], words[2], granted, waiting)))
    return tuple(rows)


def _numbers(words: Sequence[str]) -> bool:
    return bool(_SAMPLE.fullmatch(" ".join((words[0], *words[3:]))))
