"""Off-screen pictures and videos, with the real GL and the real encoder."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import av
import mujoco
import numpy as np
import pytest
import torch
from disk_fixtures import tmpfs

from livegym.utils import gl
from livegym.utils.errors import UserError
from livegym.viewers import clip
from livegym.viewers.clip import Clip, exact_dt
from livegym.viewers.offscreen import Painter, default_camera, tiles
from livegym.viewers.video import QUEUE, VideoWriter, check_video
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).parent.parent
SIZE = (120, 160)

# A red plate seen from 2 m above with an opening of 90 degrees: 120 pixels are 4 m, so a metre is 30 pixels.
PLATE = """<mujoco><worldbody><light pos="0 0 3"/><camera name="above" pos="0 0 2" fovy="90"/>
<camera name="far" pos="0 0 8" fovy="90"/>
<body name="plate"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
<geom type="box" size=".2 .2 .001" rgba="1 0 0 1"/><site size=".5" rgba="0 1 0 1"/></body></worldbody></mujoco>"""
FREE = '<body><freejoint/><geom size=".5" mass="1"/></body>'


@pytest.fixture(scope="module", autouse=True)
def _gl():
    try:
        gl.choose_backend()
    except UserError as error:
        pytest.skip(f"NO VIDEO IS TESTED ON THIS MACHINE: {error}")


@pytest.fixture
def painter():
    with Painter(PLATE, *SIZE) as made:
        yield made


def middle_of_red(picture: np.ndarray) -> tuple[float, float]:
    """(row, column) in pixels."""
    rows, columns = np.nonzero((picture[..., 0].astype(int) - picture[..., 2]) > 60)
    assert len(rows), "there is no red in the picture"
    return rows.mean() + 0.5, columns.mean() + 0.5


def pictures_of(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def times_of(path: Path) -> list[Fraction]:
    """s, when each picture is shown."""
    with av.open(str(path)) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]


def seconds_of(path: Path) -> float:
    with av.open(str(path)) as container:
        return container.duration / av.time_base


def record(path: Path, steps: int = 10, dt: float = 0.02, **options) -> VideoWriter:
    """A clip of the plate moving right by 10 cm, 3 pixels, a step."""
    with VideoWriter(PLATE, dt, **{"size": SIZE} | options) as writer:
        writer.begin(path)
        for step in range(steps):
            writer.add(np.array([0.1 * step, 0.0]))
    return writer


# --- pictures


@pytest.mark.parametrize(("x", "y", "row", "column"), [(0, 0, 60, 80), (1, 0.5, 45, 110), (-2, -1, 90, 20)])
def test_a_body_is_seen_where_it_was_put(painter, x, y, row, column):
    assert middle_of_red(painter.draw(np.array([x, y]))) == pytest.approx((row, column), abs=0.6)


def test_several_environments_are_tiles_each_with_its_own_camera(painter):
    picture = painter.draw(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert middle_of_red(picture[:60, :80]) == pytest.approx((30, 40), abs=0.6)
    assert middle_of_red(picture[:60, 80:]) == pytest.approx((30, 40 + 15), abs=0.6)
    assert middle_of_red(picture[60:, :80]) == pytest.approx((30 - 15, 40), abs=0.6)
    assert not picture[60:, 80:].any()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
def test_tiles_cover_without_overlapping(count):
    seen = np.zeros((101, 163), int)
    for tile in tiles(count, 101, 163):
        seen[tile.bottom : tile.bottom + tile.height, tile.left : tile.left + tile.width] += 1
    assert seen.max() == 1
    assert seen[-1, 0] == 1  # the first is at the top left
    assert (seen == 0).mean() < 0.4


def test_cameras(painter):
    near, far = (painter.draw(np.array([1.0, 0.0]), name) for name in ("above", "far"))
    assert middle_of_red(near)[1] == pytest.approx(110, abs=0.6)
    assert middle_of_red(far)[1] == pytest.approx(80 + 30 / 4, abs=0.6)
    with pytest.raises(UserError, match=r"camera=abov: unknown\. Allowed: above, far\. Did you mean above\?"):
        painter.draw(np.zeros(2), "abov")


@pytest.mark.parametrize(
    ("bodies", "kind"),
    [
        (FREE, mujoco.mjtCamera.mjCAMERA_TRACKING),
        (FREE + FREE, mujoco.mjtCamera.mjCAMERA_FREE),  # as a hand and what it holds
        ('<camera pos="0 0 1"/>' + FREE, mujoco.mjtCamera.mjCAMERA_FIXED),
        ("", mujoco.mjtCamera.mjCAMERA_FREE),
    ],
)
def test_the_default_camera(bodies, kind):
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    assert default_camera(model, aspect=4 / 3).type == kind


def test_a_robot_that_walked_away_is_still_in_the_picture():
    free = '<body><freejoint/><geom size=".5" rgba="1 0 0 1"/></body>'
    with Painter(f'<mujoco><worldbody><light pos="0 0 9"/>{free}</worldbody></mujoco>', *SIZE) as painter:
        picture = painter.draw(np.array([0.0, 0, 0, 1, 0, 0, 0]))
        assert (painter.draw(np.array([100.0, -50, 0, 1, 0, 0, 0])) > 0).any()
        assert middle_of_red(picture) == pytest.approx((60, 80), abs=3)


def test_a_state_that_is_not_finite_is_drawn_and_harms_nothing(painter):
    before = painter.draw(np.zeros(2))
    for value in (np.nan, np.inf, 1e300):
        painter.draw(np.full(2, value))
    assert (painter.draw(np.zeros(2)) == before).all()


def test_what_cannot_be_drawn_is_refused(painter):
    with pytest.raises(ValueError, match=r"qpos has shape \(3,\); the model needs \(2,\)"):
        painter.draw(np.zeros(3))
    with pytest.raises(ValueError, match="a picture cannot have 0 x 5 pixels"):
        Painter(PLATE, 5, 0)


def test_another_thread_is_refused_instead_of_crashing(painter):
    errors = []

    def draw():
        try:
            painter.draw(np.zeros(2))
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert errors == ["a Painter belongs to the thread that made it"]


# --- files


@pytest.mark.slow
@pytest.mark.parametrize("rate", [20, 50, 60])
def test_a_clip_lasts_as_long_as_its_steps(tmp_path, rate):
    record(tmp_path / "a.mp4", steps=200, dt=1 / rate)
    assert seconds_of(tmp_path / "a.mp4") == pytest.approx(200 / rate, abs=1 / rate)
    assert times_of(tmp_path / "a.mp4") == [Fraction(step, rate) for step in range(200)]


def test_the_control_step_is_the_fraction_that_was_meant():
    assert [exact_dt(dt) for dt in (1 / 60, 0.05, 2 / 240, 0.0333)] == [
        Fraction(1, 60), Fraction(1, 20), Fraction(1, 120), Fraction(333, 10000),
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "even"), [((120, 160), (120, 160)), ((121, 161), (122, 162))])
def test_every_player_can_show_it(tmp_path, caplog, size, even):
    with caplog.at_level(logging.INFO):
        record(tmp_path / "a.mp4", size=size)
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.height, stream.width) == even
    assert ("videos are 162 x 122 pixels: H.264 needs even numbers" in caplog.text) == (size != even)


def test_the_pictures_are_not_black_and_move(tmp_path):
    record(tmp_path / "a.mp4")
    pictures = pictures_of(tmp_path / "a.mp4")
    assert len(pictures) == 10
    assert all(picture.std() > 5 for picture in pictures)
    columns = [middle_of_red(picture)[1] for picture in pictures]
    assert np.diff(columns) == pytest.approx(3, abs=1.2)
    assert columns[-1] - columns[0] == pytest.approx(9 * 3, abs=1)


def test_an_existing_file_is_kept(tmp_path):
    (tmp_path / "a.mp4").write_text("mine")
    assert record(tmp_path / "a.mp4").files == [tmp_path / "a_2.mp4"]
    assert record(tmp_path / "a.mp4").files == [tmp_path / "a_3.mp4"]
    assert (tmp_path / "a.mp4").read_text() == "mine"


def test_a_clip_without_pictures_leaves_no_file(tmp_path):
    assert record(tmp_path / "a.mp4", steps=0).files == []
    assert not list(tmp_path.iterdir())


def test_a_file_is_there_once_it_can_be_played(tmp_path):
    path = tmp_path / "a.mp4"
    made = Clip(path, Fraction(1, 20), *SIZE)
    whole = []
    for step in range(41):
        made.add(step, np.full((*SIZE, 3), step, np.uint8))
        whole.append(len(times_of(path)) if path.exists() else None)
    assert whole == [None] * 20 + [20] * 20 + [40]
    made.close()
    assert len(times_of(path)) == 41


def test_an_exception_in_the_loop_closes_the_clip(tmp_path):
    with pytest.raises(ZeroDivisionError), VideoWriter(PLATE, 0.02, SIZE) as writer:  # noqa: PT012
        writer.begin(tmp_path / "a.mp4")
        for step in range(5):
            writer.add(np.zeros(2))
            1 / (4 - step)
    assert len(pictures_of(tmp_path / "a.mp4")) == 5
    assert not writer._thread.is_alive()


def test_a_tensor_is_recorded_without_a_warning():
    """numpy's about torch was shown as one of MuJoCo's if a thread compiled a model at that moment."""
    with warnings.catch_warnings(), VideoWriter(PLATE, 0.02, SIZE) as writer:
        warnings.simplefilter("error")
        writer.add(torch.zeros(2))


def test_what_is_recorded_is_a_copy(tmp_path):
    qpos = torch.zeros(1, 2)
    with VideoWriter(PLATE, 0.02, SIZE) as writer:
        writer.begin(tmp_path / "a.mp4")
        writer.add(qpos)
        qpos[:] = 1.0
    assert middle_of_red(pictures_of(tmp_path / "a.mp4")[0]) == pytest.approx((60, 80), abs=1)


# --- a full queue


@pytest.fixture
def gate(monkeypatch):
    """Drawing waits until it is set."""
    opened, draw = threading.Event(), Painter.draw

    def wait_and_draw(self, *arguments):
        opened.wait(PATIENCE_S)
        return draw(self, *arguments)

    monkeypatch.setattr(Painter, "draw", wait_and_draw)
    yield opened
    opened.set()


def test_where_somebody_watches_a_stalled_encoder_stalls_nothing(tmp_path, gate, caplog):
    with VideoWriter(PLATE, 0.02, SIZE, block=False) as writer:
        writer.begin(tmp_path / "a.mp4")
        for _ in range(100):
            writer.add(np.zeros(2))
        assert not gate.is_set()  # they were taken while nothing could be drawn
        gate.set()
        until(lambda: writer._free_slots._value == QUEUE)
        writer.add(np.zeros(2))  # step 100
    times = times_of(tmp_path / "a.mp4")
    assert len(times) in (QUEUE + 1, QUEUE + 2)  # one may have been taken off the queue
    assert times[:QUEUE] == [Fraction(step, 50) for step in range(QUEUE)]
    assert times[-1] == 2  # s: what was left out has not shifted it
    lacking = [r.getMessage() for r in caplog.records if "lacks" in r.getMessage()]
    assert lacking == [f"{tmp_path / 'a.mp4'} lacks {101 - len(times)} pictures, which could not be drawn in time"]


def test_a_recording_waits_and_loses_nothing(tmp_path, gate):
    threading.Timer(0.3, gate.set).start()
    writer = record(tmp_path / "a.mp4", steps=QUEUE + 50)
    assert gate.is_set()  # until then it waited
    assert len(times_of(tmp_path / "a.mp4")) == QUEUE + 50
    assert writer.error is None


# --- faults


def test_a_fault_ends_its_clip_and_nothing_else(tmp_path, caplog):
    (tmp_path / "file").touch()
    with VideoWriter(PLATE, 0.02, SIZE) as writer:
        writer.begin(tmp_path / "file" / "a.mp4")
        for _ in range(2 * QUEUE):
            writer.add(np.zeros(2))
        writer.begin(tmp_path / "b.mp4")
        writer.add(np.zeros(2))
    assert isinstance(writer.error, FileExistsError)
    assert caplog.text.count("ends early") == 1
    assert writer.files == [tmp_path / "b.mp4"]


def test_a_camera_that_is_not_there_is_told_to_the_owner(tmp_path):
    writer = record(tmp_path / "a.mp4", camera="abov")
    assert "Did you mean above?" in str(writer.error)
    assert not list(tmp_path.iterdir())


def test_a_bug_ends_the_thread_and_not_the_loop(tmp_path, monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    monkeypatch.setattr(Clip, "add", lambda *arguments: 1 / 0)
    writer = record(tmp_path / "a.mp4", steps=QUEUE + 5)
    assert reported[0].exc_type is ZeroDivisionError
    assert "the video thread ended" in str(writer.error)


@pytest.mark.parametrize(("size", "kept"), [("16k", False), ("1m", True)])
def test_a_full_disk_is_reported_once_and_leaves_what_can_be_played(tmp_path, caplog, monkeypatch, size, kept):
    noise = np.random.default_rng(0).integers(0, 255, (2, *SIZE, 3), np.uint8)
    monkeypatch.setattr(Painter, "draw", lambda self, qpos, camera, lines: noise[int(qpos[0]) % 2])
    with tmpfs(tmp_path / "disk", size) as disk:
        with VideoWriter(PLATE, 0.1, SIZE) as writer:
            writer.begin(disk / "a.mp4")
            for step in range(100):
                writer.add(np.array([step, 0.0]))
        assert isinstance(writer.error, OSError)
        assert "No space left" in str(writer.error)
        assert caplog.text.count("ends early") == 1
        assert writer.files == ([disk / "a.mp4"] if kept else [])
        assert list(disk.iterdir()) == writer.files
        if kept:
            whole = len(times_of(disk / "a.mp4"))
            assert whole >= 10
            assert whole < 100


RECORDING = f"""
import sys, time
import numpy as np
from pathlib import Path
from livegym.viewers.video import VideoWriter
with VideoWriter({PLATE!r}, 0.02, {SIZE}) as writer:
    writer.begin(Path(sys.argv[1]))
    for step in range(500):
        writer.add(np.array([0.004 * step, 0.0]))
        time.sleep(0.01)
"""


def python(program: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    chosen_here = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY")  # MuJoCo sets the second with its first context
    inherited = {name: value for name, value in os.environ.items() if name not in chosen_here}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        cwd=ROOT, env=inherited | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_killed_recording_plays_up_to_its_last_whole_second(tmp_path):
    path = tmp_path / "a.mp4"
    process = python(RECORDING, str(path))
    until(lambda: path.exists() and len(_playable(path)) >= 100)  # 2 s
    process.kill()
    process.communicate()
    times = _playable(path)
    assert times == [Fraction(step, 50) for step in range(len(times))]
    assert 100 <= len(times) < 500
    done = subprocess.run(["ffprobe", "-v", "error", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


ENDS_WHILE_IT_DRAWS = f"""
import sys
import numpy as np
from pathlib import Path
from livegym.viewers import video
video.CLOSE_TIMEOUT = 0.5
writer = video.VideoWriter({PLATE!r}, 0.02, (1024, 1280))
writer.begin(Path(sys.argv[1]))
for step in range(2 * video.QUEUE):
    writer.add(np.zeros(2))
if sys.argv[2] == "closes":
    writer.close()
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closes", "forgets to close"])
def test_a_process_that_ends_while_a_picture_is_drawn_does_not_crash(tmp_path, how):
    """The thread was a daemon: on a busy machine, a recording ended with a segmentation fault."""
    process = python(ENDS_WHILE_IT_DRAWS, str(tmp_path / "a.mp4"), how)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, said
    if how == "closes":
        assert "its end is missing" in said
        assert 0 < len(times_of(tmp_path / "a.mp4")) < 2 * QUEUE


def _playable(path: Path) -> list[Fraction]:
    try:
        return times_of(path)
    except av.FFmpegError:  # no fragment yet
        return []


# --- which GL


@pytest.fixture
def machine(monkeypatch):
    """machine(MUJOCO_GL, what works...): a machine on which only some backends work."""

    def set_up(asked: str | None, *works: str) -> None:
        gl.choose_backend.cache_clear()
        monkeypatch.delenv("MUJOCO_GL", raising=False)
        if asked is not None:
            monkeypatch.setenv("MUJOCO_GL", asked)
        for name in ("egl", "osmesa"):
            monkeypatch.setattr(gl, f"_has_{name}", lambda name=name: name in works)

    yield set_up
    gl.choose_backend.cache_clear()


@pytest.mark.parametrize(
    ("asked", "works", "chosen"),
    [
        (None, ["egl", "osmesa"], "egl"),
        ("", ["egl"], "egl"),
        (None, ["osmesa"], "osmesa"),
        ("osmesa", ["egl", "osmesa"], "osmesa"),
        (" EGL ", ["egl"], "egl"),
    ],
)
def test_a_backend_that_works_is_chosen_and_reported(machine, caplog, asked, works, chosen):
    machine(asked, *works)
    with caplog.at_level(logging.INFO):
        assert [gl.choose_backend(), gl.choose_backend()] == [chosen, chosen]
    assert [r.getMessage() for r in caplog.records if r.name == "livegym.utils.gl"] == [
        f"off-screen rendering with {chosen}"
    ]


@pytest.mark.parametrize(
    ("asked", "works", "message"),
    [
        (None, [], "neither EGL nor OSMesa works. Try: sudo apt-get install libegl1 libgl1-mesa-dri or: sudo apt-get "),
        ("egl", ["osmesa"], "egl, which MUJOCO_GL selects, does not work. Try: sudo apt-get install libegl1 libgl1"),
        ("osmesa", ["egl"], "osmesa, which MUJOCO_GL selects, does not work. Try: sudo apt-get install libosmesa6"),
        ("nonsense", ["egl"], "no off-screen rendering here with MUJOCO_GL=nonsense. Put MUJOCO_GL=egl or"),
    ],
)
def test_without_gl_one_line_says_what_to_do(machine, asked, works, message):
    machine(asked, *works)
    with pytest.raises(UserError) as reported:
        check_video()
    assert message in str(reported.value)
    assert "\n" not in str(reported.value)


def test_a_missing_encoder_is_reported_before_the_run(monkeypatch):
    check_video()
    monkeypatch.setattr(clip, "CODEC", "libx999")
    with pytest.raises(UserError, match="videos need libx999"):
        check_video()
    monkeypatch.setattr(clip, "av", None)
    with pytest.raises(UserError, match="pip install av"):
        check_video()


# imports MuJoCo first, as a simulator does, so that MuJoCo has settled on a GL before we are asked
ONE_CLIP = f"""
import sys
import mujoco
import numpy as np
from pathlib import Path
from livegym.utils import gl
from livegym.viewers.video import VideoWriter, check_video
check_video()
with VideoWriter({PLATE!r}, 0.02, {SIZE}) as writer:
    writer.begin(Path(sys.argv[1]))
    writer.add(np.array([1.0, 0.5]))
print(gl.choose_backend(), writer.error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "used"), [(None, "egl"), ("egl", "egl"), ("osmesa", "osmesa")])
def test_a_real_process_draws_with_each_backend(tmp_path, asked, used):
    out, _ = python(ONE_CLIP, str(tmp_path / "a.mp4"), **({} if asked is None else {"MUJOCO_GL": asked})).communicate()
    if "apt-get install" in out:
        pytest.skip(f"NOT TESTED HERE: {out.splitlines()[-1]}")
    assert out == f"{used} None\n"  # and no noise at the end
    assert middle_of_red(pictures_of(tmp_path / "a.mp4")[0]) == pytest.approx((45, 110), abs=1)


@pytest.mark.slow
def test_a_nonsense_variable_can_be_reported_before_mujoco_stumbles_over_it():
    out, _ = python("from livegym.utils.gl import choose_backend; choose_backend()", MUJOCO_GL="nonsense").communicate()
    assert "UserError: no off-screen rendering here with MUJOCO_GL=nonsense" in out
