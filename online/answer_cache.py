"""Idempotency cache: each stream's last answer, so that a resent request gets the same answer, even after a restart.

    cache = AnswerCache(streams=1000)
    known = cache.answer_to(request)       # (answer,) of a repeated request; raises Refusal for an old one
    cache.note(request, answer)

A client that got no answer resends the same sequence number. It must get the decision that was made, not a second one:
the reward in its message has already been counted, and its observation has already completed the previous decision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from livegym.online.experience import Decision
from livegym.online.stream_requests import Answer, Observed, Refusal


@dataclass(frozen=True)
class LastAnswer:
    """The last request and answer of one stream."""

    sequence: int | None  # the highest sequence number so far
    answer: Decision | None  # the answer to it; None if it ended an episode
    raw: np.ndarray | None  # (R,) the raw observation, from which the next one's reward is computed
    source: str | None = None  # who sent it


EARLIER = "an earlier session"
"""The source of all requests before a restart."""


class AnswerCache:
    """Last answers of the most recent streams. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, streams: int) -> None:
        """`streams`: number of streams in the cache; beyond it, the least recent one is dropped."""
        self._streams = streams
        self._last: OrderedDict[str, LastAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def answer_to(self, request: Observed) -> tuple[Answer] | None:
        """Return the answer to a repeated request; None if the request is new.

        Raises Refusal for a sequence below the last one.
        """
        last = self._last.get(request.stream)
        if last is None or last.sequence is None or request.sequence is None:
            return None
        if request.sequence < last.sequence:
            problem = f"sequence {request.sequence} of stream {request.stream!r} came after {last.sequence}"
            raise Refusal("out_of_order", f"{problem}. Allowed: {last.sequence} again, or greater")
        return (last.answer,) if request.sequence == last.sequence else None

    def is_continued(self, request: Observed) -> bool:
        """Whether an observation follows from the stream's previous one.

        It does if it says so, if it ends an episode or tells of the previous decision, if the same connection sent
        both, or if its sequence number is the next one.
        """
        if request.continues or request.ends_episode or request.tells_of_previous:
            return True
        last = self._last.get(request.stream)
        if last is None:
            return False
        resumed = last.sequence is not None and request.sequence == last.sequence + 1
        return resumed or request.source == last.source

    def raw_of(self, stream: str) -> np.ndarray | None:
        """Return the stream's last raw observation (R,); None if it is unknown."""
        last = self._last.get(stream)
        return None if last is None else last.raw

    def note(self, request: Observed, answer: Decision | None) -> None:
        """Store the answer to a request."""
        last = self._last.get(request.stream)
        if request.sequence is None and last is not None:  # it cannot be resent; the earlier one still can
            self._last[request.stream] = replace(last, raw=request.raw, source=request.source)
        else:
            self._last[request.stream] = LastAnswer(request.sequence, answer, request.raw, request.source)
        self._last.move_to_end(request.stream)
        if len(self._last) > self._streams:
            self._last.popitem(last=False)

    def state(self) -> list[dict[str, Any]]:
        """Return the cache as plain values for strict JSON, the least recent stream first."""
        return [
            {
                "stream": stream,
                "sequence": last.sequence,
                "answer": None if last.answer is None else last.answer.to_plain(),
                "raw": None if last.raw is None else last.raw.tolist(),
            }
            for stream, last in self._last.items()
        ]

    def restore(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Restore what `state` returned. Raises KeyError, TypeError or ValueError if invalid; nothing changes then."""
        restored: OrderedDict[str, LastAnswer] = OrderedDict()
        for entry in state:
            answer, raw = entry["answer"], entry["raw"]
            restored[str(entry["stream"])] = LastAnswer(
                None if entry["sequence"] is None else int(entry["sequence"]),
                None if answer is None else Decision.from_plain(answer),
                None if raw is None else np.array(raw, np.float32),
                EARLIER,
            )
        self._last = restored
