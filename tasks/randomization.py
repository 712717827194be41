"""Randomisation: a schedule in the task's yaml, which is applied through the simulator.

    randomization:
      box_mass: {what: mass, names: [box], range: [0.5, 2.0], distribution: log_uniform}
      shove: {what: push, names: [box], range: [0.0, 2.0], interval_s: [1.0, 3.0]}

Each entry draws one value for every name in every environment: at each reset, or repeatedly, after intervals that are
drawn as well. mass, friction, size, gain and damping are factors on the model's values. The inertia of a body follows
its mass and its size; bounding volumes follow the size. With a `curriculum`, a range begins at "no change".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.schema import RandomizationConfig
from livegym.sim.base import APPLIED, Simulator
from livegym.tasks.base import ActionSpec, Box
from livegym.tasks.delays import DelayBuffer
from livegym.tasks.env_state import put_rows, rows_of
from livegym.tasks.randomization_terms import EnvValue, ModelFactor, PushTerm, Term, make_term
from livegym.utils.errors import UserError


class Randomizer:
    """The schedule of one Env. All draws come from the generator that its methods are given."""

    def __init__(
        self, schedule: Mapping[str, RandomizationConfig], sim: Simulator, actions: ActionSpec, seats: int = 1
    ) -> None:
        """Called before `sim.start()`. `seats`: of one environment, whose actions are delayed together.

        Raises UserError if an entry does not fit the model.
        """
        self.sim = sim
        enabled = {name: config for name, config in schedule.items() if config.enabled}
        self.terms = [make_term(f"task.randomization.{name}", config, sim) for name, config in enabled.items()]
        _refuse_twice(self.terms)
        self.factors = [term for term in self.terms if isinstance(term, ModelFactor)]
        self.pushes = [term for term in self.terms if isinstance(term, PushTerm)]
        if self.pushes:
            sim.require(APPLIED)
        self.noise_scale = self._value_of("observation_noise", 1.0)
        self.action_delay = self._value_of("action_delay", 0.0)
        self.inertia: Inertia | None = None  # from start() on
        self.last_actions = self._last_actions(actions, seats)
        self._draws_within_episodes = True

    def _value_of(self, what: str, otherwise: float) -> Tensor:
        """(N,) a view of the values of the entry for `what`, or a constant if there is no such entry."""
        for term in self.terms:
            if isinstance(term, EnvValue) and term.config.what == what:
                return term.values[:, 0]
        return torch.full((self.sim.num_envs,), otherwise, device=self.sim.device)

    def _last_actions(self, actions: ActionSpec, seats: int) -> DelayBuffer | None:
        """The buffer for delayed actions; None if none is delayed. Raises UserError if they are choices."""
        for term in self.terms:
            if term.config.what == "action_delay":
                if not isinstance(actions, Box):
                    raise UserError(f"{term.path}: action_delay needs continuous actions; this task has choices.")
                length, width = round(term.config.range[1]) + 1, seats * actions.size
                return DelayBuffer(self.sim.num_envs, length, width, self.sim.device)
        return None

    def draw_at_resets_only(self) -> None:
        """From now on, draw nothing within an episode; a push that has begun continues.

        A copy of some environments then continues in the same way, whatever other environments are in it.
        """
        self._draws_within_episodes = False

    def late(self, action: Tensor) -> Tensor:
        """action (R, ...) of this control step -> the action to apply now, which is an earlier one if it is delayed."""
        if self.last_actions is None:
            return action
        self.last_actions.push(action.reshape(self.sim.num_envs, -1))
        return self.last_actions.late(self.action_delay.long()).view(action.shape)

    def start(self) -> None:
        """Get the model's fields from the simulator; called after `sim.start()`."""
        for term in self.factors:
            term.start()
        sized = [term for term in self.factors if term.config.what == "size"]
        # the engine scales inertia with mass by itself, unless `body_inertia` is randomised
        if sized:
            self.inertia = Inertia(self.sim, self.factors)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """All that decides how environments continue, except the simulator's model fields; each (N, ...)."""
        late = {} if self.last_actions is None else {"last_actions": self.last_actions.values}
        return late | {f"{term.path}/{name}": value for term in self.terms for name, value in term.buffers.items()}

    def state_dict(self, env_ids: Tensor) -> dict[str, Tensor]:
        """The drawn values of environments (n,), and the time until the next draw: name -> (n, ...)."""
        return rows_of(self.buffers, env_ids)

    def load_state_dict(self, state: Mapping[str, Tensor], env_ids: Tensor) -> None:
        """Restore a `state_dict` into environments (n,); the simulator restores its own model fields."""
        put_rows(self.buffers, state, env_ids)

    def reset(self, env_ids: Tensor, rng: torch.Generator, level: float) -> None:
        """Begin an episode in environments (n,): draw all values."""
        for term in self.terms:
            term.draw(env_ids, rng, level)
            term.wait_again(env_ids, rng)
        for push in self.pushes:
            push.end(env_ids)
        if self.last_actions is not None:
            self.last_actions.values[env_ids] = 0.0
        if self.factors:
            self._take_over(env_ids)

    def step(self, rng: torch.Generator, level: float) -> None:
        """Draw what is due, begin and end pushes; called before the physics of a control step."""
        if not self.terms:
            return  # most tasks have none, and this runs in every step
        changed = torch.zeros(self.sim.num_envs, dtype=torch.bool, device=self.sim.device)
        for term in self.terms if self._draws_within_episodes else ():
            ids = term.due(self.sim.control_dt)
            if len(ids):
                term.draw(ids, rng, level)
                term.wait_again(ids, rng)
                changed[ids] |= isinstance(term, ModelFactor)
        if changed.any():
            self._take_over(changed.nonzero().squeeze(1))
        for push in self.pushes:
            push.apply(self.sim.control_dt)

    def _take_over(self, env_ids: Tensor) -> None:
        if self.inertia is not None:
            self.inertia.follow(env_ids)
        self.sim.apply_randomization(env_ids)


@dataclass
class Inertia:
    """The inertia of bodies whose mass or size differs: proportional to the mass and to the square of the size.

    A size is used only for bodies with a single geom; for several geoms of different sizes, it would be a guess.
    """

    sim: Simulator
    factors: list[ModelFactor]

    def __post_init__(self) -> None:
        self.values = self.sim.randomize("body_inertia")  # (N, B, 3)
        self.own = self.values[0].clone()
        self.body_of_geom = self.sim.geom_body_ids()

    def follow(self, env_ids: Tensor) -> None:
        """Update the inertia in environments (n,)."""
        scale = torch.ones(len(env_ids), len(self.own), dtype=torch.float64)
        for term in self.factors:
            for column, row in enumerate(term.rows):
                value = term.values[env_ids, term.object_of[column]].double()
                if term.config.what == "mass":
                    scale[:, row] *= value
                elif term.config.what == "size" and self.body_of_geom.count(self.body_of_geom[row]) == 1:
                    scale[:, self.body_of_geom[row]] *= value.square()
        self.values[env_ids] = self.own * scale[..., None]


def _refuse_twice(terms: list[Term]) -> None:
    """Raises UserError if two entries set the same quantity of an object: the second would overwrite the first."""
    drawn_by: dict[tuple[str, str], str] = {}
    for term in terms:
        for name in term.objects:
            other = drawn_by.setdefault((term.config.what, name), term.path)
            if other != term.path:
                raise UserError(
                    f"{term.path}: {term.config.what} {f'of {name} ' if name else ''}is already drawn by {other}. "
                    "Name each object in one of them."
                )
