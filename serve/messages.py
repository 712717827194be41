"""The schemas of protocol version 1: messages of clients, answers, and the kinds of errors.

They are strict: an unknown field, a number as text, true as 1, NaN, or a list of the wrong length is refused. The
content of an observation depends on the task, so its schema is built from the task's description, and the OpenAPI
document shows the schema of the task that is served.
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
from livegym.tasks.stream_task import ActionUnits, RawField

VERSION = 1
MAX_ITEMS = 64
"""Observations, or rewards, in one message."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Pattern of stream and client names, which appear in logs, files and pages."""
FEATURES = ("episode", "executed", "learn", "part")
"""Fields that were added to version 1: a client may ask `/spec` whether the server has them."""
MAX_COUNT = 2**53 - 1
"""Largest sequence or decision number; larger ones are not exact in JavaScript."""
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
"""Kind of an error about a whole message -> HTTP status; an error about a single request is one of the answers."""
Kind = Literal[
    "malformed", "read_only", "oversized", "invalid", "unknown", "duplicate", "late", "out_of_order",
    "too_many_streams", "foreign_stream", "busy", "closing", "failed",
]  # fmt: skip


@dataclass(frozen=True)
class Description:
    """The policy that is served, and the observations that it takes."""

    spec: PolicySpec
    raw_fields: Mapping[str, RawField] = field(default_factory=dict)  # empty: clients send the policy's observation
    units: ActionUnits | None = None  # how clients number an action; None: as the policy does

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number (A,) of each part of an action, as clients number them."""
        action = self.spec.action
        if action.choices is None:
            low, high = -np.ones(action.width), np.ones(action.width)
        else:
            low, high = np.zeros(action.width, np.int64), np.array(action.choices) - 1
        return (low, high) if self.units is None else (self.units.to_client(low), self.units.to_client(high))

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of `/spec`, which a client needs before it sends anything."""
        observation: dict[str, Any] = {"kind": "obs", "width": self.spec.obs_width}
        observation["blocks"] = [list(block) for block in self.spec.observations]
        if self.raw_fields:
            observation = {"kind": "raw", "fields": {name: _field(raw) for name, raw in self.raw_fields.items()}}
        action = self.spec.to_dict()["action"]
        if self.units is not None:
            low, high = self.action_bounds()
            action |= {"low": low.tolist(), "high": high.tolist()}
        elif isinstance(self.spec.action, Box):
            action |= {"low": -1.0, "high": 1.0}
        return {
            "v": VERSION,
            "task": self.spec.task,
            "control_dt": self.spec.control_dt,
            "observation": observation,
            "action": action,
            "features": list(FEATURES),
        }


def _field(raw: RawField) -> dict[str, Any]:
    bounds = [bound if math.isfinite(bound) else None for bound in (raw.low, raw.high)]
    return {"shape": list(raw.shape), "low": bounds[0], "high": bounds[1], "help": raw.help}


class Strict(BaseModel):
    """Base class of everything that clients send."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=NAME, json_schema_extra={"example": "robot-1"})]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST, json_schema_extra={"example": 0.5})]


LOG_PROB = "log-probability (of a continuous action: log-density, in the units of `executed`)"


class Observation(Strict):
    """One observation of one stream."""

    stream: Name = Field(description="one robot, one game, one territory")
    sequence: Count | None = Field(
        None,
        description="strictly increasing in a stream, gaps allowed; the same number again gets the same decision",
    )
    reward: Real | None = Field(None, description="reward of the stream's previous decision")
    part: Count | None = Field(
        None, description="number of this part of that reward; the reward without a number is the last part"
    )
    executed_log_prob: Real | None = Field(None, description=f"{LOG_PROB} of `executed`; null: unknown")
    learn: bool = Field(True, description="false: nothing is learned from the decision on this observation")
    episode: Literal["begin", "continue"] | None = Field(
        None,
        description="begin: an episode begins with this observation, which does not follow from the stream's previous "
        "decision; continue: it does follow, though another connection got that decision",
    )
    done: bool = Field(False, description="the episode ended with this observation, so no decision is made")
    truncated: bool = Field(
        False,
        description="a time limit ended the episode with this observation; as `done`, but its value is bootstrapped",
    )
    first: bool = Field(
        False,
        description='the same as `"episode": "begin"`, for older clients',
    )


class Reward(Strict):
    """The reward of one decision."""

    stream: Name
    decision: Count = Field(description="the `decision` number of the answer")
    reward: Real
    part: Count | None = Field(
        None, description="number of this part of the reward, each counted once; without a number, it is the last part"
    )
    executed_log_prob: Real | None = Field(None, description=f"{LOG_PROB} of `executed`; null: unknown")
    learn: bool = Field(True, description="false: nothing is learned from this decision")
    done: bool = Field(False, description="the episode ended with this decision")


class _Message(Strict):
    v: Literal[1] = Field(description="protocol version", json_schema_extra={"example": 1})
    id: Count | None = Field(None, description="returned with the answers")


class RewardMessage(_Message):
    """Rewards of decisions, in any order."""

    type: Literal["reward"] = "reward"
    rewards: list[Reward] = Field(min_length=1, max_length=MAX_ITEMS)


class LearningMessage(_Message):
    """The learning switch of a stream."""

    stream: Name
    learn: bool = Field(description="false: the stream is served, but nothing is learned from it from now on")


class LearningAnswer(BaseModel):
    """Which streams are not learned from."""

    v: Literal[1]
    type: Literal["learning"]
    id: int | None
    not_learned: list[str]


def reward_message(description: Description) -> type[RewardMessage]:
    """Return the schema of rewards, with the task's action."""
    executed = _executed(description, "the action that was executed instead of this decision")
    item = create_model("StreamReward", __base__=Reward, executed=executed)
    rewards = (list[item], Field(min_length=1, max_length=MAX_ITEMS))  # type: ignore[valid-type]
    return create_model("RewardMessage", __base__=RewardMessage, rewards=rewards)


def observe_message(description: Description) -> type[BaseModel]:
    """Return the schema of observations: `raw` fields if the task has them, else the policy's `obs`."""
    if description.raw_fields:
        parts: dict[str, Any] = {
            # Each has a name of its own, because a raw field may be called like a method of the model: `copy`, `json`.
            f"field_{i}": (_nested(raw), Field(alias=name, description=raw.help))
            for i, (name, raw) in enumerate(description.raw_fields.items())
        }
        content: dict[str, Any] = {"raw": (create_model("Raw", __base__=Strict, **parts), ...)}
    else:
        content = {"obs": (_list_of(Real, description.spec.obs_width), Field(description=_columns(description.spec)))}
    content["executed"] = _executed(description, "the action that was executed instead of the previous decision")
    item = create_model("StreamObservation", __base__=Observation, **content)
    message: dict[str, Any] = {
        "type": (Literal["observe"], "observe"),
        "observations": (list[item], Field(min_length=1, max_length=MAX_ITEMS)),  # type: ignore[valid-type]
    }
    return create_model("ObserveMessage", __base__=_Message, **message)


def _executed(description: Description, what: str) -> Any:
    width, number = description.spec.action.width, Real if isinstance(description.spec.action, Box) else int
    kind = Annotated[list[number], Field(min_length=width, max_length=width)]  # type: ignore[valid-type]
    return (kind | None, Field(None, description=what))


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
    """The decision about one observation."""

    type: Literal["decision"]
    stream: str
    decision: int = Field(description="number to send with the reward")
    proposed: list[float] = Field(description="the policy's action")
    executed: list[float] | None = Field(description="the action to execute; null: none")
    verdict: Literal["SEND", "WAIT", "OFF"] = Field(description="verdict of the gate; OFF: there is no gate")
    expected: float | None = Field(description="reward that the gate expects of `proposed`")
    components: dict[str, float] = Field(description="terms of `expected`, and the other quantities that the gate used")
    confidence: float = Field(description="probability of the choice relative to the likeliest, 0 to 1")
    version: int = Field(description="version of the policy that decided")
    previous: str | None = Field(description="why the reward of the previous decision was refused; null if it was not")


class AcceptedAnswer(BaseModel):
    """The reward was accepted for its decision."""

    type: Literal["accepted"]
    stream: str
    decision: int


class EndedAnswer(BaseModel):
    """The end of the episode was accepted."""

    type: Literal["ended"]
    stream: str


class ErrorAnswer(BaseModel):
    """Why a request was refused; nothing was changed. Without `stream`, it is about the whole message."""

    type: Literal["error"]
    kind: Kind
    message: str
    stream: str | None = None
    field: str | None = None
    given: str | None = None
    expected: str | None = None
    retry_after: float | None = Field(None, description="s until it makes sense to try again")


class Answers(BaseModel):
    """One answer for each request, in their order."""

    v: Literal[1]
    type: Literal["answers"]
    id: int | None
    answers: list[Union[DecisionAnswer, AcceptedAnswer, EndedAnswer, ErrorAnswer]]


class ErrorMessage(ErrorAnswer):
    """The whole message was refused."""

    v: Literal[1]
    id: int | None
