"""The learned backup of the look-ahead gate: a policy from a checkpoint, which never changes.

    backup = BackupPolicy.read(config, scratch)       # config.online.look_ahead_policy names the checkpoint
    backup.then(obs)                                  # (N, ...), what it does after the first action
    backup.first(obs)                                 # (K, N, ...), what may be done instead of the first action

It acts with its most likely actions. It computes in double precision: a matrix product rounds a row differently in a
batch of another size, and over many control steps with contacts such a difference grows. The server and the trainer
have different batches, and must come to the same verdict. In double precision, the difference is lost when the action
is rounded to single precision.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import Tensor

from livegym.cfg.saved import with_run_config
from livegym.rl.policy import Misfit, Policy
from livegym.rl.spec import PolicySpec, spec_of
from livegym.rundir.select import read_selected, resolve_checkpoint
from livegym.schema.settled import SettledConfig
from livegym.tasks.base import Box
from livegym.tasks.env import Env
from livegym.utils.errors import UserError

KEY = "online.look_ahead_policy"
SAMPLES = 4  # further first actions that are drawn from its distribution, with the same draws for every state


class BackupPolicy:
    """A backup (`online/look_ahead.py`) that acts with a policy's most likely actions."""

    def __init__(self, policy: Policy, samples: int = SAMPLES) -> None:
        """`policy` is changed to double precision. Raises UserError if it is recurrent.

        `samples`: further first actions, for a continuous action.
        """
        if policy.first_memory():
            raise UserError(
                f"{KEY}: the policy is recurrent, and a state of the simulator does not contain its memory. "
                "Allowed: a policy that is not recurrent, or null"
            )
        self._policy = policy
        policy.to_double()
        action = policy.spec.action
        draws = (samples if isinstance(action, Box) else 0, 1, action.width)
        self._draws = torch.randn(draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    @classmethod
    def read(cls, config: SettledConfig, env: Env) -> BackupPolicy:
        """Read the checkpoint that the key names, for environments like `env`. Raises UserError if it does not fit."""
        selector = str(config.online.look_ahead_policy)
        try:
            selection, state = read_selected(selector, Path(config.runsDir), config.task.name)
        except UserError as error:
            raise _of_key(error) from error
        saved = state.get("config")
        train = with_run_config(config, saved, None, []).train if saved else config.train
        policy = Policy(spec_of(env), train, env.num_envs, "cpu")
        other = PolicySpec.from_dict(state["spec"]) if state.get("spec") else None
        try:
            policy.load(state["model"], other)
        except Misfit as error:
            raise UserError(
                f"{KEY}={selector}: {selection.file}: {error}. Allowed: a policy of task {config.task.name} with the "
                "observations and the action of this run, or null"
            ) from error
        return cls(policy)

    def then(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> its most likely actions (N, ...)."""
        return self._rounded(self._policy(obs.double()).mode())

    def first(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> (K, N, ...): its most likely actions, and then samples of a continuous action."""
        seen = self._policy(obs.double())
        mode = seen.mode()[None]
        if seen.log_std is None:
            return mode
        return self._rounded(torch.cat([mode, mode + seen.log_std.exp() * self._draws]))

    def _rounded(self, action: Tensor) -> Tensor:
        return action.float().clamp(-1.0, 1.0) if action.is_floating_point() else action


def with_fixed_policy(config: SettledConfig) -> SettledConfig:
    """Replace what the key names, such as a run, by the file that this is now; every process then reads the same one.

    Raises UserError if there is none.
    """
    selector = config.online.look_ahead_policy
    if selector is None:
        return config
    try:
        file = resolve_checkpoint(selector, Path(config.runsDir), config.task.name).file.absolute()
    except UserError as error:
        raise _of_key(error) from error
    return dataclasses.replace(config, online=dataclasses.replace(config.online, look_ahead_policy=str(file)))


def _of_key(error: UserError) -> UserError:
    return UserError(str(error).replace("checkpoint=", f"{KEY}=", 1), exit_code=error.exit_code)
