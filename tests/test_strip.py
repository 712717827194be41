"""The kept policy grasps, and its pictures show it."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from utils.errors import UserError
from viewers.strip import SIZE, draw, successful_episode, world_of

KEPT = Path(__file__).parent.parent / "docs" / "policies" / "BlindGrasping.pth"


@pytest.fixture(scope="module")
def world():
    made = world_of(str(KEPT), Path("runs"), seed=0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def path(world):
    return successful_episode(world)


def test_an_episode_of_the_kept_policy_ends_with_the_box_held_up(world, path):
    box = path[:, world.env.task.box.q[:3]]
    assert box[0, 2] == pytest.approx(0.025, abs=1e-3)
    assert (box[-99:, 2] > 0.2).all()  # the last 2 s
    assert len(path) <= 500


def test_the_pictures_show_it(world, path):
    camera = mujoco.MjvCamera()
    camera.lookat[:], camera.distance = (0.0, 0.0, 0.2), 1.0
    try:
        strip = draw(world, path, 3, camera)
    except (RuntimeError, mujoco.FatalError) as error:  # no GL library on this machine
        pytest.skip(f"no off-screen rendering here: {error}")
    assert strip.shape == (SIZE[0], 3 * SIZE[1], 3)
    red = (strip[..., 0].astype(int) - strip[..., 2] > 60).reshape(SIZE[0], 3, SIZE[1])
    rows = [np.nonzero(red[:, k])[0].mean() for k in range(3)]
    assert rows[2] < rows[0] - 20  # the red box is higher in the last picture, by pixels


def test_a_policy_that_does_not_succeed_is_refused(world, monkeypatch):
    monkeypatch.setattr("viewers.strip.TRIES", 3)
    with pytest.raises(UserError, match="no episode succeeded in 3 control steps"):
        successful_episode(world)
