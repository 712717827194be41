"""What a test plays in: the environments that a policy was trained for, and the policy that acts in them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from cfg.saved import with_run_config
from cfg.schema import RootConfig
from live.candidate import Candidate
from live.guard import Guard, GuardRule
from live.play import ScriptedActor
from live.swap import LivePolicy, SwapRule
from rl.policy import Policy
from rl.spec import PolicySpec, difference, spec_of
from tasks.build import make_env
from tasks.env import Env
from utils.errors import UserError
from utils.seeding import seed_everything

log = logging.getLogger(__name__)

SHADOW_ENVS = 16  # spare environments of swapGuard, at most


@dataclass(frozen=True)
class World:
    """Environments and who acts there. `config` has what came from the policy's run."""

    config: RootConfig
    env: Env
    actor: LivePolicy | ScriptedActor
    guard: Guard | None

    @property
    def live(self) -> LivePolicy | None:
        """The actor, where it is a policy."""
        return self.actor if isinstance(self.actor, LivePolicy) else None


def build_world(config: RootConfig, first: Candidate | None, patience: float) -> World:
    """Environments for `first`, or for a scripted agent where that is None; seeds everything.

    `patience`: least s between two swaps that the command line asks for, beside `minSwapInterval`. Raises UserError
    where the policy does not fit.
    """
    assert config.numEnvs is not None
    assert config.seed is not None
    seed_everything(config.seed)
    env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed)
    if first is None:
        return World(config, env, ScriptedActor(env, config.agent, config.seed), None)
    spec = spec_of(env)
    _check_spec(spec, first)

    def make_policy() -> Policy:
        return Policy(spec, config.train, env.num_envs, config.device)

    mode = "stochastic" if config.stochastic else "deterministic"
    log.info("testing %s: version %d, epoch %d, %s actions", first.file or first.name, first.version, first.epoch, mode)
    rule = SwapRule(
        how=config.swap,
        blend_steps=max(1, round(config.blendSeconds / env.sim.control_dt)),
        min_interval=max(config.minSwapInterval, patience),
        history=config.historySize,
        pool_envs=config.poolEnvs,
    )
    live = LivePolicy(make_policy, first, config.stochastic, config.seed, rule)
    return World(config, env, live, _guard(config, spec) if config.swapGuard else None)


def world_for(
    candidate: Candidate, session: RootConfig, task: str | None, overrides: list[str], patience: float
) -> World:
    """A world for a version that does not fit the present one, from its run's own configuration.

    Raises UserError where it does not bring that, or is of another task.
    """
    if candidate.config is None:
        raise UserError(f"{candidate.name} does not bring its run's configuration, so nothing can be built for it")
    world = build_world(with_run_config(session, candidate.config, task, overrides), candidate, patience)
    log.info("network and environments were built anew for %s; episodes begin afresh.", candidate.name)
    return world


def _guard(config: RootConfig, spec: PolicySpec) -> Guard:
    assert config.seed is not None
    num_envs = min(config.swapGuard, SHADOW_ENVS)
    env = make_env(config.task, config.sim, config.physics, num_envs, config.seed + 1)
    rule = GuardRule(config.swapGuard, config.swapGuardMargin, config.swapGuardConfidence)
    return Guard(env, Policy(spec, config.train, num_envs, config.device), rule, config.stochastic)


def _check_spec(spec: PolicySpec, first: Candidate) -> None:
    if first.spec is None:
        log.info("%s does not say what it was trained for (a plain rl_games file); sizes are checked.", first.name)
        return
    differs = difference(spec, {}, first.spec, {})
    if differs is not None:
        raise UserError(
            f"{first.file or first.name} does not fit this environment: {differs}. "
            "Leave out the task.* keys that change it."
        )
