"""Runs a Gymnasium environment with a server's decisions, so that the server trains on it.

    rewards = Runner(env, client, "robot-1").run(1000)

The first observation of each episode is sent as such. The reward of each step is sent with the next observation; at the
end of an episode, with the last observation, which gets no decision. The server learns whether the episode terminated
or was truncated by a time limit; after a truncation, it bootstraps the value of the last observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegym_client.client import Client
from livegym_client.wire import Decision


class Runner:
    """Runs one environment as one stream. `env` needs Gymnasium's `reset` and `step`."""

    def __init__(self, env: Any, client: Client, stream: str, seed: int | None = None, idle: Any = None) -> None:
        """`idle`: the action of a step for which the server returns no action.

        Raises:
            ValueError: the environment's action space is not of the server's type.
        """
        self._env = env
        self._client = client
        self._stream = stream
        self._seed, self._idle = seed, idle
        self._kind: str = client.spec()["action"]["type"]
        self._obs: Any = None  # None: the next step begins an episode
        self._reward: float | None = None
        self.episodes = 0  # finished episodes
        space = getattr(env, "action_space", None)
        if space is not None and type(space).__name__ != self._kind:
            raise ValueError(
                f"the environment's actions are {type(space).__name__}, but the server's are {self._kind}. "
                "Serve a task with the environment's action space, or wrap the environment."
            )

    def run(self, steps: int) -> list[float]:
        """Make `steps` steps, from where the last call stopped; return their rewards.

        Raises:
            LivegymError: see `Client.decide`.
        """
        return [self._step() for _ in range(steps)]

    def _step(self) -> float:
        first = self._obs is None
        if first:
            self._obs, _ = self._env.reset(seed=self._seed)
            self._seed = None
        decision = self._client.decide(self._stream, self._obs, self._reward, first=first)
        assert decision is not None  # it is None only at the end of an episode
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
                raise ValueError("the server returned no action, because the gate blocked it. Set Runner(idle=...)")
            return self._idle
        if self._kind == "Discrete":
            return int(numbers[0])
        return np.asarray(numbers, np.float32 if self._kind == "Box" else np.int64)
