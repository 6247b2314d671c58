"""Studies as files that travel: what may leave this machine, and how a study of another one enters the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.capture.secrets import public_setting, public_text
from pgdyno.store.bundle_export import export_bundle, study_digest
from pgdyno.store.bundle_format import BundleManifest, open_bundle
from pgdyno.store.bundle_import import Imported, import_bundle
from pgdyno.store.catalogue import Store
from pgdyno.store.export import Cell


def export_studies(store: Store, studies: Sequence[str], path: Path) -> BundleManifest:
    """Write a bundle of studies; passwords, and how the server is reached, stay here. See `export_bundle`."""
    return export_bundle(store, studies, path, clean)


def import_studies(store: Store, path: Path, clock: Callable[[], float] = time.time) -> list[Imported]:
    """Read the studies of a bundle into the store. See `import_bundle`."""
    with open_bundle(path) as bundle:
        return import_bundle(store, bundle, now=clock(), digest_here=lambda study: study_digest(store, study, clean))


def read_manifest(path: Path) -> BundleManifest:
    """Return what is in a bundle, after every member has been checked against its hash."""
    with open_bundle(path) as bundle:
        bundle.verify()
        return bundle.manifest


def clean(table: str, row: dict[str, Cell]) -> dict[str, Cell]:
    """Return a row as it may leave this machine: without the way to the server, and without passwords anywhere."""
    if table == "histogram":
        return row
    if table == "study":
        options, facts = row["options"], row["facts"]
        if isinstance(options, dict):
            row = {**row, "options": {name: value for name, value in options.items() if name != "target"}}
        settings = facts.get("settings") if isinstance(facts, dict) else None
        if isinstance(facts, dict) and isinstance(settings, dict):
            public = {name: public_setting(name, str(value)) for name, value in settings.items()}
            row = {**row, "facts": {**facts, "settings": public}}
    if table == "trial_setting":
        row = {**row, "value": public_setting(str(row["knob"]), str(row["value"]))}
    return {name: _public(value) for name, value in row.items()}


def _public(value: object) -> Cell:
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, dict):
        return {str(name): _public(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_public(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
