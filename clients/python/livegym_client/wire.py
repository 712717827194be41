"""Server addresses, and conversion of values to and from the wire format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union
from urllib.parse import parse_qs, urlsplit

import numpy as np

VERSION = 1
PATH = f"/online/v{VERSION}"
MAX_BYTES = 60_000
"""Largest size of the requests in one message; the server accepts messages of 64 KiB."""
MAX_ITEMS = 64

Observation = Union[Mapping[str, Any], Sequence[float], np.ndarray]
"""The policy's observation (W numbers); or named nested arrays if the task takes raw observations."""


@dataclass(frozen=True)
class Decision:
    """The server's decision on one observation."""

    stream: str
    decision: int
    proposed: list[float]  # the policy's action
    executed: list[float] | None  # the action to execute; None if nothing should be executed
    verdict: str  # SEND, WAIT or OFF
    expected: float | None
    components: dict[str, float]
    confidence: float
    version: int
    previous: str | None  # why the reward of the previous decision was refused

    @property
    def action(self) -> list[float] | None:
        """The action to execute; None: the gate blocked the proposed action and has no fallback."""
        return self.executed


@dataclass(frozen=True)
class Address:
    """The address of a server, and the token for it."""

    base: str  # http(s)://host:port, followed by the path if a proxy adds one
    token: str | None

    @classmethod
    def of(cls, url: str, token: str | None) -> Address:
        """Parse an address as the server prints it, or as a user types it; its token is used if none is given.

        Raises:
            ValueError: `url` is not the address of a server.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme = {"http": "http", "ws": "http", "https": "https", "wss": "https"}.get(parts.scheme)
        if scheme is None or not parts.hostname:
            raise ValueError(f"url={url!r}: expected an address such as http://127.0.0.1:58080/")
        in_url = parse_qs(parts.query).get("token", [None])[0]
        return cls(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{PATH}", in_url if token is None else token)

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that carry the token."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def socket(self, client: str) -> str:
        """Return the WebSocket URL for a client with this name."""
        return f"ws{self.base.removeprefix('http')}/ws?client={client}"


def item_of(
    stream: str,
    observation: Observation,
    sequence: int,
    reward: float | None,
    end: str | None,
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return an observation as JSON; `end`: done, truncated or None; `more`: further fields."""
    item: dict[str, Any] = {"stream": stream, "sequence": sequence}
    if isinstance(observation, Mapping):
        item["raw"] = {name: _plain(value) for name, value in observation.items()}
    else:
        item["obs"] = _plain(observation)
    if reward is not None:
        item["reward"] = float(reward)
    if end is not None:
        item[end] = True
    item |= more or {}
    return json.dumps(item, separators=(",", ":"))


def extra_fields(
    executed: Any = None, executed_log_prob: float | None = None, learn: bool = True, part: int | None = None
) -> dict[str, Any]:
    """Return those of the optional fields that say something."""
    fields: dict[str, Any] = {}
    if executed is not None:
        fields["executed"] = np.atleast_1d(_plain(executed)).ravel().tolist()
    if executed_log_prob is not None:
        fields["executed_log_prob"] = float(executed_log_prob)
    if not learn:
        fields["learn"] = False
    if part is not None:
        fields["part"] = int(part)
    return fields


def _plain(value: Any) -> Any:
    """Return numbers or nested lists; whole numbers become integers, which are shorter in JSON."""
    array = np.asarray(value)
    if array.dtype == np.bool_:
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and (np.abs(array) < 2**31).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    return array.tolist()


def batches(items: Mapping[str, str]) -> Iterator[list[str]]:
    """Split items into batches that fit into one message each; yield the streams of each batch, in order."""
    batch: list[str] = []
    size = 0
    for stream, item in items.items():
        if batch and (size + len(item) > MAX_BYTES or len(batch) == MAX_ITEMS):
            yield batch
            batch, size = [], 0
        batch.append(stream)
        size += len(item) + 1
    if batch:
        yield batch
