"""When checkpoints are written, and what a disk that says no costs."""

from __future__ import annotations

import logging
import shutil

import pytest
import torch

from livegym.rl.saver import LONG_ITERATION, Saver, SaveRule
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import list_checkpoints, read_checkpoint, read_env_state
from livegym.rundir.run import create_run, open_run, read_latest
from livegym.utils.errors import UserError
from tests.disk_fixtures import tmpfs
from tests.test_learning import learner_of


@pytest.fixture
def saving(tmp_path):
    """A real learner with a Saver; `step(**changes)` makes one iteration and hands it over with changed facts."""

    class Saving:
        def __init__(self, interval=1e9, frequency=None, keep_last=None, keep_every=None):
            self.learner = learner_of(iterations=1000)
            self.run = create_run(tmp_path / "runs", "Counting", "train")
            policy = SaveRule(interval, frequency, keep_last, keep_every)
            self.saver = Saver(self.run, self.learner, spec_of(self.learner.env), {"task": {}}, policy)
            self.learner.agent.obs = self.learner.agent.env_reset()

        def step(self, **changes):
            from dataclasses import replace

            return self.saver.after_iteration(replace(self.learner.iterate(), **changes))

        @property
        def saved(self):
            return sorted(entry.version for entry in list_checkpoints(self.run))

    return Saving


def test_the_first_iteration_is_saved_and_latest_moves_with_it(saving, tmp_path):
    s = saving()
    assert read_latest(tmp_path / "runs", "train") is None
    assert s.step()
    assert read_latest(tmp_path / "runs", "train") == s.run.path
    assert not s.step()
    assert s.saved == [1]


def test_a_frequency_counts_iterations(saving):
    s = saving(frequency=3)
    for _ in range(7):
        s.step()
    assert s.saved == [1, 3, 6]


def test_the_best_is_decided_by_the_mean_return_and_never_without_an_episode(saving):
    s = saving(frequency=1)
    s.step(mean_return=9.0, mean_is_full=False)  # of the first few episodes, which are the shortest
    for value in (None, 2.0, 5.0, 4.0):
        s.step(mean_return=value, mean_is_full=True)
    assert s.saver.best_return == 5.0
    assert (s.run.nn / "best.txt").read_text().strip() == "Counting_v4_ep4.pth"
    assert read_checkpoint(s.run.nn / "Counting_v4_ep4.pth")["learner"]["best_return"] == 5.0


def test_a_failing_disk_is_one_warning_is_tried_when_due_and_leaves_nothing(saving, caplog):
    s = saving(frequency=2)
    s.step()
    nn = s.run.nn
    nn.rename(nn.with_name("away"))
    with caplog.at_level(logging.WARNING):
        results = [s.step() for _ in range(8)]
    assert not any(results)
    assert sum("not written" in r.message for r in caplog.records) == 1
    assert [p.name for p in s.run.path.glob("env_state_*")] == ["env_state_v1.pt"]
    nn.with_name("away").rename(nn)
    assert s.step()
    assert s.saved == [1, 10]
    assert s.saver.save()  # nothing new


def test_little_room_is_warned_of_before_the_disk_is_full(saving, caplog, tmp_path):
    s = saving(frequency=1)
    with tmpfs(tmp_path / "disk", "4m") as disk:
        shutil.copytree(s.run.path, disk / s.run.name)
        s.saver.run = open_run(disk / s.run.name)
        with caplog.at_level(logging.WARNING):
            s.step()
            assert "make room" not in caplog.text  # plenty
            saved = sum(f.stat().st_size for f in s.saver.run.path.rglob("*") if f.suffix in (".pth", ".pt"))
            (disk / "others").write_bytes(bytes(shutil.disk_usage(disk).free - 10 * saved))
            assert all([s.step(), s.step()])  # it still fits
    assert sum("make room" in r.message for r in caplog.records) == 1


def test_before_the_first_checkpoint_there_is_no_age(saving):
    s = saving()
    s.run.nn.rmdir()
    s.step()
    assert s.saver.age() is None


def test_a_name_that_exists_is_a_failed_save_and_not_a_diverged_policy(saving):
    s = saving()
    (s.run.nn / "Counting_v1_ep1.pth").write_bytes(b"somebody's")
    assert not s.step()
    assert (s.run.nn / "Counting_v1_ep1.pth").read_bytes() == b"somebody's"


def test_a_diverged_policy_ends_training_and_names_the_last_good_checkpoint(saving):
    s = saving(frequency=1)
    s.step()
    it = s.learner.iterate()
    with torch.no_grad():
        next(iter(s.learner.agent.model.parameters())).fill_(float("nan"))
    with pytest.raises(UserError, match=r"diverged by epoch 2.*checkpoint=.*Counting_v1_ep1.pth") as error:
        s.saver.after_iteration(it)
    assert error.value.exit_code == 1
    assert s.saved == [1]


def test_a_stop_in_a_long_iteration_saves_the_state_before_it(saving):
    s = saving()
    s.step(seconds=LONG_ITERATION + 1)
    s.step(seconds=LONG_ITERATION + 1)
    weights = {k: v.clone() for k, v in s.learner.agent.model.state_dict().items()}
    s.learner.iterate()  # stands for an iteration that was abandoned: the learner is beyond version 2
    s.saver.abandon_iteration()
    assert s.saver.save()
    state = read_checkpoint(s.run.nn / "Counting_v2_ep2.pth")
    assert all(torch.equal(state["model"][k], v) for k, v in weights.items())
    assert state["epoch"] == 2
    assert read_env_state(s.run, 2) is not None


def test_each_long_iteration_is_saved_with_its_own_weights(saving):
    s = saving(frequency=1)
    for version in (1, 2, 3):
        s.step(seconds=LONG_ITERATION + 1)
        now = s.learner.agent.model.state_dict()
        saved = read_checkpoint(s.run.nn / f"Counting_v{version}_ep{version}.pth")["model"]
        assert all(torch.equal(saved[k], v) for k, v in now.items())


def test_a_stop_in_a_short_iteration_does_not_save_the_middle_of_it(saving):
    s = saving()
    s.step()
    s.step()
    s.learner.iterate()
    s.saver.abandon_iteration()
    assert s.saver.save()
    assert s.saved == [1]
