"""Which source is followed: the bus of a live run, its files otherwise, and nothing twice."""

from __future__ import annotations

import dataclasses
import logging
import os
import queue

import pytest
import torch

from livegym.play.watch import Watcher
from livegym.rl.spec import shape_hash
from livegym.rundir.lock import RunLock
from livegym.rundir.run import bus_file, create_run
from livegym.utils.errors import UserError
from livegym.weights.bus_source import bus_of
from livegym.weights.follow import FollowSource
from livegym.weights.publish import Publisher, VersionFacts
from livegym.weights.sources import CheckpointSource
from tests.patience import until
from tests.test_live import OBS, candidate, live_of, spec_with
from tests.test_sources import acting, save


@pytest.fixture
def run(tmp_path):
    made = create_run(tmp_path, "Counting", "train")
    yield made
    bus_file(made.run_id).unlink(missing_ok=True)


class Training:
    """A run that is live: it holds the lock and publishes."""

    def __init__(self, run, units=4, **description):
        first = candidate(1)
        metadata = {"run": run.name, "spec": spec_with().to_dict(), **description}
        self.model = first.model
        self.lock = RunLock(run).acquire()
        self.publisher = Publisher(bus_file(run.run_id), metadata, shape_hash(spec_with(), first.model), first.model)

    def publish(self, version, bias=None):
        self.model["a2c_network.mu.bias"].fill_(float(version) if bias is None else bias)
        self.publisher.publish(self.model, VersionFacts(version, version, 10 * version, 1.5))

    def end(self):
        self.publisher.close()
        self.lock.release()


@pytest.fixture
def training(run):
    made = Training(run)
    yield made
    made.end()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("livegym.weights.follow.BUS_CHECK", 0.0)


def followed(run, weights="auto", interval=0.0):
    files = CheckpointSource(run, "newest", run.path.parent, "Counting")
    return FollowSource(files, weights, interval)


def test_a_run_that_is_live_here_is_followed_on_its_bus(run, training, caplog):
    caplog.set_level(logging.INFO)
    source = followed(run)
    assert source.kind == "bus"
    assert caplog.text.count("following it on the weight bus") == 1
    assert source.poll(acting(run, 1)) is None
    training.publish(2)
    found = source.poll(acting(run, 1))
    assert (found.version, found.source, found.run, found.run_id) == (2, "bus", run.name, run.run_id)
    assert (found.score, found.file, found.name) == (1.5, None, "version 2 on the weight bus")
    assert source.poll(found) is None


def test_the_same_version_from_a_file_and_from_the_bus_is_taken_once(run, training):
    training.publish(3)
    source = followed(run)
    assert source.poll(acting(run, 3)) is None
    assert source.poll(acting(run, 4)) is None  # a file is newer than what was published last
    training.publish(5)
    found = source.poll(acting(run, 4))
    assert found.version == 5
    save(run, 5)
    assert source.poll(found) is None


def test_files_take_over_where_the_training_ends_and_the_bus_where_it_continues(run, caplog):
    caplog.set_level(logging.INFO)
    training = Training(run)
    training.publish(2)
    source = followed(run)
    second = source.poll(acting(run, 1))
    training.end()
    save(run, 3)
    third = source.poll(second)
    assert (third.version, third.source, source.kind) == (3, "files", "files")
    assert caplog.text.count("the training run has ended") == 1
    resumed = Training(run)
    resumed.publish(4)
    assert source.poll(third).source == "bus"
    assert caplog.text.count("following it on the weight bus") == 2
    resumed.end()


def test_what_was_published_last_is_taken_before_the_bus_is_left(run):
    training = Training(run)
    training.publish(2)
    source = followed(run)
    training.publish(3)
    training.end()
    assert source.poll(acting(run, 1)).version == 3
    assert source.kind == "files"


def test_another_writers_version_is_newer_whatever_its_number(run):
    """A host that lost its memory: the writer before had published 7, the resumed one knows only of file 5."""
    first = Training(run)
    first.publish(7)
    source = followed(run)
    seventh = source.poll(acting(run, 1))
    assert seventh.version == 7
    first.end()
    again = Training(run)
    again.publish(6)
    assert source.poll(seventh).version == 6
    again.end()


def test_a_copy_of_a_live_run_is_followed_by_its_files(run, training, tmp_path):
    copy = tmp_path / "elsewhere" / run.name
    copy.mkdir(parents=True)
    for name in ("run.json", "run.lock"):
        (copy / name).write_bytes((run.path / name).read_bytes())
    assert bus_of(run) is not None
    assert bus_of(dataclasses.replace(run, path=copy)) is None


def test_the_bus_by_name_is_refused_where_there_is_none(run):
    with pytest.raises(UserError, match=r"weights=bus: .* is not published on this machine.*weights=files"):
        followed(run, "bus")


def test_files_by_name_are_followed_although_there_is_a_bus(run, training):
    source = followed(run, "files")
    training.publish(9)
    assert source.kind == "files"
    assert source.poll(acting(run, 1)) is None


def test_a_bus_of_another_layout_is_reported_once_and_files_are_followed(run, training, caplog):
    training.publisher._map.control["layout"][0] = 99
    source = followed(run)
    save(run, 2)
    assert source.poll(acting(run, 1)).source == "files"
    source.poll(acting(run, 2))
    assert caplog.text.count("has layout 99") == 1


def test_weights_that_are_not_finite_are_refused_once_and_the_next_are_taken(run, training, caplog):
    source = followed(run)
    training.publish(2, bias=float("nan"))
    assert source.poll(acting(run, 1)) is None
    assert source.poll(acting(run, 1)) is None
    assert caplog.text.count("NaN or Infinity in a2c_network.mu.bias") == 1
    assert [event.source for event in source.refusals()] == ["bus"]
    training.publish(3)
    assert source.poll(acting(run, 1)).version == 3


def test_a_publication_of_another_shape_is_refused_once_with_the_difference(run, caplog):
    training = Training(run, spec=spec_with(observations=(("episode", 1), ("speed", 1))).to_dict())
    live = live_of(acting(run, 1))
    events: queue.SimpleQueue = queue.SimpleQueue()
    watcher = Watcher(live, followed(run), events)
    for version in (2, 3, 4):
        training.publish(version)
        watcher.poll()
    assert live.adopt() is None
    assert "speed 1" in events.get().reason
    assert events.empty()
    assert caplog.text.count("refused") == 1
    training.end()


def test_after_a_rollback_following_again_takes_the_newest_one(run, training):
    live = live_of(acting(run, 1), history=4)
    watcher = Watcher(live, followed(run), queue.SimpleQueue())
    for version in (2, 3):
        training.publish(version)
        watcher.poll()
        live.adopt()
    live.rollback()
    assert live.adopt().version == 2
    watcher.poll()
    assert live.adopt() is None
    live.follow()
    assert live.adopt().version == 3
    assert live.act(OBS).flatten().tolist() == [3.0, 3.0]
    watcher.poll()
    assert live.adopt() is None


def test_a_watching_thread_takes_over_by_itself(run, training):
    live = live_of(acting(run, 1))
    with Watcher(live, followed(run, interval=1e6), queue.SimpleQueue()):
        for version in range(2, 30):
            training.publish(version)
            until(live.adopt, lambda version=version: f"version {version} was not taken over")
            assert torch.equal(live.act(OBS), torch.full((2, 1), float(version)))


def test_the_lock_says_where_a_run_is_live(run, training):
    assert bus_of(run) == bus_file(run.run_id)
    training.lock.release()
    assert bus_of(run) is None
    assert os.path.exists(bus_file(run.run_id))
