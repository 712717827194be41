"""A test: finds the policy, builds the environments it was trained in, plays, follows newer weights, and reports.

The run determines what its policy was trained with: task, network, normalisation, observation and action spec, control
rate, and physics. The session determines engine, device, number of environments, seed, and how weights are followed
(`cfg/origin.py`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from livegym.cfg.older_run import explained_for_run
from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict, to_yaml
from livegym.play.audience import Audience
from livegym.play.copy_cleaner import CopyCleaner
from livegym.play.idle import YieldsToTraining
from livegym.play.play import Listener, Player, quotas
from livegym.play.report import Reporter
from livegym.play.results import Results
from livegym.play.starting import StartingPolicy, find_policy, source_of, wait_for_policy
from livegym.play.watch import Versions, Watcher
from livegym.play.world import LevelFollower, PlayRule, World, build_world, trained_otherwise, world_for
from livegym.rundir.run import Run, begin_run, point_latest
from livegym.schema.settled import SettledConfig
from livegym.sim.recorder import StateRecorder
from livegym.tasks.env import Step
from livegym.utils.errors import UserError
from livegym.utils.log import console, file_log
from livegym.utils.priority import make_idle
from livegym.utils.seeding import seed_everything
from livegym.utils.signals import StopFlag
from livegym.weights.address_source import AddressSource
from livegym.weights.archive import Archive
from livegym.weights.candidate import Candidate
from livegym.weights.follow import FollowSource

log = logging.getLogger(__name__)


def run_test(session: Session, stop: StopFlag, audience: Audience) -> int:
    """Test a policy. Returns the exit status, which is 0 even after Ctrl+C.

    The session's keys inside `task.` are applied to the run's configuration. The audience is closed at the end. Raises
    UserError if nothing can be tested.
    """
    with contextlib.closing(audience):
        status = _test(session, stop, audience)
    return status or int(audience.failed)


def _test(session: Session, stop: StopFlag, audience: Audience) -> int:
    found, config = None, session.config
    if config.agent == "policy":
        found = _find(session, stop, audience)
        if found is None:
            log.info("the test was stopped before there was a policy to test.")
            return 0
        config = session.config_for(found.candidate.config)
    seed_everything(config.seed)
    torch.set_num_threads(1)  # more intra-op threads would contend with the physics threads
    first = found.candidate if found is not None else None
    with explained_for_run(first.file, config.task, session.typed) if first is not None else contextlib.nullcontext():
        world = build_world(config, first, PlayRule.of(session, config))
    source = source_of(config, found, config.task.name)

    def seen(candidate: Candidate) -> None:
        audience.offer(candidate, source.run if source is not None else None)

    if first is not None:
        seen(first)

    def build_for(candidate: Candidate) -> World:
        return world_for(candidate, session, first.run if first is not None else "")

    def other_world(candidate: Candidate, world: World) -> World | None:
        here = world.config
        return build_for(candidate) if here is not None and trained_otherwise(candidate, session, here) else None

    text = to_yaml(as_dict(config))  # includes the values from the run
    provenance = replace(session.provenance, config_yaml=text)
    run = begin_run(Path(config.runsDir), config.task.name, "test", provenance)
    point_latest(run.path.parent, "test", run)
    with file_log(run.log_file), contextlib.ExitStack() as stack:
        if isinstance(source, AddressSource):
            stack.callback(source.close)
        follow = Following(source, build_for if config.onMismatch == "reinit" else None, other_world, seen)
        results = Results(_header(config, found, world.env.curriculum.level))
        if config.priority == "idle":
            make_idle()
        yields = config.priority == "auto" and config.testGamesNum == 0
        plan = Plan(config.testGamesNum, config.episodesPerVersion, yields, watched=config.watch or config.viewer)
        return _play(world, follow, results, plan, TestContext(run, stop, audience))


def _find(session: Session, stop: StopFlag, audience: Audience) -> StartingPolicy | None:
    """The policy that `checkpoint` names; None if the test was stopped. Raises UserError if there is none."""
    config = session.config
    if config.checkpoint is None:
        raise UserError(
            "config=test needs checkpoint=...: latest, best, a run, a .pth or the address of a server (or "
            "agent=zero|random to try a task)."
        )
    patient = config.testGamesNum == 0 and config.reloadInterval > 0
    return wait_for_policy(lambda: find_policy(config, session.task), patient, stop, audience.wait)


def _header(config: SettledConfig, found: StartingPolicy | None, level: float) -> dict[str, Any]:
    """The keys of `results.json` that describe the whole test; `level`: of the curriculum, 1 is the full task."""
    return {
        "checkpoint": found.origin if found else None,
        "agent": config.agent,
        "task": config.task.name,
        "seed": config.seed,
        "stochastic": config.stochastic,
        "swap": config.swap,
        "pool_envs": config.poolEnvs,
        "level": level,
    }


@dataclass(frozen=True)
class Following:
    """The source of newer weights, and the function that builds a world for a version that does not fit.

    `source` is None if nothing is followed, and `build_for` is None if versions that do not fit are refused.
    `other_world` builds a world for a version that fits but was trained in other environments; None if it was not.
    `seen` is called with each version that the source offers.
    """

    source: FollowSource | AddressSource | None
    build_for: Callable[[Candidate], World] | None
    other_world: Callable[[Candidate, World], World | None]
    seen: Callable[[Candidate], None] = lambda candidate: None


@dataclass(frozen=True)
class Plan:
    """How much a test plays, and how it shares the processor."""

    episodes: int  # 0: until a stop
    per_version: int  # episodes; 0: versions take over as they arrive
    yields: bool  # it yields the processor to the training run that it follows
    watched: bool  # it has a window or a page


@dataclass(frozen=True)
class TestContext:
    """The surroundings of a test: its directory, its stop flag, and its audience."""

    run: Run
    stop: StopFlag
    audience: Audience

    def ended(self) -> bool:
        """Whether the test should end: a stop was requested, or a viewer was closed."""
        return self.stop.requested or self.audience.gone


def _play(world: World, follow: Following, results: Results, plan: Plan, stage: TestContext) -> int:
    """Play what is planned, and report it. Returns the exit status."""
    reporter = Reporter(results, stage.run.results_file, plan.episodes == 0, stage.run.summaries)
    try:
        _play_all(world, follow, reporter, plan, stage)
    except BaseException:
        reporter.write()  # an error of the environments must not cost the results so far
        raise
    written = reporter.write()
    try:
        reporter.print_table(console)
    except OSError as error:  # the terminal or the reader of the pipe is gone; the results are written nevertheless
        log.warning("the table of results could not be printed: %s", error)
    if written:
        log.info("results: %s", stage.run.results_file)
    return 0 if written else 1


def _play_all(world: World, follow: Following, reporter: Reporter, plan: Plan, stage: TestContext) -> None:
    """Play in one world after the other: a version that does not fit needs a new one."""
    run, audience = stage.run, stage.audience
    left = quotas(plan.episodes, world.env.num_envs) if plan.episodes else None
    source = follow.source
    while True:
        world.env.watch(StateRecorder(world.env.sim, run.unstable))
        per_version = quotas(plan.per_version, world.env.num_envs) if plan.per_version else None
        player = Player(world.env, world.actor, left, audience.controls, per_version)
        if world.follows_level and world.live is not None:
            player.attach(LevelFollower(world.live))  # first: the listeners below report the level
        player.attach(reporter.begin(world.env, world.live))
        if source is not None:
            player.attach(_NewerRunNote(source, reporter.results))
            if plan.yields:
                player.attach(YieldsToTraining(lambda: source.run, plan.watched))
        with contextlib.closing(world):
            audience.begin(world, player, reporter.results, run)
            successor = _play_in(world, follow, player, reporter, stage)
        if successor is None:
            return
        world, left = successor, player.left
        if world.live is not None:
            reporter.note_new_world(world.live)


def _nothing() -> None:
    """Clean up nothing: no copy of the run is here."""


class _NewerRunNote(Listener):
    """Records in the results, which viewers show, whether there is a newer run that the test does not follow."""

    def __init__(self, source: FollowSource | AddressSource, results: Results) -> None:
        self._source, self._results = source, results

    def on_step(self, step: Step, player: Player) -> None:
        """Called after each control step."""
        self._results.newer_run = self._source.newer_run

    def on_rest(self, player: Player) -> None:
        """Called while the loop is paused, or ahead of its clock."""
        self._results.newer_run = self._source.newer_run


def _play_in(world: World, follow: Following, player: Player, reporter: Reporter, stage: TestContext) -> World | None:
    """Play in one world until the test ends. Returns the next world if a new version needs one, otherwise None."""
    ended = stage.ended
    if follow.source is None or world.live is None:
        player.run(ended)
        return None

    def other_world(candidate: Candidate) -> World | None:
        return follow.other_world(candidate, world)

    source = follow.source
    archive: Versions
    if isinstance(source, AddressSource):
        archive, clean = source.archive, _nothing
    else:
        archive = Archive(lambda: source.run, world.live.first_run)
        clean = CopyCleaner(world.live, lambda: source.run, stage.run).clean
    with Watcher(
        world.live, source, reporter.refusals, world.guard, follow.build_for, other_world, archive, clean,
        seen=follow.seen,
    ) as watcher:  # fmt: skip
        player.run(lambda: ended() or watcher.successor is not None)
    if watcher.successor is not None and (player.done or ended()):
        watcher.successor.close()
        return None
    return watcher.successor
