"""From an easy task to the full one: levels by hand-counted episodes, in training, over a resume, and in a test."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cfg.schema import CurriculumConfig
from rl.agent import create_agent
from rl.state import capture_learner, restore_learner, set_best_return
from tasks.curriculum import Curriculum
from tests.dummy import Counting, CountingParams, counting_env
from tests.test_learning import TINY
from utils.errors import UserError
from utils.signals import StopFlag

ROOT = Path(__file__).parent.parent
HALVES = CurriculumConfig(
    level=0.0, step=0.5, raise_at=0.75, lower_at=0.25, episodes=4, params={"reward_per_step": 3.0}
)


class Succeeding(Counting):
    """Counting to `fail_at` is success."""

    success_reason = "failed"


def learning(config=HALVES, params=None) -> Curriculum:
    curriculum = Curriculum(config, params or CountingParams(), "failed")
    curriculum.learning = True
    return curriculum


def test_the_level_goes_up_where_enough_succeed_and_down_where_too_few_do():
    curriculum = learning()
    assert not curriculum.ended(3, 3)  # not enough episodes yet
    assert curriculum.ended(1, 0)  # 3 of 4
    assert curriculum.level == 0.5
    assert not curriculum.ended(4, 2)  # between the two: it stays
    assert curriculum.ended(5, 5)
    assert curriculum.level == 1.0
    assert not curriculum.ended(4, 4)  # there is nothing above
    assert curriculum.ended(4, 0)
    assert curriculum.level == 0.5
    assert curriculum.ended(4, 0)
    assert not curriculum.ended(4, 0)  # nor below where it began
    assert curriculum.level == 0.0


def test_parameters_are_between_their_easy_values_and_the_full_ones():
    curriculum = learning(dataclasses.replace(HALVES, level=0.25), CountingParams(reward_per_step=1.0))
    assert curriculum.params().reward_per_step == pytest.approx(2.5)  # from 3 to 1, a quarter of the way
    curriculum.set_level(1.0)
    assert curriculum.params() == CountingParams()


def test_whoever_watches_changes_nothing_and_no_curriculum_is_the_full_task():
    watching = Curriculum(HALVES, CountingParams(), "failed")
    assert not watching.ended(100, 100)
    assert watching.level == 0.0
    none = Curriculum(None, CountingParams(), None)
    none.learning = True
    assert not none.ended(100, 100)
    none.set_level(0.2)
    assert none.level == 1.0
    assert none.params() == CountingParams()


def env_of(**changes):
    config = dataclasses.replace(HALVES, episodes=2)
    return counting_env(length=9, task=Succeeding, params=CountingParams(fail_at=3), curriculum=config, **changes)


def step(env):
    return env.step(torch.zeros(env.num_envs, 1))


def test_a_new_level_counts_from_the_next_step():
    env = env_of()
    env.curriculum.learning = True
    env.reset()
    assert [step(env).reward[0].item() for _ in range(6)] == [3.0, 3.0, 3.0, 2.0, 2.0, 2.0]
    assert env.curriculum.level == 1.0
    assert env.drain_report().level == 1.0


def test_the_level_is_part_of_the_state_of_the_environments():
    env, other = env_of(), env_of()
    env.set_level(0.5)
    env.curriculum.ended(1, 1)
    other.load_state_dict(env.state_dict())
    assert other.curriculum.state_dict() == env.curriculum.state_dict()
    assert step(other).reward[0].item() == pytest.approx(2.0)


def test_the_level_is_part_of_the_learners_state_too():
    """Where the state of the environments is lost, episodes begin anew, but the level does not."""
    agents = [create_agent(env_of(num_envs=4), TINY, 3, "cpu", StopFlag()) for _ in range(2)]
    agents[0].env.set_level(0.5)
    agents[0].train(lambda _: None)
    state = capture_learner(agents[0])
    set_best_return(state, None)
    restore_learner(agents[1], state, 3)
    assert agents[1].env.curriculum.level == agents[0].env.curriculum.level == 0.5
    assert agents[1].env.task.params.reward_per_step == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "success", "message"),
    [
        ({"params": {"reward_per_setp": 1.0}}, "failed", "params.reward_per_setp: .*Allowed: reward_per_step. Did you"),
        ({"params": {"fail_at": 1.0}}, "failed", "params.fail_at: the task has no such number"),
        ({}, None, "the task has no success.*task.curriculum=null"),
        ({"lower_at": 0.8}, "failed", "lower_at=0.8 is above raise_at=0.75"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, success, message):
    with pytest.raises(UserError, match=rf"task.curriculum.*{message}"):
        Curriculum(dataclasses.replace(HALVES, **changes), CountingParams(), success)


@pytest.mark.slow
def test_a_run_keeps_its_level_over_a_resume_and_a_test_plays_at_it(tmp_path):
    """With a success rate that is always high enough, the level goes up in training and nowhere else."""

    def run(*arguments) -> str:
        command = [sys.executable, str(ROOT / "train.py"), *arguments, "numEnvs=16", "runsDir=runs"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stderr

    easy = "{level: 0.0, step: 0.25, raise_at: 0.0, lower_at: 0.0, episodes: 1, params: {tolerance: 0.5}}"
    run("task=BaseTask", f"task.curriculum={easy}", "maxIterations=10", "task.episode_length_s=1.0")
    (last,) = tmp_path.glob("runs/BaseTask_*/nn/*_ep10.pth")
    level = torch.load(last, weights_only=True)["learner"]["curriculum"]
    assert level >= 0.25
    said = run("config=test", "checkpoint=latest", "testGamesNum=3", "reloadInterval=0")
    assert f"level {level:.2f}" in said
    said = run("config=test", "checkpoint=latest", "testGamesNum=3", "reloadInterval=0", "task.curriculum=null")
    assert "level" not in said
    said = run("resume=true", "checkpoint=latest_train", "maxIterations=11")
    assert f"level {level:.2f}" in said or f"level {min(1.0, level + 0.25):.2f}" in said
    assert json.loads(next(tmp_path.glob("runs/*test*/results.json")).read_text())["episodes"]
