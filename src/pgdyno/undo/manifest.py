"""What an undo bundle is about: which server, how it is started, whose session, which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.kernel.kernel import KernelImage
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.shapes import shaped
from pgdyno.owner.file_image import FileImage
from pgdyno.owner.pins import Pin
from pgdyno.server.health import Address

VERSION = 2
READABLE = (1, VERSION)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Written once, before the first change. `conninfo` never holds a password.

    `control` is how the server is started (see control_record.py), None when we cannot. `bin_dir` holds the server's
    programs. `images` are the files that may be changed, `main_file` among them when our line must go into it.
    `route` is how settings reach the server (see route_record.py). `local` says that the data directory is on the host
    of this bundle. `address` is where the server listens, None when that is not to be asked. `reserve` is a file in
    the data directory that holds space for the way back. `kernel` are the Linux knobs that may change. `pins` are the
    directories that files are changed in: when one of them is another, nothing is written there. `asks_password` says
    that the server asked the session for a password, which a person must give after a reboot. `sandbox` says that the
    server is one of pgdyno's own, which each command starts and stops.
    """

    id: str
    study: str
    created_at: float
    target: str
    conninfo: str
    data_directory: str
    main_file: str
    bin_dir: str
    control: Mapping[str, object] | None
    owner: ProcessIdentity
    images: tuple[FileImage, ...]
    route: Mapping[str, object] = field(default_factory=dict)
    local: bool = True
    address: Address | None = None
    reserve: str | None = None
    kernel: tuple[KernelImage, ...] = ()
    pins: tuple[Pin, ...] = ()
    asks_password: bool = False
    sandbox: bool = False
    version: int = VERSION

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> Manifest:
        """Rebuild one. Raises KeyError, TypeError or ValueError on anything else than a manifest as JSON."""
        if fields["version"] not in READABLE:
            raise ValueError("not a manifest of this version")
        route = fields.get("route")
        if not isinstance(route, Mapping):  # version 1 knew configuration files on this host only
            route = {"kind": "files", "main": fields["main_file"]}
        return shaped(cls, {**fields, "route": route, "version": VERSION}, "the manifest", strict=False)
