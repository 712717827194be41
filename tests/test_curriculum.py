"""From an easy task to the full one: levels by hand-counted episodes, in training, over a resume, and in a test."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from livegym.rl.algorithm import algorithm_of
from livegym.rl.state import capture_learner, restore_learner
from livegym.schema import CurriculumConfig
from livegym.tasks.curriculum import Curriculum
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag
from tests.dummy import Counting, CountingParams, counting_env
from tests.patience import PATIENCE_S
from tests.test_learning import TINY

ROOT = Path(__file__).parent.parent
HALVES = CurriculumConfig(
    level=0.0, step=0.5, raise_at=0.75, lower_at=0.25, episodes=4, params={"reward_per_step": 3.0}
)


class Succeeding(Counting):
    """Counting to `fail_at` is success; the number of steps is read once."""

    success_reason = "failed"


class Bound(Succeeding):
    """Reads its reward once."""

    bound_params = ("reward_per_step",)


def task_of(kind=Succeeding, **params) -> Counting:
    task = kind(CountingParams(**params))
    task.end_by(("failed",))
    return task


def curriculum_of(config=HALVES, task=None, learning=True) -> Curriculum:
    made = Curriculum(config, task or task_of(), 8, torch.device("cpu"))
    if learning:
        made.follow_success()
    return made


def ended(curriculum: Curriculum, episodes: int, successes: int) -> bool:
    """So many of eight environments end an episode, the first of them in success; all of them begin another."""
    changed = curriculum.ended(torch.arange(episodes), torch.arange(episodes) < successes)
    curriculum.begin(torch.arange(8))
    return changed


def test_the_level_goes_up_where_enough_succeed_and_down_where_too_few_do():
    curriculum = curriculum_of()
    assert not ended(curriculum, 3, 3)  # not enough episodes yet
    assert ended(curriculum, 1, 0)  # 3 of 4
    assert curriculum.level == 0.5
    assert not ended(curriculum, 4, 2)  # between the two: it stays
    assert ended(curriculum, 5, 5)
    assert curriculum.level == 1.0
    assert not ended(curriculum, 4, 4)  # there is nothing above
    assert ended(curriculum, 4, 0)
    assert curriculum.level == 0.5
    assert ended(curriculum, 4, 0)
    assert not ended(curriculum, 4, 0)  # nor below where it began
    assert curriculum.level == 0.0


def test_episodes_that_began_at_another_level_do_not_count():
    curriculum = curriculum_of()
    everyone, won = torch.arange(4), torch.ones(4, dtype=torch.bool)
    curriculum.begin(torch.arange(8))
    assert curriculum.ended(everyone, won)
    assert not curriculum.ended(everyone + 4, won)  # four more that had begun at level 0
    assert curriculum.state_dict() == {"level": 0.5, "episodes": 0, "successes": 0}
    curriculum.begin(everyone)
    assert curriculum.ended(everyone, won)


def test_ten_steps_of_a_tenth_are_the_whole_way():
    curriculum = curriculum_of(dataclasses.replace(HALVES, step=0.1))
    for _ in range(10):
        assert ended(curriculum, 4, 4)
    assert curriculum.level == 1.0


def test_parameters_are_between_their_easy_values_and_the_full_ones():
    curriculum = curriculum_of(dataclasses.replace(HALVES, level=0.25))
    assert curriculum.params().reward_per_step == pytest.approx(2.5)  # from 3 to 1, a quarter of the way
    curriculum.set_level(1.0)
    assert curriculum.params() == CountingParams()


def test_whoever_watches_changes_nothing_and_no_curriculum_is_the_full_task():
    watching = curriculum_of(learning=False)
    assert not ended(watching, 8, 8)
    assert watching.level == 0.0
    none = curriculum_of(None)
    assert not ended(none, 8, 8)
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
    env.curriculum.follow_success()
    env.reset()
    assert [step(env).reward[0].item() for _ in range(6)] == [3.0, 3.0, 3.0, 2.0, 2.0, 2.0]
    assert env.curriculum.level == 1.0
    assert env.drain_report().level == 1.0


def test_the_level_is_part_of_the_state_of_the_environments():
    env, other = env_of(), env_of()
    env.set_level(0.5)
    env.curriculum.follow_success()
    env.curriculum.begin(torch.arange(2))
    env.curriculum.ended(torch.tensor([1]), torch.tensor([True]))
    assert env.curriculum.episodes == 1
    other.load_state_dict(env.state_dict())
    assert other.curriculum.state_dict() == env.curriculum.state_dict()
    assert step(other).reward[0].item() == pytest.approx(2.0)


def test_the_level_is_part_of_the_learners_state_too():
    """Where the state of the environments is lost, episodes begin anew, but the level does not."""
    learners = [algorithm_of(TINY).learner(env_of(num_envs=4), TINY, 3, "cpu", StopFlag()) for _ in range(2)]
    learners[0].env.set_level(0.5)
    learners[0].train(lambda _: None)
    state = capture_learner(learners[0])
    learners[0].note_best_return(state, None)
    restore_learner(learners[1], state, 3)
    assert learners[1].env.curriculum.level == learners[0].env.curriculum.level == 0.5
    assert learners[1].env.task.params.reward_per_step == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"params": {"reward_per_setp": 1.0}},
            "reward_per_setp: .* not a number in task.params.*Allowed: reward_per_step",
        ),
        ({"params": {"fail_at": 1.0}}, "fail_at: fail_at is not a number in task.params"),
        ({"params": {}}, "changes nothing: it has no params"),
        ({"lower_at": 0.8}, "lower_at=0.8 is above raise_at=0.75"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    with pytest.raises(UserError, match=rf"task.curriculum.*{message}"):
        curriculum_of(dataclasses.replace(HALVES, **changes)).check_moves(ranges=False)


def test_what_is_read_once_and_what_cannot_succeed_is_refused():
    with pytest.raises(UserError, match=r"reward_per_step is read only once, when the task is built\. Allowed: none"):
        curriculum_of(task=task_of(Bound))
    switched_off = task_of()
    switched_off.end_by(())
    with pytest.raises(UserError, match=r"the task has no success.*task\.curriculum=null"):
        curriculum_of(task=switched_off)


@pytest.mark.full
@pytest.mark.slow
def test_a_run_keeps_its_level_over_a_resume_and_a_test_plays_at_it(tmp_path):
    """With a success rate that is always high enough, the level goes up in training and nowhere else."""

    def run(*arguments) -> str:
        command = [sys.executable, str(ROOT / "train.py"), *arguments, "numEnvs=16", "runsDir=runs"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stderr

    easy = "{level: 0.0, step: 0.25, raise_at: 0.0, lower_at: 0.0, episodes: 1, params: {tolerance: 0.5}}"
    run("task=BaseTask", f"task.curriculum={easy}", "maxIterations=10", "task.episode_length_s=1.0")
    (last,) = tmp_path.glob("runs/BaseTask_*/nn/*_ep10.pth")
    level = torch.load(last, weights_only=True)["learner"]["curriculum"]
    assert level >= 0.25
    test = ("config=test", "checkpoint=latest_train", "testGamesNum=3", "reloadInterval=0")
    assert [level_of_test(tmp_path, run, *test, *more) for more in ((), ("task.curriculum=null",))] == [level, 1.0]
    run("resume=true", "checkpoint=latest_train", "maxIterations=11")
    (last,) = tmp_path.glob("runs/BaseTask_*/nn/*_ep11.pth")
    assert torch.load(last, weights_only=True)["learner"]["curriculum"] >= level


def level_of_test(folder: Path, run, *arguments: str) -> float:
    """The level that the results of a test name."""
    before = set(folder.glob("runs/*_test_*"))
    run(*arguments)
    (made,) = set(folder.glob("runs/*_test_*")) - before
    return json.loads((made / "results.json").read_text())["level"]
