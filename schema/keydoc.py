"""The documentation and range of a key, attached to the fields of the schema's dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Optional

from livegym.projects import registry


@dataclass(frozen=True)
class KeyDoc:
    """Meaning, unit, range and an example of one key; its type is that of the field."""

    help: str
    unit: str = ""
    low: Optional[float] = None
    high: Optional[float] = None
    above: Optional[float] = None  # exclusive lower bound
    choices: tuple[str, ...] = ()
    example: str = ""
    mode: str = ""  # the modes in which the key has an effect, separated by blanks; "": all modes
    viewers: bool = False  # it also applies to the viewers of a training run (watch, viewer, videos)
    file: bool = False  # it names a file: made absolute, may change on resume, may be typed without task.params.
    names: tuple[str, ...] = ()  # values of a key that names a file which are no paths, and stay as they are typed
    part: str = ""  # a kind of part that projects bring, such as algorithms: their names are the choices
    aliases: tuple[str, ...] = ()  # names of this key in similar tools, in lower case and without underscores

    @property
    def allowed(self) -> tuple[str, ...]:
        """The names that the key accepts; () if it is not restricted to names."""
        return tuple(registry.names(self.part)) if self.part else self.choices


def key(default: Any, help: str, **doc: Any) -> Any:
    """A dataclass field with a `KeyDoc`; a mutable default is copied for each instance.

    `doc`: the fields of `KeyDoc`. Raises TypeError for an unknown one.
    """
    unknown = set(doc) - {f.name for f in fields(KeyDoc)}
    if unknown:
        known = ", ".join(f.name for f in fields(KeyDoc) if f.name != "help")
        raise TypeError(f"key(): there is no {', '.join(sorted(unknown))}. Allowed: {known}")
    metadata = {"doc": KeyDoc(help=help, **doc)}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)
