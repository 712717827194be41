"""The curriculum's level travels with each version, an endless test follows it, and what people read shows it."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from rich.console import Console

from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict
from livegym.play.board import Board, BoardWriter
from livegym.play.controls import Controls
from livegym.play.play import Listener, Player
from livegym.play.report import Reporter
from livegym.play.results import VERSIONS_KEPT, Results
from livegym.play.swap_guard import GuardRule, SwapGuard
from livegym.play.world import LevelFollower, PlayRule, World, build_world
from livegym.rl.learner import Iteration
from livegym.rl.spec import spec_of
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import bus_file, create_run
from livegym.schema.settled import settled
from livegym.tasks.stats import EpisodeSummary
from livegym.utils.errors import UserError
from livegym.utils.files import strict_json
from livegym.viewers.status import status
from livegym.viewers.view import View
from livegym.weights.bus_reader import BusReader
from livegym.weights.bus_source import BusSource
from livegym.weights.learner import BusObserver
from livegym.weights.publish import Publisher, VersionFacts
from livegym.weights.sources import candidate_of
from tests.bus_weights import weights
from tests.dummy import CountingParams, counting_env
from tests.test_curriculum import HALVES, Succeeding
from tests.test_live import candidate, live_of, policy_of, spec_with
from tests.test_long_tests import scalars
from tests.test_sources import acting, save

# -- on the bus and in files


def test_a_publication_carries_its_level(tmp_path):
    with Publisher(tmp_path / "bus", {}, "", weights(0)) as publisher:
        reader = BusReader(tmp_path / "bus")
        read = []
        for number, level in enumerate((0.25, None, 1.0), 1):
            publisher.publish(weights(number), VersionFacts(number, number, number, None, level))
            read.append(reader.read(number - 1).level)
        assert read == [0.25, None, 1.0]
        assert set(reader.read(0).model) == set(weights(0))  # a reader that does not know levels sees the same arrays
        assert [name for name, *_ in reader.description["arrays"]] == list(weights(0))


def test_the_bus_of_a_writer_that_tells_no_level_is_read_as_before(tmp_path):
    with Publisher(tmp_path / "bus", {}, "", weights(0)) as publisher:
        text = publisher._map.text
        text[:] = memoryview(text.tobytes().replace(b'"level"', b'"other"'))
        publisher.publish(weights(3), VersionFacts(3, 3, 3, None, 0.5))
        publication = BusReader(tmp_path / "bus").read(0)
    assert (publication.version, publication.level) == (3, None)


def test_a_learner_publishes_the_level_of_its_iteration_and_a_follower_is_offered_it(tmp_path):
    run = create_run(tmp_path, "Counting", "train")
    model = policy_of().state()

    class Learner:
        version = 0

        def policy_state(self):
            return model

    observer = BusObserver(interval=1.0)
    observer.begin(run, Learner(), spec_with(), {})
    try:
        report = EpisodeSummary(level=0.75)
        observer.after_iteration(Iteration(1, 1, 10, 10, 1.0, 0.5, 0.5, None, None, False, report=report))
        offered = BusSource(run, bus_file(run.run_id)).poll(acting(run, 0))
    finally:
        observer.end(complete=True)
    assert (offered.version, offered.level) == (1, 0.75)


@pytest.mark.parametrize(("learner", "level"), [({"curriculum": 0.3}, 0.3), ({}, None), ({"curriculum": 7.0}, None)])
def test_a_file_carries_its_level_and_an_old_one_none(tmp_path, learner, level):
    file = save(create_run(tmp_path, "Counting", "train"), 1, learner=learner)
    assert candidate_of(file, torch.load(file, weights_only=True), 0.0).level == level


# -- in a test


def env_of(length=3, **changes):
    curriculum = dataclasses.replace(HALVES, episodes=10**6)
    return counting_env(length=length, task=Succeeding, params=CountingParams(), curriculum=curriculum, **changes)


class OfferAtStep(Listener):
    """Offers a version before each of the given steps."""

    def __init__(self, live, offers):
        self.live, self.offers, self.steps = live, offers, 0

    def on_step(self, step, player):
        self.steps += 1
        if self.steps in self.offers:
            self.live.prepare(self.offers[self.steps])


def test_an_endless_test_follows_the_level_and_everything_that_people_read_shows_it(tmp_path, caplog):
    caplog.set_level("INFO")
    env = env_of()
    env.set_level(0.0)
    live = live_of(candidate(1, level=0.0), history=4)
    offers = {2: candidate(2, level=0.5), 5: candidate(3, level=None), 10: candidate(4, level=0.25)}
    results, board, controls = Results({"task": "Counting"}), Board(), Controls(speed=None)
    reporter = Reporter(results, tmp_path / "results.json", endless=True, summaries=tmp_path / "summaries")
    player = Player(env, live)
    player.attach(LevelFollower(live))
    player.attach(reporter.begin(env, live))
    player.attach(BoardWriter(board, World(env, live, None), results, controls))
    player.attach(OfferAtStep(live, offers))
    steps = iter(range(16))
    player.run(lambda: next(steps, None) is None)

    # three steps an episode; an episode's level is the one at which it began
    played = [(e["level"], e["versions"]) for e in results.episodes if e["env"] == 0]
    assert played == [(0.0, [1, 2]), (0.5, [2, 3]), (0.5, [3]), (0.5, [3, 4]), (0.25, [4])]
    # at level 0 a step earns 3, at level 1 it earns 1, and in between in proportion
    assert [e["return"] for e in results.episodes if e["env"] == 0] == pytest.approx(
        [3 + 3 + 2, 6.0, 6.0, 2 + 2.5 * 2, 7.5]
    )
    assert [label for label, level in results.levels.items()] == [1, 2, 4]  # of the third one nobody knows
    assert "curriculum level 0.50 (before: 0.00), that of version 2" in caplog.text
    assert "version 4, epoch 4, training score –, curriculum level 0.25" in caplog.text

    assert reporter.write()
    assert scalars(tmp_path / "summaries", "test/level") == [(4, pytest.approx((0.0 + 0.5 + 0.5 + 0.5 + 0.25) / 5))]
    written = json.loads((tmp_path / "results.json").read_text())
    assert [swap["level"] for swap in written["swaps"]] == [0.5, None, 0.25]
    assert {label: v["level"] for label, v in written["by_version"].items()} == {
        "1": 0.0,
        "2": 0.5,
        "3": None,
        "4": 0.25,
    }

    console = Console(width=100)
    with console.capture() as caught:
        reporter.print_table(console)
    assert "0.00 to 0.50" in caught.get()
    assert "level" in caught.get().partition("the last 10 versions")[2]

    state = board.state
    assert (state["level"], state["policy"]["level"]) == (0.25, 0.25)
    assert [p[2]["level"] for p in board.since(0) if p[1] == "episode" and p[2]["env"] == 0][:2] == [0.0, 0.5]
    assert strict_json(state)
    assert "level" in status(state, View(), 0.0)[0]
    assert "0.25" in status(state | {"level": 0.5}, View(), 0.0)[1].split("\n")[-3]


def test_the_levels_of_more_versions_than_are_kept_are_dropped():
    results = Results({})
    for version in range(VERSIONS_KEPT + 3):
        results.note_level(version, 0.5)
    assert len(results.levels) == VERSIONS_KEPT


@pytest.mark.parametrize(
    ("arguments", "level", "follows"),
    [
        (("testGamesNum=0",), 0.3, True),
        (("testGamesNum=5",), 0.3, False),  # a result is of one level
        (("testGamesNum=0", "task.curriculum.level=0.7"), 0.7, False),
        (("testGamesNum=0", "task.curriculum=null"), 1.0, False),
    ],
)
def test_a_level_that_was_typed_stays(config, arguments, level, follows):
    saved = config("task=BaseTask", "task.curriculum={params: {tolerance: 0.5}}")
    given = settled(config("config=test", "numEnvs=1", *[a for a in arguments if not a.startswith("task.")]))
    session = Session(given, Provenance("", "", list(arguments), []))
    merged = session.config_for(as_dict(saved))
    scratch = build_world(dataclasses.replace(merged, agent="zero"), None)
    first = candidate(1, spec_of(scratch.env), merged.train, level=0.3)
    scratch.close()
    world = build_world(merged, first, PlayRule.of(session, merged))
    try:
        assert (world.env.curriculum.level, world.follows_level) == (level, follows)
    finally:
        world.close()


def test_the_guard_lets_both_versions_play_at_the_level_of_the_new_one():
    live = live_of(candidate(1, bias=0.25, level=0.0))
    env = env_of()
    guard = SwapGuard(env, policy_of(), GuardRule(4, 0.0, 0.9), stochastic=False, follows_level=True)
    guard.judge(candidate(2, bias=0.25, level=1.0), live, lambda: False)  # equally good: both earn 3 an episode
    assert env.curriculum.level == 1.0
    fixed = SwapGuard(env_of(), policy_of(), GuardRule(4, 0.0, 0.9), stochastic=False)
    fixed.judge(candidate(2, bias=0.25, level=1.0), live, lambda: False)
    assert fixed._env.curriculum.level == 0.0
    env.task.reward = lambda state, action: {"alive": action[:, 0], "step_number": torch.zeros(2)}
    with pytest.raises(UserError, match=r"mean return 0.375 against 0.75"):
        guard.judge(candidate(3, bias=0.125, level=0.5), live, lambda: False)
