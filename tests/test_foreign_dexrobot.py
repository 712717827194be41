"""dexrobot_isaac, untouched: its hand, its Hydra configuration, its rewards by name; trained, tested, watched.

    DEXROBOT_ISAAC=<checkout> pytest -s -m full tests/test_foreign_dexrobot.py

Skipped if there is no checkout with its part dexrobot_mujoco. The hashes of the files that run are printed.
"""

from __future__ import annotations

import pytest
import torch

from tests.foreign_runs import play_at_random, print_hashes, show_on_a_page_and_in_a_video
from tests.isaac_toys import foreign, made, needs_isaacgym, project
from tests.processes import Running, results, runs

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

N, STEPS = 256, 1000
SOURCE = "dexrobot_isaac"
HAND = "assets/dexrobot_mujoco/dexrobot_mujoco/models/dexhand021_right_simplified_floating.xml"
TASKS = {  # task -> observations, some of its rewards
    "BaseTask": (224, ("alive", "height_safety", "finger_velocity", "contact_stability")),
    "BlindGrasping": (158, ("s1_height_alignment", "s1_thumb_rotation", "penetration_penalty", "termination_success")),
}


@pytest.fixture(scope="module")
def checkout():
    """The folder of the checkout."""
    folder = foreign(SOURCE, "DEXROBOT_ISAAC")
    if not (folder / HAND).is_file():
        pytest.skip(f"{folder} lacks its submodule assets/dexrobot_mujoco with the hand")
    if folder.name != SOURCE:
        pytest.skip(f"the checkout's folder is the source of its tasks: rename {folder} to {SOURCE}")
    return folder


@pytest.mark.parametrize("name", TASKS)
def test_nothing_becomes_unstable_in_1000_steps_of_256_environments(name, checkout):
    observations, terms = TASKS[name]

    def check(step) -> None:
        assert torch.isfinite(step.terms).all()

    with project(checkout):
        env = made("sim.threads=1", task=f"{SOURCE}:{name}", num_envs=N)
        assert (env.layout.width("policy"), env.task.action_spec.size) == (observations, 18)
        assert set(terms) < set(env.terms.names)
        cost = play_at_random(env, STEPS, check)
    report = env.drain_report()
    print(f"{name}: {cost:.0f} us of processor time per environment step, {report.reason_counts}")
    print_hashes(checkout)
    assert report.unstable == 0
    assert report.term_step_mean["other"] == pytest.approx(0.0, abs=1e-4)


@pytest.fixture(scope="module")
def trained(checkout, tmp_path_factory):
    """A folder with a short run of BlindGrasping, played by a second process while it learned."""
    folder = tmp_path_factory.mktemp("blind")
    here = f"projectDir={checkout}"
    training = (
        "config=train_headless", f"task={SOURCE}:BlindGrasping", here, "numEnvs=16", "maxIterations=60",
        "saveInterval=2",
    )  # fmt: skip
    watching = ("config=test", "checkpoint=latest", "testGamesNum=0", "logLevel=debug", "reloadInterval=0.2", here)
    with Running(folder, *training, name="training") as learner:
        learner.wait_for("iteration 1/")
        with Running(folder, *watching, name="test") as test:
            test.wait_for("now acting: version", count=2)
            assert test.end() == 0
        assert learner.finish() == 0, learner.text
    return folder, results(folder)


def test_a_second_process_follows_the_training(trained):
    assert len([one for one in trained[1]["swaps"] if one["accepted"]]) >= 2


def test_rewards_are_in_tensorboard_by_name(trained):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = runs(trained[0], "train")[-1].rglob("events*")
    events = EventAccumulator(str(file))
    events.Reload()
    assert {f"reward_terms/{term}" for term in TASKS["BlindGrasping"][1]} <= set(events.Tags()["scalars"])


def test_the_hand_is_on_a_page_and_in_a_video(trained, checkout):
    show_on_a_page_and_in_a_video(trained[0], checkout)
