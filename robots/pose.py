"""A pose in which a robot stands: a keyframe of its file, or one that is found by settling.

The first candidate has every joint at 0, or in the middle of its range if that does not contain 0. The others, drawn
from a fixed seed, bend joints; those that are called the same except for their side (FL_knee, RR_knee) bend together.
Each is put on the floor. The best stances, and twice as many others, are tried: the motors hold the pose for some time.

In a good stance, the centre of mass is high and above the middle of the feet, and only the ends of limbs touch the
floor. Heights are those of the centre of mass, because a base may be a frame of reference on the floor. In a good
trial, the robot stays upright and still, with torques far from its motors' limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import mujoco
import numpy as np

from livegym.robots.robot import Robot, free_name
from livegym.utils.errors import UserError

KEYFRAMES = ("stand", "standing", "home", "default", "init", "initial")
"""Names of keyframes, the most telling first; another name counts if there is only one keyframe."""
CANDIDATES = 2000
TRIALS = 30
TOUCHING = 0.02  # m above the lowest point: what counts as a foot
CLEAR = 0.01  # m above the lowest point, which all parts but feet must have
SETTLE_S = 2.0
LARGEST_BEND = 1.2  # rad
UPRIGHT = 0.97  # cosine of the tilt
STILL = 0.1  # m/s
KEPT = 0.75  # of the height: what lies on its belly is upright and still, too
SIDES = {
    "l": (1, 0), "left": (1, 0), "r": (-1, 0), "right": (-1, 0), "f": (0, 1), "front": (0, 1), "fore": (0, 1),
    "h": (0, -1), "hind": (0, -1), "rear": (0, -1), "back": (0, -1), "b": (0, -1),
    "fl": (1, 1), "lf": (1, 1), "fr": (-1, 1), "rf": (-1, 1), "hl": (1, -1), "lh": (1, -1), "rl": (1, -1),
    "bl": (1, -1), "hr": (-1, -1), "rh": (-1, -1), "rr": (-1, -1), "br": (-1, -1),
}  # fmt: skip
"""Parts of names -> side: left or right, front or rear."""


@dataclass(frozen=True)
class Pose:
    """A default pose, and how the robot stood in it."""

    qpos: np.ndarray  # (nq,), on the floor
    height: float  # m, of the robot's middle once it has settled
    stands: bool  # it stays upright by itself while its motors hold the pose
    keyframe: str  # name of the keyframe in the model
    source: str  # how it was found, for the report


@dataclass(frozen=True)
class Trial:
    """How a robot stood at the end of a trial."""

    upright: float  # cosine of the tilt against the start
    speed: float  # m/s, of the base, the largest in the last quarter
    effort: float  # mean square of the torques, as fractions of their limits
    height: float  # m, of the robot's middle
    kept: float  # height of the centre of mass, as a share of that at the beginning

    @property
    def stands(self) -> bool:
        """Whether it did not fall, sink or slide away."""
        return self.upright > UPRIGHT and self.speed < STILL and self.kept > KEPT


def first_guess(robot: Robot, model: mujoco.MjModel) -> np.ndarray:
    """(nq,): joints at 0 or in the middle of their range, the base upright on the floor; a keyframe if there is one."""
    found = keyframe_of(model, robot)
    if found is not None:
        return model.key_qpos[model.key(found).id].copy()
    qpos = model.qpos0.copy()
    for joint in robot.driven:
        number = model.joint(joint).id
        low, high = model.jnt_range[number]
        if model.jnt_limited[number] and not low <= qpos[model.jnt_qposadr[number]] <= high:
            qpos[model.jnt_qposadr[number]] = 0.5 * (low + high)
    return on_floor(robot, model, qpos)


def keyframe_of(model: mujoco.MjModel, robot: Robot) -> str | None:
    """The name of the keyframe in which the robot stands; None if none is called so, and there is not just one.

    Raises UserError for a keyframe with numbers that are not finite.
    """
    names = [model.key(i).name for i in range(model.nkey)]
    found = next((name for wanted in KEYFRAMES for name in names if name.lower() == wanted), None)
    if found is None and len(names) == 1 and names[0]:
        found = names[0]
    if found is not None and not np.isfinite(model.key_qpos[model.key(found).id]).all():
        raise UserError(f"{robot.file}: keyframe {found} has numbers that are not finite. Correct them.")
    return found


def find(robot: Robot, model: mujoco.MjModel) -> Pose:
    """The default pose of a robot whose motors are in `model`."""
    start = first_guess(robot, model)
    name = keyframe_of(model, robot)
    if name is not None:
        trial = attempt(robot, model, start)
        height = trial.height if trial.stands else middle_height(robot, model, start)
        return Pose(start, height, trial.stands, name, f"keyframe {name} of the file")
    tried = []
    for worth, qpos in _stances(robot, model, start):
        trial = attempt(robot, model, qpos)
        tried.append((_score(trial) + worth, qpos, trial))
    tried = tried or [(0.0, start, attempt(robot, model, start))]
    _, best, best_trial = max(tried, key=lambda entry: entry[0])
    free = free_name("default", [model.key(i).name for i in range(model.nkey)])
    if not best_trial.stands:
        height = middle_height(robot, model, start)
        source = f"no pose was found in which the motors alone keep it up for {SETTLE_S:g} s, so it must balance"
        return Pose(start, height, False, free, source)
    source = f"found by settling: it stood for {SETTLE_S:g} s, the best of {len(tried)} stances"
    return Pose(best, best_trial.height, True, free, source)


def _score(trial: Trial) -> float:
    """Larger is better; a candidate that falls is worse than any that stands."""
    return 10.0 * trial.stands + trial.upright - 0.5 * min(trial.speed, 2.0) - trial.effort


def _stances(robot: Robot, model: mujoco.MjModel, start: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """The best poses, and twice as many others, each with its worth by its geometry alone."""
    rng = np.random.default_rng(0)
    groups = _groups(robot, model)
    poses = [start, *(on_floor(robot, model, _bent(model, start, groups, rng)) for _ in range(CANDIDATES - 1))]
    ends = _ends(robot, model)
    looks = [_look(robot, model, qpos, ends) for qpos in poses]
    highest = max(look.height for look in looks)
    worth = {
        i: look.height / highest + look.feet - 0.2 * _bend(robot, model, poses[i], start)
        for i, look in enumerate(looks)
        if look.on_ends
    }
    best = sorted(worth, key=lambda i: -worth[i])[:TRIALS]
    others = [i for i in worth if i not in best][: 2 * TRIALS]  # geometry knows nothing of balance
    return [(worth[i], poses[i]) for i in [*best, *others]]


def _ends(robot: Robot, model: mujoco.MjModel) -> set[int]:
    """Rigid groups of bodies, by their first one, at the ends of limbs: nothing moves against them further out."""
    own = robot.bodies(model)
    first = {int(b) for b in own if model.body_weldid[b] == b}
    base = int(own[0])
    return first - {int(model.body_weldid[model.body_parentid[b]]) for b in first if b != base}


@dataclass(frozen=True)
class Look:
    """A stance by its geometry."""

    height: float  # m, of the centre of mass
    feet: float  # 0.5 with all ends of limbs on the floor and the centre of mass above their middle
    on_ends: bool  # only ends of limbs touch the floor


def _look(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray, ends: set[int]) -> Look:
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    lows = [
        (int(model.body_weldid[model.geom_bodyid[geom]]), geom, low) for geom, low in _lowest_points(robot, model, data)
    ]
    feet = {part for part, _, low in lows if low < TOUCHING and part in ends}
    middle = np.mean([data.geom_xpos[geom, :2] for _, geom, low in lows if low < TOUCHING], axis=0)
    com = data.subtree_com[model.body(robot.base).id]
    lean = float(np.linalg.norm(com[:2] - middle)) / max(com[2], 1e-6)
    on_ends = all(part in ends for part, _, low in lows if low < CLEAR)
    return Look(com[2], 0.5 * len(feet) / max(1, len(ends)) - 2.0 * lean, on_ends)


def _bend(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray, start: np.ndarray) -> float:
    columns = [model.jnt_qposadr[model.joint(joint).id] for joint in robot.driven]
    return float(np.abs(qpos[columns] - start[columns]).mean())


def _groups(robot: Robot, model: mujoco.MjModel) -> list[list[tuple[str, int, int]]]:
    """Joints that bend together: (name, left or right, front or rear) of each."""
    groups: dict[str, list[tuple[str, int, int]]] = {}
    for joint in robot.driven:
        if robot.by_velocity(model, joint):
            continue
        words = re.findall(r"[a-z]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1_\2", joint).lower())
        across = sum(SIDES.get(word, (0, 0))[0] for word in words)
        along = sum(SIDES.get(word, (0, 0))[1] for word in words)
        stem = "_".join(word for word in words if word not in SIDES and not word.isdigit())
        groups.setdefault(stem or joint, []).append((joint, across, along))
    return list(groups.values())


def _bent(
    model: mujoco.MjModel, start: np.ndarray, groups: list[list[tuple[str, int, int]]], rng: np.random.Generator
) -> np.ndarray:
    """A candidate: half of the groups bend by an amount, with the same or the opposite sign on the other side."""
    qpos = start.copy()
    for group in groups:
        bend = rng.uniform(-LARGEST_BEND, LARGEST_BEND) * (rng.random() < 0.5)
        mirrored_across, mirrored_along = rng.random(2) < 0.5
        for joint, across, along in group:
            sign = (-1 if mirrored_across and across < 0 else 1) * (-1 if mirrored_along and along < 0 else 1)
            number = model.joint(joint).id
            column = model.jnt_qposadr[number]
            qpos[column] += sign * bend
            if model.jnt_limited[number]:
                low, high = model.jnt_range[number]
                margin = 0.05 * (high - low)
                qpos[column] = np.clip(qpos[column], low + margin, high - margin)
    return qpos


def _base_z(robot: Robot, model: mujoco.MjModel) -> int:
    return int(model.jnt_qposadr[model.body(robot.base).jntadr[0]]) + 2


def on_floor(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """The pose, raised or lowered so that the lowest corner of a colliding shape's box touches the height 0."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    lowest = min(low for _, low in _lowest_points(robot, model, data))
    placed = qpos.copy()
    placed[_base_z(robot, model)] -= lowest
    return placed


def centre_height(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> float:
    """m, of the robot's centre of mass in a pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return float(data.subtree_com[model.body(robot.base).id, 2])


def middle_height(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> float:
    """m, of the robot's middle (`Robot.middle`) in a pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    return float(data.site_xpos[model.site(robot.middle).id, 2])


def _lowest_points(robot: Robot, model: mujoco.MjModel, data: mujoco.MjData) -> list[tuple[int, float]]:
    """The robot's colliding geoms with the heights of their lowest points, m."""
    points = []
    for geom in robot.geoms(model):
        turn = data.geom_xmat[geom].reshape(3, 3)
        centre = data.geom_xpos[geom] + turn @ model.geom_aabb[geom, :3]
        points.append((int(geom), float(centre[2]) - _reach_down(model, geom, turn)))
    return points


def _reach_down(model: mujoco.MjModel, geom: int, turn: np.ndarray) -> float:
    """How far a geom reaches below the middle of its box, m."""
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return float(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return float(size[0] + abs(turn[2, 2]) * size[1])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return float(size[0] * np.sqrt(max(0.0, 1 - turn[2, 2] ** 2)) + abs(turn[2, 2]) * size[1])
    return float(np.abs(turn[2]) @ model.geom_aabb[geom, 3:])


def attempt(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> Trial:
    """Let the motors hold a pose for a while."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    for actuator in range(model.nu):
        if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
            joint = model.joint(int(model.actuator_trnid[actuator, 0]))
            if joint.name in robot.driven and not robot.by_velocity(model, joint.name):
                data.ctrl[actuator] = qpos[joint.qposadr[0]]
    mujoco.mj_forward(model, data)
    base = model.body(robot.base).id
    speed = slice(model.body_dofadr[base], model.body_dofadr[base] + 3)
    up = data.xmat[base].reshape(3, 3).copy()[2]
    before = float(data.subtree_com[base, 2])
    strength = np.where(model.actuator_forcelimited, np.abs(model.actuator_forcerange).max(1), np.inf)
    steps = int(SETTLE_S / model.opt.timestep)
    fastest = 0.0
    for step in range(steps):
        mujoco.mj_step(model, data)
        if data.warning.number.any() or (upright := float(data.xmat[base].reshape(3, 3)[2] @ up)) < 0.5:
            return Trial(-1.0, 10.0, 1.0, 0.0, 0.0)
        if step >= 3 * steps // 4:
            fastest = max(fastest, float(np.linalg.norm(data.qvel[speed])))
    used = float(((data.actuator_force / strength) ** 2).mean()) if model.nu else 0.0
    height = float(data.site_xpos[model.site(robot.middle).id, 2])
    return Trial(upright, fastest, used, height, float(data.subtree_com[base, 2]) / before)
