"""The kinds of entries of a randomisation schedule: what each draws, and how it is applied.

See `tasks/randomization.py` for the schedule as a whole.
"""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase

import mujoco
import torch
from torch import Tensor

from livegym.schema import RandomizationConfig
from livegym.sim.base import Simulator
from livegym.utils.errors import UserError, did_you_mean

log = logging.getLogger(__name__)
EVERYTHING = slice(None)
FIELDS: dict[str, tuple[tuple[str, int | slice], ...]] = {
    "mass": (("body_mass", EVERYTHING),),
    "friction": (("geom_friction", EVERYTHING),),
    "size": (("geom_size", EVERYTHING),),
    "gain": (
        ("actuator_gainprm", 0),  # kp of a position actuator
        ("actuator_biasprm", 1),  # and -kp
        ("actuator_gainprm", 4),  # kp of a DC motor: a motor of task.drives with a limit of speed
    ),
    "damping": (("dof_damping", EVERYTHING),),
}
"""Quantity -> the fields of the model that are multiplied, and which of their columns."""
DC_MOTOR = int(mujoco.mjtGain.mjGAIN_DCMOTOR)
MAX_DELAY = 1000  # control steps
SIZED = ("sphere", "capsule", "ellipsoid", "cylinder", "box")
"""The geom types whose shape follows from their size."""
KIND = {"mass": "body", "friction": "geom", "size": "geom", "gain": "actuator", "damping": "joint", "push": "body"}
"""Quantity -> the kind of object that has it; other quantities belong to the environment itself."""
NO_CHANGE = {"action_delay": 0.0, "push": 0.0}
"""Quantity -> the value that changes nothing; for the others, it is a factor of 1."""


class Term:
    """One entry: its values (N, objects), and the time until each environment draws them again."""

    def __init__(self, path: str, config: RandomizationConfig, sim: Simulator) -> None:
        """`path` names the entry in errors. Raises UserError if it is invalid, or names no object."""
        check(path, config)
        self.path = path
        self.config = config
        self.sim = sim
        kind = KIND.get(config.what)
        self.objects = matching(path, config.names, kind, sim.names(kind)) if kind else [""]
        self.no_change = NO_CHANGE.get(config.what, 1.0)
        n, device = sim.num_envs, sim.device
        self.values = torch.full((n, len(self.objects)), self.no_change, device=device)
        self.wait = torch.full((n,), torch.inf, device=device)  # s
        self.buffers = {"values": self.values, "wait": self.wait}

    def bounds(self, level: float) -> tuple[float, float]:
        """The range at a level of the curriculum; at level 0, it is no change."""
        low, high = self.config.range
        if not self.config.curriculum:
            return low, high
        return self.no_change + level * (low - self.no_change), self.no_change + level * (high - self.no_change)

    def draw(self, env_ids: Tensor, rng: torch.Generator, level: float) -> None:
        """Draw values for environments (n,), one for each object; `level` is the curriculum's, 0 to 1."""
        low, high = self.bounds(level)
        shape = (len(env_ids), len(self.objects))
        if self.config.distribution == "gaussian":
            normal = torch.randn(shape, generator=rng, device=env_ids.device)
            drawn = (0.5 * (low + high) + 0.25 * (high - low) * normal).clamp(low, high)
        else:
            part = torch.rand(shape, generator=rng, device=env_ids.device)
            logarithmic = self.config.distribution == "log_uniform"
            drawn = low * (high / low) ** part if logarithmic else low + part * (high - low)
        self.values[env_ids] = drawn

    def wait_again(self, env_ids: Tensor, rng: torch.Generator) -> None:
        """Draw the time until environments (n,) are due again."""
        if self.config.interval_s is not None:
            low, high = self.config.interval_s
            self.wait[env_ids] = low + (high - low) * torch.rand(len(env_ids), generator=rng, device=env_ids.device)

    def due(self, seconds: float) -> Tensor:
        """Let `seconds` pass; returns the environments (n,) whose wait is over."""
        if self.config.interval_s is None:
            return torch.empty(0, dtype=torch.int64, device=self.wait.device)
        self.wait -= seconds
        return (self.wait <= 0).nonzero().squeeze(1)


class ModelFactor(Term):
    """Factors on the model's values for bodies, geoms, actuators or joints."""

    def __init__(self, path: str, config: RandomizationConfig, sim: Simulator) -> None:
        super().__init__(path, config, sim)
        of_one = {"body": sim.body_ids, "geom": sim.geom_ids, "actuator": sim.actuator_ids, "joint": sim.qvel_ids}
        rows = [of_one[KIND[config.what]]([name]) for name in self.objects]  # a ball joint has three
        self.rows = [row for of_object in rows for row in of_object]
        self.object_of = [index for index, of_object in enumerate(rows) for _ in of_object]
        self.unchanged = [torch.zeros(len(self.rows), dtype=torch.bool) for _ in FIELDS[config.what]]
        if config.what == "size":
            self._check_shapes()

    def start(self) -> None:
        """Give each environment its own values in the fields; called after `sim.start()`."""
        self.fields = [(self.sim.randomize(name), columns) for name, columns in FIELDS[self.config.what]]
        self.own = [field[0, self.rows].clone() for field, _ in self.fields]
        if self.config.what == "gain":
            dc_motor = self.sim.model_value("actuator_gaintype")[0, self.rows] == DC_MOTOR
            self.unchanged = [dc_motor, dc_motor, ~dc_motor]
            self._check_servos(dc_motor, *self.own[:2])

    def _check_shapes(self) -> None:
        shapes = self.sim.geom_shapes()
        for name, row in zip(self.objects, self.rows, strict=True):
            if shapes[row] not in SIZED:
                raise UserError(
                    f"{self.path}.names: the shape of geom {name} ({shapes[row]}) does not follow from its size. "
                    f"Allowed: {', '.join(SIZED)}."
                )

    def _check_servos(self, dc_motor: Tensor, gain: Tensor, bias: Tensor) -> None:
        numbers = zip(self.objects, dc_motor.tolist(), gain.tolist(), bias[:, 1].tolist(), strict=True)
        for name, is_dc, prm, minus_kp in numbers:
            kp = prm[4] if is_dc else prm[0]
            if not kp or (kp != -minus_kp and not is_dc):
                raise UserError(
                    f"{self.path}.names: {name} is not a position actuator (gain {kp:g}, bias {minus_kp:g} x "
                    "position): a factor on its gain would move its set point. Name position actuators only."
                )

    def draw(self, env_ids: Tensor, rng: torch.Generator, level: float) -> None:
        """Draw factors, and write them into the model's fields; they take effect when the simulator applies them."""
        super().draw(env_ids, rng, level)
        drawn = self.values[env_ids][:, self.object_of].double()  # (n, rows)
        for (field, columns), own, unchanged in zip(self.fields, self.own, self.unchanged, strict=True):
            factor = torch.where(unchanged, 1.0, drawn)
            rows = field[env_ids][:, self.rows]  # a copy (n, rows, ...)
            if rows.ndim == 2:
                rows = own * factor
            else:
                scale = factor if isinstance(columns, int) else factor[..., None]
                rows[..., columns] = own[..., columns] * scale
            field[env_ids[:, None], torch.tensor(self.rows)] = rows


class EnvValue(Term):
    """A factor on the observation noise, or the delay of actions in control steps."""

    def draw(self, env_ids: Tensor, rng: torch.Generator, level: float) -> None:
        """Draw values; delays are whole numbers."""
        super().draw(env_ids, rng, level)
        if self.config.what == "action_delay":
            self.values[env_ids] = self.values[env_ids].round()

    def bounds(self, level: float) -> tuple[float, float]:
        """The range; for delays, it is widened so that after rounding, its ends are as likely as other values."""
        low, high = super().bounds(level)
        if self.config.what != "action_delay":
            return low, high
        return round(low) - 0.499, round(high) + 0.499


class PushTerm(Term):
    """A force in a random direction on bodies, which begins at random times and lasts for `duration_s`."""

    def __init__(self, path: str, config: RandomizationConfig, sim: Simulator) -> None:
        super().__init__(path, config, sim)
        self.bodies = sim.body_ids(self.objects)
        self.left = torch.zeros(sim.num_envs, device=sim.device)  # s, for which it still pushes
        self.force = torch.zeros(sim.num_envs, len(self.bodies), 3, device=sim.device)  # N, world axes
        self.buffers |= {"left": self.left, "force": self.force}

    def draw(self, env_ids: Tensor, rng: torch.Generator, level: float) -> None:
        """Begin a push in environments (n,), of a force that is drawn."""
        super().draw(env_ids, rng, level)
        towards = torch.randn(len(env_ids), len(self.bodies), 3, generator=rng, device=env_ids.device)
        towards /= towards.norm(dim=2, keepdim=True).clamp(min=1e-6)
        self.force[env_ids] = self.values[env_ids][..., None] * towards
        self.left[env_ids] = self.config.duration_s

    def end(self, env_ids: Tensor) -> None:
        """End pushes in environments (n,), because an episode begins."""
        self.left[env_ids] = 0.0

    def apply(self, seconds: float) -> None:
        """Write the forces for the next control step."""
        on = self.left > 1e-6
        self.sim.xfrc_applied[:, self.bodies, :3] = torch.where(on[:, None, None], self.force, 0.0)
        self.left -= seconds * on


def make_term(path: str, config: RandomizationConfig, sim: Simulator) -> Term:
    """Make the term of an entry, by the kind of its quantity."""
    kind = ModelFactor if config.what in FIELDS else PushTerm if config.what == "push" else EnvValue
    return kind(path, config, sim)


def check(path: str, config: RandomizationConfig) -> None:
    """Raises UserError for an entry with invalid or contradictory values."""
    what = config.what
    _check_pair(f"{path}.range", config.range)
    if config.interval_s is not None:
        _check_pair(f"{path}.interval_s", config.interval_s)
    low, high = config.range
    least = 1e-6 if what in ("mass", "size") else 0.0
    if low < least:
        raise UserError(f"{path}.range={config.range}: {what} cannot be below {least:g}. Give at least {least:g}.")
    if config.distribution == "log_uniform" and (low <= 0 or (config.curriculum and NO_CHANGE.get(what, 1.0) <= 0)):
        raise UserError(
            f"{path}.distribution=log_uniform: {what} would be drawn from 0, which has no logarithm. Use uniform."
        )
    if what == "action_delay" and (low != round(low) or high != round(high) or high > MAX_DELAY):
        raise UserError(
            f"{path}.range={config.range}: a delay is a whole number of control steps, at most {MAX_DELAY}. "
            "For example [0, 2]."
        )
    if what in KIND and not config.names:
        raise UserError(
            f"{path}.names is empty: {what} needs the name of a {KIND[what]}. For example names: [box], or ['*'] for "
            "all."
        )
    if what not in KIND and config.names:
        raise UserError(f"{path}.names={config.names}: {what} belongs to no object of the model. Leave names out.")
    if what == "push" and config.interval_s is None:
        raise UserError(f"{path}.interval_s is not set, but a push needs it. For example interval_s: [1.0, 3.0].")
    if what == "size" and config.interval_s is not None:
        raise UserError(f"{path}.interval_s={config.interval_s}: a size changes at resets only. Set it to null.")


def _check_pair(path: str, pair: list[float]) -> None:
    if len(pair) != 2 or pair[0] > pair[1]:
        raise UserError(f"{path}={pair}: must be two numbers, the smaller one first. For example {path}=[0.5, 1.5]")


def matching(path: str, patterns: list[str], kind: str, names: list[str]) -> list[str]:
    """The objects that match any of the patterns, in the model's order. Raises UserError if one matches nothing."""
    named = [name for name in names if name]
    unnamed = len(names) - len(named)
    if unnamed and any("*" in pattern for pattern in patterns):
        log.warning("%s.names: %d %ss of the model have no name, so they are not randomised.", path, unnamed, kind)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in named):
            raise UserError(
                f"{path}.names: no {kind} is called {pattern}. Allowed: {', '.join(named) or 'none with a name'}."
                f"{did_you_mean(pattern, named) or f' Name the {kind} in the model.'}"
            )
    return [name for name in named if any(fnmatchcase(name, pattern) for pattern in patterns)]
