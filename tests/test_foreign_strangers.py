"""Projects of Isaac Gym tasks that livegym was not written for, untouched: played, trained, watched.

    CUBEBOT_ISAACGYM=<checkout> pytest -s tests/test_foreign_strangers.py

What they are is in docs/isaacgym.md. BEZ_ISAACGYM and HUMANOID_GYM name the others. Each test is skipped if its
checkout is not named. The hashes of the files that run are printed.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.foreign_runs import play_at_random, print_hashes, show_on_a_page_and_in_a_video
from tests.isaac_toys import fresh_modules, made, needs_isaacgym, project
from tests.processes import Running

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

N, STEPS = 64, 200


@dataclass(frozen=True)
class Stranger:
    """A task, the widths of its observations (policy, critic) and actions, and what it needs beside its checkout."""

    variable: str
    task: str
    widths: tuple[int, int, int]
    overrides: tuple[str, ...] = ()
    needs: str = ""  # an importable package


BOXES = ("task.params.env.asset.stl=false",)  # its meshes are large files, which not every copy has
CUBE, BEZ = "CUBEBOT_ISAACGYM", "BEZ_ISAACGYM"
STRANGERS = (
    Stranger(CUBE, "training:CubeBot", (19, 0, 6)),
    Stranger(CUBE, "training:CubeBot_WheelVel", (19, 0, 6)),
    Stranger(CUBE, "training:CubeBot_TargPos", (34, 0, 3), needs="isaacgymenvs"),
    Stranger(BEZ, "bez_isaacgym:bez_kick", (54, 0, 18), BOXES),
    Stranger(BEZ, "bez_isaacgym:bez_walk", (52, 0, 18), BOXES),
    Stranger(BEZ, "bez_isaacgym:bez_orient", (52, 0, 18), BOXES),
    Stranger("HUMANOID_GYM", "humanoid:humanoid_ppo", (705, 219, 12)),
)


def checkout_of(stranger: Stranger) -> Path:
    """The folder of its checkout; skips the test if it cannot run here."""
    folder = Path(os.environ.get(stranger.variable, ""))
    if not os.environ.get(stranger.variable) or not folder.is_dir():
        pytest.skip(f"there is no checkout: {stranger.variable}=<folder> names one")
    if stranger.needs and importlib.util.find_spec(stranger.needs) is None:
        pytest.skip(f"{stranger.task} needs {stranger.needs}: install it, or put its checkout on PYTHONPATH")
    return Path(os.path.realpath(folder))


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda one: one.task)
def test_nothing_becomes_unstable_in_200_steps_of_64_environments(stranger):
    checkout = checkout_of(stranger)

    def check(step) -> None:
        assert torch.isfinite(step.reward).all()

    with fresh_modules("tasks", "utils"), project(checkout):
        env = made("sim.threads=1", *stranger.overrides, task=stranger.task, num_envs=N)
        widths = (env.layout.width("policy"), env.layout.width("privileged"), env.task.action_spec.size)
        assert widths == stranger.widths
        cost = play_at_random(env, STEPS, check)
    report = env.drain_report()
    print(f"{stranger.task}: {cost:.0f} us of processor time per environment step, {report.reason_counts}")
    print_hashes(checkout)
    assert report.unstable == 0


@pytest.mark.parametrize("stranger", [STRANGERS[0], STRANGERS[3], STRANGERS[-1]], ids=lambda one: one.task)
def test_it_is_trained_and_shown_on_a_page_and_in_a_video(stranger, tmp_path):
    checkout = checkout_of(stranger)
    settings = (f"projectDir={checkout}", "numEnvs=16", "maxIterations=5", *stranger.overrides)
    with Running(tmp_path, "config=train_headless", f"task={stranger.task}", *settings, name="training") as learner:
        assert learner.finish() == 0, learner.text
    show_on_a_page_and_in_a_video(tmp_path, checkout)
