"""Rows of a matrix as plain JSON, as the study's result keeps them, and back."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.matrix import Cell, MatrixRow, SkippedCell

_TEXTS = ("state", "smt", "durability", "system")
_NUMBERS = ("tps", "latency_ms", "cpu_pct", "server_cpu_pct", "driver_cpu_pct", "p99_ms", "edges")
_WHOLES = ("cores", "vcpus", "history_rows")
_MAPPINGS = ("locks", "locks_max", "bytes_before", "bytes_after")


def row_to_json(row: MatrixRow) -> dict[str, object]:
    """Return a row; `row_from_json` reads it back."""
    plain = {name: getattr(row, name) for name in (*_TEXTS, *_NUMBERS, *_WHOLES)}
    maps = {name: dict(getattr(row, name)) for name in _MAPPINGS}
    return {
        "cell": row.cell.factors(),
        "connections": row.cell.connections,
        "reason": row.reason,
        **plain,
        **maps,
        "runs": {str(block): tps for block, tps in row.runs.items()},
        "transactions": row.transactions,
        "checks": list(row.checks),
        "warnings": list(row.warnings),
        "trials": list(row.trials),
    }


def row_from_json(values: Mapping[str, object]) -> MatrixRow | None:
    """Return the row, None for what is none: a report of an old or damaged study is still drawn."""
    cell = cell_from_json(values.get("cell"))
    if cell is None:
        return None
    reason = values.get("reason")
    return MatrixRow(
        cell=cell,
        state=str(values.get("state", "")),
        reason=None if reason is None else str(reason),
        tps=_number(values.get("tps")),
        latency_ms=_number(values.get("latency_ms")),
        cpu_pct=_number(values.get("cpu_pct")),
        smt=str(values.get("smt", "")),
        locks=_numbers(values.get("locks")),
        locks_max=_numbers(values.get("locks_max")),
        runs={int(block): tps for block, tps in _numbers(values.get("runs")).items()},
        durability=str(values.get("durability", "")),
        system=str(values.get("system", "")),
        cores=_whole(values.get("cores")),
        vcpus=_whole(values.get("vcpus")),
        server_cpu_pct=_number(values.get("server_cpu_pct")),
        driver_cpu_pct=_number(values.get("driver_cpu_pct")),
        p99_ms=_number(values.get("p99_ms")),
        edges=_number(values.get("edges")),
        transactions=_whole(values.get("transactions")) or 0,
        history_rows=_whole(values.get("history_rows")),
        bytes_before=_numbers(values.get("bytes_before")),
        bytes_after=_numbers(values.get("bytes_after")),
        checks=tuple(str(check) for check in _items(values.get("checks"))),
        warnings=tuple(str(warning) for warning in _items(values.get("warnings"))),
        trials=tuple(int(trial) for trial in _items(values.get("trials")) if isinstance(trial, int)),
    )


def skipped_to_json(skipped: SkippedCell) -> dict[str, object]:
    """Return a skipped cell."""
    return {"cell": skipped.cell.factors(), "reason": skipped.reason}


def skipped_from_json(values: Mapping[str, object]) -> SkippedCell | None:
    """Return the skipped cell, None for what is none."""
    cell = cell_from_json(values.get("cell"))
    return None if cell is None else SkippedCell(cell, str(values.get("reason", "")))


def cell_from_json(value: object) -> Cell | None:
    """Return a cell from its factors, None for what is none."""
    try:
        return Cell.of_factors({str(k): str(v) for k, v in value.items()}) if isinstance(value, Mapping) else None
    except (KeyError, ValueError):
        return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _numbers(value: object) -> dict[str, float]:
    items = value.items() if isinstance(value, Mapping) else ()
    return {str(name): number for name, item in items if (number := _number(item)) is not None}


def _items(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()
