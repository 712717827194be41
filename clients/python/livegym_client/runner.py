"""Drives a Gymnasium environment by a server's decisions, so that the server learns from it.

    rewards = Runner(env, client, "robot-1").run(1000)

The reward of each step is sent with the next observation; at an episode's end with the last observation, which asks
for no decision. An end by a time limit is told as such: what would have come after it counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegym_client.client import Client
from livegym_client.wire import Decision


class Runner:
    """One environment, one stream. `env` has Gymnasium's `reset` and `step`."""

    def __init__(self, env: Any, client: Client, stream: str, seed: int | None = None, idle: Any = None) -> None:
        """`idle`: the action of a step in which the server decides that nothing is to be done.

        Raises:
            ValueError: the environment's actions are not those that the server decides on.
        """
        self._env = env
        self._client = client
        self._stream = stream
        self._seed, self._idle = seed, idle
        self._kind: str = client.spec()["action"]["type"]
        self._obs: Any = None  # None: an episode begins
        self._reward: float | None = None
        self.episodes = 0  # that have ended
        space = getattr(env, "action_space", None)
        if space is not None and type(space).__name__ != self._kind:
            raise ValueError(
                f"the environment's actions are {type(space).__name__}, the server decides on {self._kind}. "
                "Serve a task whose spec is the environment's, or wrap the environment."
            )

    def run(self, steps: int) -> list[float]:
        """The rewards of so many steps; goes on where the last call stopped.

        Raises:
            LivegymError: as `Client.decide`.
        """
        return [self._step() for _ in range(steps)]

    def _step(self) -> float:
        if self._obs is None:
            self._obs, _ = self._env.reset(seed=self._seed)
            self._seed = None
        decision = self._client.decide(self._stream, self._obs, self._reward)
        assert decision is not None  # only the end of an episode has none
        obs, reward, terminated, truncated, _ = self._env.step(self._action(decision))
        self._obs, self._reward = obs, float(reward)
        if terminated or truncated:
            self._client.decide(self._stream, obs, self._reward, terminated, truncated)
            self._obs = self._reward = None
            self.episodes += 1
        return float(reward)

    def _action(self, decision: Decision) -> Any:
        numbers = decision.action
        if numbers is None:
            if self._idle is None:
                raise ValueError("the server decided that nothing is to be done: give Runner(idle=...), what that is")
            return self._idle
        if self._kind == "Discrete":
            return int(numbers[0])
        return np.asarray(numbers, np.float32 if self._kind == "Box" else np.int64)
