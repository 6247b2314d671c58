"""What an undo bundle is about: which server, how it is started, whose session, which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pgdyno.kernel.kernel import KernelImage
from pgdyno.linux.identity import ProcessIdentity
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
    that the server asked the session for a password, which a person must give after a reboot.
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
    version: int = VERSION

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> Manifest:
        """Rebuild one. Raises KeyError, TypeError or ValueError on anything else than what `to_json` made."""
        owner, images, control = fields["owner"], fields["images"], fields["control"]
        if not isinstance(owner, dict) or not isinstance(images, list) or fields["version"] not in READABLE:
            raise ValueError("not a manifest of this version")
        route, address, reserve = fields.get("route"), fields.get("address"), fields.get("reserve")
        kernel, pins = fields.get("kernel"), fields.get("pins")
        return cls(
            id=str(fields["id"]),
            study=str(fields["study"]),
            created_at=float(str(fields["created_at"])),
            target=str(fields["target"]),
            conninfo=str(fields["conninfo"]),
            data_directory=str(fields["data_directory"]),
            main_file=str(fields["main_file"]),
            bin_dir=str(fields["bin_dir"]),
            control=control if isinstance(control, dict) else None,
            owner=ProcessIdentity(**owner),
            images=tuple(FileImage.from_json(image) for image in images),
            # Version 1 knew configuration files on this host only.
            route=route if isinstance(route, dict) else {"kind": "files", "main": str(fields["main_file"])},
            local=bool(fields.get("local", True)),
            address=Address(**address) if isinstance(address, dict) else None,
            reserve=None if reserve is None else str(reserve),
            pins=tuple(Pin.from_json(pin) for pin in pins) if isinstance(pins, list) else (),
            kernel=tuple(KernelImage.from_json(image) for image in kernel) if isinstance(kernel, list) else (),
            asks_password=bool(fields.get("asks_password", False)),
        )
