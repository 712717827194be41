"""Lines of task code: geometries, whose they are, how many are kept, and what is refused."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livegym.compat.core import lines
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

sys.path.append(str(Path(__file__).parent.parent / "compat"))
from isaacgym import gymapi, gymutil

gym = gymapi.acquire_gym()
UP = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
RED = [1.0, 0.0, 0.0]


def watched(num_envs: int = 3, somebody: bool = True):
    """A simulation, its viewer and its environments, 4 m apart in rows of two."""
    with lines.expected(somebody):
        sim = gym.create_sim(0, 0, gymapi.SIM_PHYSX, scenes.params())
    box = gym.create_box(sim, 0.1, 0.1, 0.1)
    envs = [gym.create_env(sim, gymapi.Vec3(-2, -2, 0), gymapi.Vec3(2, 2, 2), 2) for _ in range(num_envs)]
    for index, env in enumerate(envs):
        gym.create_actor(env, box, gymapi.Transform(), "box", index, 0)
    gym.prepare_sim(sim)
    return sim, gym.create_viewer(sim, gymapi.CameraProperties()), envs


def looked_at(num_envs: int = 3):
    """The same after a step, while somebody looks."""
    sim, viewer, envs = watched(num_envs)
    sim.lines.show("somebody", True)
    gym.simulate(sim)
    return sim, viewer, envs


def present(sim) -> list[tuple[int, list[float], list[float]]]:
    """Environment, numbers of both ends, and colour of each line."""
    envs, ends, colours = sim.lines.present
    return [
        (int(env), np.round(end.ravel(), 5).tolist(), np.round(colour, 5).tolist())
        for env, end, colour in zip(envs, ends, colours, strict=True)
    ]


def numbers(vectors: np.ndarray) -> np.ndarray:
    return np.array(vectors.tolist())


def test_wire_frames_are_where_they_should_be():
    """By hand: axes of a pose; edges as long as the box's sides; all of a sphere on it."""
    turned = gymapi.Transform(gymapi.Vec3(0, 0, 1), gymapi.Quat.from_euler_zyx(0, 0, math.pi / 2))
    axes = gymutil.AxesGeometry(0.5)
    ends = numbers(axes.instance_verts(turned))
    assert ends[:, 0].tolist() == [[0, 0, 1]] * 3
    assert ends[:, 1] == pytest.approx(np.array([[0, 0.5, 1], [-0.5, 0, 1], [0, 0, 1.5]]), abs=1e-6)
    assert numbers(axes.colors()).tolist() == np.eye(3).tolist()

    box = gymutil.WireframeBoxGeometry(1.0, 2.0, 3.0, gymapi.Transform(gymapi.Vec3(5, 0, 0)), (0, 0, 1))
    ends = numbers(box.vertices())
    assert sorted(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).tolist()) == [1.0] * 4 + [2.0] * 4 + [3.0] * 4
    assert ends.reshape(-1, 3).min(0).tolist() == [4.5, -1.0, -1.5]
    assert numbers(box.colors()).tolist() == [[0, 0, 1]] * 12
    same = gymutil.WireframeBBoxGeometry([gymapi.Vec3(4.5, -1, -1.5), gymapi.Vec3(5.5, 1, 1.5)])
    assert numbers(same.vertices()) == pytest.approx(ends)
    assert numbers(same.colors()).tolist() == [RED] * 12

    ball = gymutil.WireframeSphereGeometry(0.5, 4, 6, color=(1, 1, 0), color2=(0, 1, 1))
    assert ball.num_lines() == len(ball.colors()) == 2 * 4 * 6
    ends = numbers(ball.instance_verts(gymapi.Transform(gymapi.Vec3(1, 2, 3), r=None)))
    assert np.linalg.norm(ends - [1, 2, 3], axis=-1) == pytest.approx(np.full((48, 2), 0.5), abs=1e-6)
    assert np.unique(numbers(ball.colors()), axis=0).tolist() == [[0, 1, 1], [1, 1, 0]]


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4), st.lists(st.floats(-9, 9), min_size=3, max_size=3))
def test_a_geometry_is_moved_as_points_are(turn, place):
    pose = gymapi.Transform(gymapi.Vec3(*place), gymapi.Quat(*turn))
    box = gymutil.WireframeBoxGeometry(1, 2, 3)
    moved = numbers(pose.transform_points(box.vertices()))
    assert numbers(box.instance_verts(pose)) == pytest.approx(moved, abs=1e-4)


def test_a_geometry_of_the_tasks_own_is_drawn():
    class Cross(gymutil.LineGeometry):
        def vertices(self):
            ends = np.zeros((2, 2), gymapi.Vec3.dtype)
            ends["x"], ends["y"] = [[-1, 1], [0, 0]], [[0, 0], [-1, 1]]
            return ends

        def colors(self):
            return np.array([(1, 0, 0), (0, 1, 0)], gymapi.Vec3.dtype)

    sim, viewer, envs = looked_at()
    gymutil.draw_lines(Cross(), gym, viewer, envs[1], gymapi.Transform(gymapi.Vec3(0, 0, 2)))
    gymutil.draw_line(gymapi.Vec3(1, 2, 3), gymapi.Vec3(4, 5, 6), gymapi.Vec3(0, 0, 1), gym, viewer, envs[2])
    assert present(sim) == [
        (1, [-1, 0, 2, 1, 0, 2], [1, 0, 0]),
        (1, [0, -1, 2, 0, 1, 2], [0, 1, 0]),
        (2, [1, 2, 3, 4, 5, 6], [0, 0, 1]),
    ]
    with pytest.raises(NotImplementedError, match=r"LineGeometry needs a method vertices\(\)"):
        gymutil.LineGeometry().num_lines()


def test_a_viewer_is_true_only_while_somebody_looks():
    sim, nobody, _ = watched(somebody=False)
    assert nobody is None
    gym.add_lines(nobody, None, 1, UP, RED)
    gym.clear_lines(nobody)
    with pytest.raises(UserError, match="there is no viewer"):
        gym.get_viewer_camera_transform(nobody, None)

    sim, viewer, _ = watched()
    assert viewer is not None
    assert not viewer
    sim.lines.show("window", True)
    sim.lines.show("page", True)
    sim.lines.show("window", False)
    assert viewer
    sim.lines.show("page", False)
    assert not viewer


def test_nothing_is_kept_while_nobody_looks_but_what_the_set_up_drew():
    sim, viewer, envs = watched()
    gym.add_lines(viewer, envs[0], 1, UP, [0, 0, 1])  # once, right after create_viewer
    gym.simulate(sim)
    gym.add_lines(viewer, envs[0], 1, "not even read", RED)
    sim.lines.show("page", True)
    gym.add_lines(viewer, envs[0], 2, UP + UP, RED + RED)
    assert [colour for _, _, colour in present(sim)] == [[0, 0, 1], RED, RED]
    sim.lines.show("page", False)  # those lines belong to a state that passes
    sim.lines.show("page", True)
    assert [colour for _, _, colour in present(sim)] == [[0, 0, 1]]
    gym.clear_lines(viewer)
    assert present(sim) == []


def test_lines_without_an_environment_are_global():
    """Two lines for each of three environments are theirs in order, even far from their origins; others go by place."""
    sim, viewer, envs = looked_at()
    origins = [gym.get_env_origin(env) for env in envs]
    assert [(origin.x, origin.y) for origin in origins] == [(0, 0), (4, 0), (0, 4)]
    far = [[o.x + 50 + i, o.y, 0.0, o.x, o.y, 1.0] for o in origins for i in range(2)]
    gym.add_lines(viewer, None, 6, far, np.tile(RED, (6, 1)))
    assert [(env, ends) for env, ends, _ in present(sim)] == [
        (env, [50 + i, 0, 0, 0, 0, 1]) for env in range(3) for i in range(2)
    ]
    gym.clear_lines(viewer)
    gym.add_lines(viewer, None, 2, [[3.5, 0, 0, 4.5, 0, 0], [0, 4, 0, 0, 5, 0]], [RED, RED])
    assert [(env, ends) for env, ends, _ in present(sim)] == [(1, [-0.5, 0, 0, 0.5, 0, 0]), (2, [0, 0, 0, 0, 1, 0])]


def test_a_task_that_never_clears_keeps_the_newest_and_is_told_once(caplog, monkeypatch):
    monkeypatch.setattr(lines, "MOST", 50)
    sim, viewer, envs = watched()
    sim.lines.show("window", True)
    gym.add_lines(viewer, envs[1], 1, UP, RED)  # of the set-up
    for step in range(40):
        gym.simulate(sim)
        gym.add_lines(viewer, envs[1], 3, [[step, 0, 0, 0, 0, i] for i in range(3)], [RED] * 3)
    kept = [ends[0] * 3 + ends[5] for _, ends, _ in present(sim)]
    assert kept == list(range(70, 120))
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("add_lines: environment 1 has more than 50 lines")
    assert "Call clear_lines" in said
    sim.lines.show("window", False)
    assert present(sim) == []


def test_many_environments_have_a_bound_together():
    sim, viewer, envs = watched(num_envs=2)
    sim._groups, sim.envs = [], envs * 5000
    sim.lines.show("window", True)
    gym.add_lines(viewer, envs[0], 300, np.zeros((300, 6)), np.zeros((300, 3)))
    assert len(present(sim)) == lines.FEWEST


@pytest.mark.parametrize(
    ("count", "vertices", "colors", "message"),
    [
        (2, UP, RED + RED, r"vertices of shape \(6,\) for 2 lines\. Allowed: two points x, y, z for each line, of"),
        (2, np.zeros((6, 2)), RED + RED, r"vertices of shape \(6, 2\) for 2 lines\. .* \(2, 6\) or \(4, 3\) or flat"),
        (1, [[0.0, 0, 0], [1.0]], RED, "vertices are no array of numbers"),
        (1, ["up"] * 6, RED, "vertices are no array of numbers"),
        (
            2,
            UP + UP,
            RED,
            r"colors of shape \(3,\) for 2 lines\. Allowed: red, green, blue .* of shape \(2, 3\) or flat",
        ),
        (-1, UP, RED, "add_lines: -1 lines"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(count, vertices, colors, message):
    sim, viewer, envs = looked_at()
    with pytest.raises(UserError, match=message):
        gym.add_lines(viewer, envs[0], count, vertices, colors)
    assert present(sim) == []


def test_arrays_may_be_longer_than_needed_and_of_vectors():
    sim, viewer, envs = looked_at()
    ends = np.array([[(0, 0, 0), (1, 2, 3)], [(9, 9, 9), (9, 9, 9)]], gymapi.Vec3.dtype)
    gym.add_lines(viewer, envs[0], 1, ends, np.array([(0.5, 7, -1), (1, 1, 1)], gymapi.Vec3.dtype))
    gym.add_lines(viewer, envs[0], 0, [], [])
    assert present(sim) == [(0, [0, 0, 0, 1, 2, 3], [0.5, 1, 0])]


@pytest.mark.parametrize("env", [0, None])
def test_lines_that_are_not_finite_are_left_out_and_told_once(env, caplog):
    """A state that diverged must not end a test because its axes are drawn."""
    sim, viewer, envs = looked_at()
    for _ in range(2):
        ends = [UP, [math.nan, 0, 0, 0, 0, 1], [0, 0, 0, 0, math.inf, 1]]
        gym.add_lines(viewer, env if env is None else envs[env], 3, ends, [RED] * 3)
    assert [(env, ends) for env, ends, _ in present(sim)] == [(0, UP)] * 2
    assert len(caplog.records) == 1
    assert "lines that are not finite are not drawn" in caplog.text


def test_where_the_task_put_its_camera_is_known():
    _, viewer, envs = watched()
    gym.viewer_camera_look_at(viewer, envs[1], gymapi.Vec3(-3, 0, 1), gymapi.Vec3(0, 0, 1))
    pose = gym.get_viewer_camera_transform(viewer, None)
    assert tuple(pose.p) == (1.0, 0.0, 1.0)
    assert tuple(pose.r) == pytest.approx((0, 0, 0, 1))
    assert tuple(gym.get_viewer_camera_transform(viewer, envs[1]).p) == (-3.0, 0.0, 1.0)
    gym.viewer_camera_look_at(viewer, None, gymapi.Vec3(), gymapi.Vec3())  # no direction: it stays
    assert tuple(gym.get_viewer_camera_transform(viewer, None).p) == (1.0, 0.0, 1.0)
