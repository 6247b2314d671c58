"""Check or replace the JavaScript packages that the report carries.

`--check` compares every vendored file with its SHA-256 in VENDOR.toml and fails on a missing, changed or unlisted
file. `--from TARBALL` takes the files of one package out of the archive that `npm pack NAME@VERSION` leaves, and
writes the new version and hashes into VENDOR.toml. Nothing here opens a connection.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "src/pgdyno/report/static/vendor"
MANIFEST = "VENDOR.toml"


@dataclass(frozen=True, slots=True)
class VendoredFile:
    """A file of ours, the member of the package that it is, and its hash."""

    path: str
    source: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """An npm package of which we carry some files."""

    name: str
    version: str
    tarball_sha256: str
    files: tuple[VendoredFile, ...]


def read_manifest(folder: Path) -> tuple[Package, ...]:
    """Read VENDOR.toml of this folder."""
    document = tomllib.loads((folder / MANIFEST).read_text())
    return tuple(
        Package(
            entry["name"],
            entry["version"],
            entry["tarball_sha256"],
            tuple(VendoredFile(item["path"], item["source"], item["sha256"]) for item in entry["file"]),
        )
        for entry in document["package"]
    )


def digest(content: bytes) -> str:
    """Return the SHA-256 of these bytes in hex."""
    return hashlib.sha256(content).hexdigest()


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the vendored files of this folder, one line each; an empty list when all is well."""
    listed = {file.path: file.sha256 for package in read_manifest(folder) for file in package.files}
    present = {path.name for path in folder.iterdir()} - {MANIFEST}
    missing = [f"{name} is listed but missing" for name in sorted(listed.keys() - present)]
    unlisted = [f"{name} is not listed in {MANIFEST}" for name in sorted(present - listed.keys())]
    changed = [
        f"{name} differs from its hash"
        for name in sorted(listed.keys() & present)
        if digest((folder / name).read_bytes()) != listed[name]
    ]
    return missing + unlisted + changed


def replace_package(folder: Path, tarball: Path) -> str:
    """Replace the files of the package in this npm archive; return its name and version."""
    manifest = (folder / MANIFEST).read_text()
    with tarfile.open(tarball) as archive:

        def member(name: str) -> bytes:
            content = archive.extractfile(f"package/{name}")
            if content is None:
                raise SystemExit(f"{tarball.name} has no regular file {name}")
            return content.read()

        about = json.loads(member("package.json"))
        package = next((known for known in read_manifest(folder) if known.name == about["name"]), None)
        if package is None:
            raise SystemExit(f"{about['name']} is not a package of {MANIFEST}")
        old_version, new_version = (
            f'name = "{package.name}"\nversion = "{v}"' for v in (package.version, about["version"])
        )
        manifest = manifest.replace(old_version, new_version)
        manifest = manifest.replace(package.tarball_sha256, digest(tarball.read_bytes()))
        for file in package.files:
            content = member(file.source)
            (folder / file.path).write_bytes(content)
            manifest = manifest.replace(file.sha256, digest(content))
    (folder / MANIFEST).write_text(manifest)
    return f"{package.name} {about['version']}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare the files with their hashes")
    action.add_argument("--from", dest="tarball", type=Path, metavar="TARBALL", help="replace one package")
    arguments = parser.parse_args()
    if arguments.tarball is not None:
        print("replaced", replace_package(VENDOR, arguments.tarball))
    found = problems(VENDOR)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
