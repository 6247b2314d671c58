"""What an undo bundle is about: which server, how it is started, whose session, which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pgdyno.target.file_image import FileImage
from pgdyno.target.identity import ProcessIdentity

VERSION = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """Written once, before the first change. `conninfo` never holds a password.

    `control` is how the server is started (see control_record.py), None when we cannot. `bin_dir` holds the server's
    programs. `images` are the files that may be changed, `main_file` among them when our line must go into it.
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
    version: int = VERSION

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> Manifest:
        """Rebuild one. Raises KeyError, TypeError or ValueError on anything else than what `to_json` made."""
        owner, images, control = fields["owner"], fields["images"], fields["control"]
        if not isinstance(owner, dict) or not isinstance(images, list) or fields["version"] != VERSION:
            raise ValueError("not a manifest of this version")
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
        )
