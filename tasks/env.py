"""The environment: this is the only place that defines the order of a control step.

The order, and its reasons:

1. Clip and delay the action, draw the randomised values that are due, let the task turn the action into controls, and
   advance the physics by one control step.
2. Count the step, let the task update what it remembers (`update`), then read rewards and reasons from the state
   *after* the physics and *before* any reset, so that they belong to the same episode as the action.
3. Observe. If an episode ends, this is its last observation, which is kept for bootstrapping.
4. Update the curriculum. Reset the environments whose episode ended, and observe them again, so that the returned
   observation is the one for the next action.

Terminated and truncated are always two tensors: a time limit is not a failure. A failure in the same step as the time
limit is a failure. An environment whose numbers became non-finite or absurd (`tasks/stability.py`) is recorded,
reported, ended (`unstable`) and reset; its reward in that step counts as 0. A start state with such numbers is drawn
again before anything uses it. Such values are never replaced silently.

    env = Env(task, sim, task_config, seed=0)
    obs = env.reset()                      # {"policy": (N, width), ...}
    step = env.step(actions)               # Step
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from livegym.schema import TaskConfig
from livegym.sim.base import Simulator, Snapshot
from livegym.tasks.base import NO_WINNER, Box, Task, check_success_reason, zero_action
from livegym.tasks.curriculum import Curriculum
from livegym.tasks.env_state import check_fits, ids_for, model_digest
from livegym.tasks.observations import Observations
from livegym.tasks.randomization import Randomizer
from livegym.tasks.rows import by_env, by_row, rows_of_envs
from livegym.tasks.stability import REDRAWS, StabilityWatch, StateLog
from livegym.tasks.stats import EpisodeStats, EpisodeSummary, FinishedEpisodes
from livegym.tasks.step import Step
from livegym.tasks.terms import ObservationLayout, RewardTerms, TerminationReasons, check_like, check_shape
from livegym.utils.errors import UserError

EPISODE_TIME = "episode_time"
"""A block that every task's yaml may name: the fraction of the time limit that has passed, 0 to 1."""


class Env:
    """N environments of one task. All random draws come from its own generator.

    In an environment there are `task.seats` seats, and what a policy sees, does and gets has one row for each:
    R = N x seats, row = environment x seats + seat. Physics, resets and ends of episodes are by environment. With one
    seat, rows are environments.
    """

    def __init__(self, task: Task, sim: Simulator, config: TaskConfig, seed: int) -> None:
        """Binds the task to the simulator and starts it.

        Raises UserError if the yaml and the task's names or shapes do not fit.
        """
        self.task = task
        self.sim = sim
        self.config = config
        self.rng = torch.Generator(sim.device).manual_seed(seed)
        self.max_length = round(config.episode_length_s / sim.control_dt)
        if self.max_length < 1:
            raise UserError(
                f"task.episode_length_s={config.episode_length_s} s is shorter than one control step "
                f"({sim.control_dt:g} s). Give at least {sim.control_dt:g}."
            )
        check_success_reason(task, config.terminations)
        task.end_by(tuple(name for name, on in config.terminations.items() if on))
        self.curriculum = Curriculum(config.curriculum, task, sim.num_envs, sim.device)
        task.go_by(self.curriculum.params())
        task.bind(sim)
        self.randomizer = Randomizer(
            config.randomization if config.randomize else {}, sim, task.action_spec, task.seats
        )
        self.curriculum.check_moves(any(term.config.curriculum for term in self.randomizer.terms))
        sim.start()
        self.randomizer.start()
        self.episode_length = torch.zeros(sim.num_envs, dtype=torch.int64, device=sim.device)
        self.stability = StabilityWatch(config.name, sim.num_envs, config.max_reward)
        self.before_renewal: Callable[[Tensor], None] | None = None
        """Called in `step` with environments (n,) whose episode has ended, while they are still in its last state."""
        everything = torch.arange(sim.num_envs, device=sim.device)
        finite = self._reset_envs(everything)
        self._measure(everything, finite)

    def _measure(self, env_ids: Tensor, finite: Tensor) -> None:
        """Evaluate every named term once, to check the names in both directions and to measure the widths.

        `env_ids`: all environments; `finite`: whether each of their start states is finite.
        """
        n = self.num_rows
        groups = self.config.observations
        self.layout = ObservationLayout.measure(
            self.blocks(),
            {"policy": groups.policy, "privileged": groups.privileged, "unused": groups.unused},
            n,
            self.config.history,
        )
        self.observations = Observations(self.layout, self.config, n, self.sim.device)
        self._sound_start(env_ids, finite)
        action = self.zero_action()
        check_like("control", self.task.control(action), tuple(self.sim.ctrl.shape))
        self.terms = RewardTerms(self.task.reward(self.sim, action), self.config.rewards, n)
        n = self.num_envs
        self.reasons = TerminationReasons(self.task.terminate(self.sim), self.config.terminations, n)
        metrics = self.task.episode_metrics(self.sim)
        for name, value in metrics.items():
            check_shape("episode metric", name, value, n, dims=1)
        if self.seats > 1:
            check_like("winner", self.task.winner(self.sim), (n,))
        device = self.sim.device
        self.stats = EpisodeStats(n, self.terms.names, self.reasons.names, device, tuple(metrics), self.seats)

    @cached_property
    def model_digest(self) -> str:
        """The digest of the model, which a saved state contains."""
        return model_digest(self.sim)

    def watch(self, recorder: StateLog) -> None:
        """Let a recorder follow every step from now on."""
        self.stability.recorder = recorder

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return self.sim.num_envs

    @property
    def seats(self) -> int:
        """The number of seats in an environment, each of which a policy takes."""
        return self.task.seats

    @property
    def num_rows(self) -> int:
        """R, the number of rows: how many actions a step takes."""
        return self.num_envs * self.seats

    def rows_of(self, env_ids: Tensor) -> Tensor:
        """The rows of environments (n,): (n x seats,), those of an environment together and in the order of seats."""
        return rows_of_envs(env_ids, self.seats)

    @property
    def success_reason(self) -> str | None:
        """The reason that means success; None if the task has none, or the yaml switches it off."""
        reason = self.task.success_reason
        return reason if reason in self.reasons.active else None

    @property
    def reason_names(self) -> tuple[str, ...]:
        """The reasons that can end an episode; FinishedEpisodes.reasons are indices into them."""
        return self.reasons.names

    def zero_action(self) -> Tensor:
        """The action that does nothing: (R, size) float32 or (R,) / (R, k) int64."""
        return zero_action(self.task.action_spec, self.num_rows, self.sim.device)

    def reseed(self, seed: int) -> None:
        """Seed the generator: after equal seeds, `reset` and what follows are equal, at the same curriculum level."""
        self.rng.manual_seed(seed)

    def close(self) -> None:
        """End the engine's threads."""
        self.sim.close()

    def reset(self) -> dict[str, Tensor]:
        """Start a new episode in every environment; unfinished ones are dropped from the statistics."""
        everything = torch.arange(self.num_envs, device=self.sim.device)
        self.stats.drop(everything)
        return self._begin(everything)

    def restart(self, env_ids: Tensor, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Start new episodes in environments (n,), sorted; unfinished ones are dropped from the statistics.

        obs: the observations from the last `step` or `reset`. Returns them with first observations in those rows.
        """
        self.stats.drop(env_ids)
        return self._renewed(obs, env_ids)

    def step(self, action: Tensor, push: Callable[[Simulator], None] | None = None) -> Step:
        """Advance by one control step. action: (R, size) in [-1, 1], or (R,) / (R, k) int64 choices.

        `push` may add to the forces on bodies that randomisation has just written, before the physics.
        """
        action = self.advance(action, push)
        weighted = self.terms.weighted(self.task.reward(self.sim, action))  # (R, T)
        final_obs = self.observations.step(self.blocks(), self.rng, self._noise_scale)
        reward = weighted.sum(1)
        unstable = self._find_unstable(weighted, reward, final_obs)
        at_limit = self.episode_length >= self.max_length
        table = self.reasons.table(self.task.terminate(self.sim), unstable, at_limit)  # (N, reasons)
        failed = table[:, :-1].any(1)
        ended = failed | at_limit
        terminated, truncated = (by_row(each, self.seats) for each in (failed, at_limit & ~failed))

        self.stats.add(weighted)
        ended_ids = ended.nonzero().squeeze(1)
        if len(ended_ids) == 0:
            return Step(final_obs, reward, terminated, truncated, final_obs, None, weighted)
        reasons = table[ended_ids].int().argmax(1)  # the first that holds
        metrics = {n: v[ended_ids] for n, v in self.task.episode_metrics(self.sim).items()}
        sound = ~table[ended_ids, 0]  # metrics of a non-finite state mean nothing
        levels = self.curriculum.level_at_start[ended_ids]
        lengths, winners = self.episode_length[ended_ids], self._winners(ended_ids, sound)
        episodes = self.stats.end(ended_ids, lengths, reasons, levels, metrics, sound, winners)
        self._judge(episodes)
        if self.before_renewal is not None:
            self.before_renewal(ended_ids)
        return Step(self._renewed(final_obs, ended_ids), reward, terminated, truncated, final_obs, episodes, weighted)

    def advance(self, action: Tensor, push: Callable[[Simulator], None] | None = None) -> Tensor:
        """The first half of `step`, up to the state after the physics; returns the action that acted, (R, ...).

        Nothing is rewarded, observed or reset, so only `step` and environments that look ahead may call it.
        """
        if isinstance(self.task.action_spec, Box):
            action = self.randomizer.late(action.clamp(-1.0, 1.0))
        self.randomizer.step(self.rng, self.curriculum.level)
        if push is not None:
            push(self.sim)
        self.sim.ctrl.copy_(self.task.control(action))
        self.sim.step()
        self.episode_length += 1
        self.stability.stepped()
        self.task.update(self.sim)
        return action

    def look(self, new: bool) -> Tensor:
        """(R, width): what a policy would see now, without noise; for environments that look ahead.

        `new`: after `advance`; otherwise in a state that was loaded, whose observation was made already.
        """
        return self.observations.quiet(self.blocks(), new)

    def drain_report(self) -> EpisodeSummary:
        """Statistics since the last call."""
        watch = self.stability
        report = self.stats.drain(watch.take_count())
        report.huge_rewards = watch.take_huge_rewards()
        report.largest = watch.take_largest()
        report.success_reason = self.success_reason
        report.level = self.level
        return report

    def state_dict(self, env_ids: Tensor | None = None) -> dict[str, Any]:
        """Everything that decides how environments (n,) continue, as tensors and plain values; None means all of them.

        All environments share one generator, which is part of every state.
        """
        ids = torch.arange(self.num_envs, device=self.sim.device) if env_ids is None else env_ids
        return {
            "model": self.model_digest,
            "sim": self.sim.snapshot(ids).arrays,
            "task": self.task.state_dict(ids),
            "env": {
                **self.randomizer.state_dict(ids),
                **self.observations.state_dict(self.rows_of(ids)),
                **self.curriculum.episode_state(ids),
            },
            "curriculum": self.curriculum.state_dict(),
            "episode_length": self.episode_length[ids].clone(),
            **self.stats.state_dict(self.rows_of(ids)),
            "rng": self.rng.get_state(),
            **self.stability.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], env_ids: Tensor | None = None) -> None:
        """Restore a `state_dict` of n environments into `env_ids` (n,), or into the first n.

        Raises ValueError if the state is of another task or does not fit; nothing is changed then.
        """
        check_fits(state, self.state_dict(torch.arange(1, device=self.sim.device)))
        ids = ids_for(len(state["episode_length"]), env_ids, self.num_envs).to(self.sim.device)
        self.sim.restore(Snapshot(ids, state["sim"]), ids)
        self.task.load_state_dict(state["task"], ids)
        self.randomizer.load_state_dict(state["env"], ids)
        self.observations.load_state_dict(state["env"], self.rows_of(ids))
        self.curriculum.load_episode_state(state["env"], ids)
        self.curriculum.load_state_dict(state["curriculum"])
        self.task.go_by(self.curriculum.params())
        self.episode_length[ids] = state["episode_length"].to(self.sim.device)
        self.stats.load_state_dict(state, self.rows_of(ids))
        self.rng.set_state(state["rng"])
        self.stability.load_state_dict(state)

    def _judge(self, episodes: FinishedEpisodes) -> None:
        """Report finished episodes to the curriculum; a new level changes the task's parameters."""
        if self.success_reason is not None:
            success = episodes.reasons == self.reasons.names.index(self.success_reason)
            if self.curriculum.ended(episodes.env_ids, success):
                self.task.go_by(self.curriculum.params())

    @property
    def level(self) -> float | None:
        """The curriculum level that is played, 1 for the full task; None if the task has no curriculum."""
        return None if self.config.curriculum is None else self.curriculum.level

    def set_level(self, level: float) -> None:
        """Set the curriculum's level, 0 to 1; this does nothing without a curriculum.

        Parameters change from the next step on, even in unfinished episodes; start states and drawn values change from
        the next reset on.
        """
        self.curriculum.set_level(level)
        self.task.go_by(self.curriculum.params())

    def blocks(self) -> dict[str, Tensor]:
        """The task's blocks (R, width each) now, and the environment's own block if the yaml names it."""
        blocks = self.task.observe(self.sim)
        groups = self.config.observations
        if EPISODE_TIME in (*groups.policy, *groups.privileged):
            blocks[EPISODE_TIME] = by_row((self.episode_length / self.max_length).float(), self.seats)[:, None]
        return blocks

    def _begin(self, env_ids: Tensor) -> dict[str, Tensor]:
        """Begin an episode in environments (n,): group -> (rows, width), sound first observations."""
        return self._sound_start(env_ids, self._reset_envs(env_ids))

    def _sound_start(self, env_ids: Tensor, finite: Tensor) -> dict[str, Tensor]:
        """group -> (rows, width), the first observations of environments (n,), which have been reset.

        `finite` (n,): whether their start states are. A start that is not sound is drawn again, `REDRAWS` times.
        Raises UserError, which names the observation block, if it is never sound.
        """
        obs = self._first_observations(env_ids)
        for tries in range(REDRAWS + 1):
            bad_rows = self.stability.bad_starts(by_row(finite, self.seats), obs)
            if bad_rows is None:
                return obs
            seen = {group: value[bad_rows] for group, value in obs.items()}
            bad = by_env(bad_rows, self.seats)
            ids = env_ids[bad]
            self.stability.report_starts(ids, self.layout, seen, hopeless=tries == REDRAWS)
            finite = finite.clone()
            finite[bad] = self._reset_envs(ids)
            for group, value in self._first_observations(ids).items():
                obs[group][by_row(bad, self.seats)] = value
        return obs

    def _first_observations(self, env_ids: Tensor) -> dict[str, Tensor]:
        """group -> (rows, width) of environments (n,) whose episode begins."""
        return self.observations.begin(self.blocks(), self.rows_of(env_ids), self.rng, self._noise_scale)

    @property
    def _noise_scale(self) -> Tensor:
        """(R,): the factor on the yaml's noise."""
        return by_row(self.randomizer.noise_scale, self.seats)

    def _winners(self, env_ids: Tensor, sound: Tensor) -> Tensor | None:
        """The winning seats of environments (n,), NO_WINNER if there is none; None if the task has one seat.

        There is no winner in an environment that is not `sound` (n,).
        """
        if self.seats == 1:
            return None
        return torch.where(sound, self.task.winner(self.sim)[env_ids], NO_WINNER)

    def _renewed(self, final_obs: dict[str, Tensor], ended_ids: Tensor) -> dict[str, Tensor]:
        """Begin an episode in environments (n,), and return the last observations with the first ones in their rows."""
        obs = {group: value.clone() for group, value in final_obs.items()}
        rows = self.rows_of(ended_ids)
        for group, first in self._begin(ended_ids).items():
            obs[group][rows] = first
        return obs

    def _find_unstable(self, weighted: Tensor, reward: Tensor, obs: dict[str, Tensor]) -> Tensor:
        """(N,) bool; reports such environments, and zeroes their rewards and observations in place."""
        flagged = by_row(self.sim.unstable, self.seats)
        found = self.stability.find(flagged, weighted, reward, obs, self.terms.names, self.layout)
        unstable = by_env(found, self.seats)
        if unstable.any():
            ids = unstable.nonzero().squeeze(1)
            self.stability.report(ids, self.episode_length[ids])
            rows = self.rows_of(ids)
            weighted[rows] = 0.0
            reward[rows] = 0.0
            for value in obs.values():
                value[rows] = 0.0
        else:
            self.stability.all_sound()
        return unstable

    def _reset_envs(self, env_ids: Tensor) -> Tensor:
        """Put environments (n,) into start states; returns (n,) bool, whether each is finite."""
        for value in self.task.buffers.values():
            value[env_ids] = 0
        self.randomizer.reset(env_ids, self.rng, self.curriculum.level)  # first: a task may read the size of a box
        qpos, qvel = self.task.reset(env_ids, self.rng)  # after the buffers are zeroed, because it may fill one
        for name, value in (("qpos", qpos), ("qvel", qvel)):
            check_like(f"{name} of reset", value, (len(env_ids), getattr(self.sim, name).shape[1]))
        self.sim.reset(env_ids, qpos, qvel)
        self.episode_length[env_ids] = 0
        self.curriculum.begin(env_ids)
        return torch.isfinite(qpos).all(1) & torch.isfinite(qvel).all(1)
