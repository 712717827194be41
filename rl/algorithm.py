"""The contract of an algorithm: how a policy is improved, and what the policy is that comes out of it.

    algorithm = algorithm_of(config.train)                           # by train.algorithm
    learner = algorithm.learner(env, config.train, 100, "cpu", stop)
    learner.train(on_iteration)                                      # rl/learner.py
    network = algorithm.network(spec, config.train, num_envs)        # what acts elsewhere, in rl/policy.py

The algorithm `x` is a module or package `x` in `rl/algorithms/`, or in the folder `algorithms/` of a project, with a
class `make` derived from `Algorithm`; an entry point `livegym.algorithms` names such a class of any module. No table
names it: `train=x` chooses it with its own defaults, and so does a yaml in `cfg/train/` that says `algorithm: x`.

Its module is imported to read a command line, so what takes time to import (torch, a library) should wait until a
method needs it. `rl/algorithms/ppo/` does that.

Who uses what: the training loop, the saver and the weight bus use the `Learner`; tests, viewers and serving use the
`Network`; continuous training uses the `ActorCriticNetwork`, and refuses an algorithm that has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from livegym.projects import registry
from livegym.schema.train import TrainConfig
from livegym.utils.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from livegym.rl.distribution import Distribution, RecurrentState
    from livegym.rl.learner import Learner
    from livegym.rl.spec import PolicySpec
    from livegym.tasks.env import Env
    from livegym.utils.signals import StopFlag

C = TypeVar("C", bound=TrainConfig)


class Network(ABC):
    """What acts in N environments: observation in, distribution out, nothing drawn and nothing learned."""

    module: nn.Module
    """Weights and normaliser: its `state_dict()`, in its order, is what a policy version consists of."""

    @abstractmethod
    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        """obs (N, width), which is not changed -> what it would do, with its next memory."""

    def first_memory(self) -> RecurrentState:
        """The recurrent state at the start of an episode, each (layers, N, units); () without a recurrent layer."""
        return ()


class ActorCriticNetwork(Network):
    """A network with a critic that somebody else trains: what continuous training needs of an algorithm.

    Values are those of the critic's output, which may be normalised; `take_in` alone changes normalisers.
    """

    discount: float  # per control step
    grad_norm: float  # gradients are clipped to it
    log_std: Tensor | None  # (size,) parameter: log standard deviation of a Box action; None for choices

    @abstractmethod
    def think(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """obs (n, width), which is not changed -> what it would do, and the critic's output (n, 1), with gradients."""

    @abstractmethod
    def take_in(self, obs: Tensor, returns: Tensor) -> None:
        """Takes new observations (n, width) and returns (m,) into the normalisers, if there are any."""

    @abstractmethod
    def value_of(self, output: Tensor) -> Tensor:
        """The critic's output (n, 1) -> values (n,), in rewards."""

    @abstractmethod
    def output_for(self, value: Tensor) -> Tensor:
        """Values (n,) -> the critic's outputs (n,) that would mean them: the inverse of `value_of`."""

    @abstractmethod
    def value_std(self) -> Tensor | float:
        """Standard deviation of the returns that were taken in; 1 without a normaliser."""


class Algorithm(ABC, Generic[C]):
    """How a policy is improved. Holds no state: it makes what does."""

    Config: ClassVar[type[TrainConfig]]
    """Its keys of `train.*`, a dataclass derived from `TrainConfig`; `key(...)` gives each its range and its help."""

    @abstractmethod
    def learner(self, env: Env, config: C, max_iterations: int, device: str, stop: StopFlag) -> Learner:
        """A learner over `env`, its policy freshly initialised from the global generator.

        `max_iterations`: in all, whatever `config` says; `device`: where tensors live. Raises UserError if it cannot
        learn in such an environment, or cannot be made.
        """

    @abstractmethod
    def network(self, spec: PolicySpec, config: C, num_envs: int) -> Network:
        """An empty network for N environments, whose module has the names and shapes of `Learner.policy_state`.

        Raises UserError if there is none for such observations and actions.
        """

    def actor_critic(self, spec: PolicySpec, config: C) -> ActorCriticNetwork:
        """The network with its critic, fresh from the global generator, for one row or many at once.

        Raises UserError if continuous training cannot use it.
        """
        raise UserError(
            f"train.algorithm={config.algorithm}: continuous training learns by a critic, and this algorithm has none. "
            "Allowed: one that has, such as ppo. Leave train out, or choose settings of such a one: train=<Task>PPO"
        )


def algorithm_of(config: TrainConfig) -> Algorithm[Any]:
    """The algorithm that `config.algorithm` names. Raises UserError if there is none, or it cannot be made."""
    return registry.make("algorithms", config.algorithm, Algorithm)  # type: ignore[type-abstract]
