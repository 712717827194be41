"""The built-in simulator: a task's own environments as streams of observations, in real time or as fast as possible.

    simulator = BuiltIn(env, service, speed=1.0)
    if simulator.left() <= 0:
        simulator.step(clock)

Each environment is one stream. A step decides for all of them, executes the decisions, and completes each one with the
reward and the next observation of that step.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from livegym.online.decider import StreamObservation
from livegym.online.experience import Experience
from livegym.online.gates import raw_rows
from livegym.online.service import Service
from livegym.tasks.env import Env, Step
from livegym.tasks.stream_task import StreamTask

LATE = 1.0  # s; a simulator that lags further behind does not try to catch up


def streams_of(env: Env) -> list[str]:
    """Return the names of the built-in simulator's streams, one for each environment."""
    return [f"{env.config.name.lower()}-{env_id}" for env_id in range(env.num_envs)]


class BuiltIn:
    """The built-in simulator of one run. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, env: Env, service: Service, speed: float) -> None:
        """`service` was created with `streams_of(env)` as its own streams.

        `speed`: simulated seconds per second of real time; 0: as fast as possible.
        """
        self.env = env
        self.service = service
        self.speed = speed
        self.streams = streams_of(env)
        service.decider.slots.reserve(self.streams)
        self.seconds = 0.0  # duration of the last decisions
        self._obs = env.reset()
        service.end(self.streams)  # an episode begins in each
        self._due = time.monotonic()

    def left(self) -> float:
        """Return the seconds until the next step is due; it is due now if they are 0 or less."""
        return 0.0 if self.speed == 0 else self._due - time.monotonic()

    def step(self, clock: float) -> None:
        """Make one control step of every environment."""
        env, service = self.env, self.service
        seen, not_learned = service.decider.sees(env), service.not_learned.streams
        obs = self._obs["policy"].cpu().numpy()
        raw = raw_rows(env) if isinstance(env.task, StreamTask) else None
        observations = [
            StreamObservation(stream, obs[i], seen[i], None if raw is None else raw[i], stream not in not_learned)
            for i, stream in enumerate(self.streams)
        ]
        start = time.perf_counter()
        made = service.decide(observations, clock)
        self.seconds = time.perf_counter() - start
        step = env.step(self._action(made))
        self._complete(made, step)
        self._obs = step.obs
        self._wait_for_the_next()

    def _action(self, made: list[Experience]) -> torch.Tensor:
        action = self.env.zero_action()
        rows = np.stack([decision.executed for decision in made])
        unblocked = torch.tensor([not decision.held for decision in made], device=action.device)
        executed = torch.from_numpy(rows).to(action).reshape(action.shape)
        action[unblocked] = executed[unblocked]
        return action

    def _complete(self, made: list[Experience], step: Step) -> None:
        service, pending = self.service, self.service.pending
        rewards, terminated = step.reward.tolist(), step.terminated.tolist()
        after = step.final_obs["policy"].cpu().numpy()
        for i, decided in enumerate(made):
            stream, decision = self.streams[i], decided.decision
            service.keep(pending.rewarded(stream, decision, rewards[i]))
            service.keep(pending.followed(stream, after[i], terminated[i]))
        names = self.env.terms.names
        service.tally.terms.extend(dict(zip(names, terms, strict=True)) for terms in step.terms.tolist())
        if step.ended is not None:
            service.end([self.streams[i] for i in step.ended.env_ids.tolist()])

    def _wait_for_the_next(self) -> None:
        if self.speed == 0:
            return
        self._due += self.env.sim.control_dt / self.speed
        now = time.monotonic()
        if now - self._due > LATE:
            self._due = now
