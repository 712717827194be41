"""Runs a Gymnasium environment with a server's decisions, so that the server trains on it.

    for step in client.episodes(env): ...                   # the usual way
    rewards = Runner(env, client, "robot-1").run(1000)      # several environments in turn: one Runner each

The first observation of each episode is sent as such. The reward of each step is sent with the next observation; at the
end of an episode, with the last observation, which gets no decision. The server learns whether the episode terminated
or was truncated by a time limit; after a truncation, it bootstraps the value of the last observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from livegym_client.errors import Refused
from livegym_client.wire import Decision

if TYPE_CHECKING:
    from livegym_client.client import Client


@dataclass(frozen=True)
class Step:
    """One step of an environment."""

    observation: Any  # on which the server decided
    action: Any  # as the environment got it
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    decision: Decision
    episode: int  # number of this episode, from 1
    length: int  # steps of the episode so far
    total: float  # rewards of the episode so far; at its end, the return


class Runner:
    """Runs one environment as one stream. `env` needs Gymnasium's `reset` and `step`."""

    def __init__(
        self, env: Any, client: Client, stream: str, seed: int | None = None, idle: Any = None, learn: bool = True
    ) -> None:
        """`idle`: the action of a step for which the server returns no action. `learn=False`: it is not learned from.

        Raises:
            ValueError: the environment's action space is not the server's.
        """
        self._env = env
        self._client = client
        self._stream = stream
        self._seed, self._idle = seed, idle
        self._learn = learn
        spec = client.spec()
        self._raw = spec["observation"]["kind"] == "raw"
        self._kind: str = spec["action"]["type"]
        self._space: Any = getattr(env, "action_space", None)
        self._obs: Any = None  # None: the next step begins an episode
        self._begins = False  # whether an episode begins with `_obs`, and the server does not know it yet
        self._reward: float | None = None  # of the last decision, if the server does not know it yet
        self._last: Step | None = None  # the last step of an episode whose end the server does not know yet
        self._length, self._total = 0, 0.0
        self.episodes = 0  # finished episodes
        problem = _difference(self._space, spec["action"])
        if problem:
            raise ValueError(
                f"the environment's actions are {problem}. Serve the environment's own spaces (livegym serve --env "
                "...), or wrap the environment."
            )

    def run(self, steps: int) -> list[float]:
        """Make `steps` steps, from where the last call stopped; return their rewards.

        Raises:
            LivegymError: see `Client.decide`.
        """
        return [self.step().reward for _ in range(steps)]

    def step(self) -> Step:
        """Make one step; the next one after the end of an episode begins another.

        After Unreachable, call it again: it continues where it stopped. If only the end of the episode could not be
        sent, it sends that, and returns the step that had been made.

        Raises:
            LivegymError: see `Client.decide`.
        """
        if self._last is None:
            made = self._move()
            if not (made.terminated or made.truncated):
                return made
            self._last = made
        return self._end(self._last)

    def _move(self) -> Step:
        """Reset the environment if an episode begins; ask for a decision, and execute it."""
        if self._obs is None:
            self._obs, _ = self._env.reset(seed=self._seed)
            self._seed = None
            self._begins = True
            self._length, self._total = 0, 0.0
        before = self._obs
        begins = True if self._begins else None
        decision = self._client.decide(self._stream, self._sent(before), self._reward, first=begins, learn=self._learn)
        assert decision is not None  # it is None only at the end of an episode
        self._begins, self._reward = False, None
        action = self._action(decision)
        obs, reward, terminated, truncated, info = self._env.step(action)
        self._obs, self._reward = obs, float(reward)
        self._length += 1
        self._total += self._reward
        episode, ended = self.episodes + 1, (bool(terminated), bool(truncated))
        return Step(before, action, self._reward, obs, *ended, info, decision, episode, self._length, self._total)

    def _end(self, last: Step) -> Step:
        """Send the last observation of an episode; return its last step."""
        obs = self._sent(last.next_observation)
        try:
            self._client.decide(self._stream, obs, last.reward, last.terminated, last.truncated)
        except Refused:  # it would be refused again; the next step begins an episode all the same
            self._finish()
            raise
        self._finish()
        return last

    def _finish(self) -> None:
        self._obs = self._reward = self._last = None
        self.episodes += 1

    def _sent(self, observation: Any) -> Any:
        """Return an observation in the form that the server expects."""
        if not self._raw:
            return np.asarray(observation).ravel()
        return dict(_named(observation)) if isinstance(observation, Mapping) else {"observation": observation}

    def _action(self, decision: Decision) -> Any:
        numbers = decision.action
        if numbers is None:
            if self._idle is None:
                raise ValueError("the server returned no action, because the gate blocked it. Set Runner(idle=...)")
            return self._idle
        if self._kind == "Discrete":
            return int(numbers[0])
        made = np.asarray(numbers, getattr(self._space, "dtype", np.float32 if self._kind == "Box" else np.int64))
        return made.reshape(getattr(self._space, "shape", made.shape))


def _named(observation: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of an observation of Gymnasium's Dict; a nested name is `outer.inner`."""
    for inner, part in observation.items():
        path = f"{name}.{inner}" if name else str(inner)
        if isinstance(part, Mapping):
            yield from _named(part, path)
        else:
            yield path, part


def _difference(space: Any, action: Mapping[str, Any]) -> str:
    """Return how an environment's action space differs from the server's; '' if it does not, or is unknown.

    The server's actions may be narrower only on a side on which the environment has no bound.
    """
    if space is None:
        return ""
    kind = {"MultiBinary": "MultiDiscrete"}.get(type(space).__name__, type(space).__name__)
    if kind != action["type"]:
        return f"{type(space).__name__}, but the server's are {action['type']}"
    count = {"Box": action.get("size"), "Discrete": action.get("n")}.get(kind, len(action.get("nvec", ())))
    own_count = int(space.n) if kind == "Discrete" else int(np.prod(space.shape))
    if own_count != count:
        return f"{space}, of {own_count}, but the server's are {action['type']} of {count}"
    own, served = _own_range(space), _served_range(action)
    same = all(
        np.allclose(np.where(np.isfinite(mine), mine, theirs), theirs) for mine, theirs in zip(own, served, strict=True)
    )
    return "" if same else f"{space}, {_text_of(own)}, but the server's are {_text_of(served)}"


def _own_range(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest number (A,) of each part of an environment's action."""
    name = type(space).__name__
    if name == "Box":
        return np.ravel(space.low).astype(np.float64), np.ravel(space.high).astype(np.float64)
    if name == "MultiBinary":
        return np.zeros(int(np.prod(space.shape))), np.ones(int(np.prod(space.shape)))
    counts = np.ravel(space.n if name == "Discrete" else space.nvec)
    least = np.broadcast_to(np.ravel(getattr(space, "start", 0)), counts.shape).astype(np.float64)
    return least, least + counts - 1


def _served_range(action: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest number (A,) of each part of the server's action."""
    counts = np.ravel(action.get("nvec", action.get("n", 0)))
    width = action.get("size", len(counts))
    sides = action.get("low", 0), action.get("high", counts - 1)
    low, high = (np.broadcast_to(np.asarray(side, np.float64), (width,)) for side in sides)
    return low, high


def _text_of(bounds: tuple[np.ndarray, np.ndarray]) -> str:
    low, high = (f"{side[0]:g}" if (side == side[0]).all() else str(side.tolist()) for side in bounds)
    return f"from {low} to {high}"
