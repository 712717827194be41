"""Runs for tests of real trainer processes, and what such a test waits for and does to them."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from livegym.cfg.typed import as_dict
from livegym.online.experience import Experience, Verdict
from livegym.online.gates import layout_of
from livegym.online.replay import ReplayWriter
from livegym.online.saving import CheckpointWriter
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import meta_of, newest_usable
from livegym.rundir.run import bus_file, create_run
from livegym.serve.running import first_state
from livegym.serve.watchdog import Watchdog
from livegym.tasks.base import Box
from livegym.weights.bus_reader import BusReader
from tests.patience import until

BLOCKS = ("cart_position", "cart_velocity", "pole_angle", "pole_velocity")
SPEC = PolicySpec("Cartpole", tuple((name, 1) for name in BLOCKS), (), Box(1), 1 / 60)
SETTINGS = ("config=continuous", "task=Cartpole", "simulator=external", "gate=off", "seed=0")
QUICK = ("online.idle_rounds=null", "online.training_interval=0.02", "online.updates=1", "online.buffer_capacity=200")


def experience(number: int) -> Experience:
    rng = np.random.default_rng(number)
    obs, action = rng.normal(size=4).astype(np.float32), rng.normal(size=1).astype(np.float32)
    nothing = np.zeros(0, np.float32)
    return Experience(
        stream="a", decision=number, obs=obs, proposed=action, executed=action, log_prob=-1.0, executed_log_prob=-1.0,
        confidence=1.0, verdict=Verdict.OFF, expected=float("nan"), seen=nothing, version=1, time=0.0, clock=0.0,
        reward=float(-abs(action[0])), next_obs=obs,
    )  # fmt: skip


@pytest.fixture
def made(config, tmp_path, monkeypatch):
    """made(*overrides, runs=..., spare=False) -> a run with a checkpoint and 100 experiences, and its configuration."""
    monkeypatch.setattr("livegym.serve.watchdog.PAUSE", 0.2)
    buses = []

    def make(*overrides: str, runs: Path = tmp_path, spare: bool = False):
        settings = config(*SETTINGS, *QUICK, f"online.spare_trainer={spare}", *overrides)
        run = create_run(runs, "Cartpole", "continuous")
        buses.append(bus_file(run.run_id))
        checkpoints = CheckpointWriter(run, SPEC, as_dict(settings), saved=0, best=None)
        assert checkpoints.save(first_state(settings, SPEC, None), version=1, trainings=0, added=0, score=None)
        writer = ReplayWriter(run.replay_file, layout_of(SPEC, None), settings.online.buffer_capacity)
        for number in range(100):
            writer.add(experience(number))
        writer.tell_reward_limit(settings.task.max_reward)
        return run, settings

    yield make
    for bus in buses:
        bus.unlink(missing_ok=True)


@contextmanager
def watched(run, settings):
    watchdog = Watchdog(run, settings)
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()


def wait_for(watchdog: Watchdog, holds) -> dict:
    """The first reading for which something holds."""
    found: list[dict] = []

    def look() -> bool:
        found[:] = [watchdog.reading()]
        return holds(found[0])

    until(look, lambda: str(found))
    return found[0]


def trains(version: int):
    return lambda reading: reading["state"] == "training" and reading["version"] >= version


def kill(pid: int) -> None:
    """kill -9; returns when the process has ended, which nobody has been told yet."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def newest(run) -> int:
    """Version of the newest checkpoint that verifies."""
    return meta_of(newest_usable(run).state).version


def published(run) -> int:
    found = BusReader(bus_file(run.run_id)).read(0)
    return 0 if found is None else found.version
