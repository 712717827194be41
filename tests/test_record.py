"""Recordings of a test, and viewers that stand beside a training."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import pytest

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.play.audience import Audience
from livegym.play.control_requests import Record
from livegym.play.controls import Controls
from livegym.play.play import Player
from livegym.play.world import build_world
from livegym.rundir.run import create_run
from livegym.schema import RootConfig
from livegym.utils.errors import UserError
from livegym.viewers.opening import open_audience
from livegym.viewers.processes import ViewerProcesses
from livegym.viewers.record import ClipRecorder, check_recording, clip_name
from livegym.web import opening
from livegym.web.opening import page_address
from tests.patience import PATIENCE_S, until
from tests.processes import Running, alive, run, runs
from tests.screen import Screen

SMALL = ("videoWidth=32", "videoHeight=32")
CART = ("task=Cartpole", "agent=zero", "task.episode_length_s=0.2", *SMALL)  # 12 steps at 60 Hz


def config_of(*overrides: str, envs: int = 2) -> RootConfig:
    return to_typed(compose(["config=test_record", *CART, f"numEnvs={envs}", *overrides]))


def frames(file: Path) -> int:
    with av.open(str(file)) as film:
        stream = film.streams.video[0]
        count = sum(1 for _ in film.decode(stream))
        assert stream.average_rate == 60
        assert abs(Fraction(film.duration, av.time_base) - Fraction(count, 60)) < Fraction(1, 60)
        return count


def record(
    config: RootConfig, tmp_path: Path, steps: int, watched=False, controls=None, at=None
) -> tuple[list[int], ClipRecorder]:
    """Plays and returns the pictures in each clip."""
    controls = controls or Controls(None, config.videoRecord, no_recording="")
    recorder = ClipRecorder(config, controls, watched)
    world = build_world(config, None)
    player = Player(world.env, world.actor, None, controls)
    directory = create_run(tmp_path / "runs", "Cartpole", "test")
    player.attach(recorder.begin(world, directory))
    left = iter(range(steps))
    at = at or {}

    def ended() -> bool:
        step = next(left, None)
        if step in at:
            controls.ask(at[step])
        return step is None

    player.run(ended)
    recorder.close()
    world.close()
    return [frames(f) for f in sorted(directory.videos.glob("*.mp4"))], recorder


def test_a_file_holds_one_episode_from_its_first_state_on(tmp_path):
    """Twelve states of an episode of twelve steps; the very first episode's beginning is before the first step."""
    counts, recorder = record(config_of(), tmp_path, 12 * 3)
    assert counts == [11, 12, 12]
    assert not recorder.failed


@pytest.mark.slow
def test_a_file_holds_as_many_episodes_or_seconds_as_asked(tmp_path):
    assert record(config_of("videoEpisodes=2"), tmp_path, 12 * 4)[0] == [23, 24]
    assert record(config_of("videoSeconds=0.1"), tmp_path / "b", 15)[0] == [6, 6, 3]


def test_all_environments_are_in_one_picture_where_none_is_named(tmp_path):
    counts, _ = record(config_of("videoEnv=null", "videoSeconds=10"), tmp_path, 4)
    assert counts == [4]


def test_a_recording_by_hand_is_one_file_from_begin_to_end(tmp_path, monkeypatch):
    config = dataclasses.replace(config_of(), videoRecord=False)
    at = {3: Record(True), 20: Record(False), 25: Record(True)}
    monkeypatch.setattr("livegym.viewers.video.QUEUE", 1000)  # or some pictures are left out
    counts, _ = record(config, tmp_path, 30, watched=True, at=at)
    assert counts == [17, 5]


def test_a_directory_that_cannot_be_made_fails_the_clip_and_not_the_test(tmp_path):
    """It was made in the control loop, whose end took the results of the test with it."""
    counts, recorder = record(config_of("videoDir=/dev/null/x"), tmp_path, 30)
    assert counts == []
    assert recorder.failed


def test_a_clip_is_named_by_the_version_that_acts():
    assert str(clip_name("120", 3)) == "version_120_0003.mp4"
    assert str(clip_name("Ant_train_20260101_000000: 7", 12)) == "version_Ant_train_20260101_000000_7_0012.mp4"


@pytest.mark.parametrize(
    ("override", "envs", "message"),
    [("videoEnv=2", 2, "videoEnv=2: unknown. Allowed: 0 to 1"), ("videoEnv=null", 17, "at most 16")],
)
def test_what_cannot_be_recorded_is_refused_before_anything_is_begun(override, envs, message):
    with pytest.raises(UserError, match=message):
        check_recording(config_of(override, envs=envs), envs)


def test_a_test_that_nobody_watches_has_no_viewers():
    audience = open_audience(to_typed(compose(["config=test"])), 4)
    assert (audience.viewers, audience.controls) == ([], None)


@pytest.mark.parametrize(
    ("overrides", "token"),
    [
        ((), None),
        (("streamToken=off",), None),
        (("streamBindAll=true", "streamToken=off"), None),
        (("streamToken=0123456789",), "0123456789"),
    ],
)
def test_the_token_is_what_was_asked_for(overrides, token, monkeypatch):
    monkeypatch.setattr(opening, "others_use_this_machine", lambda: False)
    assert page_address(to_typed(compose(["config=test_stream", *overrides]))).access.token == token


def test_a_page_for_everybody_has_a_token_of_its_own_each_time():
    config = to_typed(compose(["config=test_stream", "streamBindAll=true"]))
    tokens = {page_address(config).access.token for _ in range(3)}
    assert len(tokens) == 3
    assert all(token is not None and len(token) >= 16 for token in tokens)


def test_a_token_too_short_to_keep_anybody_out_is_refused_without_being_shown():
    config = to_typed(compose(["config=test_stream", "streamToken=abc123"]))
    with pytest.raises(UserError, match="6 characters are too few") as error:
        page_address(config)
    assert "abc123" not in str(error.value)


def test_a_window_beside_a_training_is_refused_where_there_is_no_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(UserError, match="config=test_stream"):
        ViewerProcesses(to_typed(compose(["viewer=true"])))


def test_an_audience_tells_whether_a_viewer_failed():
    class Broken(ClipRecorder):
        failed = True

        def __init__(self):
            pass

    assert Audience([Broken()]).failed
    assert not Audience([]).failed


@pytest.mark.slow
def test_recording_from_the_command_line(tmp_path):
    done = run(
        tmp_path, "config=test_record", *CART[:2], "numEnvs=1", "testGamesNum=2", *SMALL, "task.episode_length_s=0.2"
    )
    assert done.returncode == 0, done.stdout
    (test,) = runs(tmp_path, "test")
    assert sorted(p.name for p in (test / "videos").iterdir()) == [
        "version_scripted_0001.mp4",
        "version_scripted_0002.mp4",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("numEnvs=8", "maxIterations=1"), ("config=test", "agent=zero", "testGamesNum=2")]
)
def test_what_draws_nothing_needs_no_opengl(tmp_path, arguments):
    """MuJoCo reads MUJOCO_GL when it is imported, and a value that it does not know ended any program."""
    done = run(tmp_path, *arguments, env={**os.environ, "MUJOCO_GL": "nonsense"})
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "message"), [("test_record", "MUJOCO_GL=nonsense"), ("test_viewer", "config=test_stream")]
)
def test_what_cannot_be_shown_is_refused_before_a_directory_is_made(tmp_path, preset, message):
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = run(tmp_path, f"config={preset}", *CART[:2], env={**env, "MUJOCO_GL": "nonsense"})
    assert done.returncode == 2
    assert message in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_display_that_goes_ends_the_test_with_its_results(tmp_path):
    """Xlib ends the process where its server is gone; what was played was lost."""
    arguments = ("config=test_viewer", "task=Cartpole", "agent=random", "testGamesNum=0", "playSpeed=0")
    with contextlib.closing(Screen()) as screen, Running(tmp_path, *arguments, env={"DISPLAY": screen.name}) as test:
        until(lambda: "MuJoCo" in shown_on(screen), lambda: test.text, test.process)
        screen.process.kill()
        assert test.process.wait(PATIENCE_S) == 0
    assert (runs(tmp_path, "test")[0] / "results.json").exists()


def shown_on(screen: Screen) -> str:
    """The names of the windows."""
    listed = subprocess.run(
        ["xdotool", "search", "--name", "MuJoCo", "getwindowname"],
        env={**os.environ, "DISPLAY": screen.name}, capture_output=True, text=True,
    )  # fmt: skip
    return listed.stdout


def companions_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if "--child" in Path(f"/proc/{child}/cmdline").read_text()]


LIVE = ("task=Cartpole", "numEnvs=32", "train.horizon_length=8", "maxIterations=1000000", "watch=true", "streamPort=0")


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_page_beside_a_training_ends_with_it(tmp_path, signum):
    """Also where the training is killed: it would go on for ever, and hold the port."""
    with Running(tmp_path, *LIVE) as training:
        training.wait_for("watch: watch at http://127.0.0.1:")
        (child,) = companions_of(training.process.pid)
        status = training.end(signum)
        assert status == (130 if signum == signal.SIGINT else -9)
        until(lambda: not alive(child))


@pytest.mark.slow
def test_a_training_makes_clips_of_its_policy_on_its_way(tmp_path):
    def clips() -> list[Path]:
        return sorted(tmp_path.glob("runs/*_train_*/videos/*.mp4"), key=lambda f: int(f.stem.rsplit("_", 1)[1]))

    arguments = [a for a in LIVE if not a.startswith(("watch", "stream"))]
    with Running(tmp_path, *arguments, "trainVideoEvery=10", "videoSeconds=0.3", *SMALL) as training:
        until(lambda: len(clips()) >= 2, lambda: training.text, training.process)
        assert training.end() == 130
    versions = [int(f.name.split("_")[1]) for f in clips()]
    assert versions[1] // 10 > versions[0] // 10
    assert all(frames(f) <= 18 for f in clips())


@pytest.mark.slow
def test_a_companion_that_fails_is_reported_and_the_training_continues(tmp_path):
    with Running(tmp_path, *LIVE[:-1], "streamPort=0", "playSpeed=1") as training:
        training.wait_for("watch: watch at")
        (child,) = companions_of(training.process.pid)
        os.kill(child, signal.SIGKILL)
        training.wait_for("watch has ended (status -9); training continues.")
        assert training.end() == 130
