"""config=evaluate_log and config=export_log: the truth lies in the interval, and what cannot be told is not told."""

from __future__ import annotations

import dataclasses
import io
import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console

from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict
from livegym.online.chosen_log import seconds_of
from livegym.online.decision_log import DecisionLog
from livegym.online.estimate import Estimate
from livegym.online.evaluate_log import Opinion, evaluate, evaluate_log, opinion_of, verdict
from livegym.online.experience import Layout
from livegym.online.export_log import export_log
from livegym.online.logged import LoggedDecisions
from livegym.online.run_log import decisions_of, read_log
from livegym.online.stream_requests import Rewarded
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rundir.checkpoint import CheckpointMeta, write_checkpoint
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import create_run
from livegym.utils.errors import UserError
from tests.experiences import complete
from tests.test_live import TRAIN, candidate, live_of, spec_with
from tests.test_service import Setting, Sign, seen

BANDIT = dataclasses.replace(TRAIN, gamma=0.0)


def save_checkpoint(run, spec: PolicySpec, model, version: int, config=None):
    """A checkpoint of a run; returns its file."""
    meta = CheckpointMeta(
        task=spec.task, run_id=run.run_id, version=version, epoch=1, frame=0, score=None, best_score=None,
        shape_hash=shape_hash(spec, model),
    )  # fmt: skip
    return write_checkpoint(run.nn, {"model": model, "spec": spec.to_dict(), "config": config or {}}, meta)


def played(path, bias: float, decisions: int, seed: int) -> Setting:
    """A run in which a policy with the mean action `bias` has acted behind a gate, one observation an episode.

    The gate blocks negative actions, and 0.25 is executed instead. The reward of an action a is -(a - x)^2 + noise,
    with x of the observation.
    """
    rng = np.random.default_rng(seed)
    live = live_of(candidate(1, bias=bias), stochastic=True, num_envs=4, history=3)
    live._rng.manual_seed(seed) if hasattr(live, "_rng") else None
    here = Setting(path, live, Sign(), buffer_capacity=100)
    for _ in range(decisions):
        x = float(rng.uniform(0, 1))
        (made,) = here.ask(seen("a", x))
        reward = -((made.executed[0] - x) ** 2) + 0.1 * float(rng.normal())
        here.ask(Rewarded("a", made.decision, reward, done=True))
    here.memory.save()
    return here


def session(config, *typed: str) -> Session:
    c = config(*typed)
    return Session(c, Provenance("", "", list(typed), []))


def said(command, *arguments) -> str:
    out = io.StringIO()
    assert command(*arguments, Console(file=out, width=200)) == 0
    return out.getvalue()


def test_the_truth_lies_in_the_interval(tmp_path):
    """A policy logs, another one is estimated from its log, and then acts itself. The gate is between all of them."""
    log = played(tmp_path / "log", 0.2, 3000, seed=1)
    truth = played(tmp_path / "truth", 0.6, 3000, seed=2)
    other = candidate(1, bias=0.6)
    save_checkpoint(log.run, spec_with(), {"weight": torch.zeros(1)}, 1)
    save_checkpoint(truth.run, spec_with(), {"weight": torch.zeros(1)}, 1)
    data, online = decisions_of(log.run), decisions_of(truth.run)
    assert len(data) == len(online) == 3000  # 100 of them are in the buffer
    state = {"model": dict(candidate(1, bias=0.6).model), "spec": spec_with().to_dict()}
    opinion = opinion_of(state, BANDIT, data, tmp_path)
    assert opinion.log_prob == pytest.approx(-0.5 * ((data.proposed[:, 0] - 0.6) ** 2 + math.log(2 * math.pi)), abs=1e-5)
    compared = evaluate(data, opinion)
    assert list(compared) == ["reward"]
    got, really = compared["reward"], float(online.reward.mean())
    error = 2 * float(online.reward.std()) / math.sqrt(3000)
    for estimate in (got.self_normalised, got.doubly_robust):
        assert estimate.low - error <= really <= estimate.high + error
        assert estimate.high - estimate.low < 0.2
    assert not got.acting.low <= really <= got.acting.high  # the two policies differ
    assert (got.gain.high < 0) == (really < float(data.reward.mean()))
    assert other.version == 1
