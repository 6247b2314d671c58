"""`pgdyno compare --iostat BEFORE AFTER`: two reports of iostat -x, such as before and after a table moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.comparing.flags import CompareFlags
from pgdyno.cli.terminal.files import read_text
from pgdyno.cli.terminal.reporting import emit
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.model.evidence import DeviceActivity


def iostat_command(flags: CompareFlags, files: tuple[Path, Path]) -> int:
    """Compare the two files and write the page."""
    from pgdyno.probes.evidence.iostat import compare
    from pgdyno.report.iostat_page import change_sentences, iostat_page, new_device_sentences
    from pgdyno.store.codec import to_json

    before, after = (_devices(path, flags.devices) for path in files)
    comparison, output = compare(before, after), flags.output
    if flags.as_json and output is None:
        said = [*change_sentences(comparison), *new_device_sentences(before, comparison)]
        values = {"before": before, "after": after, "comparison": comparison, "sentences": said}
        click.echo(json.dumps(to_json(values)))
        return 0
    emit(iostat_page(before, after, comparison), flags.wanted, output)
    return 0


def _devices(path: Path, wanted: tuple[str, ...]) -> tuple[DeviceActivity, ...]:
    from pgdyno.probes.evidence.iostat import mean_devices, parse_iostat

    hint = "Record one with iostat -x 10 2 > FILE."
    rows = mean_devices(parse_iostat(read_text(path, hint=hint, lenient=True)))
    found = tuple(row for row in rows if not wanted or row.device in wanted)
    if not found:
        raise UsageError(
            f'"{path}" has no device row of iostat -x' if not rows else f'"{path}" has none of these devices',
            detail=", ".join(row.device for row in rows) or None,
            hint=hint if not rows else "Name one that it has with --device.",
        )
    return found
