"""The window on a real X server, with real keys and a real mouse."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import glfw
import mujoco
import mujoco.viewer
import numpy as np
import pytest

from livegym.cfg.session import Session
from livegym.play import control_requests as ask_for
from livegym.play.audience import Audience, Viewer
from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.play.play import Listener
from livegym.play.testing import run_test
from livegym.play.world import build_world
from livegym.rundir.provenance import Provenance
from livegym.utils.signals import StopFlag
from livegym.viewers import window_guard
from livegym.viewers.native import Window
from tests.patience import PATIENCE_S, until
from tests.screen import WINDOW, Screen

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "docs" / "policies" / "BlindGrasping.pth"
SCENE = (slice(180, 420), slice(230, 620))  # rows and columns of a screenshot without words in them
on_x = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, ("Xvfb", "xdotool", "import"))), reason="needs Xvfb, xdotool and ImageMagick"
    ),
]


@pytest.fixture(scope="module")
def screen():
    """One for all tests: GLFW stays connected to its first display."""
    made = Screen()
    yield made
    glfw.terminate()  # Xlib ends a process whose server is gone
    made.close()


def settled(screen: Screen) -> np.ndarray:
    """The scene once it stands still: frames may be under way for long. One that moves differs in each picture."""
    pictures = deque([screen.picture()[SCENE]], maxlen=4)

    def still() -> bool:
        pictures.append(screen.picture()[SCENE])
        return len(pictures) == 4 and all((picture == pictures[0]).all() for picture in pictures)

    until(still, lambda: "the scene goes on moving")
    return pictures[0]


class Counter(Viewer, Listener):
    """Counts control steps."""

    steps = 0

    def begin(self, world, run) -> Listener:
        return self

    def on_step(self, step, player) -> None:
        self.steps += 1


class Watched:
    """A test with a window, in a thread; what the window asked for is in `asked`."""

    def __init__(self, config, runs: Path, *overrides: str) -> None:
        self.config = config("config=test_viewer", "testGamesNum=0", f"runsDir={runs}", *overrides)
        self.controls = Controls()
        self.stop = StopFlag()
        self.asked: list[ask_for.Request] = []
        self.status: int | None = None
        self._ask = self.controls.ask
        self.controls.ask = self._note  # type: ignore[method-assign]
        board = Board()
        self.window = Window(self.controls, board)
        self.counter = Counter()
        self.audience = Audience([self.window, self.counter], self.controls, board)
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _note(self, request: ask_for.Request, who: str = "") -> bool:
        self.asked.append(request)
        return self._ask(request, who)

    def _play(self) -> None:
        session = Session(self.config, Provenance("", "", [], []))
        self.status = run_test(session, self.stop, self.audience)

    @property
    def state(self) -> dict:
        return self.audience.board.state

    @property
    def view(self):
        return self.window._show._window_state.view

    def shown(self) -> bool:
        return self.window._show is not None and self.window._show._handle is not None

    def until(self, holds) -> None:
        until(holds, lambda: f"{self.state} {self.asked}")

    def end(self) -> None:
        self.stop.requested = True
        self.thread.join(PATIENCE_S)


@pytest.fixture
def watch(screen, config, tmp_path, monkeypatch):
    monkeypatch.setenv("DISPLAY", screen.name)
    begun: list[Watched] = []

    def begin(*overrides: str) -> Watched:
        watched = Watched(config, tmp_path, *overrides)
        begun.append(watched)
        watched.until(watched.shown)
        watched.until(lambda: screen.picture()[SCENE].std() > 1)
        return watched

    yield begin
    for watched in begun:
        watched.end()


def play(runs: str) -> None:
    """A program that plays on for a while after it has said that its window is shown, and ends."""
    from livegym.cfg.compose import compose
    from livegym.cfg.typed import to_typed

    watched = Watched(lambda *overrides: to_typed(compose(list(overrides))), Path(runs), *CARTS)
    watched.until(watched.shown)
    time.sleep(1.0)
    print("shown", flush=True)
    time.sleep(2.0)
    steps = watched.counter.steps
    watched.until(lambda: watched.counter.steps > steps + 60)
    print("went on", flush=True)
    watched.end()
    sys.exit(watched.status)


CARTS = ("task=Cartpole", "agent=random", "numEnvs=3")


class TestOnX:
    pytestmark = on_x

    def test_the_picture_moves_and_stands_still_while_paused(self, watch, screen):
        watched = watch(*CARTS)
        first = screen.picture()[SCENE]
        until(lambda: (screen.picture()[SCENE] != first).any())
        screen.do("key", "space")
        watched.until(lambda: watched.state["paused"])
        still = settled(screen)
        screen.do("key", "Right")
        until(lambda: (screen.picture()[SCENE] != still).any())

    def test_words_are_in_the_picture(self, watch, screen):
        watch(*CARTS)

        def words() -> bool:
            corner = screen.picture()[:120, :270]
            white, dark = corner.min(axis=2) > 240, corner.max(axis=2) < 120
            return white.sum() > 200 and dark.mean() > 0.3  # letters on a dark box

        until(words)
        without = screen.picture()[:, 560:].mean()
        screen.do("key", "h")
        until(lambda: screen.picture()[:, 560:].mean() < without - 20)
        screen.do("key", "h")
        until(lambda: screen.picture()[:, 560:].mean() > without - 5)

    def test_keys_steer_the_test(self, watch, screen):
        watched = watch(*CARTS)
        screen.do("key", "minus")
        watched.until(lambda: watched.state["speed"] == 0.5)
        for speed in (1.0, 2.0, 4.0, 8.0, None):  # None: as fast as possible
            screen.do("key", "equal")
            watched.until(lambda speed=speed: watched.state["speed"] == speed)
        screen.do("key", "space")
        watched.until(lambda: watched.state["paused"])
        watched.until(lambda: watched.asked[-1] == ask_for.Pause(True))
        screen.do("key", "BackSpace")
        watched.until(lambda: watched.state["lengths"] == [0, 0, 0])
        screen.do("key", "Right")
        watched.until(lambda: watched.state["lengths"] == [1, 1, 1])
        screen.do("key", "Down")
        screen.do("key", "Return")
        watched.until(lambda: watched.state["lengths"] == [1, 0, 1] or watched.state["lengths"] == [1, 1, 0])
        assert watched.asked[-1] == ask_for.Restart(watched.view.env_id)
        screen.do("key", "o")
        watched.until(lambda: watched.asked[-1] == ask_for.Record(True))
        screen.do("key", "p")  # of a scripted agent: refused in words
        watched.until(lambda: "there are no versions" in str(watched.state["notices"]))
        screen.do("key", "space")
        watched.until(lambda: not watched.state["paused"])

    def test_mujocos_own_meaning_of_our_keys_is_taken_back(self, watch, screen):
        watched = watch(*CARTS)
        option = watched.window._show._handle.opt
        flags, groups = option.flags.copy(), option.geomgroup.copy()
        for key in ("a", "t", "2", "h", "h", "m", "v", "o"):
            screen.do("key", key)
        watched.until(lambda: watched.asked and watched.asked[-1] == ask_for.Record(True))
        assert watched.view.preset == "front"
        assert not watched.view.show_all
        assert (option.flags == flags).all()
        assert (option.geomgroup == groups).all()
        screen.do("key", "c")
        watched.until(lambda: watched.view.contacts)
        screen.do("key", "j")  # not ours: MuJoCo shows joints
        until(lambda: (option.flags != flags).sum() == 2)

    def test_a_policy_is_pinned_by_a_key(self, watch, screen):
        watched = watch(f"checkpoint={KEPT}")
        for pinned in (True, False):
            screen.do("key", "p")
            watched.until(lambda pinned=pinned: watched.state["policy"]["pinned"] is pinned)
        screen.do("key", "m")
        watched.until(lambda: watched.state["policy"]["how"] == "reset")

    def test_the_mouse_pushes_a_body(self, watch, screen):
        watched = watch(*CARTS)
        middle = [str(side // 2) for side in WINDOW]
        screen.do("key", "a", "key", "3", "key", "t", "key", "space")
        screen.do("mousemove", *middle, "click", "--repeat", "25", "4")  # nearer
        watched.until(lambda: watched.state["paused"])
        settled(screen)
        screen.do("click", "--repeat", "2", "--delay", "50", "1")
        pull = watched.window._show._handle.perturb
        watched.until(lambda: pull.select == 2)  # the centre of mass lies in the pole
        screen.do("key", "minus", "key", "minus", "key", "minus", "key", "minus")  # before it is gone
        screen.do("keydown", "ctrl", "mousedown", "3")
        watched.until(lambda: pull.active)
        left = pull.refselpos[0]
        screen.do("mousemove_relative", "40", "0")
        # As seen from the side. The sign of the force depends on the body's speed too, because the pull is damped.
        watched.until(lambda: pull.refselpos[0] > left)
        assert not [r for r in watched.asked if isinstance(r, ask_for.Push)]  # nothing while paused
        watched.controls.ask(ask_for.Pause(False))
        watched.until(lambda: [r for r in watched.asked if isinstance(r, ask_for.Push)])
        screen.do("mouseup", "3", "keyup", "ctrl")
        push = next(r for r in watched.asked if isinstance(r, ask_for.Push))
        assert (push.env_id, push.body) == (0, "pole")
        watched.until(lambda: not pull.active)

    def test_another_world_gets_a_window_of_its_own(self, screen, config, monkeypatch):
        monkeypatch.setenv("DISPLAY", screen.name)
        controls = Controls()
        window = Window(controls, Board())
        for task, bodies in (("Cartpole", 3), ("Ant", 14)):
            world = build_world(config("config=test", f"task={task}", "agent=random", "numEnvs=2"), None)
            show = window.begin(world, None)
            until(lambda: window._show._handle is not None)
            assert window._show._handle.m.nbody == bodies
            show.on_rest(SimpleNamespace(env=world.env))
            world.close()
        window.close()
        window.close()
        assert not window.gone

    @pytest.mark.parametrize("how", ["button", "program"])
    def test_calls_while_a_window_is_closed_do_no_harm(self, screen, monkeypatch, how):
        """Without the guard, this ends the process: MuJoCo frees the window while a thread uses it."""
        monkeypatch.setenv("DISPLAY", screen.name)
        window_guard.install()
        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
        handle = mujoco.viewer.launch_passive(model, mujoco.MjData(model))
        simulate, calls = handle._sim(), 0

        def call() -> None:
            nonlocal calls
            while not simulate._freed or calls < 20:
                simulate.set_texts([(0, 0, str(calls), "")])
                simulate.sync()
                with simulate.lock():
                    _ = simulate.viewport
                calls += 1

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        until(lambda: calls > 3)
        if how == "button":
            screen.press_close_button()
        else:
            handle.close()
        until(lambda: simulate._freed and not thread.is_alive())
        simulate.set_texts([(0, 0, "left", "right")])
        assert simulate.viewport is None

    @pytest.mark.parametrize("how", ["button", "key"])
    def test_closing_the_window_ends_the_test_with_status_0(self, watch, screen, how):
        watched = watch(*CARTS)
        if how == "button":
            screen.press_close_button()
        else:
            screen.do("key", "ctrl+q")
        watched.until(lambda: watched.status == 0)
        assert watched.state["phase"] == "ended"

    def test_a_window_system_that_hangs_stalls_neither_the_test_nor_its_end(self, tmp_path):
        """A process of its own: what it leaves behind would break the other tests."""
        frozen = Screen()
        script = (
            f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from tests.test_native_viewer import play; play(sys.argv[1])"
        )
        command = [sys.executable, "-c", script, str(tmp_path)]
        env = {**os.environ, "DISPLAY": frozen.name}
        process = subprocess.Popen(
            command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert process.stdout is not None
            assert any("shown" in line for line in process.stdout)
            frozen.process.send_signal(signal.SIGSTOP)
            rest, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            frozen.close()
        assert process.returncode == 0, rest
        assert "went on" in rest
        assert "does not respond" in rest
        assert "Traceback" not in rest
