"""Continuous training (`config=continuous`), from a checked configuration to the end of the run.

Serving and training are two processes that share the run's directory. This one decides, stores experience and answers
clients. The other one (`online/worker.py`) trains and publishes versions, which this one adopts between two decisions,
as a viewer does.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import queue
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from livegym.cfg.overrides import typed_safely
from livegym.cfg.typed import as_dict, plain_dict, to_yaml
from livegym.live.model_slot import SPACED
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.online.backup_policy import with_fixed_policy
from livegym.online.decider import Decider, StreamSlots
from livegym.online.experience import Layout
from livegym.online.gates import GateAdapter, gate_of, layout_of, make_gate
from livegym.online.outcomes import Outcomes
from livegym.online.outliers import watch_of
from livegym.online.saving import CheckpointWriter
from livegym.online.service import Service
from livegym.online.service_state import STREAMS, ServiceState
from livegym.play.watch import Watcher
from livegym.projects.commands import command
from livegym.rl.actor_critic import ActorCritic, OffPolicyRule
from livegym.rl.algorithm import algorithm_of
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, spec_of
from livegym.rl.training import Parent, explained_if_resumed
from livegym.rundir.checkpoint import clean_temporaries, newest_usable
from livegym.rundir.lock import RunLock
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import Run, begin_run, record_resume
from livegym.schema.settled import SettledConfig
from livegym.serve.dashboard import Dashboard
from livegym.serve.front import control_of, served
from livegym.serve.guard import champion_of
from livegym.serve.history_file import HistoryFile
from livegym.serve.inbox import Inbox
from livegym.serve.latencies import Latencies
from livegym.serve.leases import StreamLeases
from livegym.serve.loop import Loop
from livegym.serve.metrics import Curves
from livegym.serve.picture import pictures_of
from livegym.serve.progress import StreamProgress
from livegym.serve.server import OnlineApi
from livegym.serve.simulator import BuiltIn, streams_of
from livegym.serve.status import Status
from livegym.serve.streams import check_external, describe, features_of, page_of, reward_of
from livegym.serve.watchdog import Watchdog
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.matches import check_match
from livegym.tasks.stream_task import StreamTask
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text, strict_json
from livegym.utils.log import console, file_log
from livegym.utils.seeding import seed_everything
from livegym.utils.signals import StopFlag
from livegym.utils.words import count
from livegym.web.opening import page_address
from livegym.weights.follow import FollowSource
from livegym.weights.offer import Offer
from livegym.weights.sources import CheckpointSource, candidate_of

log = logging.getLogger(__name__)

LEARNED_FROM = 10
"""Least time between two swaps, as a multiple of a blend's duration: 9 of 10 decisions are then trained on."""


def run_continuous(config: SettledConfig, provenance: Provenance, stop: StopFlag, parent: Parent | None) -> int:
    """Serve and train until a stop is requested; return the exit status, which is 0 after a stop too.

    `parent`: if `config.resume`, the run to resume; otherwise the checkpoint from which a new run takes its weights.
    Raises UserError if the run cannot start.
    """
    seed_everything(config.seed)
    torch.set_num_threads(1)  # a forward pass has few rows; more threads would contend with the trainer
    if config.online.look_ahead_policy is not None:
        config = with_fixed_policy(config)
        provenance = replace(provenance, config_yaml=to_yaml(plain_dict(config)))
    count = config.numEnvs if config.simulator == "builtin" else 1
    with explained_if_resumed(config, provenance, parent):
        env = make_env(config.task, config.sim, config.physics, count, config.seed)
    with contextlib.ExitStack() as resources:
        resources.callback(env.sim.close)
        if config.simulator == "external":
            check_external(env)
        _check(config, env)
        plan = _Plan(config, env, make_gate(config, count))
        if stop.requested:
            log.info("stopped before the run was created.")
            return 0
        if config.resume and parent is not None and parent.run is not None:
            run, memory = _resume(plan, parent.run, provenance, resources)
        else:
            run, memory = _begin(plan, provenance, parent, resources)
        return _serve(plan, run, memory, stop)


@dataclass(frozen=True)
class _Plan:
    """Configuration, environments and gate of the run, and what follows from them."""

    config: SettledConfig
    env: Env
    adapter: GateAdapter | None

    @property
    def spec(self) -> PolicySpec:
        """Observations and action that the policy must have."""
        return spec_of(self.env)

    @property
    def layout(self) -> Layout:
        """Layout of one experience in the replay buffer."""
        return layout_of(self.spec, self.adapter)

    @property
    def rule(self) -> SwapRule:
        """How new versions take over."""
        config = self.config
        steps = max(1, round(config.blendSeconds / self.env.sim.control_dt))
        return SwapRule(config.swap, steps, config.minSwapInterval, config.historySize, SPACED)

    @property
    def discount(self) -> float:
        """Discount for each control step."""
        return algorithm_of(self.config.train).actor_critic(self.spec, self.config.train).discount

    def policy(self, slots: int) -> Policy:
        """Return an untrained model for `slots` streams."""
        return Policy(self.spec, self.config.train, slots, self.config.device)

    def source(self, run: Run) -> FollowSource:
        """Return the source of newer versions of a run."""
        config = self.config
        files = CheckpointSource(run, "newest", Path(config.runsDir), config.task.name)
        return FollowSource(files, "files" if config.weights == "files" else "auto", config.reloadInterval)

    def facts(self, run: Run) -> dict[str, Any]:
        """Return the constant entries of the status; see `Status`."""
        config = self.config
        return {
            "task": config.task.name,
            "title": self.env.task.title or config.task.name,
            "run": run.name,
            "simulator": config.simulator,
            "gate": gate_of(config.gate, config.task.name),
            "playSpeed": play_speed(config),
            "capacity": config.online.buffer_capacity,
        }


def play_speed(config: SettledConfig) -> float:
    """Simulated time per second of the built-in simulator: real time by default; 0: as fast as possible."""
    return 1.0 if config.playSpeed is None else config.playSpeed


def _check(config: SettledConfig, env: Env) -> None:
    """Raises UserError for settings and algorithms that continuous training does not support."""
    algorithm_of(config.train).actor_critic(spec_of(env), config.train)
    check_match(config.task.name, env.seats, "continuous")
    if config.swap == "reset":
        raise UserError(
            "swap=reset: a live stream may have no episodes, and would then keep the old weights forever. "
            "Allowed in config=continuous: now, blend"
        )
    speed = (play_speed(config) if config.simulator == "builtin" else 0) or 1.0
    least = LEARNED_FROM * max(config.blendSeconds, env.sim.control_dt) / speed
    if config.swap == "blend" and config.minSwapInterval < least:
        raise UserError(
            f"swap=blend minSwapInterval={config.minSwapInterval:g}: decisions made during a blend are not trained on, "
            f"and a new version comes with each update round. Allowed: swap=now, or minSwapInterval={least:g} or more "
            f"(in s: {LEARNED_FROM} blends, or {LEARNED_FROM} observations if these take longer)"
        )
    if config.online.pending_capacity < env.num_envs:
        raise UserError(
            f"online.pending_capacity={config.online.pending_capacity}: less than numEnvs={env.num_envs}, whose "
            f"decisions are all pending at once. Allowed: {env.num_envs} or more"
        )
    if config.reloadInterval == 0:
        raise UserError("reloadInterval=0: trained versions would never be served. Allowed: more than 0 s")
    page_address(config)
    page_of(config.streamPage)
    if isinstance(env.task, StreamTask):
        env.task.picture_path()


def first_state(config: SettledConfig, spec: PolicySpec, parent: Parent | None) -> dict[str, Any]:
    """Return the initial weights and optimizer of a new run. Raises UserError if the parent's weights do not fit."""
    online = config.online
    network = algorithm_of(config.train).actor_critic(spec, config.train)
    learner = ActorCritic(spec, network, OffPolicyRule(network.discount), online.learning_rate)
    if parent is not None:
        parent.check_fits(spec, config.train)
        learner.load_model(parent.state["model"])
    return learner.state()


def _resume(plan: _Plan, run: Run, provenance: Provenance, resources: contextlib.ExitStack) -> tuple[Run, ServiceState]:
    """Open an existing run and lock it until the end. Raises UserError if another process has the lock."""
    resources.enter_context(RunLock(run))
    resources.enter_context(file_log(run.log_file))
    clean_temporaries(run.nn)
    record_resume(run, provenance, to_yaml(plain_dict(plan.config)))
    log.info("resuming %s", run.path)
    return run, ServiceState(run, plan.layout, plan.config.online)


def _begin(
    plan: _Plan, provenance: Provenance, parent: Parent | None, resources: contextlib.ExitStack
) -> tuple[Run, ServiceState]:
    """Create a run with its buffer and a first checkpoint, and lock it until the end.

    If one of these fails, the run's directory is removed. Raises UserError then.
    """
    config, spec = plan.config, plan.spec
    first = first_state(config, spec, parent)
    run = begin_run(Path(config.runsDir), config.task.name, "continuous", provenance, plan.env.task.title)
    try:
        memory = ServiceState(run, plan.layout, config.online)
        checkpoints = CheckpointWriter(run, spec, as_dict(config), saved=0, best=None)
        if not checkpoints.save(first, version=1, trainings=0, added=0, score=None):
            raise UserError(
                f"{run.path}: {checkpoints.problem}. Free disk space, or choose another directory: runsDir=...",
                exit_code=1,
            )
    except UserError:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    resources.enter_context(RunLock(run))
    resources.enter_context(file_log(run.log_file))
    if parent is not None:
        origin = {"file": str(parent.file.absolute()), "run_id": parent.run.run_id if parent.run else None}
        atomic_write_text(run.parent_file, strict_json({**origin, "version": parent.version}))
        log.info("starting from the weights of %s", parent.file)
    return run, memory


def live_policy(run: Run, make_policy: Callable[[], Policy], rule: SwapRule, seed: int) -> LivePolicy:
    """Return a live policy that acts with the run's newest version, in models that `make_policy` builds.

    Raises UserError if the run has no usable checkpoint.
    """
    start = time.perf_counter()
    usable = newest_usable(run)
    if usable is None:
        raise UserError(f"{run.path}: no usable checkpoint in {run.nn}. Choose another run: checkpoint=...")
    first = candidate_of(usable.path, usable.state, 1000 * (time.perf_counter() - start))
    return LivePolicy(make_policy, first, True, seed, rule)  # stochastic, because training needs exploration


def _serve(plan: _Plan, run: Run, memory: ServiceState, stop: StopFlag) -> int:
    config = plan.config
    env = plan.env
    online = plan.config.online
    facts = plan.facts(run)
    slots = max(online.max_streams, env.num_envs)
    own = streams_of(env) if config.simulator == "builtin" else []
    address, inbox = page_address(config), Inbox()
    with contextlib.ExitStack() as resources:
        resources.callback(lambda: memory.save(without=frozenset(own)))
        live = live_policy(run, lambda: plan.policy(slots), plan.rule, config.seed)
        leases = StreamLeases(online.max_streams)
        places = StreamSlots(slots, online.pending_ttl_s, leases.holds, memory.pending.waits)
        decider = Decider(live, plan.adapter, places, plan.spec)
        rewards = watch_of(memory.writer, online.outlier_factor, config.task.max_reward)
        outcomes = Outcomes(plan.discount, max(STREAMS, slots), online.pending_capacity, rewards)
        service = Service(decider, memory, features_of(env), reward_of(env), own, outcomes, rewards)
        watchdog = Watchdog(run, config)
        champion = champion_of(config, run, plan.layout, decider, outcomes, watchdog)
        review = champion.review if champion is not None else lambda: None
        source, offer = plan.source(run), Offer()
        offer.publish(replace(live.acting, model=live.weights()[1]), run)
        watcher = Watcher(
            live, source, queue.SimpleQueue(), champion, regularly=review, seen=lambda c: offer.publish(c, run)
        )
        simulator = BuiltIn(env, service, play_speed(config)) if own else None
        latencies, page = Latencies(), page_of(config.streamPage)
        api = OnlineApi(
            inbox, describe(env), address.access, leases, latencies.add, online.stream_rate, memory.not_learned, page,
        )  # fmt: skip
        status = Status(facts, service, watchdog, api.counts, champion, latencies, lambda: memory.not_learned.streams)
        loop = Loop(service, memory, simulator, inbox, status)
        resources.enter_context(HistoryFile(run.history_file, loop.points))
        log.info("continuous training of %s, gate %s; %s", facts["task"], facts["gate"], run.path)
        pictures = pictures_of(env.task, service.tally)
        control = control_of(live, watchdog, champion, memory.not_learned)
        dashboard = Dashboard(status.reading, loop.points, pictures, control, address.access, status.stream_rewards)
        resources.enter_context(served(address, api, dashboard, status, offer))
        resources.callback(inbox.close)
        watchdog.start()
        resources.callback(watchdog.stop)
        resources.enter_context(watcher)
        curves = Curves(run.summaries, max(service.writer.added, live.newest.epoch))
        progress = resources.enter_context(StreamProgress(f"continuous training of {facts['task']}", console))
        resources.enter_context(short_collections())
        loop.run(stop, resources.enter_context(contextlib.closing(curves)), progress)
    _report(run, service)
    return 0


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Exempt the objects that exist now from garbage collection.

    Libraries make 250,000 of them. A full collection looks at each, which stops all decisions for 0.13 s or more, and
    clients that come and go cause one every few seconds.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _report(run: Run, service: Service) -> None:
    rewards = service.tally.rewards
    log.info(
        "stopped after %s; mean of the last %s: %s; %s",
        count(service.tally.decisions, "decision"),
        count(len(rewards), "reward"),
        f"{sum(rewards) / len(rewards):.3f}" if rewards else "unknown",
        run.path,
    )
    log.info("to resume: %s", command("config=continuous", "resume=true", typed_safely("checkpoint", str(run.path))))
