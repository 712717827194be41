"""The interface of an algorithm: how it improves a policy, and which network the policy has.

    algorithm = algorithm_of(config.train)                           # by train.algorithm
    learner = algorithm.learner(env, config.train, 100, "cpu", stop)
    learner.train(on_iteration)                                      # rl/learner.py
    network = algorithm.network(spec, config.train, num_envs)        # acts in other processes (rl/policy.py)

The algorithm `x` is a module or package `x` in `rl/algorithms/`, or in the folder `algorithms/` of a project. It has a
class `make` derived from `Algorithm`. An entry point `livegym.algorithms` can name such a class of any module. There is
no table of algorithms: `train=x` chooses it with its own defaults, and so does a yaml in `cfg/train/` with
`algorithm: x`.

The command line is parsed with the module imported, so slow imports (torch, a library) should be deferred until a
method needs them, as in `rl/algorithms/ppo/`.

The training loop, the saver and the weight bus use the `Learner`; tests, viewers and serving use the `Network`;
continuous training uses the `ActorCriticNetwork`, and refuses an algorithm that does not have one.
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
    """A network that acts in N environments: observation in, distribution out. It neither samples nor learns."""

    module: nn.Module
    """Weights and normaliser: a policy version consists of its `state_dict()`, in this order."""

    @abstractmethod
    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        """obs (N, width), which is not changed -> distribution of the action, with the next recurrent state."""

    def first_memory(self) -> RecurrentState:
        """The recurrent state at the start of an episode, each (layers, N, units); () without a recurrent layer."""
        return ()

    def make_traceable(self) -> None:  # noqa: B027 - most networks can be traced as they are
        """Replace parts that `torch.export` cannot follow by equal ones, for good, before the policy is exported."""

    def usual_input(self) -> tuple[Tensor, Tensor] | None:
        """Mean and standard deviation (width,) of what its normaliser has seen; None if it has no normaliser."""
        return None


class ActorCriticNetwork(Network):
    """A network with a critic, which continuous training trains itself (`rl/actor_critic.py`).

    The critic's output may be normalised; `value_of` converts it to values. Only `take_in` changes the normalisers.
    """

    discount: float  # per control step
    grad_norm: float  # maximum norm, to which gradients are clipped
    log_std: Tensor | None  # (size,) parameter: log standard deviation of a Box action; None for discrete ones

    @abstractmethod
    def think(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """obs (n, width), which is not changed -> distribution and the critic's output (n, 1), with gradients."""

    @abstractmethod
    def take_in(self, obs: Tensor, returns: Tensor) -> None:
        """Update the normalisers, if there are any, with new observations (n, width) and returns (m,)."""

    @abstractmethod
    def forget_returns(self) -> None:
        """Set the value normaliser, if there is one, back to its beginning, before it had any returns."""

    @abstractmethod
    def value_of(self, output: Tensor) -> Tensor:
        """The critic's output (n, 1) -> values (n,), in units of reward."""

    @abstractmethod
    def output_for(self, value: Tensor) -> Tensor:
        """Values (n,) -> the corresponding outputs (n,) of the critic: the inverse of `value_of`."""

    @abstractmethod
    def value_std(self) -> Tensor | float:
        """Standard deviation of the returns given to `take_in`; 1 without a normaliser."""


class Algorithm(ABC, Generic[C]):
    """An algorithm that improves a policy. It has no state of its own; it creates learners and networks."""

    Config: ClassVar[type[TrainConfig]]
    """Its keys of `train.*`: a dataclass derived from `TrainConfig`. `key(...)` gives each key its range and help."""

    @abstractmethod
    def learner(self, env: Env, config: C, max_iterations: int, device: str, stop: StopFlag) -> Learner:
        """A learner over `env`. The global generator initialises its policy.

        `max_iterations`: total number, which overrides that of `config`; `device`: of the tensors. Raises UserError if
        the algorithm cannot learn in such an environment, or if the learner cannot be created.
        """

    @abstractmethod
    def network(self, spec: PolicySpec, config: C, num_envs: int) -> Network:
        """An untrained network for N environments; its module has the names and shapes of `Learner.policy_state`.

        Raises UserError if the algorithm has no network for such observations and actions.
        """

    def actor_critic(self, spec: PolicySpec, config: C) -> ActorCriticNetwork:
        """The network with its critic, initialised by the global generator, for any number of rows.

        Raises UserError if continuous training cannot use this algorithm.
        """
        raise UserError(
            f"train.algorithm={config.algorithm}: continuous training needs a critic, and this algorithm has none. "
            "Allowed: algorithms with a critic, such as ppo. Leave train out, or choose such settings: train=<Task>PPO"
        )


def algorithm_of(config: TrainConfig) -> Algorithm[Any]:
    """The algorithm that `config.algorithm` names. Raises UserError if it is unknown or cannot be created."""
    return registry.make("algorithms", config.algorithm, Algorithm)  # type: ignore[type-abstract]
