"""A test: finds the policy, builds the world it was trained in, plays, follows newer weights, and reports.

What comes from the run: task, network, normalisation, observation and action spec, control rate. What comes from the
session: simulator, physics, device, number of environments, seed, how weights are followed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cfg.saved import with_run_config
from cfg.schema import RootConfig
from cfg.typed import as_dict, to_yaml
from live.play import Player, ScriptedActor, quotas
from live.report import Reporter
from live.results import Results
from live.sources import CheckpointSource, candidate_of
from live.swap import Candidate, LivePolicy
from live.watch import Watcher
from rl.policy import Policy
from rl.select import NothingYet, Selection, read_selected
from rl.spec import PolicySpec, difference, spec_of
from sim.recorder import StateRecorder
from tasks.build import make_env
from tasks.env import Env
from utils.errors import UserError
from utils.log import console, run_log
from utils.provenance import Provenance
from utils.run import Run, begin_run, open_run, point_latest
from utils.seeding import seed_everything
from utils.signals import StopFlag

log = logging.getLogger(__name__)

WAIT_INTERVAL = 1.0  # s between looks for a first checkpoint
REMIND_INTERVAL = 60.0  # s between lines that say so


@dataclass(frozen=True)
class Found:
    """The policy to begin with: where it was found and what is in it."""

    selection: Selection
    state: dict[str, Any]
    load_ms: float


def run_test(config: RootConfig, provenance: Provenance, stop: StopFlag, task: str | None, overrides: list[str]) -> int:
    """Tests a policy; returns the exit status, 0 also after Ctrl+C.

    `task`: the task where it was given explicitly; `overrides`: the command line's keys, of which those inside
    `task.` are applied to the run's configuration. Raises UserError where nothing can be tested.
    """
    found = None
    if config.agent == "policy":
        found = wait_for_policy(config, stop, task)
        if found is None:
            log.info("stopped before there was a policy to test.")
            return 0
        config = with_run_config(config, found.state.get("config"), task, overrides)
    assert config.numEnvs is not None
    assert config.seed is not None
    seed_everything(config.seed)
    torch.set_num_threads(1)  # more would wait in the way of the physics' own threads
    env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed)
    actor = _actor(config, env, found)
    provenance = replace(provenance, config_yaml=to_yaml(as_dict(config)))  # with what came from the run
    run = begin_run(Path(config.runsDir), config.task.name, "test", provenance)
    point_latest(run.path.parent, "test", run)
    with run_log(run), contextlib.closing(env.sim):
        return _play(config, env, actor, found, run, stop)


def wait_for_policy(config: RootConfig, stop: StopFlag, task: str | None) -> Found | None:
    """The policy that `checkpoint` names. An endless test waits for it to appear; None where it was stopped.

    Raises UserError where there is none and the test is not endless, or where what was named cannot be used.
    """
    if config.checkpoint is None:
        raise UserError(
            "config=test needs checkpoint=...: latest, best, a run or a .pth (or agent=zero|random to try a task)."
        )
    endless = config.testGamesNum == 0 and config.reloadInterval > 0
    told: str | None = None
    told_at = 0.0
    while not stop.requested:
        try:
            return find_policy(config, task)
        except NothingYet as error:
            if not endless:
                raise
            if str(error) != told or time.monotonic() - told_at > REMIND_INTERVAL:
                log.info("waiting for a policy: %s", error)
                told, told_at = str(error), time.monotonic()
        stop.wait(WAIT_INTERVAL)
    return None


def find_policy(config: RootConfig, task: str | None) -> Found:
    """Resolves `checkpoint` and reads it. Raises NothingYet where it may still come, UserError otherwise."""
    assert config.checkpoint is not None
    start = time.perf_counter()
    selection, state = read_selected(config.checkpoint, Path(config.runsDir), task)
    if selection.note:
        log.info("%s", selection.note)
    return Found(selection, state, 1000 * (time.perf_counter() - start))


def _actor(config: RootConfig, env: Env, found: Found | None) -> LivePolicy | ScriptedActor:
    """Who acts. Raises UserError where the policy does not fit the environment."""
    assert config.seed is not None
    if found is None:
        return ScriptedActor(env, config.agent, config.seed)
    first = candidate_of(found.selection.file, found.state, found.load_ms)
    spec = spec_of(env)
    _check_spec(spec, first)
    train, num_envs, device = config.train, env.num_envs, config.device
    log.info("testing %s: version %d, epoch %d, %s actions", first.file, first.version, first.epoch, _mode(config))
    return LivePolicy(lambda: Policy(spec, train, num_envs, device), first, config.stochastic, config.seed)


def _mode(config: RootConfig) -> str:
    return "stochastic" if config.stochastic else "deterministic"


def _check_spec(spec: PolicySpec, first: Candidate) -> None:
    if first.spec is None:
        log.info("%s does not say what it was trained for (a plain rl_games file); sizes are checked.", first.file.name)
        return
    differs = difference(spec, {}, first.spec, {})
    if differs is not None:
        raise UserError(
            f"{first.file} does not fit this environment: {differs}. Leave out the task.* keys that change it."
        )


def _play(
    config: RootConfig, env: Env, actor: LivePolicy | ScriptedActor, found: Found | None, run: Run, stop: StopFlag
) -> int:
    acting = actor.acting if isinstance(actor, LivePolicy) else None
    env.watch(StateRecorder(env.sim, run.unstable))
    header = {
        "checkpoint": str(found.selection.file.absolute()) if found else None,
        "agent": config.agent,
        "task": config.task.name,
        "seed": config.seed,
        "stochastic": config.stochastic,
    }
    results = Results(env.reason_names, env.success_reason, header)
    endless = config.testGamesNum == 0
    reporter = Reporter(results, run.results_file, env.num_envs, acting, endless)
    player = Player(env, actor, None if endless else quotas(config.testGamesNum, env.num_envs))
    player.attach(reporter)
    with _following(config, actor, found, reporter):
        player.run(stop)
    written = reporter.write()
    try:
        reporter.print_table(console)
    except OSError as error:  # the terminal, or the reader of a pipe, is gone; the results are not
        log.warning("the table could not be shown: %s", error)
    if written:
        log.info("results: %s", run.results_file)
    return 0 if written else 1


@contextlib.contextmanager
def _following(config: RootConfig, actor: Any, found: Found | None, reporter: Reporter) -> Iterator[None]:
    """Watches for newer weights meanwhile, where the checkpoint was not pinned and looking was not switched off."""
    selection = found.selection if found else None
    if selection is None or selection.run is None or selection.follow is None or config.reloadInterval == 0:
        if selection is not None and selection.pinned:
            log.info("a named file is pinned: newer weights are not followed.")
        yield
        return
    run, runs_dir = open_run(selection.run), Path(config.runsDir)
    source = CheckpointSource(run, selection.follow, runs_dir, config.task.name, config.followLatest)
    log.info("following %s, looking every %g s", run.path, config.reloadInterval)
    with Watcher(actor, source, config.reloadInterval, reporter.refusals):
        yield
