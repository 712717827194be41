"""What users of such tools ran into (reports F to Q): the right outcome of each, where no other test keeps it."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest
import torch

from livegym.rl.algorithms.ppo.adapter import RlGamesEnv
from livegym.rl.curves import scalars as curves_of
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.checkpoint import list_checkpoints, read_checkpoint
from livegym.tasks import TASKS
from livegym.tasks.build import make_env
from livegym.utils.signals import StopFlag
from tests.patience import until
from tests.processes import SMALL, Running, run, scalars
from tests.test_learning import TINY, learner_of, trained
from tests.test_live import OBS, candidate, live_of
from tests.test_saver import saving  # noqa: F401  a fixture


def test_five_means_one_in_training_and_in_play():
    """G3: both paths hand the environment the same action, whatever the network says."""
    learner = learner_of(length=100)
    learner.agent.obs = learner.agent.env_reset()
    live = live_of(candidate(1, bias=5.0))
    moved = []
    for step in (
        lambda: learner.agent.env_step(torch.full((2, 1), 5.0)),
        lambda: learner.env.step(live.act(OBS)),
        lambda: learner.agent.env_step(torch.full((2, 1), -5.0)),
    ):
        before = learner.env.sim.qvel.clone()
        step()
        moved.append((learner.env.sim.qvel - before).flatten().tolist())
    assert moved == [pytest.approx([1.0, 1.0])] * 2 + [pytest.approx([-1.0, -1.0])]


def test_a_signal_in_the_middle_of_a_save_lets_it_be_finished(saving, monkeypatch):  # noqa: F811
    """I1: the handler only sets a flag; the file is whole, and the loop ends after it."""
    s = saving(frequency=1)
    replace = os.replace

    def interrupted(*names):
        if not stop.requested:  # a second signal would end this process
            os.kill(os.getpid(), signal.SIGINT)
        replace(*names)

    with StopFlag() as stop:
        monkeypatch.setattr(os, "replace", interrupted)
        assert s.step()
        monkeypatch.undo()
        assert stop.exit_status == 130
    (entry,) = list_checkpoints(s.run)
    assert read_checkpoint(entry.path)["epoch"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("loaded", ["_yaml", "_multiarray_umath", "libtorch_cpu", "libmujoco"])
def test_a_signal_before_training_has_begun_is_no_traceback(tmp_path, loaded):
    """I1: while modules are still being imported; `loaded` is the library that has just come."""
    with Running(tmp_path, *SMALL, "maxIterations=100000") as training:
        maps = Path(f"/proc/{training.process.pid}/maps")
        until(lambda: loaded in maps.read_text(), process=training.process)
        assert training.end(signal.SIGINT) == 130
    assert "Traceback" not in training.text
    assert "Exception ignored" not in training.text


def test_training_draws_many_actions_for_one_observation():
    """M1: the counterpart of deterministic play."""
    learner = learner_of()
    obs = learner.agent.env_reset()
    learner.agent.set_eval()
    drawn = {learner.agent.get_action_values(obs)["actions"][0].item() for _ in range(50)}
    assert len(drawn) == 50


@pytest.mark.slow
def test_the_log_says_whether_actions_are_sampled(tmp_path):
    """M1."""
    assert run(tmp_path, *SMALL, "maxIterations=1").returncode == 0
    test = ("config=test", "checkpoint=latest", "testGamesNum=1")
    assert "deterministic actions" in run(tmp_path, *test).stdout
    assert "stochastic actions" in run(tmp_path, *test, "stochastic=true").stdout


def test_after_a_swap_the_normaliser_is_the_new_files_and_stays_so():
    """M2."""
    live, new = live_of(candidate(1)), candidate(2)
    new.model["running_mean_std.running_mean"].fill_(3.0)
    new.model["running_mean_std.running_var"].fill_(0.25)
    live.prepare(new)
    live.adopt()
    for _ in range(20):
        live.act(OBS)
    state = live.weights()[1]
    normaliser = {name: value for name, value in new.model.items() if "mean_std" in name}
    assert normaliser
    assert all(torch.equal(state[name], value) for name, value in normaliser.items())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_learner_is_told_of_time_limits_and_of_no_failure_in_that_step(config, task, fails):
    """N4: for every task in the table."""
    c = config(f"task={task}")
    reasons = dict.fromkeys(c.task.terminations, fails)
    long = dataclasses.replace(c.task, terminations=reasons, curriculum=None)
    step = make_env(long, c.sim, c.physics, 2, seed=0).sim.control_dt
    short = dataclasses.replace(long, episode_length_s=10 * step)
    env = make_env(short, c.sim, c.physics, 2, seed=0)
    learner = RlGamesEnv(env, "cpu")
    learner.reset()
    everywhere = torch.full((2,), True)
    rows = env.num_rows
    for left in reversed(range(env.max_length)):
        reasons = dict.fromkeys(short.terminations, everywhere if left == 0 and fails else ~everywhere)
        env.task.terminate = lambda state, reasons=reasons: reasons  # of this one object
        _, _, dones, infos = learner.step(env.zero_action())
        assert infos["time_outs"].tolist() == [left == 0 and not fails] * rows
        assert dones.tolist() == [left == 0] * rows


@pytest.mark.parametrize("num_envs", [1, 2, 7])
def test_any_number_of_environments_trains(num_envs):
    """O1: sizes that nobody chose on purpose, down to a batch of one environment."""
    iterations = trained(learner_of(dataclasses.replace(TINY, num_minibatches=1), num_envs=num_envs))
    assert [it.frames for it in iterations] == [8 * num_envs] * 3
    assert all(torch.isfinite(torch.tensor(list(it.losses.values()))).all() for it in iterations)


@pytest.mark.parametrize("close", [True, False])
def test_curves_of_a_run_that_continues_from_an_earlier_step_never_go_back(tmp_path, close):
    """Q3: a crash at 15, a resume from 10 into the same directory."""
    first = ScalarWriter(tmp_path)
    for step in range(1, 16):
        first.add_scalar("a", 1.0, step)
    first.close() if close else first.flush()
    second = ScalarWriter(tmp_path, start_step=10)
    for step in range(11, 18):
        second.add_scalar("a", 2.0, step)
    second.close()
    assert scalars(tmp_path, "a") == [(step, 1.0 if step <= 10 else 2.0) for step in range(1, 18)]


def test_curves_have_no_reward_before_an_episode_has_ended():
    """Q4: neither 0 nor NaN."""
    (*_, waiting) = trained(learner_of(length=1000))
    (*_, ended) = trained(learner_of(length=5))
    late = {"rewards/step", "episode_lengths/step", "reward_terms_episode/alive", "ends/time_limit"}
    assert late & set(curves_of(waiting)) == set()
    assert late <= set(curves_of(ended))
