"""The champion of a run, connected to the run's buffer and checkpoints."""

from __future__ import annotations

import dataclasses
import json
import os
from types import SimpleNamespace

import pytest

from livegym.cfg.typed import as_dict
from livegym.live.transition import SwapRule
from livegym.online.decider import Decider, StreamSlots
from livegym.online.gates import layout_of
from livegym.online.outcomes import Outcomes
from livegym.online.replay import ReplayReader
from livegym.online.saving import CheckpointWriter
from livegym.online.trainer import Trainer, rule_of
from livegym.online.worker import Worker
from livegym.rl.actor_critic import ActorCritic
from livegym.rl.algorithm import algorithm_of
from livegym.rl.policy import Policy
from livegym.rundir.checkpoint import best_checkpoint_file, newest_usable
from livegym.serve.guard import champion_of
from livegym.serve.running import live_policy
from tests.trainer_fixtures import SPEC

pytest_plugins = ["trainer_fixtures"]


def go_back(run, settings, version: int) -> None:
    """Set the trainer back to this version, which has the weights of the newest checkpoint."""
    layout = layout_of(SPEC, None)
    live = live_policy(run, lambda: Policy(SPEC, settings.train, 1, "cpu"), SwapRule(), 0)
    watchdog = SimpleNamespace(replace=lambda prepare, why: prepare(7))
    decider = Decider(live, None, StreamSlots(1, 60.0), SPEC)
    champion = champion_of(settings, run, layout, decider, Outcomes(0.99, 10, 10), watchdog)
    acting = dataclasses.replace(live.acting, model=live.weights()[1], version=version)
    champion._hooks.start_over(acting, "a test")


@pytest.mark.parametrize(("back_to", "trusted_from"), [(5, 100), (1, 0)])
def test_a_trainer_that_goes_back_is_not_held_to_the_decisions_of_the_version_that_was_given_up(
    made, back_to, trusted_from
):
    """The run's 100 decisions are of version 1. With other weights, `kl_limit` would draw the policy back to it."""
    run, settings = made()
    layout, online = layout_of(SPEC, None), settings.online
    network = algorithm_of(settings.train).actor_critic(SPEC, settings.train)
    reader = ReplayReader(run.replay_file, layout, online.buffer_capacity)
    trainer = Trainer(ActorCritic(SPEC, network, rule_of(online, network), 1e-3), reader, None, online, seed=0)
    checkpoints = CheckpointWriter(run, SPEC, as_dict(settings), saved=1, best=None)
    assert checkpoints.save(trainer.state(), version=5, trainings=4, added=100, score=None)
    go_back(run, settings, back_to)
    state = newest_usable(run).state
    assert state["online"]["counts"]["trusted_from"] == trusted_from
    trainer.load_state(state)
    assert len(trainer._acted().obs) == (0 if trusted_from else 64)


def test_of_equally_good_versions_the_newest_is_the_best(made):
    """Where each decision earns 1 until the episode fails, every version has the same score, the first one too."""
    run, settings = made()
    learner = newest_usable(run).state
    state = {name: learner[name] for name in learner if name not in ("config", "spec", "meta")}
    checkpoints = CheckpointWriter(run, SPEC, as_dict(settings), saved=1, best=None)
    for version, score in enumerate([1.0, 1.0, 0.5], 2):
        assert checkpoints.save(state, version, trainings=version, added=100, score=score)
    assert best_checkpoint_file(run).name == "Cartpole_v3_ep3.pth"


def test_a_trainer_says_that_it_lacks_experience_only_if_it_does(made):
    run, settings = made()
    for least, why in ((8, ""), (101, "fewer than 101 experiences can be trained on")):
        rule = dataclasses.replace(settings.online, min_batch_size=least)
        receiver, heartbeat = os.pipe()
        worker = Worker(run, dataclasses.replace(settings, online=rule), heartbeat, after=7)
        worker.send_heartbeat("waiting")  # the first one, before any update round
        worker.bus.close(worker.trainer.learner.weights())
        assert json.loads(os.read(receiver, 65536))["why"] == why
        os.close(heartbeat)
        os.close(receiver)


def test_a_trainer_that_goes_back_before_it_saved_anything_is_not_held_to_those_decisions_either(made):
    """The run has only its first checkpoint, which has no counts of a trainer."""
    run, settings = made()
    for back_to in (5, 1):  # the second knows of no decision of another version, so the first one's finding stays
        go_back(run, settings, back_to)
        heartbeat = os.open(os.devnull, os.O_WRONLY)
        worker = Worker(run, settings, heartbeat, after=7)
        worker.bus.close(worker.trainer.learner.weights())
        os.close(heartbeat)
        assert worker.trainer.counts.trusted_from == 100
        assert len(worker.trainer._acted().obs) == 0
