"""PhysX's implicit joint drives, exactly, and their effort limits.

PhysX computes a drive's force from the state at the end of the step, kp (target - q') - kd v', and clamps that force at
the effort limit. With v' = v + h a and q' = q + h v' this is

    kp (target - q) - (kd + h kp) v - (h kd + h^2 kp) a

so an actuator with gain kp and bias (0, -kp, -(kd + h kp)), an added armature of h kd + h^2 kp, and Euler integration
give the same step, and contacts meet the right effective mass. While a drive is at its limit L its force is +-L, and
nothing is added to the armature. Which drives are at their limit is found by iteration: step, compute the force that
each drive would need at the *new* state, change those that are on the wrong side (from one limit to the other only by
way of a free drive: directly, two coupled joints may take turns forever), and step those environments again
from the same state. A drive is right if

    free:      |kp (target - q') - kd v'| <= L, which is the force that it applied
    at +-L:    the force needed at the new state is beyond +-L

This is the semi-smooth Newton method for a clamped spring. Most substeps need one round: the last answer is the first
guess.

A constant force is explicit, and MuJoCo's limits and contacts are soft: 50 N m on a finger of 1e-6 kg m^2 would push it
through its limit at 1e5 rad/s. So a drive whose limit could alone take its DOF beyond its greatest speed in one substep
stays implicit: all its gains are scaled by the s in (0, 1] that gives

    s |kp (target - q') - kd v'| = L

which is the same force. Without contact, 1 / |kp (target - q') - kd v'| is linear in s, so the secant method finds it.
The inertia that counts is 1 / (M^-1)_ii in the pose of the model: what a force on one DOF meets while the others give
way. M_ii is what it meets while they are locked. For the first of two equal rods in a line it is 4.6 times as much.

Scales of drives that move or touch one another are searched for at the same time, each as if it were alone. That
converges slowly if they are strongly coupled, and after ROUNDS of them the last scales are kept: nothing bounds what
these are off by.

Modes NONE and EFFORT: stiffness and damping are those of the joint (MuJoCo integrates the damping implicitly).
"""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
from mujoco.batch import Batch

from livegym.compat.core.enums import DofDriveMode
from livegym.compat.core.layout import Layout
from livegym.compat.core.mobility import Mobility

POS = int(DofDriveMode.DOF_MODE_POS)
VEL = int(DofDriveMode.DOF_MODE_VEL)
EFFORT = int(DofDriveMode.DOF_MODE_EFFORT)
UNLIMITED = 1e30
"""An effort of at least this, or of 0, is no limit."""
ROUNDS = 16
"""Rounds of the iteration; the last one's answer is kept even if a drive is still on the wrong side.

Later rounds step few environments. For dexrobot_isaac's hand under random actions, whose 20 fingers' drives are all
scaled, 16 rounds cost 13 % more steps of an environment than 4, and in 0.02 % of all cases, not 1.1 %, a force is off
by more than SCALED_ERROR (at most by 28 %, not 1,300 %)."""
MARGIN = 1e-6
"""Relative width around the limit within which a drive keeps its side, so that rounding does not flip it."""
SCALED_ERROR = 0.03
"""Relative error of the force at the limit with which the search for a scale ends."""
SMALLEST = 1e-9
"""The smallest scale of a drive's gains."""
FAST = 100.0
"""Speed, rad/s or m/s, that stands for the greatest speed of a DOF that has none."""
BY_DOF = ("dof_armature", "dof_damping", "dof_frictionloss")
BY_JOINT = ("jnt_stiffness", "jnt_range", "jnt_limited")
BY_ACTUATOR = ("actuator_gainprm", "actuator_biasprm")


def added_armature(props: np.ndarray, h: float) -> np.ndarray:
    """Return the armature, kg m^2 or kg, that makes drives with DOF properties `props` implicit with time step h."""
    kp, kd = props["stiffness"].astype(float), props["damping"].astype(float)
    mode = props["driveMode"]
    return np.where(mode == POS, h * kd + h * h * kp, np.where(mode == VEL, h * kd, 0.0))


def coefficients(props: np.ndarray, h: float) -> dict[str, np.ndarray]:
    """Return the model fields of DOFs with properties `props` (...,): values (...,) or (..., k), by field."""
    kp, kd = props["stiffness"].astype(float), props["damping"].astype(float)
    mode = props["driveMode"]
    pos, vel = mode == POS, mode == VEL
    zero = np.zeros_like(kp)
    passive = ~(pos | vel)
    low, high = np.minimum(props["lower"], props["upper"]), np.maximum(props["lower"], props["upper"])
    return {
        "actuator_gainprm": np.select([pos, vel, mode == EFFORT], [kp, kd, zero + 1.0], 0.0)[..., None],
        "actuator_biasprm": np.stack(
            [zero, np.where(pos, -kp, 0.0), np.select([pos, vel], [-(kd + h * kp), -kd], 0.0)], -1
        ),
        "dof_armature": props["armature"] + added_armature(props, h),
        "dof_damping": np.where(passive, kd, 0.0),
        "dof_frictionloss": props["friction"].astype(float),
        "jnt_stiffness": np.where(passive, kp, 0.0),
        "jnt_range": np.stack([low, high], -1).astype(float),
        "jnt_limited": props["hasLimits"].astype(int),
    }


def write_model(model: mujoco.MjModel, layout: Layout, props: np.ndarray) -> None:
    """Write DOF properties (dofs,) into the model that environments share."""
    for field, values in coefficients(props, model.opt.timestep).items():
        array, rows = getattr(model, field), _rows(layout, field)
        if values.ndim > 1:
            array[rows, : values.shape[1]] = values
        else:
            array[rows] = values


def _rows(layout: Layout, field: str) -> np.ndarray:
    """The rows of a model field that belong to the DOFs."""
    if field in BY_DOF:
        return layout.qvel
    return layout.joints if field in BY_JOINT else np.arange(layout.dofs)


class Drives:
    """Drive modes, targets and gains of all DOFs, (N, D); the model holds `props[0]` when it is made."""

    def __init__(self, batch: Batch, layout: Layout, props: np.ndarray) -> None:
        self.batch = batch
        self.layout = layout
        self.h = float(batch.model.opt.timestep)
        self.props = props  # (N, D) DOF_PROPERTIES
        self.targets = {mode: np.zeros(props.shape, np.float32) for mode in (POS, VEL, EFFORT)}
        self.side = np.zeros(props.shape, np.int8)  # -1, 1: the drive is at that limit
        self.scale = np.ones(props.shape)  # of the gains: below 1, the drive is at its limit
        self.ctrl = batch.bind("ctrl")
        self._mobility = Mobility(batch.model, layout.qvel, len(props))
        self._before = np.empty_like(batch.state)
        self.expanded: set[str] = set()
        self._masks: dict[int, np.ndarray | bool] = {}
        differ = np.flatnonzero((props != props[0]).any(1)) if props.size else np.zeros(0, int)
        if differ.size:
            self._write(differ, slice(0, layout.dofs))
        self._modes_changed()

    # properties

    def set_props(self, envs: np.ndarray, dofs: slice, props: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the DOFs of one actor other properties (n, dofs) in environments (n,).

        Returns those whose properties are others now, and, of these, those whose armature is.
        """
        others = (self.props[envs, dofs] != props).any(1)
        envs, props = envs[others], props[others]
        if not envs.size:
            return envs, envs
        before = self._all_armature(envs)
        modes = (self.props[envs, dofs]["driveMode"] != props["driveMode"]).any()
        self.props[envs, dofs] = props
        self.side[envs, dofs] = 0
        self.scale[envs, dofs] = 1.0
        self._write(envs, dofs)
        self._limits_known = False
        if modes:
            self._modes_changed()
        return envs, envs[(self._all_armature(envs) != before).any(1)]

    def _all_armature(self, envs: np.ndarray | slice) -> np.ndarray:
        """(n, D) armature of drives that are not at their limit."""
        return self.props["armature"][envs] + added_armature(self.props[envs], self.h)

    def different(self) -> np.ndarray:
        """The environments whose armature is not that of environment 0."""
        armature = self._all_armature(slice(None))
        return np.flatnonzero((armature != armature[:1]).any(1))

    def _write(self, envs: np.ndarray, dofs: slice) -> None:
        fields = coefficients(self.props[envs, dofs], self.h)
        self._write_armature(envs[:, None], self.layout.qvel[dofs], fields.pop("dof_armature"))
        for field, values in fields.items():
            array, rows = self._expand(field), _rows(self.layout, field)[dofs]
            if values.ndim > 2:
                array[envs[:, None], rows, : values.shape[2]] = values
            else:
                array[envs[:, None], rows] = values

    def _write_armature(self, envs: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        """Set the armature; MuJoCo takes the inertia of a simple DOF from dof_M0, which contains it."""
        armature, inertia = self._expand("dof_armature"), self._expand("dof_M0")
        inertia[envs, dofs] += values - armature[envs, dofs]
        armature[envs, dofs] = values

    def with_all_armature(self, envs: np.ndarray, call: Callable[[], None]) -> None:
        """Make a call while these environments have the armature of drives that are not at their limit."""
        all_of_it = self._all_armature(envs)
        present = self.props["armature"][envs] + self.armature_in_use()[envs]
        if (all_of_it == present).all():
            call()
            return
        where = envs[:, None], self.layout.qvel
        self._write_armature(*where, all_of_it)
        call()
        self._write_armature(*where, present)

    def _expand(self, field: str) -> np.ndarray:
        self.expanded.add(field)
        return self.batch.expand(field)

    def _modes_changed(self) -> None:
        mode = self.props["driveMode"]
        for m in self.targets:
            mask = mode == m
            self._masks[m] = True if mask.all() else mask
        self.ctrl[:] = 0.0
        for m in self.targets:
            self._to_ctrl(m)
        self._limits_known = False

    @property
    def limited(self) -> bool:
        """Whether any drive has an effort limit, so that substeps are checked."""
        self._know_limits()
        return self._limited

    def _know_limits(self) -> None:
        if not self._limits_known:
            self._limits_changed()
            self._limits_known = True

    def _limit_mask(self) -> np.ndarray:
        mode, effort = self.props["driveMode"], self.props["effort"]
        return ((mode == POS) | (mode == VEL)) & (effort > 0) & (effort < UNLIMITED)

    def _limits_changed(self) -> None:
        speed = self.props["velocity"].astype(float)
        bounded = (speed > 0) & (speed < UNLIMITED)
        self._fastest = np.where(bounded, speed, np.inf) if bounded.any() else None
        mask = self._limit_mask()
        self._limited = bool(mask.any())
        if not self._limited:
            return
        self._columns = np.flatnonzero(mask.any(0))
        part = self.props[:, self._columns]
        pos = part["driveMode"] == POS
        limit = np.where(mask[:, self._columns], part["effort"], np.inf)
        self._limit = limit.astype(float)
        self._kp = np.where(pos, part["stiffness"], 0.0).astype(float)
        self._kd = part["damping"].astype(float)
        self._kd_target = np.where(pos, 0.0, part["damping"]).astype(float)  # velocity drives: kd (target - v)
        self._added = added_armature(part, self.h)
        self._gain = self._expand("actuator_gainprm")
        self._bias = self._expand("actuator_biasprm")
        inertia = self._mobility.inertia(self.props["armature"].astype(float))[:, self._columns]
        strong = self._limit * self.h > inertia * np.minimum(self._greatest_speed(), FAST)
        self._scaled = strong & np.isfinite(self._limit)

    def _greatest_speed(self) -> np.ndarray | float:
        return np.inf if self._fastest is None else self._fastest[:, self._columns]

    def limit_speeds(self) -> np.ndarray:
        """Cut velocities of DOFs to the limits of their properties, as PhysX does; return the environments changed.

        ANYmal C with its actuator network and large random actions diverges without that.
        """
        self._know_limits()
        if self._fastest is None:
            return np.zeros(0, int)
        velocity = self.batch.bind("qvel")
        own = velocity[:, self.layout.qvel]
        fast = np.flatnonzero((np.abs(own) > self._fastest).any(1))
        if fast.size:
            limit = self._fastest[fast]
            velocity[fast[:, None], self.layout.qvel] = np.clip(own[fast], -limit, limit)
        return fast

    # targets

    def set_targets(self, mode: int, values: np.ndarray, envs: np.ndarray | None = None, dofs: slice | None = None):
        """Set targets (N, D) of one mode; with `envs` and `dofs` only theirs."""
        if envs is None:
            self.targets[mode][:] = values
            self._to_ctrl(mode)
            return
        self.targets[mode][envs, dofs] = values[envs, dofs]
        mask = self._masks[mode]
        mask = mask[envs, dofs] if isinstance(mask, np.ndarray) else mask
        part = self.ctrl[envs, dofs]
        np.copyto(part, values[envs, dofs], where=mask)
        self.ctrl[envs, dofs] = part

    def _to_ctrl(self, mode: int) -> None:
        np.copyto(self.ctrl, self.targets[mode], where=self._masks[mode])

    # stepping

    def step(self, envs: np.ndarray | None, advance: Callable[[np.ndarray | None], np.ndarray]) -> np.ndarray:
        """One substep of environments (None: all), with every limited drive on its right side of the limit.

        `advance` makes one substep of MuJoCo and returns the environments that failed, which keep their state; so does
        this.
        """
        np.copyto(self._before, self.batch.state)
        self._last = (np.ones(self._limit.shape), np.zeros(self._limit.shape))  # scale, 1 / force needed with it
        failed = np.zeros(0, int)
        for _ in range(ROUNDS):
            refused = advance(envs)
            if refused.size:
                failed = np.union1d(failed, refused)
                envs = np.setdiff1d(np.arange(len(self.side)) if envs is None else envs, refused)
            envs = self._change_sides(slice(None) if envs is None else envs)
            if not envs.size:
                return failed
            self.batch.state[envs] = self._before[envs]
        return np.union1d(failed, advance(envs)).astype(int)

    def _needed(self, envs: slice | np.ndarray) -> np.ndarray:
        """The force (n, columns) that each limited drive needs at the new state."""
        at = self.layout
        q = self.batch.bind("qpos")[envs][:, at.qpos[self._columns]]
        v = self.batch.bind("qvel")[envs][:, at.qvel[self._columns]]
        target = self.ctrl[envs][:, self._columns]
        return self._kp[envs] * (target - q) + self._kd_target[envs] * target - self._kd[envs] * v

    def _change_sides(self, envs: slice | np.ndarray) -> np.ndarray:
        """Move drives that are on the wrong side of their limit; return the environments that have any."""
        needed, limit = self._needed(envs), self._limit[envs]
        side = self.side[envs][:, self._columns]
        scaled = self._scaled[envs]
        beyond = np.where(np.abs(needed) > limit * (1.0 + MARGIN), np.sign(needed), 0)
        right = np.where(side == 0, beyond, np.where(side * needed < limit * (1.0 - MARGIN), 0, side)).astype(np.int8)
        right[scaled] = 0
        scale = self.scale[envs][:, self._columns]
        better = self._better_scale(envs, needed, limit, scale) if scaled.any() else scale
        rows, columns = np.nonzero((right != side) | (better != scale))
        if not rows.size:
            return rows
        ids = np.arange(len(self.side))[envs][rows]
        self._set(ids, columns, right[rows, columns], better[rows, columns])
        return np.unique(ids)

    def _better_scale(self, envs: slice | np.ndarray, needed: np.ndarray, limit: np.ndarray, scale: np.ndarray):
        """The scales (n, columns) after a round in which `scale` made drives need the force `needed`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            weakness = np.minimum(1.0 / np.abs(needed), 1e30)
            simple = limit * weakness
            before, weakness_before = (values[envs] for values in self._last)
            slope = (weakness - weakness_before) / (scale - before)  # d(1 / needed) / ds
            secant = (weakness - slope * scale) / (1.0 / limit - slope)
            known = (before != scale) & (weakness_before > 0) & np.isfinite(secant) & (secant > 0)
        better = np.clip(np.where(known, secant, simple), SMALLEST, 1.0)
        for values, new in zip(self._last, (scale, weakness), strict=True):
            values[envs] = new
        error = np.where(scale < 1.0, np.abs(scale * np.abs(needed) - limit), np.abs(needed) - limit)
        return np.where(self._scaled[envs] & (error > SCALED_ERROR * limit), better, scale)

    def _set(self, envs: np.ndarray, columns: np.ndarray, side: np.ndarray, scale: np.ndarray) -> None:
        """Give drives (envs, columns) scaled gains, or the constant force of one at its limit."""
        dofs = self._columns[columns]
        share = np.where(side == 0, scale, 0.0)
        kp, kd = self._kp[envs, columns], self._kd[envs, columns]
        self.side[envs, dofs] = side
        self.scale[envs, dofs] = scale
        self._gain[envs, dofs, 0] = share * (kp + self._kd_target[envs, columns])
        self._bias[envs, dofs, 0] = side * self._limit_or_0(envs, columns)
        self._bias[envs, dofs, 1] = -share * kp
        self._bias[envs, dofs, 2] = -share * (kd + self.h * kp)
        added = share * self._added[envs, columns]
        self._write_armature(envs, self.layout.qvel[dofs], self.props["armature"][envs, dofs] + added)

    def _limit_or_0(self, envs: np.ndarray, columns: np.ndarray) -> np.ndarray:
        limit = self._limit[envs, columns]
        return np.where(np.isfinite(limit), limit, 0.0)

    # outputs

    def armature_in_use(self) -> np.ndarray:
        """(N, D) the armature that the drives added in the last substep."""
        return np.where(self.side == 0, self.scale * added_armature(self.props, self.h), 0.0)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return copies of targets, properties and sides."""
        rows = {f"target/{mode}": values.copy() for mode, values in self.targets.items()}
        return rows | {"props": self.props.copy(), "side": self.side.copy(), "scale": self.scale.copy()}

    def restore(self, snapshot: dict[str, np.ndarray]) -> None:
        """Return to a snapshot; the engine restores the model's fields."""
        for mode, values in self.targets.items():
            values[:] = snapshot[f"target/{mode}"]
        self.props[:] = snapshot["props"]
        self._modes_changed()
        self.side[:] = snapshot["side"]
        self.scale[:] = snapshot.get("scale", 1.0)  # earlier releases had none
