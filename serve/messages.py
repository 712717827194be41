"""The messages' schemas, version 1: what may be sent, what is answered, and which kinds of errors there are.

They are strict: an unknown field, a number as text, true as 1, NaN, or a list of another length is refused. What an
observation holds depends on the task, so its schema is made from the task's description, and the OpenAPI document
shows this task's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model

from livegym.rl.spec import PolicySpec
from livegym.tasks.base import Box
from livegym.tasks.stream_task import RawField

VERSION = 1
MAX_ITEMS = 64
"""Observations, or rewards, in one message."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Of streams and clients: they stand in logs, files and pages."""
MAX_COUNT = 2**53 - 1
"""Of sequence and decision numbers: larger ones are not exact in JavaScript."""
LARGEST = float(np.finfo(np.float32).max)

STATUS = {
    "malformed": 400,
    "read_only": 403,
    "oversized": 413,
    "invalid": 422,
    "too_many_streams": 429,
    "foreign_stream": 409,
    "busy": 503,
    "closing": 503,
    "failed": 500,
}
"""Kind of an error about a whole message -> HTTP status; one about a single request stands among the answers."""
Kind = Literal[
    "malformed", "read_only", "oversized", "invalid", "unknown", "duplicate", "late", "out_of_order",
    "too_many_streams", "foreign_stream", "busy", "closing", "failed",
]  # fmt: skip


@dataclass(frozen=True)
class Description:
    """What is served."""

    spec: PolicySpec
    raw_fields: Mapping[str, RawField] = field(default_factory=dict)  # empty: the policy's observation is sent

    def to_dict(self) -> dict[str, Any]:
        """What a client has to know before it sends anything."""
        observation: dict[str, Any] = {"kind": "obs", "width": self.spec.obs_width}
        observation["blocks"] = [list(block) for block in self.spec.observations]
        if self.raw_fields:
            observation = {"kind": "raw", "fields": {name: _field(raw) for name, raw in self.raw_fields.items()}}
        action = self.spec.to_dict()["action"]
        if isinstance(self.spec.action, Box):
            action |= {"low": -1.0, "high": 1.0}
        return {
            "v": VERSION,
            "task": self.spec.task,
            "control_dt": self.spec.control_dt,
            "observation": observation,
            "action": action,
        }


def _field(raw: RawField) -> dict[str, Any]:
    bounds = [bound if math.isfinite(bound) else None for bound in (raw.low, raw.high)]
    return {"shape": list(raw.shape), "low": bounds[0], "high": bounds[1], "help": raw.help}


class Strict(BaseModel):
    """What clients send."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=NAME, json_schema_extra={"example": "robot-1"})]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST, json_schema_extra={"example": 0.5})]


class Observation(Strict):
    """One observation of one stream."""

    stream: Name = Field(description="one robot, one game, one territory")
    sequence: Count | None = Field(
        None,
        description="strictly rising in a stream, gaps allowed; the same one again is answered with the same decision",
    )
    reward: Real | None = Field(None, description="of the stream's previous decision")
    done: bool = Field(False, description="the episode ended with this observation: nothing is decided")
    truncated: bool = Field(
        False,
        description="a time limit ended the episode with this observation: as `done`, but what would come is valued",
    )


class Reward(Strict):
    """What one decision earned."""

    stream: Name
    decision: Count = Field(description="the number that came with the decision")
    reward: Real
    done: bool = Field(False, description="the episode ended with it")


class _Message(Strict):
    v: Literal[1] = Field(description="version of the protocol", json_schema_extra={"example": 1})
    id: Count | None = Field(None, description="comes back with the answers")


class RewardMessage(_Message):
    """Rewards of decisions, in any order."""

    type: Literal["reward"] = "reward"
    rewards: list[Reward] = Field(min_length=1, max_length=MAX_ITEMS)


def observe_message(description: Description) -> type[BaseModel]:
    """The schema of observations: of `raw` fields if the task has them, else of the policy's `obs`."""
    if description.raw_fields:
        parts: dict[str, Any] = {
            # Under a name of its own, since a field may be called `copy` or `json`, as methods of the model are.
            f"field_{i}": (_nested(raw), Field(alias=name, description=raw.help))
            for i, (name, raw) in enumerate(description.raw_fields.items())
        }
        content: dict[str, Any] = {"raw": (create_model("Raw", __base__=Strict, **parts), ...)}
    else:
        content = {"obs": (_list_of(Real, description.spec.obs_width), Field(description=_columns(description.spec)))}
    item = create_model("StreamObservation", __base__=Observation, **content)
    message: dict[str, Any] = {
        "type": (Literal["observe"], "observe"),
        "observations": (list[item], Field(min_length=1, max_length=MAX_ITEMS)),  # type: ignore[valid-type]
    }
    return create_model("ObserveMessage", __base__=_Message, **message)


def _columns(spec: PolicySpec) -> str:
    return ", ".join(f"{name} ({width})" for name, width in spec.observations)


def _nested(raw: RawField) -> Any:
    least, most = max(raw.low, -LARGEST), min(raw.high, LARGEST)
    kind: Any = Annotated[float, Field(ge=least, le=most, json_schema_extra={"example": min(max(0.0, least), most)})]
    for size in reversed(raw.shape):
        kind = _list_of(kind, size)
    return kind


def _list_of(kind: Any, size: int) -> Any:
    return Annotated[list[kind], Field(min_length=size, max_length=size), FailFast()]


class DecisionAnswer(BaseModel):
    """What to do now."""

    type: Literal["decision"]
    stream: str
    decision: int = Field(description="to be named with the reward")
    proposed: list[float] = Field(description="the policy's action")
    executed: list[float] | None = Field(description="what to do; null: nothing")
    verdict: Literal["SEND", "WAIT", "OFF"] = Field(description="the gate's; OFF: there is no gate")
    expected: float | None = Field(description="reward that the gate expects of `proposed`")
    components: dict[str, float] = Field(description="terms of `expected`, and what else the gate decided by")
    confidence: float = Field(description="probability of the choice relative to the likeliest, 0 to 1")
    version: int = Field(description="of the policy that decided")
    previous: str | None = Field(description="why the reward of the previous decision was refused; null: it was not")


class AcceptedAnswer(BaseModel):
    """The reward has joined its decision."""

    type: Literal["accepted"]
    stream: str
    decision: int


class EndedAnswer(BaseModel):
    """The episode's end was noted."""

    type: Literal["ended"]
    stream: str


class ErrorAnswer(BaseModel):
    """Nothing was changed, and why. Without `stream` it is about the whole message."""

    type: Literal["error"]
    kind: Kind
    message: str
    stream: str | None = None
    field: str | None = None
    given: str | None = None
    expected: str | None = None
    retry_after: float | None = Field(None, description="s")


class Answers(BaseModel):
    """One answer a request, in their order."""

    v: Literal[1]
    type: Literal["answers"]
    id: int | None
    answers: list[Union[DecisionAnswer, AcceptedAnswer, EndedAnswer, ErrorAnswer]]


class ErrorMessage(ErrorAnswer):
    """The whole message was refused."""

    v: Literal[1]
    id: int | None
