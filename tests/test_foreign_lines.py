"""Lines that a foreign task draws are in window, page and video: those of the environment and the state shown."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.play.control_requests import Record
from livegym.play.controls import Controls
from livegym.play.world import build_world
from livegym.schema.settled import settled
from livegym.sim.lines import MOST, NO_LINES, Lines
from livegym.sim.model import compiled
from livegym.utils import gl
from livegym.utils.errors import UserError
from livegym.viewers import lines as drawn_lines
from livegym.viewers.browser.frames import LatestFrame
from livegym.viewers.browser.lines import ClientLines
from livegym.viewers.browser.protocol import ViewSettings
from livegym.viewers.browser.scene_server import SceneServer
from livegym.viewers.framing import bounds_of, grid_offsets
from livegym.viewers.look import drawn_xml
from livegym.viewers.native import _state_of
from livegym.viewers.neighbours import NeighbourEnvs
from livegym.viewers.offscreen import Painter
from livegym.viewers.record import Reel
from livegym.viewers.view import View
from tests.isaac_toys import WALKERS, made, needs_isaacgym, project, toys  # noqa: F401
from tests.page_fixtures import SceneLine
from tests.patience import until

pytestmark = [needs_isaacgym, pytest.mark.usefixtures("toys")]

VISIBLE = "task.params.env.enableDebugVis=true"
GREEN, AXES = [0.0, 1.0, 0.0], np.eye(3).tolist()
N = 3


def watched():
    """Swinging arms after a step, while somebody draws them."""
    env = made(VISIBLE, num_envs=N, shown=True)
    env.reset()
    env.sim.show_lines("somebody", True)
    env.step(torch.rand(N, 1))
    return env


def tips(env) -> np.ndarray:
    """(N, 3) m: where the lines along the arms must end now."""
    angle = env.sim.qpos[:, 0].numpy()
    return np.stack([np.sin(angle), np.zeros(N), 1.0 + np.cos(angle)], axis=1)


def test_lines_belong_to_the_present_state_of_their_environment():
    env = watched()
    for _ in range(3):
        env.step(torch.rand(N, 1))
        lines = env.sim.lines
        assert len(lines) == 4 * N
        assert lines.envs.tolist() == sorted(list(range(N)) * 4)
        green = lines.where((lines.colours == GREEN).all(1) & (np.arange(4 * N) % 4 == 0))
        assert green.ends[:, 0].tolist() == [[0, 0, 1]] * N
        assert green.ends[:, 1] == pytest.approx(tips(env), abs=1e-5)
    env.sim.restore(env.sim.snapshot(torch.arange(N)))
    assert len(env.sim.lines) == 0  # of another state


def test_lines_are_chosen_and_numbered_by_environment():
    ends = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    lines = Lines(np.array([0, 1, 1, 2]), ends, np.zeros((4, 3), np.float32))
    some = lines.of([2, 1])
    assert some.envs.tolist() == [0, 1, 1]
    assert some.ends.tolist() == ends[[3, 1, 2]].tolist()
    assert lines.of([5]).envs.tolist() == []
    assert NO_LINES.of(range(9)) is NO_LINES
    many = Lines(np.repeat([0, 1], MOST), np.zeros((2 * MOST, 2, 3)), np.zeros((2 * MOST, 3)))
    assert many.of([1, 0]).envs.tolist() == [0] * MOST  # the first environment's are whole


def test_nobody_pays_for_lines_that_nobody_draws():
    trained = made(VISIBLE, num_envs=N)
    assert trained._loaded.env.viewer is None
    trained.step(trained.zero_action())
    unseen = made(VISIBLE, num_envs=N, shown=True)
    unseen._loaded.env.draw = None  # would fail if it was called
    unseen.step(unseen.zero_action())
    assert (len(trained.sim.lines), len(unseen.sim.lines)) == (0, 0)


@pytest.mark.parametrize("keys", ["viewer=true", "watch=true", "videoRecord=true", ""])
def test_a_test_with_a_viewer_has_a_viewer_for_its_task(keys):
    given = ["config=test", "task=toys:Swing", "agent=zero", "numEnvs=2", *keys.split()]
    world = build_world(settled(to_typed(compose(given))), None)
    assert (world.env._loaded.env.viewer is not None) == bool(keys)
    world.close()


def test_a_restart_outside_of_the_tasks_step_removes_old_lines():
    """Those of the other environments stay, and so do global lines' environments: each is at its own trunk."""
    with project(WALKERS):
        env = made(task="walkers:hound", num_envs=N, shown=True)
        first = env.reset()
        env.sim.show_lines("somebody", True)
        env.step(env.zero_action())
        assert env.sim.lines.ends[:, 1] == pytest.approx(env.sim.qpos[:, :3].numpy(), abs=1e-5)
        env.restart(torch.tensor([1]), first)
        assert env.sim.lines.envs.tolist() == [0, 2]


def test_the_window_draws_them_where_each_environment_stands():
    env = watched()
    model = compiled(drawn_xml(env))
    others = NeighbourEnvs(model, grid_offsets(N, bounds_of(model).spacing))
    scene = mujoco.MjvScene(model, 1000)
    state = _state_of(env.sim, View(env_id=1))
    others.draw(scene, mujoco.MjvOption(), state.env_ids, state.qpos)
    before = scene.ngeom
    drawn_lines.add_to(scene, state.lines, others.around(state.env_ids))
    geoms = scene.geoms[before : scene.ngeom]
    assert {geom.type for geom in geoms} == {mujoco.mjtGeom.mjGEOM_LINE}
    assert [geom.rgba.tolist() for geom in geoms[:4]] == [[*colour, 1] for colour in [GREEN, *AXES]]
    for place, env_id in enumerate([1, 0, 2]):
        line = geoms[4 * place]
        along = line.mat[:, 2] * line.size[2]  # MuJoCo's line goes from its position along z
        shift = others.place(env_id) - others.place(1)
        assert line.pos == pytest.approx(shift + np.array([0, 0, 1]), abs=1e-5)
        assert line.pos + along == pytest.approx(shift + tips(env)[env_id], abs=1e-5)
    alone = _state_of(env.sim, View(env_id=2, show_all=False))
    assert alone.lines.envs.tolist() == [0] * 4
    small = mujoco.MjvScene(model, 5)
    drawn_lines.add_to(small, state.lines, others.around(state.env_ids))
    assert small.ngeom == 5  # as many as there is room for


def green(picture: np.ndarray) -> int:
    """Pixels of the line's colour."""
    red, lime, blue = np.moveaxis(picture.astype(int), -1, 0)
    return int(((lime > 150) & (red < 90) & (blue < 90)).sum())


@pytest.fixture
def painted():
    """The toy, and what draws its pictures."""
    try:
        gl.choose_backend()
    except UserError as error:
        pytest.skip(f"NO PICTURE IS TESTED ON THIS MACHINE: {error}")
    env = watched()
    with Painter(drawn_xml(env), 120, 320) as painter:
        yield env, painter


def test_a_picture_shows_the_lines_of_its_tile(painted):
    env, painter = painted
    qpos = env.sim.qpos[:2].numpy()
    lines = env.sim.lines
    assert green(painter.draw(qpos)) == 0
    both = painter.draw(qpos, lines=lines.of([0, 1]))
    right = painter.draw(qpos, lines=lines.where(lines.envs == 1).of([0, 1]))
    assert green(both[:, :160]) > 10
    assert green(both[:, 160:]) > 10
    assert (green(right[:, :160]), green(right[:, 160:])) == (0, green(both[:, 160:]))


class Kept:
    """Takes the place of the video thread, and keeps what it is given."""

    error = None

    def __init__(self, *arguments, **named) -> None:
        self.pictures: list[tuple[np.ndarray, Lines]] = []

    def begin(self, path) -> None:
        """Do nothing."""

    def add(self, qpos, lines) -> None:
        """Keep a picture."""
        self.pictures.append((np.array(qpos), lines))

    def end(self) -> None:
        """Do nothing."""


def test_a_recording_has_lines_from_its_first_picture_to_its_last(tmp_path, monkeypatch):
    """Of the recorded environment and of the recorded state; after it, the task draws no more."""
    monkeypatch.setattr("livegym.viewers.record.VideoWriter", Kept)
    env = made(VISIBLE, num_envs=N, shown=True)
    env.reset()
    keys = dataclasses.replace(
        to_typed(compose(["config=test_record", "task=toys:Swing", "videoEnv=1"])), videoSeconds=9
    )
    controls = Controls(None, True, no_recording="")
    reel = Reel(keys, controls, False, iter(range(9)), env, tmp_path)
    player = SimpleNamespace(env=env, actor=SimpleNamespace(label=0))
    for _ in range(3):
        reel.on_step(env.step(torch.rand(N, 1)), player)
    pictures = reel._writer.pictures
    assert len(pictures) == 3
    for qpos, lines in pictures:
        angle = float(qpos[0, 0])
        assert lines.envs.tolist() == [0] * 4
        assert lines.ends[0, 1] == pytest.approx([math.sin(angle), 0, 1 + math.cos(angle)], abs=1e-5)
    controls.ask(Record(False))
    controls.obey(SimpleNamespace(env=env))
    reel.on_step(env.step(env.zero_action()), player)
    env.step(env.zero_action())
    assert len(env.sim.lines) == 0


def test_the_page_asks_for_lines_while_somebody_looks():
    env = made(VISIBLE, num_envs=N, shown=True)
    slot = LatestFrame(fps=1e6, shown=2)
    for wanted in (False, True, False):
        slot.want("page", wanted)
        slot.offer(SimpleNamespace(env=env), True)
        env.step(env.zero_action())
        assert len(env.sim.lines) == (4 * N if wanted else 0)
        slot.offer(SimpleNamespace(env=env), True)
    assert slot.frame.lines.envs.tolist() == [0] * 4 + [1] * 4  # of the environments that the page shows


def of_lines(line: SceneLine, kind: str) -> dict:
    """The next message of a kind about a client's lines."""
    found: list[dict] = []

    def come() -> list[dict]:
        return [message for message in found if (message.get("name"), message["type"]) == ("/world/lines", kind)]

    until(come, pause=lambda: found.extend(line.messages(0.05)))
    return come()[-1]


def test_a_client_of_the_page_gets_the_lines_of_its_view():
    env = watched()
    server = SceneServer(fps=60)
    server.begin(SimpleNamespace(env=env))
    server.apply("one", ViewSettings(View(env_id=2, show_all=False), True))
    player = SimpleNamespace(env=env)
    try:
        with SceneLine(server, page="one") as one, SceneLine(server) as other:
            until(lambda: len(server.client_cameras) == 2)
            server.slot.offer(player, True)
            for line in (one, other):
                of_lines(line, "LineSegmentsMessage")
            nodes = {view.page: view._lines._node for view in server.client_cameras.values()}
            expected = server._scene.offsets[2] + [[0, 0, 1], tips(env)[2]]
            assert (len(nodes["one"].points), len(nodes[""].points)) == (5, 5 * N)  # with room for a quarter more
            assert nodes["one"].points[4].tolist() == nodes["one"].points[3].tolist()
            assert nodes["one"].points[0] == pytest.approx(expected, abs=1e-5)
            assert nodes[""].points[8] == pytest.approx(expected, abs=1e-5)
            assert nodes["one"].colors[:2].tolist() == [[[0, 255, 0]] * 2, [[255, 0, 0]] * 2]
            env.step(torch.rand(N, 1))
            server.slot.offer(player, True)
            assert of_lines(one, "SceneNodeUpdateMessage")["updates"].keys() == {"points"}
            env._loaded.env.gym.clear_lines(env._loaded.env.viewer)
            server.slot.offer(player, True)
            of_lines(one, "RemoveSceneNodeMessage")
    finally:
        server.close()


@pytest.fixture
def drawn_lines_of_a_client():
    """The client of a page that shows no world, and the lines that it is sent."""
    server = SceneServer(fps=60)
    try:
        with SceneLine(server) as line:
            until(server.server.get_clients)
            (client,) = server.server.get_clients().values()
            yield line, ClientLines(client)
    finally:
        server.close()


def along(count: int, x: float) -> Lines:
    """Green lines of environment 0 from x on, each 1 m long and 1 m above the other."""
    ends = np.zeros((count, 2, 3), np.float32)
    ends[:, :, 0], ends[:, :, 2] = [x, x + 1.0], np.arange(count)[:, None]
    return Lines(np.zeros(count, int), ends, np.tile(np.array(GREEN, np.float32), (count, 1)))


def test_many_moving_lines_are_sent_as_often_as_their_bytes_allow(drawn_lines_of_a_client):
    """10,000 take 300,000 bytes with their colours, which are 15 times 0.02 s at 1 MB/s, and then 240,000: 12 times."""
    line, drawn = drawn_lines_of_a_client
    sent = {}
    for call in range(40):
        drawn.show(along(MOST, float(call)), [0], np.zeros((1, 3)), 0.02)
        if not drawn.waiting:
            message = of_lines(line, "SceneNodeUpdateMessage" if sent else "LineSegmentsMessage")
            sent[call] = sorted({"points", "colors"} & (message["updates"] if sent else message["props"]).keys())
            assert (drawn._node.points.nbytes, drawn._node.colors.nbytes) == (240_000, 60_000)
            assert drawn._node.points[0, 0, 0] == call  # the newest
    assert sent == {0: ["colors", "points"], 15: ["points"], 27: ["points"], 39: ["points"]}


def kinds_of(line: SceneLine) -> list[str]:
    """What a client has been sent of lines: new nodes and changes."""
    drawn = ("LineSegmentsMessage", "SceneNodeUpdateMessage")
    return [m["type"] for m in line.messages() if m.get("name") == "/world/lines" and m["type"] in drawn]


def test_lines_that_do_not_move_are_sent_once(drawn_lines_of_a_client):
    line, drawn = drawn_lines_of_a_client
    for _ in range(3):
        drawn.show(along(100, 0.0), [0], np.zeros((1, 3)), 1.0)
    assert sorted(kinds_of(line)) == ["LineSegmentsMessage"]


def test_another_number_of_lines_needs_no_new_node_while_there_is_room(drawn_lines_of_a_client):
    """A node for 100 has room for 125; one for 40 has less than half of that."""
    line, drawn = drawn_lines_of_a_client
    kinds = []
    for count in (100, 125, 60, 126, 40):
        drawn.show(along(count, float(count)), [0], np.zeros((1, 3)), 1.0)
        kinds += kinds_of(line)
    assert kinds == [
        "LineSegmentsMessage", "SceneNodeUpdateMessage", "SceneNodeUpdateMessage", "LineSegmentsMessage",
        "LineSegmentsMessage",
    ]  # fmt: skip
