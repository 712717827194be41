"""The world of a test: the environments that a policy was trained for, and the policy that acts in them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from livegym.cfg.older_run import explained_for_run
from livegym.cfg.session import Session
from livegym.live.model_slot import SPACED
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.play.play import Listener, Player, ScriptedActor
from livegym.play.swap_guard import GuardRule, SwapGuard
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, difference, spec_of
from livegym.schema import PhysicsConfig, TaskConfig
from livegym.schema.settled import SettledConfig
from livegym.sim.base import APPLIED
from livegym.tasks import TASKS
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.matches import check_match
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate, SwapEvent

log = logging.getLogger(__name__)

SHADOW_ENVS = 16  # largest number of spare environments for swapGuard


@dataclass(frozen=True)
class World:
    """Environments, the actor in them, and the guard of the actor's swaps, if there is one."""

    env: Env
    actor: LivePolicy | ScriptedActor
    guard: SwapGuard | None
    follows_level: bool = False  # the curriculum's level becomes that of each version that takes over
    config: SettledConfig | None = None  # includes the values from the policy's run; None: unknown

    def close(self) -> None:
        """End the physics threads."""
        self.env.sim.close()
        if self.guard is not None:
            self.guard.close()

    @property
    def live(self) -> LivePolicy | None:
        """The actor, if it is a policy."""
        return self.actor if isinstance(self.actor, LivePolicy) else None


@dataclass(frozen=True)
class PlayRule:
    """Settings that depend on whether a key was typed, not only on its value."""

    patience: float = 0.0  # minimum time between two swaps in s; the larger of it and `minSwapInterval` counts
    level: float | None = None  # curriculum level at which the test stays; None: that of the version

    @classmethod
    def of(cls, session: Session, config: SettledConfig) -> PlayRule:
        """The rule of a session, whose `config` includes the values from the policy's run."""
        curriculum = config.task.curriculum if session.gives("task.curriculum.level") else None
        return cls(
            patience=session.config.reloadInterval if session.gives("reloadInterval") else 0.0,
            level=None if curriculum is None else curriculum.level,
        )


def build_world(
    config: SettledConfig, first: Candidate | None, rule: PlayRule | None = None, first_run: str | None = None
) -> World:
    """A world in which `first` acts, or a scripted agent if that is None.

    `config`: the test's configuration, which includes the values from the policy's run; `first_run`: see `LivePolicy`.
    Raises UserError if the policy does not fit.
    """
    for name in ("poolEnvs", "swapGuard"):
        if getattr(config, name):
            check_match(config.task.name, TASKS[config.task.name].seats, name)
    fields = (APPLIED,) if config.viewer or config.watch else ()  # viewers may push bodies
    shown = config.viewer or config.watch or config.videoRecord
    env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed, fields, shown)
    try:
        return _world_in(env, config, first, rule or PlayRule(), first_run)
    except BaseException:
        env.sim.close()
        raise


def _world_in(
    env: Env, config: SettledConfig, first: Candidate | None, asked: PlayRule, first_run: str | None
) -> World:
    if first is None:
        env.set_level(1.0)
        return World(env, ScriptedActor(env, config.agent, config.seed), None, config=config)
    spec = spec_of(env)
    _check_spec(spec, first)
    follows_level = config.testGamesNum == 0 and asked.level is None and env.config.curriculum is not None
    _set_level(env, first if asked.level is None else replace(first, level=asked.level), follows_level)

    def make_policy() -> Policy:
        return Policy(spec, config.train, env.num_rows, config.device)

    rule = SwapRule(
        how=config.swap,
        blend_steps=max(1, round(config.blendSeconds / env.sim.control_dt)),
        min_interval=max(config.minSwapInterval, asked.patience),
        history=config.historySize,
        spaced=SPACED,
        pool_envs=config.poolEnvs,
    )
    live = LivePolicy(make_policy, first, config.stochastic, config.seed, rule, first_run)
    mode = "stochastic" if config.stochastic else "deterministic"
    log.info("testing %s: version %d, epoch %d, %s actions", first.file or first.name, first.version, first.epoch, mode)
    if config.poolEnvs:
        log.info("older versions act in the last %d environments, as soon as there are any", config.poolEnvs)
    guard = _guard(config, spec, env.curriculum.level, follows_level) if config.swapGuard else None
    return World(env, live, guard, follows_level, config)


class LevelFollower(Listener):
    """Sets the curriculum's level to that of each version that takes over, so that it plays what it was trained for."""

    def __init__(self, live: LivePolicy) -> None:
        self._live = live

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """Set the level of the version that acts from the next step on; an unknown level changes nothing."""
        level, before = self._live.acting.level, player.env.curriculum.level
        if level is not None and level != before:
            player.env.set_level(level)
            log.info("curriculum level %.2f (before: %.2f), that of version %s", level, before, self._live.label)


def _set_level(env: Env, first: Candidate, follows: bool) -> None:
    """Set the curriculum level of the version; the full task if the level is unknown."""
    if env.config.curriculum is None:
        return
    env.set_level(1.0 if first.level is None else first.level)
    if first.level is None:
        log.info("%s has no curriculum level: playing the full task (level 1).", first.name)
    elif first.level < 1.0:
        log.info(
            "playing at curriculum level %.2f%s; task.curriculum=null plays the full task",
            first.level,
            ", and at that of each version that follows" if follows else "",
        )


def trained_otherwise(candidate: Candidate, session: Session, here: SettledConfig) -> bool:
    """Whether a version was trained in other environments than those of `here`, or needs another network.

    Typed keys apply to both. Returns False if the candidate does not contain its run's configuration.
    """
    if candidate.config is None:
        return False
    return _play(session.config_for(candidate.config)) != _play(here)


def _play(config: SettledConfig) -> tuple[TaskConfig, PhysicsConfig, dict[str, Any]]:
    """The settings that determine an episode, except the curriculum's level, which each version brings with it.

    Networks of one shape may differ, such as by their activation.
    """
    curriculum = config.task.curriculum and replace(config.task.curriculum, level=0.0)
    return replace(config.task, num_envs=1, curriculum=curriculum), config.physics, config.train.acting()


def world_for(candidate: Candidate, session: Session, first_run: str) -> World:
    """A world for a version that does not fit the present one, built from its own run's configuration.

    `first_run`: see `LivePolicy`. Raises UserError if the candidate lacks that configuration, or is of another task.
    """
    if candidate.config is None:
        raise UserError(
            f"{candidate.name} does not contain its run's configuration, so no environments can be built for it"
        )
    config = session.config_for(candidate.config)
    with explained_for_run(candidate.file, config.task, session.typed):
        world = build_world(config, candidate, PlayRule.of(session, config), first_run)
    log.info("network and environments were rebuilt for %s; new episodes begin.", candidate.name)
    return world


def _guard(config: SettledConfig, spec: PolicySpec, level: float, follows_level: bool) -> SwapGuard:
    num_envs = min(config.swapGuard, SHADOW_ENVS)
    env = make_env(config.task, config.sim, config.physics, num_envs, config.seed + 1)
    env.set_level(level)
    rule = GuardRule(config.swapGuard, config.swapGuardMargin, config.swapGuardConfidence)
    return SwapGuard(env, Policy(spec, config.train, num_envs, config.device), rule, config.stochastic, follows_level)


def _check_spec(spec: PolicySpec, first: Candidate) -> None:
    if first.spec is None:
        log.info("%s is a plain rl_games file, which does not name its task: only sizes are checked.", first.name)
        return
    differs = difference(spec, {}, first.spec, {})
    if differs is not None:
        raise UserError(
            f"{first.file or first.name} does not fit this environment: {differs}. "
            "Leave out the task.* keys that change it."
        )
