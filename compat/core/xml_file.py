"""XML files of assets, read with errors that a user can act on."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from livegym.utils.errors import UserError


@dataclass(frozen=True)
class Complaint:
    """Makes errors about one file: `raise complain("link foot", "it has no name.")`."""

    file: Path

    def __call__(self, element: str, trouble: str) -> UserError:
        return UserError(f"{self.file}: {element}: {trouble}")


def parse(file: Path) -> ET.Element:
    """The root element. Raises UserError if the file cannot be read or is no XML."""
    try:
        return ET.fromstring(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}. Check the path and its permissions.") from None
    except ET.ParseError as error:
        line, column = error.position
        raise UserError(f"{file}: line {line}, column {column}: invalid XML ({error}). Correct it there.") from None
