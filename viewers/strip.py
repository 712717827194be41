"""A strip of pictures of one episode that ends in success, rendered off-screen.

    python -m livegym.viewers.strip docs/policies/BlindGrasping.pth docs/images/grasp.png

Plays the full task (without curriculum and randomisation) in a few environments with the policy's deterministic actions
until an episode succeeds, and draws that episode at evenly spaced moments.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
from pathlib import Path

import numpy as np
from matplotlib.image import imsave

from livegym.cfg.compose import compose
from livegym.cfg.saved import with_run_config
from livegym.cfg.typed import to_typed
from livegym.play.world import World, build_world
from livegym.rundir.select import read_selected
from livegym.schema.settled import settled
from livegym.utils.errors import UserError
from livegym.viewers.framing import bounds_over, elevation_for, frame
from livegym.viewers.look import drawn_xml
from livegym.viewers.offscreen import Painter, camera_at
from livegym.weights.sources import candidate_of

ENVS = 8
TRIES = 5000  # control steps in which an episode has to succeed
AZIMUTH = 55.0  # degrees, of the camera
SIZE = (420, 300)  # pixels of one picture: height, width


def world_of(checkpoint: str, runs_dir: Path, seed: int) -> World:
    """A few environments of the checkpoint's full task, and its policy. Raises UserError if it cannot be used."""
    session = settled(to_typed(compose(["config=test", f"numEnvs={ENVS}", f"seed={seed}"])))
    selection, state = read_selected(checkpoint, runs_dir, None)
    first = candidate_of(selection.file, state, 0.0)
    config = with_run_config(session, first.config, None, [])
    task = dataclasses.replace(config.task, curriculum=None, randomize=False)
    return build_world(dataclasses.replace(config, task=task), first)


def successful_episode(world: World) -> np.ndarray:
    """(steps, nq) positions of the first episode that succeeds. Raises UserError if none does."""
    env, actor = world.env, world.actor
    if env.success_reason is None:
        raise UserError(f"{env.config.name} does not define success, so there is no successful episode to draw.")
    obs = env.reset()["policy"]
    paths: list[list[np.ndarray]] = [[] for _ in range(env.num_envs)]
    for _ in range(TRIES):
        for path, qpos in zip(paths, env.sim.qpos.double().numpy(), strict=True):
            path.append(qpos.copy())
        step = env.step(actor.act(obs))
        obs = step.obs["policy"]
        if step.ended is None:
            continue
        actor.forget(step.ended.env_ids)
        for index, reason in zip(step.ended.env_ids.tolist(), step.ended.reasons.tolist(), strict=True):
            if env.reason_names[reason] == env.success_reason:
                return np.array(paths[index])
            paths[index].clear()
    raise UserError(f"no episode succeeded in {TRIES} control steps of {ENVS} environments. Try another checkpoint.")


def draw(world: World, path: np.ndarray, pictures: int, azimuth: float) -> np.ndarray:
    """(height, pictures x width, 3) uint8: evenly spaced moments of a path (steps, nq), first and last included.

    All are seen from the same distance, height and direction, but each camera stands where the robot is in the middle.
    """
    rows = path[np.linspace(0, len(path) - 1, pictures).round().astype(int)]
    with Painter(drawn_xml(world.env), *SIZE) as painter:
        moments = [bounds_over(painter.model, row[None]) for row in rows]
        middles = [(points.min(0) + points.max(0)) / 2 * [1, 1, 0] for points in moments]  # on the ground
        points = np.concatenate([points - middle for points, middle in zip(moments, middles, strict=True)])
        where = frame(points, azimuth, elevation_for(points), SIZE[1] / SIZE[0])
        cameras = [camera_at(dataclasses.replace(where, lookat=where.lookat + middle)) for middle in middles]
        return np.concatenate([painter.draw(row, camera) for row, camera in zip(rows, cameras, strict=True)], axis=1)


def write(
    checkpoint: str,
    out: Path,
    pictures: int = 6,
    seed: int = 0,
    runs_dir: Path = Path("runs"),
    azimuth: float = AZIMUTH,
) -> int:
    """Writes a strip to `out`, a .png; returns the control steps of its episode. Raises UserError if none succeeds."""
    with contextlib.closing(world_of(checkpoint, runs_dir, seed)) as world:
        path = successful_episode(world)
        imsave(out, draw(world, path, pictures, azimuth))
    return len(path)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m livegym.viewers.strip",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", help="as in train.py's checkpoint=")
    parser.add_argument("out", type=Path, help="a .png")
    parser.add_argument("--pictures", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--from-angle", type=float, default=AZIMUTH, help="azimuth of the camera in degrees")
    given = parser.parse_args()
    if given.pictures < 1:
        parser.error(f"--pictures {given.pictures}: at least 1")
    if not math.isfinite(given.from_angle):
        parser.error(f"--from-angle {given.from_angle}: a number of degrees")
    if given.out.suffix != ".png" or not given.out.absolute().parent.is_dir():
        parser.error(f"{given.out}: must be a .png in an existing directory")
    try:
        steps = write(given.checkpoint, given.out, given.pictures, given.seed, given.runs_dir, given.from_angle)
    except UserError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"wrote {given.out}: {given.pictures} moments of an episode of {steps} control steps")


if __name__ == "__main__":
    main()
