"""A trained policy as a function: observation in, action out.

    policy = livegym.load_policy("runs/Ant_train_20260102_120008")   # or latest, best, a .pth, a .policy, an .onnx
    action = policy(obs)                       # (width,) -> (size,), or (n, width) -> (n, size); numpy or torch
    policy.spec                                # its task, observation blocks, action and control step
    policy.reset()                             # new episodes begin: a recurrent policy forgets

It needs neither the task's code nor a simulator. The file is read as every checkpoint is (`rundir/safe_load.py`): it
may come from anywhere, and nothing in it is run. It never changes; `livegym.follow` gives a policy that does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from livegym.cfg.saved import train_settings
from livegym.cfg.validate import check_device
from livegym.deploy.onnx_policy import SUFFIX, OnnxPolicy
from livegym.deploy.rows import EnvIds, Rows, rows_named
from livegym.live.transition import Chooser
from livegym.play.starting import first_version, link_to
from livegym.rl.distribution import RecurrentState
from livegym.rl.policy import Misfit, Policy
from livegym.rl.spec import PolicySpec
from livegym.rundir.select import read_selected
from livegym.schema.train import TrainConfig
from livegym.utils.addresses import is_address
from livegym.utils.errors import UserError
from livegym.weights.address import given_token
from livegym.weights.candidate import Candidate
from livegym.weights.sources import candidate_of


def load_policy(
    source: str | os.PathLike[str],
    *,
    stochastic: bool = False,
    seed: int = 0,
    device: str = "cpu",
    runs_dir: str | os.PathLike[str] = "runs",
    token: str | None = None,
) -> LoadedPolicy | OnnxPolicy:
    """Load the policy that `source` names, as `checkpoint=` does: latest, a run, a file, or the address of a server.

    An ONNX file that `config=export` wrote is loaded with onnxruntime, on the CPU.

    Its actions are the most likely ones; with `stochastic`, samples drawn by a generator of its own, seeded with
    `seed`. `token`: that of the server; None: that of the environment variable LIVEGYM_WEIGHTS_TOKEN. Raises UserError
    if there is no such policy, or if it cannot be used.
    """
    check_device(device)
    name = os.fspath(source)
    if name.endswith(SUFFIX):
        if device != "cpu":
            raise UserError(f"device={device}: an ONNX file runs on the CPU. Allowed: cpu")
        return OnnxPolicy(Path(name).expanduser(), stochastic, seed)
    if is_address(name):
        candidate = first_version(link_to(name, token or given_token(None)))
    else:
        selection, state = read_selected(name, Path(runs_dir))
        candidate = candidate_of(selection.file, state, 0.0)
    spec, settings = spec_and_settings(candidate)
    policy = Policy(spec, settings, 1, device)
    try:
        policy.load(candidate.model, candidate.spec)
    except Misfit as error:
        raise UserError(
            f"{candidate.file or candidate.name}: {error}. Its weights contradict its own configuration"
        ) from error
    return LoadedPolicy(policy, candidate, stochastic, seed)


def spec_and_settings(candidate: Candidate) -> tuple[PolicySpec, TrainConfig]:
    """The policy's spec, and the settings that its network is built from. Raises UserError if the file lacks them."""
    if candidate.spec is None or candidate.config is None:
        raise UserError(
            f"{candidate.file or candidate.name}: is a plain rl_games checkpoint, which does not say what its policy "
            "observes and does. Allowed: checkpoints and policy files that livegym wrote"
        )
    return candidate.spec, train_settings(candidate.config)


class LoadedPolicy:
    """A policy with fixed weights, for one environment or many. Use it from one thread at a time."""

    def __init__(self, policy: Policy, candidate: Candidate, stochastic: bool, seed: int) -> None:
        """`policy` has its weights already, and was made for one environment."""
        self.spec: PolicySpec = policy.spec
        self.version = candidate.version
        self.run = candidate.run
        self.file = candidate.file
        self._policy = policy
        self._first = policy.first_memory()  # of one environment, each (layers, 1, units)
        self._memory: RecurrentState = ()
        self._choose = Chooser(stochastic, torch.Generator(policy.device).manual_seed(seed))

    def __call__(self, obs: Any) -> Any:
        """Observations (width,) or (n, width) -> actions of the same kind, numpy or torch.

        A Box action is (size,) or (n, size) float32 in [-1, 1]; choices are int64. Raises UserError for an observation
        of another shape or dtype, and for NaN or Inf. A recurrent policy remembers the n environments of its first
        call, and refuses another number until `reset()`.
        """
        rows = Rows.of(obs, self.spec, self._policy.device)
        out = self._policy(rows.values, self._memory_of(len(rows.values)))
        self._memory = out.memory
        return rows.back(self._choose(out))

    def reset(self, env_ids: EnvIds = None) -> None:
        """New episodes begin in these environments, so a recurrent policy forgets what it has seen in them.

        Without `env_ids` it forgets all, and the next call may bring another number of environments. Raises UserError
        for a number that no environment has.
        """
        if env_ids is None:
            self._memory = ()
        elif self._memory:
            ids = rows_named(env_ids, self._memory[0].shape[1])
            self._memory = tuple(memory.clone() for memory in self._memory)
            for memory, first in zip(self._memory, self._first, strict=True):
                memory[:, ids] = first

    @property
    def recurrent(self) -> bool:
        """Whether it remembers what it has seen in an episode."""
        return bool(self._first)

    def _memory_of(self, count: int) -> RecurrentState:
        if not self._memory:
            return tuple(first.repeat(1, count, 1) for first in self._first)
        known = self._memory[0].shape[1]
        if known != count:
            raise UserError(
                f"the observation is of {count} environments, but this recurrent policy remembers {known}. Allowed: "
                f"{known}. To begin with another number, call reset() first"
            )
        return self._memory

    def __repr__(self) -> str:
        return f"LoadedPolicy({self.spec.task}, version {self.version}, {self.file or self.run})"
