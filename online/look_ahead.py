"""A safety shield for any task with a simulator: tries a proposed action in a copy of the simulator before it is sent.

The copy is set to the state in which the action would act. It takes the action for one control step, and then the
backup. If the episode does not fail within `horizon` steps, the verdict is SEND, because the backup is then still a way
out after the action: model predictive shielding (Bastani, "Safe Reinforcement Learning with Nonlinear Dynamics via
Model Predictive Shielding", 2021). Otherwise it is WAIT, and another first action is executed. The verdict is also WAIT
if the expected reward is below the threshold (if one is set).

- **Without a backup policy,** a continuous action becomes zero after the first step, a discrete one is held. After a
  WAIT, these first actions are tried: zero, half of the proposed action and its opposite; for a few discrete choices,
  any of them. The one that survives longest is chosen, and among equals the one that earns most in its step.
- **With a backup policy** (`online/backup_policy.py`), the policy acts after the first step, with its most likely
  actions. After a WAIT, its own action is chosen if it survives. Otherwise samples of the policy and the actions above
  are tried, and the one that survives longest is chosen, the first one among equals.

If none survives longer than the proposed action, that is executed: it leads to another state, in which one may.

The backup does not depend on the policy that is trained, so that every version's experience can be judged again. The
expected reward is that of the first step, because the proposed action earns only that one. Its components are the
task's weighted reward terms, and the fraction of the horizon that is survived.

With the trigger, only states that the task calls `at_risk` are simulated; other actions are sent. Whether a state was
at risk is stored with it, and the state only if it was (or if there is a threshold, which needs all). A simulated
episode that is no longer at risk counts as survived.

Only rows whose verdict is open are stepped. Before each rollout, the copy's random generator is set to the same state,
and no new randomisation is drawn within an episode (a push that has begun continues). So equal states and actions are
judged equally, whatever the other rows of the batch are. This holds for tasks that draw no random numbers of their own
within a step.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from livegym.online.experience import Verdict
from livegym.online.gate import Judgement
from livegym.tasks.base import Box, Discrete
from livegym.tasks.env import Env

LEFT_OUT = 2  # in the trigger's column: not at risk, and the state was not stored; 1: at risk, 0: not at risk
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


class Rollouts(NamedTuple):
    """The results of rollouts of n actions."""

    survived: np.ndarray  # (n,) int64 control steps without failure, at most the horizon
    terms: np.ndarray  # (n, T) weighted reward terms of the first step


class Backup(Protocol):
    """A learned backup. Its actions for a row must depend on that row alone."""

    def then(self, obs: Tensor) -> Tensor:
        """obs (N, width), without noise -> actions (N, ...) of the next control step."""

    def first(self, obs: Tensor) -> Tensor:
        """obs (N, width), without noise -> (K, N, ...): first actions to try, its own one first."""


class LookAhead:
    """The look-ahead gate (`gate=lookahead`)."""

    name = "lookahead"

    def __init__(
        self,
        scratch: Env,
        horizon: int,
        threshold: float | None,
        trigger: bool = False,
        backup: Backup | None = None,
    ) -> None:
        """`scratch`: a copy of the environments for this gate alone; `horizon`: control steps.

        `threshold`: least expected reward of a SEND; None: no limit. `trigger`: simulate only states at risk.
        `backup`: what acts after the first action; None: zero, or a discrete action is held.
        """
        self._env = scratch
        self._horizon = horizon
        self._threshold = threshold
        self._trigger = trigger
        self._backup = backup
        scratch.randomizer.draw_at_resets_only()
        self.rows = StateRows(scratch)
        self.width = self.rows.width + trigger  # bytes of a row that `observe` returns
        self.steps = 0  # control steps of the whole copy so far, for benchmarks
        success = scratch.success_reason
        self._success = -1 if success is None else scratch.reason_names.index(success)

    def observe(self, env: Env) -> np.ndarray:
        """Return what the gate sees of the environments: rows (N, width) uint8, their states."""
        if not self._trigger:
            return self.rows.pack(env.state_dict())
        at_risk = env.task.at_risk(env.sim)
        stored = at_risk if self._threshold is None else torch.ones_like(at_risk)
        rows = np.zeros((env.num_envs, self.width), np.uint8)
        rows[:, -1] = torch.where(stored, at_risk.to(torch.uint8), LEFT_OUT).cpu().numpy()
        if stored.any():
            ids = stored.nonzero().squeeze(1)
            rows[ids.cpu().numpy(), :-1] = self.rows.pack(env.state_dict(ids))
        return rows

    def evaluate(self, observation: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """Judge actions (n, A) in the states `observation` (n, width) from `observe`."""
        n, names = len(observation), self._env.terms.names
        simulated = self._simulated(observation)
        states = observation[:, : self.rows.width]
        outcomes = self._roll(states[simulated], action[simulated])
        survived, terms = np.full(n, self._horizon), np.zeros((n, len(names)), np.float32)
        survived[simulated], terms[simulated] = outcomes
        expected = terms.sum(1)
        waits = survived < self._horizon
        if self._threshold is not None:
            waits |= simulated & (expected < self._threshold)
        fallback = action.copy()
        if waits.any():
            fallback[waits] = self._best(states[waits], action[waits], Rollouts(survived[waits], terms[waits]))
        components = {name: terms[:, i] for i, name in enumerate(names)}
        components["survives"] = (survived / self._horizon).astype(np.float32)
        verdict = np.where(waits, Verdict.WAIT, Verdict.SEND).astype(np.int8)
        return Judgement(verdict, expected, components, fallback, None if simulated.all() else simulated)

    def _simulated(self, observation: np.ndarray) -> np.ndarray:
        """Return (n,) bool: the state is simulated."""
        if not self._trigger:
            return np.ones(len(observation), bool)
        risk: np.ndarray = observation[:, -1]
        return risk == 1 if self._threshold is None else risk != LEFT_OUT

    def _roll(self, states: np.ndarray, action: np.ndarray) -> Rollouts:
        """Simulate actions (n, A) in states (n, S), as many at once as the copy has environments."""
        size = self._env.num_envs
        parts = [self._roll_some(states[i : i + size], action[i : i + size]) for i in range(0, len(states), size)]
        if not parts:
            return Rollouts(np.zeros(0, np.int64), np.zeros((0, len(self._env.terms.names)), np.float32))
        return Rollouts(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _roll_some(self, states: np.ndarray, action: np.ndarray) -> Rollouts:
        env, n = self._env, len(states)
        env.load_state_dict(self.rows.unpack(states), torch.arange(n, device=env.sim.device))
        first = env.zero_action()
        first[:n] = torch.from_numpy(action.copy()).reshape(first[:n].shape).to(first)
        then = env.zero_action() if isinstance(env.task.action_spec, Box) else first
        is_open = torch.arange(env.num_envs, device=env.sim.device) < n
        survived = torch.zeros(env.num_envs, dtype=torch.int64, device=env.sim.device)
        terms = torch.zeros(0)
        for k in range(self._horizon):
            env.sim.unstable.copy_(~is_open)  # the simulator does not step an unstable environment
            acted = env.advance(first if k == 0 else then)
            self.steps += 1
            broken = self._broken() | (env.sim.unstable & is_open)
            if k == 0:
                terms = env.terms.weighted(env.task.reward(env.sim, acted))
                broken |= ~(terms.abs() <= env.stability.max_reward).all(1)
                terms[broken] = 0.0
            failed, ended = self._ends(broken)
            survived += is_open & ~failed
            if self._trigger:
                ended |= ~env.task.at_risk(env.sim)
            survived[is_open & ended & ~failed] = self._horizon  # an end without failure counts as survival
            is_open &= ~(ended | failed)
            if not is_open.any():
                break
            if self._backup is not None and k + 1 < self._horizon:
                then = self._backup.then(env.look(new=True))
        return Rollouts(survived[:n].cpu().numpy(), terms[:n].float().cpu().numpy())

    def _broken(self) -> Tensor:
        """(N,) bool: the state is not finite."""
        sim = self._env.sim
        return ~(torch.isfinite(sim.qpos).all(1) & torch.isfinite(sim.qvel).all(1))

    def _ends(self, broken: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) bool each: the episode fails in this step; it ends in this step."""
        env = self._env
        at_limit = env.episode_length >= env.max_length
        table = env.reasons.table(env.task.terminate(env.sim), broken, at_limit)  # (N, R)
        terminated = table[:, :-1].any(1)
        return terminated & (table.int().argmax(1) != self._success), terminated | at_limit

    def _best(self, states: np.ndarray, action: np.ndarray, proposed: Rollouts) -> np.ndarray:
        """Return the best first action for each row (n, A)."""
        best, longest = action.copy(), proposed.survived.copy()
        if self._backup is None:
            most = np.where(longest < self._horizon, np.inf, proposed.terms.sum(1))  # only a longer survival is better
            self._try(states, self._candidates(action), best, longest, most)
            return best
        own, *others = self._of_backup(self._backup, states)
        at_first = np.full(len(best), np.inf)  # among equals, the first of the candidates
        self._try(states, [own], best, longest, at_first)
        left = longest < self._horizon
        if left.any():
            some, lived = best[left], longest[left]
            rest = [values[left] for values in others] + self._candidates(action[left])
            self._try(states[left], rest, some, lived, at_first[left])
            best[left] = some
        return best

    def _of_backup(self, backup: Backup, states: np.ndarray) -> list[np.ndarray]:
        """Return the backup's first actions, each (n, A), for states (n, S)."""
        env, found = self._env, list[np.ndarray]()
        size = env.num_envs
        for i in range(0, len(states), size):
            some = states[i : i + size]
            env.load_state_dict(self.rows.unpack(some), torch.arange(len(some), device=env.sim.device))
            first = backup.first(env.look(new=False))[:, : len(some)]
            found.append(first.reshape(*first.shape[:2], -1).cpu().numpy())
        return list(np.concatenate(found, axis=1))

    def _try(
        self,
        states: np.ndarray,
        candidates: list[np.ndarray],
        best: np.ndarray,
        longest: np.ndarray,
        most: np.ndarray,
    ) -> None:
        """Try candidates, each (n, A); update the best actions (n, A), and the steps and the reward (n,) of each."""
        found = self._roll(np.tile(states, (len(candidates), 1)), np.concatenate(candidates))
        n = len(best)
        for i, candidate in enumerate(candidates):
            survived, earned = found.survived[i * n : (i + 1) * n], found.terms[i * n : (i + 1) * n].sum(1)
            better = (survived > longest) | ((survived == longest) & (earned > most))  # first safe, then good
            best[better] = candidate[better]
            longest[better] = survived[better]
            most[better] = earned[better]

    def _candidates(self, action: np.ndarray) -> list[np.ndarray]:
        spec = self._env.task.action_spec
        if isinstance(spec, Box):
            return [np.zeros_like(action), action / 2, -action]
        if isinstance(spec, Discrete) and spec.n <= CHOICES:
            return [np.full_like(action, choice) for choice in range(spec.n)]
        return [np.zeros_like(action)]
