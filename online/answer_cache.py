"""What each stream asked last and was answered: so a question that comes twice is answered alike, also after a restart.

    cache = AnswerCache(streams=1000)
    known = cache.answer_to(request)       # (answer,) of the very same question; raises Refusal for an old one
    cache.note(request, answer)

A client that got no answer sends the same sequence again. It must find the decision that was made, and not a second
one: the reward that it sends along has been counted, and its observation has followed the decision before.
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
    """The last exchange of one stream."""

    sequence: int | None  # the highest that came
    answer: Decision | None  # to that one; None: the end of an episode was noted
    raw: np.ndarray | None  # (R,) the raw observation, from which the next one's reward is computed


class AnswerCache:
    """Of the streams that were heard last. Belongs to the serving thread."""

    def __init__(self, streams: int) -> None:
        """`streams`: how many are remembered; the one heard longest ago is forgotten."""
        self._streams = streams
        self._last: OrderedDict[str, LastAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def answer_to(self, request: Observed) -> tuple[Answer] | None:
        """What was answered to the same question; None: it is a new one.

        Raises Refusal for a sequence below the last one.
        """
        last = self._last.get(request.stream)
        if last is None or last.sequence is None or request.sequence is None:
            return None
        if request.sequence < last.sequence:
            words = f"sequence {request.sequence} of stream {request.stream!r} came after {last.sequence}"
            raise Refusal("out_of_order", f"{words}. Allowed: greater ones")
        return (last.answer,) if request.sequence == last.sequence else None

    def raw_of(self, stream: str) -> np.ndarray | None:
        """The stream's last raw observation (R,), if it is known."""
        last = self._last.get(stream)
        return None if last is None else last.raw

    def note(self, request: Observed, answer: Decision | None) -> None:
        """A question was answered."""
        last = self._last.get(request.stream)
        if request.sequence is None and last is not None:  # nobody can ask it again: what could be asked stays
            self._last[request.stream] = replace(last, raw=request.raw)
        else:
            self._last[request.stream] = LastAnswer(request.sequence, answer, request.raw)
        self._last.move_to_end(request.stream)
        if len(self._last) > self._streams:
            self._last.popitem(last=False)

    def state(self) -> list[dict[str, Any]]:
        """All of it as plain values, for strict JSON; the one heard longest ago first."""
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
        """The inverse of `state`. Raises KeyError, TypeError, ValueError if it is none; nothing has changed then."""
        restored: OrderedDict[str, LastAnswer] = OrderedDict()
        for entry in state:
            answer, raw = entry["answer"], entry["raw"]
            restored[str(entry["stream"])] = LastAnswer(
                None if entry["sequence"] is None else int(entry["sequence"]),
                None if answer is None else Decision.from_plain(answer),
                None if raw is None else np.array(raw, np.float32),
            )
        self._last = restored
