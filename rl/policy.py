"""A frozen policy: observation in, distribution out. It does not learn, and uses no global generator.

    policy = Policy(spec, train_config, num_envs=4, device="cpu")
    policy.load(state["model"])                       # strict
    memory = policy.first_memory()
    out = policy(obs, memory)                         # Distribution
    action = out.mode()                               # or out.sample(generator)

It uses the same network that the algorithm trains (`Algorithm.network`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from livegym.rl.algorithm import algorithm_of
from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.spec import PolicySpec, Shapes, difference, shapes_of
from livegym.schema.train import TrainConfig
from livegym.utils.errors import UserError


class Misfit(UserError):
    """Raised if weights do not fit a policy: their shapes, task, observation, action or control step differ."""


class Policy:
    """An actor and its normaliser, for N environments."""

    def __init__(self, spec: PolicySpec, train: TrainConfig, num_envs: int, device: str) -> None:
        """Raises UserError if the algorithm's code cannot be loaded, or has no network for this spec."""
        self.spec = spec
        self.num_envs = num_envs
        self.device = torch.device(device)
        self._network = algorithm_of(train).network(spec, train, num_envs)
        self._module = self._network.module.to(self.device).eval()
        self._module.requires_grad_(False)
        self._describe()

    def _describe(self) -> None:
        self._tensors: dict[str, Tensor] = self._module.state_dict()  # not replaced, as the model is frozen
        self.shapes: Shapes = shapes_of(self._tensors)
        self._layout = [(name, value.dtype, value.shape) for name, value in self._tensors.items()]

    def load(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Load weights and normaliser. Raises Misfit with a readable difference if they do not fit.

        `other`: the spec for which the weights were trained, if it is known. A refusal changes nothing.
        """
        self.check(model, other)
        self.copy(model)

    def copy(self, model: Mapping[str, Tensor]) -> None:
        """Copy weights and normaliser that have passed `check`."""
        torch._foreach_copy_(list(self._tensors.values()), [model[name] for name in self._tensors])

    def check(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Raises Misfit with a readable difference if weights do not fit; see `load`."""
        if other in (None, self.spec) and [(n, v.dtype, v.shape) for n, v in model.items()] == self._layout:
            return  # the usual case, without a detailed comparison
        differs = difference(self.spec, self.shapes, other, shapes_of(model))
        if differs is not None:
            raise Misfit(f"the policy does not fit: {differs}")

    def to_double(self) -> None:
        """Compute in double precision from now on. Weights in single precision do not fit any more."""
        self._module.double()
        self._describe()

    def state(self) -> dict[str, Tensor]:
        """A copy of weights and normaliser."""
        return {name: value.clone() for name, value in self._module.state_dict().items()}

    def first_memory(self) -> RecurrentState:
        """The recurrent state at the start of an episode."""
        return tuple(state.to(self.device) for state in self._network.first_memory())

    @torch.no_grad()
    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        """obs (N, width) -> distribution of the action, with the next recurrent state. `obs` is not changed."""
        return self._network(obs, memory)
