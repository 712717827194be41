"""What is known of a key besides its type, attached to the fields of the schema's dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from livegym.projects import registry


@dataclass(frozen=True)
class KeyDoc:
    """What is known of one key besides its type: meaning, unit, range and an example."""

    help: str
    unit: str = ""
    low: Optional[float] = None
    high: Optional[float] = None
    above: Optional[float] = None  # exclusive lower bound
    choices: tuple[str, ...] = ()
    example: str = ""
    mode: str = ""  # the modes in which the key has an effect, with blanks between; "": all
    file: bool = False  # (of a task) names a file: made absolute, may change on resume, may be typed by its name alone
    part: str = ""  # a kind of part of the projects (algorithms), whose names are the choices
    aliases: tuple[str, ...] = ()  # what other tools of this kind call it, without case and underscores

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names that may stand in the key; (): others than names, or any."""
        return tuple(registry.names(self.part)) if self.part else self.choices


def key(default: Any, help: str, **doc: Any) -> Any:
    """A dataclass field with a `KeyDoc`; a mutable default is copied for each instance."""
    metadata = {"doc": KeyDoc(help=help, **doc)}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)
