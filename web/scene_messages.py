"""The filter for messages from a browser to viser.

viser executes any request of a client: it opens a public tunnel past our token, accepts uploads and runs commands. So
only camera moves pass. They are decoded strictly and encoded again, so that viser cannot read the same bytes
differently, for example a map with two types.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Number = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Vector3 = tuple[Number, Number, Number]
Vector4 = tuple[Number, Number, Number, Number]


class Unreadable(Exception):
    """Bytes that are not a message of viser's client."""


class _Passed(msgspec.Struct, tag_field="type", tag=True, forbid_unknown_fields=True):
    """Base of the messages that pass; each has the name and the fields of viser's message."""


class ViewerCameraMessage(_Passed):
    """The pose and the image size of a browser's camera."""

    wxyz: Vector4
    position: Vector3
    fov: Number  # rad
    near: Number
    far: Number
    image_height: Pixels
    image_width: Pixels
    look_at: Vector3
    up_direction: Vector3


class _Named(msgspec.Struct):
    type: str


_NAMED = msgspec.msgpack.Decoder(_Named)


class Filter:
    """Passes only camera messages. All other controls go through our own page."""

    def __init__(self) -> None:
        self._decoder = msgspec.msgpack.Decoder(ViewerCameraMessage)

    def passed(self, raw: bytes) -> bytes | None:
        """Return the message for viser; None if its type is not allowed.

        Raises:
            Unreadable: it is not a message, or does not have the fields of its type.
        """
        try:
            if _NAMED.decode(raw).type != ViewerCameraMessage.__name__:
                return None
            return msgspec.msgpack.encode(self._decoder.decode(raw))
        except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is a DecodeError
            raise Unreadable(str(error)) from None
