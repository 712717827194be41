"""Makes pictures of the hand for docs/images. `livegym.viewers.strip` makes another one.

    python -m tools.pictures window docs/images/window.png        # the window and its table of keys
    python -m tools.pictures learning docs/images/learning.webp v1.pth v99.pth docs/policies/BlindGrasping.pth

`learning` plays the same start with policies of different ages side by side, youngest first, in a loop. The window is
photographed on an X server without a screen, which needs Xvfb, xdotool and ImageMagick.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

from livegym.play.world import World
from livegym.rundir.select import read_selected
from livegym.utils.errors import UserError
from livegym.viewers import strip
from livegym.viewers.framing import bounds_over, elevation_for, frame
from livegym.viewers.look import drawn_xml
from livegym.viewers.offscreen import Painter, camera_at
from tests.screen import Screen

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "docs" / "policies" / "BlindGrasping.pth"
FPS = 20
EVERY = 5  # every which state of a path is framed
AZIMUTH = 60.0  # degrees
GAP = 2  # pixels at the left and at the right of a picture
BAR = 62  # pixels below a picture, for its caption
INK, PAPER, GOOD, BAD = (35, 40, 50), (250, 250, 248), (20, 130, 70), (190, 60, 45)
BELOW_STATUS, KEYS = slice(200, None), 560  # rows and first column of the window: the scene, and the table of keys
QUALITY = 72  # of WebP, 0 to 100


@dataclass(frozen=True)
class Take:
    """One policy's episode from the common start."""

    caption: str
    path: np.ndarray  # (steps, nq)
    success: bool


def take(world: World, caption: str, env_id: int) -> Take:
    """Plays the first episode of an environment, with deterministic actions."""
    env, actor = world.env, world.actor
    obs = env.reset()["policy"]
    path = []
    while True:
        path.append(env.sim.qpos[env_id].double().numpy().copy())
        step = env.step(actor.act(obs))
        obs = step.obs["policy"]
        if step.ended is None:
            continue
        actor.forget(step.ended.env_ids)
        ended = step.ended.env_ids.tolist()
        if env_id in ended:
            reason = env.reason_names[step.ended.reasons[ended.index(env_id)]]
            return Take(caption, np.array(path), reason == env.success_reason)


def caption_of(checkpoint: str, runs_dir: Path) -> str:
    """Its version, and the millions of frames that it was trained on."""
    _, state = read_selected(checkpoint, runs_dir, None)
    meta = state["livegym"]
    return f"version {meta['version']}, {meta['frame'] / 1e6:.1f} M frames"


def learning(checkpoints: list[str], out: Path, seconds: float, seed: int, env_id: int, size: tuple[int, int]) -> None:
    """Writes the moving picture. `size`: height, width of each policy's picture in pixels."""
    takes = []
    for checkpoint in checkpoints:
        with contextlib.closing(strip.world_of(checkpoint, Path("runs"), seed)) as world:
            takes.append(take(world, caption_of(checkpoint, Path("runs")), env_id))
            model_xml, control_dt = drawn_xml(world.env), world.env.sim.control_dt
    steps = [round(index / FPS / control_dt) for index in range(round(seconds * FPS))]
    with Painter(model_xml, *size) as painter:
        points = np.concatenate([bounds_over(painter.model, made.path[::EVERY]) for made in takes])
        camera = camera_at(frame(points, AZIMUTH, elevation_for(points), size[1] / size[0]))
        columns = [list(_frames(painter, made, steps, camera)) for made in takes]
    pictures = [Image.fromarray(np.concatenate(row, axis=1)) for row in zip(*columns, strict=True)]
    pictures[0].save(
        out, save_all=True, append_images=pictures[1:], duration=round(1000 / FPS), loop=0, quality=QUALITY, method=4
    )


def _frames(painter: Painter, made: Take, steps: list[int], camera: mujoco.MjvCamera) -> Iterator[np.ndarray]:
    """The captioned picture of each step; after the episode's end, its last state."""
    last = len(made.path) - 1
    drawn = None
    for step in steps:
        if drawn is None or step <= last:
            drawn = painter.draw(made.path[min(step, last)], camera)
        yield captioned(drawn, made, step)


def captioned(picture: np.ndarray, made: Take, step: int) -> np.ndarray:
    """(height + BAR, width, 3): a picture above its caption and, once the episode is over, its outcome."""
    height, width = picture.shape[:2]
    canvas = Image.new("RGB", (width, height + BAR), PAPER)
    canvas.paste(Image.fromarray(picture[:, GAP:-GAP]), (GAP, 0))
    draw = ImageDraw.Draw(canvas)
    lines = [(made.caption, INK)]
    if step >= len(made.path):
        lines.append(("success", GOOD) if made.success else ("failed", BAD))
    for (words, colour), below in zip(lines, (20, 44), strict=False):
        draw.text((width // 2, height + below), words, colour, ImageFont.truetype(findfont("DejaVu Sans"), 17), "mm")
    return np.asarray(canvas)


def window(checkpoint: str, out: Path, seconds: float) -> None:
    """Photographs the window of a test after `seconds`, with its table of keys."""
    screen = Screen()
    with tempfile.TemporaryDirectory() as runs:
        command = [
            sys.executable, "train.py", "config=test_viewer", f"checkpoint={checkpoint}", "testGamesNum=0",
            "numEnvs=4", "seed=0", f"runsDir={runs}",
        ]  # fmt: skip
        test = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "DISPLAY": screen.name})
        try:
            _wait(test, lambda: screen.picture()[BELOW_STATUS].std() > 3)
            time.sleep(seconds)
            without = screen.picture()[:, KEYS:].mean()
            screen.do("key", "h")
            _wait(test, lambda: screen.picture()[:, KEYS:].mean() < without - 15)
            Image.fromarray(screen.picture().astype(np.uint8)).save(out)
        finally:
            test.send_signal(signal.SIGINT)
            test.wait()
            screen.close()


def _wait(test: subprocess.Popen, holds: Callable[[], bool]) -> None:
    """Waits until something holds of the screen. Raises UserError if the test ends before."""
    while not holds():
        if test.poll() is not None:
            raise UserError("the test ended before its window was drawn; the reason is above.")
        time.sleep(0.5)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("window")
    one.add_argument("out", type=Path, help="a .png")
    one.add_argument("--checkpoint", default=str(KEPT))
    one.add_argument("--seconds", type=float, default=6.0, help="how long the test has played")
    several = kinds.add_parser("learning")
    several.add_argument("out", type=Path, help="a .webp")
    several.add_argument("checkpoints", nargs="+", help="youngest first")
    several.add_argument("--seconds", type=float, default=5.0, help="length of the loop")
    several.add_argument("--seed", type=int, default=0)
    several.add_argument("--env", type=int, default=0, help=f"which of the {strip.ENVS} starts of the seed")
    several.add_argument("--size", type=int, nargs=2, default=(400, 240), help="height and width of each picture")
    given = parser.parse_args()
    try:
        if given.kind == "window":
            window(given.checkpoint, given.out, given.seconds)
        else:
            learning(given.checkpoints, given.out, given.seconds, given.seed, given.env, tuple(given.size))
    except UserError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"wrote {given.out}: {given.out.stat().st_size / 1e3:,.0f} kB")


if __name__ == "__main__":
    main()
