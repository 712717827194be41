"""Foreign environments behind the interface of livegym's Env, for learners, tests, viewers and the page.

    env = make_env(config.task, ...)          # task.name=isaacgymenvs-Ant
    step = env.step(actions)                  # Step, as of any other task

The foreign code owns the order of a step, its rewards and its resets (`drivers.py` says which). What is added here:
statistics of each episode, the difference of failure and time limit, and the search for non-finite numbers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from livegym.compat.foreign.announced import repeat
from livegym.compat.foreign.drivers import PRIVILEGED, Groups, Outcome, driver_of
from livegym.compat.foreign.loading import Loaded
from livegym.compat.foreign.memory import Memory
from livegym.compat.foreign.sim import ForeignSim
from livegym.projects.checkout import Checkout
from livegym.projects.registry import Part
from livegym.schema import TaskConfig
from livegym.sim.base import Simulator, Snapshot
from livegym.tasks.base import Task
from livegym.tasks.curriculum import Curriculum
from livegym.tasks.env import Env, Step
from livegym.tasks.env_state import digest_of
from livegym.tasks.stability import StabilityWatch, StateLog
from livegym.tasks.stats import EpisodeStats, EpisodeSummary
from livegym.tasks.terms import POLICY, TIME_LIMIT, UNSTABLE, ObservationLayout, RewardTerms
from livegym.utils.errors import UserError
from livegym.utils.seeding import seed_everything

log = logging.getLogger(__name__)
OBSERVATION = "observation"  # the only block of the policy's group
STATES = "states"  # the only block of the critic's group, if there is one
REWARD = "reward"  # the only reward term, unless the environment names parts of its reward
OTHER = "other"  # what named parts leave over
TERMINATED = "terminated"  # the only reason to end, except the time limit
SUCCESS = "success"  # a reason to end, if the environment says so
REASONS = (UNSTABLE, TERMINATED, TIME_LIMIT)


@dataclass(frozen=True)
class _Terms:
    names: tuple[str, ...]


class ForeignEnv(Env):
    """N environments of a foreign task."""

    def __init__(self, task: Task, config: TaskConfig, loaded: Loaded, num_envs: int, part: Part) -> None:
        """Makes one step without action, which measures the widths of observations and the control step.

        Raises UserError if the environment does not do what such environments do.
        """
        self.task = task
        self.config = config
        self._loaded = loaded
        self._part = part
        self._driver = driver_of(loaded)
        made = _simulation(loaded.env)
        if self._driver.num_envs != num_envs:
            raise UserError(f"{config.name} made {self._driver.num_envs} environments instead of numEnvs={num_envs}")
        sizes = {loaded.actions, *(size for group in made.groups for size in group.engine.layout.sizes)}
        self._memory = Memory(loaded.env, num_envs, sizes, made.tensors.buffers)
        frames = made.frames
        with part.running("failed in its first step"):
            first = self._driver.step(torch.zeros(num_envs, loaded.actions))
        sizes.update(value.shape[1] for value in first.obs.values())
        control_dt = float(made.params.dt) * max(1, made.frames - frames)
        self._sim = ForeignSim(made, num_envs, control_dt)
        self.sim = cast(Simulator, self._sim)  # it has all that is used of one
        own_limit = getattr(loaded.env, "max_episode_length", None)  # steps
        self.max_length = max(1, round(own_limit if own_limit else config.episode_length_s / control_dt))
        self.curriculum = Curriculum(None, task, num_envs, self.sim.device)
        self.layout = _layout(first.obs)
        names = (*first.parts, OTHER) if first.parts else (REWARD,)
        self.terms = cast(RewardTerms, _Terms(names))
        self._succeeds = first.succeeded is not None
        self.episode_length = torch.zeros(num_envs, dtype=torch.int64)
        self.stability = StabilityWatch(config.name, num_envs, config.max_reward)
        self.stats = EpisodeStats(num_envs, names, self.reason_names, self.sim.device)
        self._weight = config.rewards[REWARD]
        self._said: dict[str, tuple[float, int]] = {}  # numbers in the environment's own episode report: sum, count
        self._told = self._told_restored = False

    @property
    def success_reason(self) -> str | None:
        """The reason that means success, if the environment says what success is."""
        return SUCCESS if self._succeeds else None

    @property
    def reason_names(self) -> tuple[str, ...]:
        """The reasons that can end an episode; FinishedEpisodes.reasons are indices into them."""
        return (*REASONS, SUCCESS) if self._succeeds else REASONS

    @cached_property
    def model_digest(self) -> str:
        """The digest of the model, wherever its fixed bases stand: a task may draw that, and releases drew it."""
        return digest_of(self._sim.engine.model_xml_at_origin())

    def watch(self, recorder: StateLog) -> None:
        """Let a recorder follow every step; files that the constructor wrote move beside its folder."""
        super().watch(recorder)
        if isinstance(self._part.project, Checkout):
            repeat(self._part.project.root)
        folder = getattr(recorder, "path", None)
        if folder is not None:
            self._loaded.keep_files(folder.parent / "foreign_files")

    def reseed(self, seed: int) -> None:
        """Seed the process's generators, from which foreign code draws. What it has drawn before, it keeps."""
        seed_everything(seed)

    def reset(self) -> Groups:
        """Start a new episode in every environment; unfinished ones are dropped from the statistics."""
        return self.restart(torch.arange(self.num_envs), self._driver.obs)

    def restart(self, env_ids: Tensor, obs: Groups) -> Groups:
        """Start new episodes in environments (n,); a VecTask shows their first observation after the next step."""
        self.stats.drop(env_ids)
        self.episode_length[env_ids] = 0
        return {group: value.clone() for group, value in self._driver.reset(env_ids).items()}

    def step(self, action: Tensor, push: Callable[[Simulator], None] | None = None) -> Step:
        """Advance by one control step. action: (N, size) in [-1, 1]."""
        if push is not None:
            push(self.sim)
        with self._part.running("failed in a step"):
            made = self._driver.step(action.clamp(-1.0, 1.0).float())
        self.episode_length += 1
        self.stability.stepped()
        weighted = self._parts(made) * self._weight  # (N, terms)
        reward = made.reward * self._weight
        unstable = self._unstable(weighted, reward, made.final_obs, made.obs)
        ended = made.ended | unstable
        terminated = ended & ~made.timed_out | unstable
        truncated = made.timed_out & ~unstable
        self.stats.add(weighted)
        obs = self._begin_again(unstable, made)
        ids = ended.nonzero().squeeze(1)
        if len(ids) == 0:
            return Step(obs, reward, terminated, truncated, made.final_obs, None, weighted)
        self._note_report(int(made.ended.sum()))
        reasons = self._reasons(made, unstable)[ids]
        levels = torch.ones(len(ids), dtype=torch.float64)
        episodes = self.stats.end(ids, self.episode_length[ids], reasons, levels, {}, ~unstable[ids])
        self.episode_length[ids] = 0
        return Step(obs, reward, terminated, truncated, made.final_obs, episodes, weighted)

    def _parts(self, made: Outcome) -> Tensor:
        """(N, terms) the reward, by the names that the environment gave in its first step."""
        if not made.parts:
            return made.reward[:, None]
        none = torch.zeros_like(made.reward)
        named = torch.stack([made.parts.get(name, none) for name in self.terms.names[:-1]], 1)
        return torch.cat([named, (made.reward - named.sum(1))[:, None]], 1)

    @staticmethod
    def _reasons(made: Outcome, unstable: Tensor) -> Tensor:
        """(N,) int64 indices of `reason_names`, for episodes that have ended."""
        limit = made.timed_out if made.at_limit is None else made.timed_out | made.at_limit
        reasons = torch.where(limit, 2, 1)
        if made.succeeded is not None:
            reasons = torch.where(made.succeeded, 3, reasons)
        return torch.where(unstable, 0, reasons)

    def _unstable(self, weighted: Tensor, reward: Tensor, obs: Groups, obs_next: Groups) -> Tensor:
        """(N,) bool; reports such environments, and zeroes their rewards and observations in place."""
        self._sim.find_unstable(obs_next)
        unstable = self.stability.find(self.sim.unstable, weighted, reward, obs, self.terms.names, self.layout)
        if not unstable.any():
            self.stability.all_sound()
            return unstable
        ids = unstable.nonzero().squeeze(1)
        self.stability.report(ids, self.episode_length[ids])
        for value in (weighted, reward, *obs.values()):
            value[ids] = 0.0
        return unstable

    def _begin_again(self, unstable: Tensor, made: Outcome) -> Groups:
        """The observations for the next action; environments (N,) that are unstable begin again."""
        if not unstable.any():
            return made.obs
        ids = unstable.nonzero().squeeze(1)
        obs = self._driver.reset(ids)
        for value in obs.values():
            value[ids] = value[ids].nan_to_num(0.0, 0.0, 0.0)  # a VecTask resets only in the next step
        return obs

    def _note_report(self, episodes: int) -> None:
        """Remember the numbers of the environment's own report about the episodes that it ended in this step."""
        report = getattr(self._loaded.env, "extras", {}).get("episode", {})
        for name, value in report.items() if isinstance(report, dict) and episodes else ():
            number = _mean(value)
            if number is None:
                continue
            total, count = self._said.get(name, (0.0, 0))
            self._said[name] = total + episodes * number, count + episodes

    def drain_report(self) -> EpisodeSummary:
        """Statistics since the last call, with the means of what the environment itself reports of its episodes."""
        report = super().drain_report()
        said, self._said = self._said, {}
        report.metric_mean.update({name: total / count for name, (total, count) in said.items()})
        report.metric_episodes = max(report.metric_episodes, *(count for _, count in said.values()), 0)
        return report

    def state_dict(self, env_ids: Tensor | None = None) -> dict[str, Any]:
        """The state that decides how the environments continue, as far as it can be known; always of all of them."""
        if not self._told:
            self._told = True
            log.info(
                "the state of %s is saved as far as its attributes show it: see docs/isaacgym.md", self.config.name
            )
        everything = torch.arange(self.num_envs)
        return {
            "model": self.model_digest,
            "sim": self.sim.snapshot(everything).arrays,
            "foreign": self._memory.save(),
            "obs": {group: value.clone() for group, value in self._driver.obs.items()},
            "episode_length": self.episode_length.clone(),
            **self.stats.state_dict(everything),
            **self.stability.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], env_ids: Tensor | None = None) -> None:
        """Restore a `state_dict`. Raises ValueError if it is of another model or number of environments."""
        if state.get("model") != self.model_digest:
            raise ValueError("the state belongs to another model: the asset or the task's configuration has changed")
        if len(state["episode_length"]) != self.num_envs:
            raise ValueError(f"a state of {len(state['episode_length'])} environments does not fit {self.num_envs}")
        everything = torch.arange(self.num_envs)
        self.sim.restore(Snapshot(everything, state["sim"]), everything)
        restored = self._memory.restore(state["foreign"])
        self._driver.obs = {group: value.clone() for group, value in state["obs"].items()}
        self.episode_length.copy_(state["episode_length"])
        self.stats.load_state_dict(state, everything)
        self.stability.load_state_dict(state)
        if not self._told_restored:
            self._told_restored = True
            lost = sorted(state["foreign"].keys() - set(restored))
            if lost:
                log.warning(
                    "not restored of %s: %s. Its files have changed since: it no longer has the objects that these "
                    "values were in", self.config.name, ", ".join(lost)
                )  # fmt: skip
            log.info(
                "restored of %s: the simulation, and what the run had changed of its attributes (%s); the others are "
                "as its files say now",
                self.config.name, ", ".join(restored) or "nothing",
            )  # fmt: skip

    def advance(self, action: Tensor, push: Callable[[Simulator], None] | None = None) -> Tensor:
        """Raises UserError: foreign code cannot look ahead."""
        raise UserError(f"{self.config.name} is foreign code, which cannot look ahead. Allowed: gate=off")

    def look(self, new: bool) -> Tensor:
        """The last observation, (N, width)."""
        return self._driver.obs[POLICY]


def _mean(value: Any) -> float | None:
    """The mean of a number, or of an array of them, as rsl_rl takes it; None if it has none, or is not finite."""
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):  # text, or a list of unequal ones
        return None
    mean = float(numbers.mean()) if numbers.numel() else math.nan
    return mean if math.isfinite(mean) else None


def _simulation(env: Any) -> Any:
    """The result of `create_sim` in an environment. Raises UserError if it has none."""
    sim = getattr(env, "sim", None)
    if not hasattr(sim, "engine"):
        raise UserError(
            f"{type(env).__name__} has no simulation of livegym's isaacgym in its attribute sim, but {sim!r}. If "
            "NVIDIA's Isaac Gym is installed, it was used instead; livegym needs its own."
        )
    return sim


def _layout(obs: Groups) -> ObservationLayout:
    names = {POLICY: OBSERVATION, PRIVILEGED: STATES}
    widths = {names[group]: value.shape[1] for group, value in obs.items()}
    return ObservationLayout(widths, {group: (names[group],) for group in obs}, {})
