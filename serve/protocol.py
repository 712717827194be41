"""Parses messages into requests, and formats answers as messages. A message is checked completely before it is used.

    reader = Reader(Description(spec))
    message = reader.read('{"v": 1, "type": "observe", "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]}')
    message.requests                                   # [Observed("a", obs=array([0, 0, 0, 0], float32))]
    text_of(message.id, answers_of(message.requests, answers))

An invalid message raises `MessageRefused`, which names the field, the value given and the value expected.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Union

import numpy as np
from pydantic import BaseModel, Discriminator, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from livegym.online.experience import Decision
from livegym.online.stream_requests import Accepted, Answer, Instead, Observed, Refusal, Request, Rewarded
from livegym.serve.allowed import Allowed, in_full
from livegym.serve.messages import (
    MAX_ITEMS,
    STATUS,
    VERSION,
    Description,
    LearningMessage,
    RewardMessage,
    observe_message,
    reward_message,
)
from livegym.tasks.stream_task import ActionUnits
from livegym.utils.errors import did_you_mean
from livegym.utils.files import strict_json
from livegym.web.middleware import MAX_BODY

MAX_GIVEN = 60  # characters of a given value that an error message quotes
ROUNDING = 1e-6  # by which an action may lie outside its range: a client may have scaled it in single precision
NEXT = "GET /online/v1/spec describes what is expected; /online/v1/docs has the schemas."


class MessageRefused(ValueError):
    """The refusal of a whole message; nothing was changed."""

    def __init__(self, kind: str, message: str, retry_after: float | None = None, **details: str) -> None:
        """`details`: any of field, given, expected."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.details = details
        self.id: int | None = None  # id of the message, if it could be read

    def about(self, message_id: int | None) -> MessageRefused:
        """Set the id of the refused message; return this refusal."""
        self.id = message_id
        return self

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return STATUS[self.kind]

    @property
    def is_nonsense(self) -> bool:
        """Whether the message itself is wrong, so that resending it would not help."""
        return self.kind in ("malformed", "invalid", "oversized")

    def text(self) -> str:
        """Return the refusal as a message to send."""
        head = {"v": VERSION, "id": self.id, "type": "error", "kind": self.kind, "message": self.message}
        wait = {} if self.retry_after is None else {"retry_after": self.retry_after}
        return strict_json({**head, **self.details, **wait}, indent=None)


@dataclass(frozen=True)
class Message:
    """The requests of one message."""

    id: int | None
    requests: list[Request]

    @property
    def streams(self) -> list[str]:
        """The streams that the message names, each once."""
        return list(dict.fromkeys(request.stream for request in self.requests))


class Reader:
    """Parses and checks the messages about one task."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.observe_schema, self.reward_schema = observe_message(description), reward_message(description)
        both = Annotated[Union[self.observe_schema, self.reward_schema], Discriminator("type")]  # type: ignore[name-defined]
        self._either: TypeAdapter[Any] = TypeAdapter(both)
        self._observe: TypeAdapter[Any] = TypeAdapter(self.observe_schema)
        self._learning = TypeAdapter(LearningMessage)
        self._reward: TypeAdapter[Any] = TypeAdapter(self.reward_schema)
        self._names = _names_in(self.observe_schema) | _names_in(self.reward_schema)
        self._least, self._most = description.action_bounds()
        self._allowed = Allowed(description)

    def read(self, text: str | None) -> Message:
        """Read a message that names its type; None: a binary frame was sent. Raises MessageRefused."""
        if text is None:
            raise _refused("malformed", "message", "bytes", "text", "Send JSON as text.")
        return self._checked(self._either, text)

    def observations(self, text: bytes) -> Message:
        """Read a message of observations. Raises MessageRefused."""
        return self._checked(self._observe, text)

    def rewards(self, text: bytes) -> Message:
        """Read a message of rewards. Raises MessageRefused."""
        return self._checked(self._reward, text)

    def learning(self, text: bytes) -> LearningMessage:
        """Read the switch of a stream's training. Raises MessageRefused."""
        switch: LearningMessage = self._valid(self._learning, text)
        return switch

    def _valid(self, schema: TypeAdapter[Any], text: str | bytes) -> Any:
        if len(text) > MAX_BODY:
            most = f"at most {MAX_BODY}"
            raise _refused("oversized", "message", f"{len(text)} bytes", most, "Send several messages.")
        try:
            return schema.validate_json(text)
        except ValidationError as error:
            raise self._explained(error.errors(include_url=False)) from None

    def _checked(self, schema: TypeAdapter[Any], text: str | bytes) -> Message:
        content = self._valid(schema, text)
        if isinstance(content, RewardMessage):
            return Message(content.id, [self._rewarded(i, item) for i, item in enumerate(content.rewards)])
        observed = [self._observed(i, item) for i, item in enumerate(content.observations)]
        twice = _repeated([item.stream for item in observed])
        if twice is not None:
            how = "Send the second one after the answer to the first."
            raise _refused("invalid", "observations", f"stream {twice!r} twice", "each stream once in a message", how)
        return Message(content.id, list(observed))

    def _rewarded(self, index: int, item: Any) -> Rewarded:
        instead = self._instead(f"rewards.{index}", item)
        return Rewarded(item.stream, item.decision, item.reward, item.done, item.part, instead, item.learn)

    def _observed(self, index: int, item: Any) -> Observed:
        place = f"observations.{index}"
        if item.first and item.episode == "continue":
            what = '"begin", or no `first`'
            raise _refused("invalid", f"{place}.episode", '"continue" together with "first": true', what)
        obs = raw = None
        if self.description.raw_fields:
            parts = [getattr(item.raw, name) for name in type(item.raw).model_fields]
            raw = np.concatenate([np.asarray(part, np.float32).ravel() for part in parts])
        else:
            obs = np.asarray(item.obs, np.float32)
        return Observed(
            stream=item.stream,
            obs=obs,
            raw=raw,
            sequence=item.sequence,
            reward=item.reward,
            done=item.done,
            truncated=item.truncated,
            first=item.first or item.episode == "begin",
            continues=item.episode == "continue",
            part=item.part,
            instead=self._instead(place, item),
            learn=item.learn,
        )

    def _instead(self, place: str, item: Any) -> Instead | None:
        """Return what the client executed, in the policy's units. Raises MessageRefused if it is out of range."""
        if item.executed is None:
            if item.executed_log_prob is not None:
                raise _refused("invalid", f"{place}.executed", "only executed_log_prob", "the action as well")
            return None
        least, most = self._least, self._most
        for i, number in enumerate(item.executed):
            if not least[i] - ROUNDING <= number <= most[i] + ROUNDING:
                expected = f"a number from {in_full(least[i])} to {in_full(most[i])}"
                raise _refused("invalid", f"{place}.executed.{i}", _shown(number), expected)
        action, log_prob = np.array(item.executed, np.float64), item.executed_log_prob
        is_choice = self.description.spec.action.choices is not None
        if is_choice and log_prob is not None and log_prob > ROUNDING:
            expected = "a number of at most 0, the logarithm of a probability"
            raise _refused("invalid", f"{place}.executed_log_prob", _shown(log_prob), expected)
        units = self.description.units
        if units is not None:
            action = units.from_client(action)
            if log_prob is not None:
                log_prob += float(np.log(units.scale).sum())  # a density of other units is another one
        if is_choice:
            return Instead(np.rint(action).astype(np.int64), log_prob)
        return Instead(action.clip(-1.0, 1.0).astype(np.float32), log_prob)

    def _explained(self, errors: list[ErrorDetails]) -> MessageRefused:
        """Return the refusal for the first error that pydantic found."""
        error = errors[0]
        kind, location = error["type"], list(error["loc"])
        if location and location[0] in ("observe", "reward"):  # the type of the message, not a field
            location = location[1:]
        where = ".".join(map(str, location)) or "message"
        given = _shown(error["input"])
        if kind == "json_invalid":
            return _refused("malformed", "message", "text", f"JSON{_broken_at(error['ctx']['error'])}")
        if kind in ("union_tag_not_found", "union_tag_invalid"):
            tag = error.get("ctx", {}).get("tag")
            return _refused("malformed", "type", "nothing" if tag is None else _shown(tag), '"observe" or "reward"')
        if not location or location == ["v"]:
            wanted = str(VERSION) if location else "an object"
            return _refused("malformed", where, "nothing" if kind == "missing" else given, wanted)
        if kind == "missing":
            other = {"raw": "obs", "obs": "raw"}.get(str(location[-1]))
            if any(e["type"] == "extra_forbidden" and e["loc"][-1] == other for e in errors):
                return _refused("invalid", where, other or "", f"{location[-1]}, which this task takes")
            return _refused("invalid", where, "nothing", self._allowed.at(location))
        if kind == "extra_forbidden":
            names = self._names.get(next((p for p in reversed(location[:-1]) if isinstance(p, str)), ""), [])
            near = did_you_mean(str(location[-1]), names).strip()
            return _refused("invalid", where, "an unknown field", f"one of {', '.join(names)}", near)
        if location in (["observations"], ["rewards"]) and kind == "too_long":
            return _refused("oversized", where, given, f"1 to {MAX_ITEMS}", "Send several messages.")
        if location == ["type"]:  # of an HTTP request, which may leave it out
            return _refused("invalid", where, given, error["ctx"]["expected"].replace("'", '"'))
        return _refused("invalid", where, given, self._allowed.at(location, kind))


def answers_of(
    requests: Sequence[Request], answers: Sequence[Answer], units: ActionUnits | None = None
) -> list[dict[str, Any]]:
    """Return the answers in the form to send, with actions in the clients' units."""
    return [_answer_of(request.stream, answer, units) for request, answer in zip(requests, answers, strict=True)]


def _answer_of(stream: str, answer: Answer, units: ActionUnits | None) -> dict[str, Any]:
    if isinstance(answer, Decision):
        told = {"type": "decision", **answer.to_plain()}
        if units is not None:
            told["proposed"] = units.to_client(answer.proposed).tolist()
            told["executed"] = None if answer.action is None else units.to_client(answer.action).tolist()
        return told
    if isinstance(answer, Accepted):
        return {"type": "accepted", **asdict(answer)}
    if isinstance(answer, Refusal):
        return {"type": "error", "stream": stream, "kind": answer.kind, "message": answer.message}
    return {"type": "ended", "stream": stream}


def text_of(id_: int | None, answers: list[dict[str, Any]]) -> str:
    """Return the message that carries the answers to message `id_`."""
    return strict_json({"v": VERSION, "type": "answers", "id": id_, "answers": answers}, indent=None)


def _refused(kind: str, field: str, given: str, expected: str, how: str = NEXT) -> MessageRefused:
    message = f"{field}: given {given}; expected {expected}. {how or NEXT}"
    return MessageRefused(kind, message, field=field, given=given, expected=expected)


def _shown(value: Any) -> str:
    """Return a short text of a given value."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # bytes, or an integer with too many digits to print
        text = type(value).__name__
    return text if len(text) <= MAX_GIVEN else f"{text[:MAX_GIVEN]}..."


def _broken_at(why: str) -> str:
    """Return where a text stops being JSON, from what the parser says of it."""
    place = re.search(r"line \d+ column \d+", why)
    return "" if place is None else f", which it is not at {place[0].replace(' column', ', column')}"


def _repeated(names: list[str]) -> str | None:
    return next((name for i, name in enumerate(names) if name in names[:i]), None)


def _names_in(schema: type[BaseModel], location: str = "") -> dict[str, list[str]]:
    """Return, for each field that holds objects, the field names that these may have; '' stands for the message."""
    found = {location: [field.alias or name for name, field in schema.model_fields.items()]}
    for name, field in schema.model_fields.items():
        inner = getattr(field.annotation, "__args__", (field.annotation,))[0]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= _names_in(inner, name)
    return found
