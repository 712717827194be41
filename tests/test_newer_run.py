"""A live run wins: when a test leaves its run for a newer one, and what it says if it does not."""

from __future__ import annotations

import contextlib
import queue

import pytest

from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict
from livegym.play.board import Board, BoardWriter
from livegym.play.controls import Controls
from livegym.play.results import Results
from livegym.play.status_log import StatusLog
from livegym.play.watch import Watcher
from livegym.play.world import World, trained_otherwise
from livegym.rundir.lock import RunLock
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import create_run, point_latest
from livegym.schema.settled import settled
from livegym.utils.errors import UserError
from livegym.viewers.status import status
from livegym.viewers.view import View
from livegym.weights.follow import FollowSource
from livegym.weights.newer_run import Leaving, NewerRun
from livegym.weights.sources import CheckpointSource
from tests.dummy import counting_env
from tests.processes import SMALL, Running, run
from tests.test_live import candidate, live_of
from tests.test_sources import Offers, acting, save

ALL = list(Leaving)


class Runs:
    """A directory of runs, each of which may be live."""

    def __init__(self, folder):
        self.folder, self.locks = folder / "runs", contextlib.ExitStack()

    def made(self, task="Counting", kind="train", saved=True, pointed=True, live=False):
        run = create_run(self.folder, task, kind)
        if saved:
            save(run, 1)
        if pointed:
            point_latest(self.folder, "train", run)
        if live:
            self.begin(run)
        return run

    def begin(self, run):
        return self.locks.enter_context(RunLock(run))


@pytest.fixture
def runs(tmp_path):
    made = Runs(tmp_path)
    with made.locks:
        yield made


def names(found) -> str | None:
    return None if found is None else found.name


@pytest.mark.parametrize("leaving", ALL)
@pytest.mark.parametrize("old_live", [False, True])
@pytest.mark.parametrize("new_live", [False, True])
def test_a_newer_run_wins_by_the_rule_and_is_named_where_it_does_not(runs, leaving, old_live, new_live):
    old = runs.made(live=old_live)
    watch = NewerRun(runs.folder, "Counting", leaving)
    assert (watch.successor(old), watch.newer) == (None, None)
    new = runs.made(live=new_live)
    leaves = leaving is Leaving.ALWAYS or (leaving is Leaving.WHEN_ENDED and not old_live)
    found = watch.successor(old)
    assert (names(found), watch.newer) == ((new.name, None) if leaves else (None, new.name))
    if leaves:  # a run that has ended yields to one that trains, even to an older one
        assert names(watch.successor(new)) == (old.name if old_live and not new_live else None)


def test_a_run_that_is_live_is_left_as_soon_as_it_ends(runs):
    old = runs.made()
    lock = runs.begin(old)
    watch = NewerRun(runs.folder, "Counting", Leaving.WHEN_ENDED)
    new = runs.made()
    assert watch.successor(old) is None
    lock.release()
    assert names(watch.successor(old)) == new.name


def test_a_live_run_wins_over_one_that_is_named_last_and_nobody_goes_back(runs):
    """An old run is resumed, while `latest_train` names a later one which has ended."""
    resumed = runs.made()
    pointed = runs.made()
    watch = NewerRun(runs.folder, "Counting", Leaving.WHEN_ENDED)
    assert watch.successor(pointed) is None
    lock = runs.begin(resumed)
    assert names(watch.successor(pointed)) == resumed.name
    lock.release()
    assert watch.successor(resumed) is None  # the pointer has not moved
    assert watch.newer is None


@pytest.mark.parametrize("leaving", ALL)
def test_of_two_live_runs_neither_wins_for_ever(runs, leaving):
    one, other = runs.made(live=True), runs.made(live=True)
    watch = NewerRun(runs.folder, "Counting", leaving)
    followed = one
    moves = []
    for _ in range(6):
        found = watch.successor(followed)
        moves.append(found is not None)
        followed = found or followed
    assert sum(moves) == (leaving is Leaving.ALWAYS)
    assert watch.newer == (None if followed.name == other.name else other.name)
    assert watch.successor(other) is None


@pytest.mark.parametrize(
    "other",
    [
        {"task": "Other"},
        {"saved": False},
        {"saved": False, "live": True},
        {"kind": "test", "saved": False, "pointed": False, "live": True},
    ],
)
def test_other_tasks_tests_and_runs_without_a_checkpoint_win_nothing(runs, other):
    old = runs.made()
    watch = NewerRun(runs.folder, "Counting", Leaving.ALWAYS)
    runs.made(**other)
    assert (watch.successor(old), watch.newer) == (None, None)


def test_nothing_is_searched_while_nothing_has_changed(runs):
    old = runs.made()
    watch = NewerRun(runs.folder, "Counting", Leaving.WHEN_ENDED)
    assert [watch.changed(old) for _ in range(3)] == [True, False, False]
    lock = runs.begin(old)
    assert [watch.changed(old) for _ in range(2)] == [True, False]
    runs.made()
    assert [watch.changed(old) for _ in range(2)] == [True, False]
    lock.release()
    assert watch.changed(old)


def test_a_follower_of_files_goes_over_at_once_though_it_polls_rarely(runs, monkeypatch):
    monkeypatch.setattr("livegym.weights.follow.RUN_CHECK", 0.0)
    old = runs.made()
    source = FollowSource(CheckpointSource(old, "newest", runs.folder, "Counting", Leaving.WHEN_ENDED), "auto", 1e4)
    assert source.poll(acting(old, 1)) is None
    new = runs.made(live=True)
    found = source.poll(acting(old, 1))
    assert (found.run, found.version, source.newer_run) == (new.name, 1, None)


def test_page_window_and_status_line_show_a_newer_run(caplog):
    caplog.set_level("INFO")
    env, live = counting_env(num_envs=2, length=3), live_of(candidate(1))
    results, board = Results({"task": "Counting"}), Board()
    status_log = StatusLog(results)
    results.newer_run = "Counting_train_20260102_120008"
    BoardWriter(board, World(env, live, None), results, Controls())
    assert board.state["newer_run"] == results.newer_run
    names, values = status(board.state, View(), 0.0)
    assert dict(zip(names.split("\n"), values.split("\n"), strict=True))["newer run"] == results.newer_run
    status_log._logged_at = -1e9
    status_log.refresh(1)
    assert "acting: version 1; there is a newer run: Counting_train_20260102_120008" in caplog.text


class OffersUntilRefused(Offers):
    """A source that offers one candidate until it is refused."""

    def refuse(self, candidate, for_good):
        self.offered = None


def offered_to_a_world_of_run_r(other_world, pin=False):
    live, events = live_of(candidate(1, run_id="r"), history=2), queue.SimpleQueue()
    if pin:
        live.pin()
        live.adopt()
    watcher = Watcher(live, OffersUntilRefused(candidate(2, run_id="s")), events, other_world=other_world)
    watcher.poll()
    if watcher.successor is None:  # otherwise the thread ends
        watcher.poll()
    return live, watcher, events


def test_a_version_of_a_run_that_was_trained_otherwise_gets_a_world_of_its_own():
    asked = []
    live, watcher, _ = offered_to_a_world_of_run_r(lambda c: asked.append(c.version) or "a world")
    assert (watcher.successor, live.newest.version) == ("a world", 1)
    live, watcher, _ = offered_to_a_world_of_run_r(lambda c: asked.append(c.version))  # the same environments
    assert (watcher.successor, live.newest.version) == (None, 2)
    assert asked == [2, 2]  # compared once a run
    live, watcher, _ = offered_to_a_world_of_run_r(lambda c: asked.append(c.version), pin=True)
    assert (asked, live.newest.version) == ([2, 2], 1)

    def refuse(_):
        raise UserError("no such algorithm")

    live, _, events = offered_to_a_world_of_run_r(refuse)
    assert (live.newest.version, events.get().reason) == (1, "no such algorithm")
    assert events.empty()


@pytest.mark.parametrize(
    ("other", "typed", "otherwise"),
    [
        (["physics.substeps=2"], [], True),
        (["physics.substeps=2"], ["physics.substeps=1"], False),  # what is typed applies to both
        (["task.rewards.upright=2"], [], True),
        (["task.params.max_push=12"], [], True),
        (["train.network.activation=relu"], [], True),  # the weights have the same shapes
        (["train.network.mean_scale=0.5"], [], True),
        (["train.normalize_input=false"], [], True),
        (
            [
                "numEnvs=9",
                "seed=3",
                "train.gamma=0.5",
                "train.network.initial_log_std=-1",
                "task.num_envs=7",
                "swap=blend",
            ],
            [],
            False,
        ),
    ],
)
def test_what_makes_another_world(config, other, typed, otherwise):
    session = Session(settled(config("config=test", "seed=1", "numEnvs=1", *typed)), Provenance("", "", typed, []))
    here = session.config_for(as_dict(config("task=Cartpole")))
    found = candidate(2, config=as_dict(config("task=Cartpole", *other)))
    assert trained_otherwise(found, session, here) == otherwise
    assert not trained_otherwise(candidate(2), session, here)


@pytest.mark.slow
def test_train_stop_train_again_and_the_test_that_was_open_goes_over_by_itself(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=2").returncode == 0
    with Running(tmp_path, "config=test", "testGamesNum=0", "checkpoint=latest") as test:
        test.wait_for("following")
        with Running(tmp_path, *SMALL, "maxIterations=100000", name="training") as training:
            test.wait_for("there is a newer run: following")
            test.wait_for("is live on this machine")
            test.wait_for("now acting")
            assert training.end() == 130
        assert test.end() == 0
