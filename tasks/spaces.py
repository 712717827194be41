"""Spaces: any environment that is connected as a client, known only by its observation space and its action space.

    livegym serve --env CartPole-v1
    livegym serve --observation-space "Box(-inf, inf, (4,))" --action-space "Discrete(2)"

The environment runs in the client's process, so it cannot be simulated here: observations and rewards come from
clients. A Box or MultiBinary is observed as its numbers. Of a Discrete or MultiDiscrete, the policy sees one number for
each choice, 1 for the one that was observed. A Dict is observed as all its parts, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import ActionSpec, Box, Discrete, MultiDiscrete
from livegym.tasks.space import BoxSpace, Leaf, Space, leaves, read_action_space, read_space
from livegym.tasks.stream_task import ActionUnits, RawField, StreamTask

PATH = "task.params"


@dataclass(frozen=True)
class SpacesParams:
    """The spaces of the environment, as `livegym serve` writes them."""

    observation_space: str = key("Box(-inf, inf, (1,))", "what is observed: a Gymnasium space, or JSON")
    action_space: str = key("Discrete(2)", "what can be done: a Gymnasium space, or JSON")
    environment: Optional[str] = key(None, "its name, for the dashboard and the run's folder; --env writes its id")
    step: float = key(1.0, "time between two observations, as far as it is known", unit="s", above=0)


class Spaces(StreamTask):
    """Serve any environment by its spaces; it runs in the client's process (livegym serve)."""

    Params = SpacesParams
    params: SpacesParams
    only_clients = True
    computes_reward = False

    @property
    def title(self) -> str:
        """The environment's name."""
        return self.params.environment or ""

    @cached_property
    def observation(self) -> Space:
        """The observation space. Raises UserError if it cannot be used."""
        return read_space(self.params.observation_space, f"{PATH}.observation_space")

    @cached_property
    def action(self) -> Leaf:
        """The action space. Raises UserError if it cannot be used."""
        return read_action_space(self.params.action_space, f"{PATH}.action_space")

    @property
    def action_spec(self) -> ActionSpec:
        """The action space in the policy's terms."""
        if isinstance(self.action, BoxSpace):
            return Box(self.action.width)
        return Discrete(*self.action.counts) if self.action.kind == "Discrete" else MultiDiscrete(self.action.counts)

    def action_units(self) -> ActionUnits | None:
        """The range of a Box, and the first choices."""
        if isinstance(self.action, BoxSpace):
            bounds = list(zip(self.action.low, self.action.high, strict=True))
            return ActionUnits(tuple((a + b) / 2 for a, b in bounds), tuple((b - a) / 2 for a, b in bounds))
        start = tuple(map(float, self.action.start))
        return ActionUnits(start, (1.0,) * len(start)) if any(start) else None

    @property
    def control_dt(self) -> float:
        """s between two observations."""
        return self.params.step

    def raw_fields(self) -> dict[str, RawField]:
        """One field for each part; none for a single Box, whose numbers are what the policy sees."""
        if isinstance(self.observation, BoxSpace):
            return {}
        return {name: _field(space) for name, space in leaves(self.observation)}

    def features(self, raw: dict[str, Tensor]) -> dict[str, Tensor]:
        """All parts beside each other: {"observation": (n, width)}."""
        parts = [_seen(raw[name], space) for name, space in leaves(self.observation)]
        return {"observation": torch.cat(parts, dim=1)}

    def stream_reward(self, before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> dict[str, Tensor]:
        """Nothing: rewards come from clients."""
        return {"told": torch.zeros(len(action))}

    # a world without events, which measures the width of the observation

    def bind(self, sim: Simulator) -> None:
        """Observations now, (N, width)."""
        self.now = self.buffer(sim, "now", self.observation.width)

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Any numbers."""
        self.now[env_ids] = torch.rand(len(env_ids), self.observation.width, generator=rng)
        nothing = torch.zeros(len(env_ids), 0)
        return nothing, nothing

    def control(self, action: Tensor) -> Tensor:
        """(N,) or (N, A) -> (N, A)."""
        return action.reshape(len(action), -1).float()

    def raw(self, state: Simulator) -> dict[str, Tensor]:
        """Zeros, as a client would send them."""
        fields = self.raw_fields()
        return {name: torch.full((state.num_envs, *f.shape), max(f.low, 0.0)) for name, f in fields.items()}

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """{"observation": (N, width)}."""
        return {"observation": self.now.clone()}

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Nothing."""
        return {"told": torch.zeros(state.num_envs)}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Never: clients say when an episode ends."""
        return {"ended": torch.zeros(state.num_envs, dtype=torch.bool)}


def _field(space: Leaf) -> RawField:
    if isinstance(space, BoxSpace):
        return RawField(space.shape, -torch.inf, torch.inf, f"Box, shape {list(space.shape)}")
    last = max(start + count - 1 for start, count in zip(space.start, space.counts, strict=True))
    return RawField(space.shape, min(space.start), last, f"{space.kind}, whole numbers")


def _seen(values: Tensor, space: Leaf) -> Tensor:
    """(n, *shape) -> (n, width) what the policy sees of one part."""
    rows = values.reshape(len(values), -1)
    if isinstance(space, BoxSpace) or space.kind == "MultiBinary":
        return rows
    columns = [
        one_hot((rows[:, i] - start).round().long().clamp(0, count - 1), count)
        for i, (start, count) in enumerate(zip(space.start, space.counts, strict=True))
    ]
    return torch.cat(columns, dim=1).float()
