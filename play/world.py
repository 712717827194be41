"""The world of a test: the environments that a policy was trained for, and the policy that acts in them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from livegym.cfg.older_run import explained_for_run
from livegym.cfg.session import Session
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.play.play import ScriptedActor
from livegym.play.swap_guard import GuardRule, SwapGuard
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, difference, spec_of
from livegym.schema.settled import SettledConfig
from livegym.sim.base import APPLIED
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate

log = logging.getLogger(__name__)

SHADOW_ENVS = 16  # largest number of spare environments for swapGuard


@dataclass(frozen=True)
class World:
    """Environments, the actor in them, and the guard of the actor's swaps, if there is one."""

    env: Env
    actor: LivePolicy | ScriptedActor
    guard: SwapGuard | None

    def close(self) -> None:
        """End the physics threads."""
        self.env.sim.close()
        if self.guard is not None:
            self.guard.close()

    @property
    def live(self) -> LivePolicy | None:
        """The actor, if it is a policy."""
        return self.actor if isinstance(self.actor, LivePolicy) else None


def build_world(
    config: SettledConfig, first: Candidate | None, patience: float = 0.0, first_run: str | None = None
) -> World:
    """A world in which `first` acts, or a scripted agent if that is None.

    `config`: the test's configuration, which includes the values from the policy's run. `patience`: shortest time
    between two swaps in s, in addition to `minSwapInterval`; `first_run`: see `LivePolicy`. Raises UserError if the
    policy does not fit.
    """
    fields = (APPLIED,) if config.viewer or config.watch else ()  # viewers may push bodies
    env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed, fields)
    try:
        return _world_in(env, config, first, patience, first_run)
    except BaseException:
        env.sim.close()
        raise


def _world_in(
    env: Env, config: SettledConfig, first: Candidate | None, patience: float, first_run: str | None
) -> World:
    if first is None:
        env.set_level(1.0)
        return World(env, ScriptedActor(env, config.agent, config.seed), None)
    spec = spec_of(env)
    _check_spec(spec, first)
    _set_level(env, first)

    def make_policy() -> Policy:
        return Policy(spec, config.train, env.num_envs, config.device)

    rule = SwapRule(
        how=config.swap,
        blend_steps=max(1, round(config.blendSeconds / env.sim.control_dt)),
        min_interval=max(config.minSwapInterval, patience),
        history=config.historySize,
        pool_envs=config.poolEnvs,
    )
    live = LivePolicy(make_policy, first, config.stochastic, config.seed, rule, first_run)
    mode = "stochastic" if config.stochastic else "deterministic"
    log.info("testing %s: version %d, epoch %d, %s actions", first.file or first.name, first.version, first.epoch, mode)
    if config.poolEnvs:
        log.info("older versions act in the last %d environments, as soon as there are any", config.poolEnvs)
    return World(env, live, _guard(config, spec, env.curriculum.level) if config.swapGuard else None)


def _set_level(env: Env, first: Candidate) -> None:
    """Set the curriculum level at which the version was saved; the full task if the level is unknown."""
    if env.config.curriculum is None:
        return
    env.set_level(1.0 if first.level is None else first.level)
    if first.level is None:
        log.info("%s has no curriculum level: playing the full task (level 1).", first.name)
    elif first.level < 1.0:
        log.info(
            "playing at curriculum level %.2f, that of the checkpoint; task.curriculum=null plays the full task",
            first.level,
        )


def patience_of(session: Session) -> float:
    """Shortest time between two swaps in s: the `reloadInterval` if the command line has it, otherwise 0."""
    return session.config.reloadInterval if session.gives("reloadInterval") else 0.0


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
        world = build_world(config, candidate, patience_of(session), first_run)
    log.info("network and environments were rebuilt for %s; new episodes begin.", candidate.name)
    return world


def _guard(config: SettledConfig, spec: PolicySpec, level: float) -> SwapGuard:
    num_envs = min(config.swapGuard, SHADOW_ENVS)
    env = make_env(config.task, config.sim, config.physics, num_envs, config.seed + 1)
    env.set_level(level)
    rule = GuardRule(config.swapGuard, config.swapGuardMargin, config.swapGuardConfidence)
    return SwapGuard(env, Policy(spec, config.train, num_envs, config.device), rule, config.stochastic)


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
