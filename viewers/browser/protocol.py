"""What a page may say: one JSON object, checked whole before anybody acts on it.

    read('{"do": "pause", "on": true}')            # play.control_requests.Pause(on=True)
    read('{"do": "view", "env_id": 2, ...}')       # viewers.view.View, and whether the camera is to be put

`play/control_requests.py` has the names, and the fields are those of the dataclasses. A field that is missing, unknown
or of another type is refused.
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
    """How one page wants to see."""

    view: View
    place_camera: bool  # put the camera where the preset has it; else it stays where the person left it


REQUESTS = {control.name: control.request for control in CONTROLS}
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, str_max_length=MAX_TEXT)


def _model_of(kind: type) -> type[BaseModel]:
    """A checker with the fields of a dataclass."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(kind)
    }
    return create_model(kind.__name__, __config__=_STRICT, **fields)


_MODELS = {name: _model_of(kind) for name, kind in {**REQUESTS, "view": View}.items()}


def read(text: str | None) -> ControlRequest | ViewSettings:
    """The request, or the look. Raises Refused."""
    message = read_object(text, MAX_MESSAGE)
    what = message.pop("do")
    if what not in _MODELS:
        raise PageMessageError(f"do={what[:MAX_TEXT]!r}: allowed are {', '.join(_MODELS)}")
    if what == "view":
        return _look(message)
    return REQUESTS[what](**dict(_checked(what, message)))


def _look(message: dict[str, Any]) -> ViewSettings:
    place = message.pop("place_camera", False)
    if not isinstance(place, bool):
        raise PageMessageError("view: place_camera: true or false")
    view = View(**dict(_checked("view", message)))
    if view.env_id < 0:
        raise PageMessageError(f"view: env_id={view.env_id}: 0 or more")
    if view.preset not in PRESETS:
        raise PageMessageError(f"view: preset={view.preset!r}: allowed are {', '.join(PRESETS)}")
    return ViewSettings(view, place)


def _checked(what: str, message: dict[str, Any]) -> BaseModel:
    try:
        return _MODELS[what].model_validate_json(pydantic_core.to_json(message))
    except ValidationError as error:
        raise PageMessageError(why(what, error)) from error
