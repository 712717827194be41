"""IsaacGymEnvs, untouched: Cartpole is learned while another process plays it, and nine tasks run for long.

    ISAACGYMENVS=<checkout> pytest -s -m full tests/test_foreign_isaacgymenvs.py

Skipped if there is no checkout. The hashes of the files that run are printed.
"""

from __future__ import annotations

import re

import pytest
import torch

from tests.foreign_runs import play_at_random, print_hashes, show_on_a_page_and_in_a_video
from tests.isaac_toys import foreign, made, needs_isaacgym, project
from tests.processes import Running, results, run

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

N, STEPS = 512, 1000
PLANE = "task.params.env.terrain.terrainType=plane"
TASKS = {  # what runs -> task, what is changed, observations, actions, longest episode in control steps
    "Cartpole": ("Cartpole", (), 4, 1, 500),
    "Ant": ("Ant", (), 60, 8, 1000),
    "Humanoid": ("Humanoid", (), 108, 21, 1000),
    "Anymal": ("Anymal", (), 48, 12, 2500),
    "AnymalTerrain plane": ("AnymalTerrain", (PLANE,), 188, 12, 1000),
    "AnymalTerrain rough": ("AnymalTerrain", (), 188, 12, 1000),
    "Quadcopter": ("Quadcopter", (), 21, 12, 500),
    "Ingenuity": ("Ingenuity", (), 13, 6, 2000),
    "BallBalance": ("BallBalance", (), 24, 3, 500),
    "HumanoidAMP": ("HumanoidAMP", (), 105, 28, 300),
}


@pytest.fixture(scope="module")
def checkout():
    """The folder of the checkout."""
    return foreign("IsaacGymEnvs", "ISAACGYMENVS")


@pytest.fixture(scope="module")
def cartpole(checkout, tmp_path_factory):
    """A folder with a run of Cartpole, played by a second process while it learned; and what both said."""
    folder = tmp_path_factory.mktemp("cartpole")
    here = f"projectDir={checkout}"
    training = ("config=train_headless", "task=isaacgymenvs:Cartpole", here, "numEnvs=512", "seed=1")
    watching = ("config=test", "checkpoint=latest", "testGamesNum=0", "logLevel=debug", "reloadInterval=0.2", here)
    with Running(folder, *training, name="training") as learner:
        learner.wait_for("iteration 1/")
        with Running(folder, *watching, name="test") as test:
            test.wait_for("now acting: version", count=3)
            assert learner.process.poll() is None, "the training had ended before the test had reloaded"
            assert learner.finish() == 0, learner.text
            assert test.end() == 0
    return folder, learner.text, results(folder)


def test_cartpole_is_learned(cartpole):
    _, said, _ = cartpole
    returns = [float(value) for value in re.findall(r"mean return (-?[\d.]+)", said)]
    print(f"Cartpole: mean returns {returns[:3]} ... {returns[-3:]} of 500")
    for line in re.findall(r"running foreign code: .*", said):
        print(line)
    assert max(returns) >= 450


def test_a_second_process_takes_over_weights_while_it_learns(cartpole):
    found = cartpole[2]
    accepted = [one for one in found["swaps"] if one["accepted"]]
    assert len(accepted) >= 3


def test_exactly_25_games_are_played_and_won(cartpole, checkout):
    folder = cartpole[0]
    done = run(folder, "config=test", "checkpoint=latest", "testGamesNum=25", f"projectDir={checkout}")
    assert done.returncode == 0, done.stdout
    found = results(folder)
    print(f"Cartpole: 25 games, mean return {found['return_mean']:.1f}")
    assert len(found["episodes"]) == 25
    assert found["return_mean"] >= 450


def test_it_is_shown_on_a_page_and_in_a_video(cartpole, checkout):
    show_on_a_page_and_in_a_video(cartpole[0], checkout)


@pytest.mark.parametrize("what", TASKS)
def test_nothing_becomes_unstable_in_1000_steps_of_512_environments(what, checkout):
    name, overrides, observations, actions, longest = TASKS[what]

    def check(step) -> None:
        assert torch.isfinite(step.reward).all()
        assert not (step.terminated & step.truncated).any()
        assert step.ended is None or step.ended.lengths.max() <= longest + 2

    with project(checkout):
        env = made("sim.threads=1", *overrides, task=f"isaacgymenvs:{name}", num_envs=N)
        assert (env.layout.width("policy"), env.task.action_spec.size) == (observations, actions)
        assert env.max_length == pytest.approx(longest, abs=1)
        cost = play_at_random(env, STEPS, check)
    report = env.drain_report()
    print(f"{what}: {cost:.1f} us of processor time per environment step, {report.episodes} episodes")
    print_hashes(checkout)
    assert report.unstable == 0
    assert not env.sim.engine.faults().any()
    assert env.sim.engine.finite().all()


def test_anymal_stands_and_weighs_what_it_should(checkout):
    """20 s at zero action; on level ground at rest, contact forces carry the weight."""
    with project(checkout):
        env = made("task.params.env.learn.episodeLength_s=60", task="isaacgymenvs:Anymal", num_envs=64)
        env.reset()
        fallen = torch.zeros(64, dtype=torch.bool)
        for _ in range(round(20 / env.sim.control_dt)):
            fallen |= env.step(env.zero_action()).terminated
    found, model = env._loaded.env, env.sim.engine.model
    found.gym.refresh_net_contact_force_tensor(found.sim)
    weight = float(model.body_mass.sum()) * 9.81
    carried = found.contact_forces[..., 2].sum(1)[~fallen]
    print(f"Anymal: fallen {int(fallen.sum())} of 64; carried {carried.mean():.1f} N of {weight:.1f} N")
    assert (~fallen).float().mean() >= 0.95
    assert carried.mean().item() == pytest.approx(weight, rel=0.02)
