"""A safety shield for any task with a simulator: tries a proposed action in a copy of the simulator before it is sent.

The copy is set to the state in which the action would act, and holds the action for `horizon` control steps. The
verdict is WAIT if the episode fails within these steps, or if the expected reward is below the threshold (if one is
set). Then the best of a few plain actions is executed instead: zero, half of the proposed action or its opposite; for a
few discrete choices, any of them. The best one survives longest, and earns most among equals.

The expected reward is that of the first step, because the proposed action earns only that one. Its components are the
task's weighted reward terms, and the fraction of the horizon that it survives. Before each rollout, the copy's
random generator is set to the same state, and no new randomisation is drawn within an episode (a push that has begun
continues). So equal states and actions are judged equally, whatever the other rows of the batch are. This holds for
tasks that draw no random numbers of their own within a step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.online.experience import Verdict
from livegym.online.gate import Judgement
from livegym.tasks.base import Box, Discrete
from livegym.tasks.env import Env

CHOICES = 16  # up to this many discrete choices, all are tried


class StateRows:
    """Converts states of environments to rows of bytes, and back."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._template = env.state_dict(torch.tensor([0], device=env.sim.device))
        self._tensors = _tensors(self._template)
        self.width = sum(value.numel() * value.element_size() for _, _, value in self._tensors)

    def pack(self, state: dict[str, Any]) -> np.ndarray:
        """Pack the `Env.state_dict` of n environments into rows (n, width) uint8."""
        parts = [_bytes_of(state[part] if name == "" else state[part][name]) for part, name, _ in self._tensors]
        return np.concatenate(parts, axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, Any]:
        """Unpack rows (n, width) uint8 into a state for `Env.load_state_dict`, with this environment's generator."""
        state = {key: dict(value) if isinstance(value, dict) else value for key, value in self._template.items()}
        at = 0
        for part, name, like in self._tensors:
            size = like.numel() * like.element_size()
            raw = rows[:, at : at + size].copy()  # a copy even of one row: torch, unlike numpy, checks its stride
            value = torch.from_numpy(raw).view(like.dtype if like.dtype != torch.bool else torch.uint8)
            value = value.reshape(len(rows), *like.shape[1:]).to(like.dtype).to(self._env.sim.device)
            at += size
            if name == "":
                state[part] = value
            else:
                state[part][name] = value
        return state


def _tensors(state: dict[str, Any]) -> list[tuple[str, str, Tensor]]:
    inner = [(part, name, value) for part in ("sim", "task", "env") for name, value in state[part].items()]
    rest = [(part, "", state[part]) for part in ("episode_length", "episode_terms")]
    return [entry for entry in [*inner, *rest] if entry[2].numel()]


def _bytes_of(value: Tensor) -> np.ndarray:
    plain = value.contiguous().cpu()
    plain = plain.to(torch.uint8) if plain.dtype == torch.bool else plain
    return plain.reshape(len(plain), -1).view(torch.uint8).numpy()


class LookAhead:
    """The look-ahead gate (`gate=lookahead`)."""

    name = "lookahead"

    def __init__(self, scratch: Env, horizon: int, threshold: float | None) -> None:
        """`scratch`: a copy of the environments for this gate alone; `horizon`: control steps.

        `threshold`: least expected reward of a SEND; None: no limit.
        """
        self._env = scratch
        self._horizon = horizon
        self._threshold = threshold
        scratch.randomizer.draw_at_resets_only()
        self.rows = StateRows(scratch)
        self._success = scratch.success_reason

    def evaluate(self, observation: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """Judge actions (n, A) in the states `observation` (n, width), packed by `StateRows`."""
        parts = [self._evaluate(observation[i : i + self._env.num_envs], action[i : i + self._env.num_envs])
                 for i in range(0, len(observation), self._env.num_envs)]  # fmt: skip
        return Judgement(
            verdict=np.concatenate([part.verdict for part in parts]),
            expected=np.concatenate([part.expected for part in parts]),
            components={name: np.concatenate([p.components[name] for p in parts]) for name in parts[0].components},
            fallback=np.concatenate([p.fallback for p in parts if p.fallback is not None]),
        )

    def _evaluate(self, observation: np.ndarray, action: np.ndarray) -> Judgement:
        survived, _, terms = self._roll(observation, action)
        expected = terms.sum(1)
        waits = survived < self._horizon
        if self._threshold is not None:
            waits |= expected < self._threshold
        components = {name: terms[:, i] for i, name in enumerate(self._env.terms.names)}
        components["survives"] = (survived / self._horizon).astype(np.float32)
        verdict = np.where(waits, Verdict.WAIT, Verdict.SEND).astype(np.int8)
        fallback = action.copy()
        if waits.any():
            fallback[waits] = self._best(observation[waits], action[waits])
        return Judgement(verdict, expected.astype(np.float32), components, fallback)

    def _roll(self, observation: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return steps without failure (n,), their total reward (n,), and the first step's weighted terms (n, T)."""
        env, n = self._env, len(observation)
        env.load_state_dict(self.rows.unpack(observation), torch.arange(n, device=env.sim.device))
        held = env.zero_action()
        held[:n] = torch.from_numpy(action.copy()).reshape(held[:n].shape).to(held)
        alive = torch.ones(n, dtype=torch.bool)
        survived, earned = torch.zeros(n, dtype=torch.int64), torch.zeros(n)
        first = torch.zeros(n, len(env.terms.names))
        for k in range(self._horizon):
            step = env.step(held)
            failed = step.terminated[:n].cpu() & ~self._succeeded(step, n)
            earned += step.reward[:n].cpu() * alive
            if k == 0:
                first = step.terms[:n].cpu().clone()
            ended = (step.terminated | step.truncated)[:n].cpu()
            survived += (alive & ~failed).long()
            survived[alive & ended & ~failed] = self._horizon  # an end without failure counts as survival
            alive &= ~ended
            if not alive.any():
                break
        return survived.numpy(), earned.numpy(), first.numpy()

    def _succeeded(self, step: Any, n: int) -> Tensor:
        success = torch.zeros(n, dtype=torch.bool)
        if step.ended is not None and self._success is not None:
            for env_id, reason in zip(step.ended.env_ids.tolist(), step.ended.reasons.tolist(), strict=True):
                if env_id < n:
                    success[env_id] = self._env.reason_names[reason] == self._success
        return success

    def _best(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Return the best plain action for each row (n, A)."""
        best = action.copy()
        longest = np.full(len(observation), -1)
        most = np.full(len(observation), -math.inf)
        for candidate in self._candidates(action):
            survived, earned, _ = self._roll(observation, candidate)
            better = (survived > longest) | ((survived == longest) & (earned > most))  # first safe, then good
            best[better] = candidate[better]
            longest[better] = survived[better]
            most[better] = earned[better]
        return best

    def _candidates(self, action: np.ndarray) -> list[np.ndarray]:
        spec = self._env.task.action_spec
        if isinstance(spec, Box):
            return [np.zeros_like(action), action / 2, -action]
        if isinstance(spec, Discrete) and spec.n <= CHOICES:
            return [np.full_like(action, choice) for choice in range(spec.n)]
        return [np.zeros_like(action)]
