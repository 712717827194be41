"""What a browser may say to viser.

viser does whatever a client asks: it opens a public tunnel past our token, takes uploads and runs commands. So only
camera moves pass. They are decoded strictly and encoded anew, which leaves no room for a second reading of the
same bytes, such as a map with two types.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec

Number = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Pixels = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Vector3 = tuple[Number, Number, Number]
Vector4 = tuple[Number, Number, Number, Number]


class Unreadable(Exception):
    """Bytes that no client of viser sends."""


class _Passed(msgspec.Struct, tag_field="type", tag=True, forbid_unknown_fields=True):
    """A message by the name of its class, with the fields that viser's message of that name has."""


class ViewerCameraMessage(_Passed):
    """Where somebody looks from."""

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
    """What passes: where somebody looks from. Whatever else a person may do, our own page asks for."""

    def __init__(self) -> None:
        self._decoder = msgspec.msgpack.Decoder(ViewerCameraMessage)

    def passed(self, raw: bytes) -> bytes | None:
        """The message for viser; None: one that nobody may send.

        Raises:
            Unreadable: it is no message, or not with the fields that its name promises.
        """
        try:
            if _NAMED.decode(raw).type != ViewerCameraMessage.__name__:
                return None
            return msgspec.msgpack.encode(self._decoder.decode(raw))
        except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is a DecodeError
            raise Unreadable(str(error)) from None


class TokenBucket:
    """How often something may happen: `rate` times a second, and `burst` times at once after a pause."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level, self._at = burst, clock()

    def take(self) -> bool:
        """Whether it may happen now."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True
