"""The messages of a page: each is one JSON object, and is checked completely before it is executed.

    read('{"do": "pause", "on": true}')            # play.control_requests.Pause(on=True)
    read('{"do": "view", "env_id": 2, ...}')       # ViewSettings: viewers.view.View, and whether to move the camera
    read('{"do": "name", "name": "Ada"}')          # Rename: the visitor's name

The names are defined in `play/control_requests.py`, and the fields are those of the dataclasses. A message with a
missing or unknown field, or with a value of another type, is refused.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, get_type_hints

import pydantic_core
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from livegym.play.control_requests import CONTROLS
from livegym.play.controls import ControlRequest
from livegym.viewers.view import PRESETS, View
from livegym.web.pages import PageMessageError, read_object, why

__all__ = ["PageMessageError", "ViewSettings", "read"]
MAX_MESSAGE = 2000  # characters; integers of more digits cannot even be printed
MAX_TEXT = 256  # characters of a name or a label


@dataclass(frozen=True)
class ViewSettings:
    """The view that one page requests."""

    view: View
    place_camera: bool  # True: move the camera to its preset; False: it stays where the user left it


@dataclass(frozen=True)
class Rename:
    """The name that a visitor chooses; empty: the server's own name for it."""

    name: str


REQUESTS = {control.name: control.request for control in CONTROLS}
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, str_max_length=MAX_TEXT)


def _model_of(kind: type) -> type[BaseModel]:
    """A validating model with the fields of a dataclass."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(kind)
    }
    return create_model(kind.__name__, __config__=_STRICT, **fields)


_MODELS = {name: _model_of(kind) for name, kind in {**REQUESTS, "view": View, "name": Rename}.items()}


def read(text: str | None) -> ControlRequest | ViewSettings | Rename:
    """The request, the view or the name in a message. Raises PageMessageError if the message is invalid."""
    message = read_object(text, MAX_MESSAGE)
    what = message.pop("do")
    if what not in _MODELS:
        raise PageMessageError(f"do={what[:MAX_TEXT]!r}: allowed are {', '.join(_MODELS)}")
    if what == "view":
        return _look(message)
    if what == "name":
        return Rename(**dict(_checked(what, message)))
    return REQUESTS[what](**dict(_checked(what, message)))


def _look(message: dict[str, Any]) -> ViewSettings:
    camera = message.pop("place_camera", False)
    if not isinstance(camera, bool):
        raise PageMessageError("view: place_camera: must be true or false")
    view = View(**dict(_checked("view", message)))
    if view.env_id < 0:
        raise PageMessageError(f"view: env_id={view.env_id}: must be at least 0")
    if view.preset not in PRESETS:
        raise PageMessageError(f"view: preset={view.preset!r}: allowed are {', '.join(PRESETS)}")
    return ViewSettings(view, camera)


def _checked(what: str, message: dict[str, Any]) -> BaseModel:
    try:
        return _MODELS[what].model_validate_json(pydantic_core.to_json(message))
    except ValidationError as error:
        raise PageMessageError(why(what, error)) from error
