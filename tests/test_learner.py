"""The learner's side of the weight bus: what is published is what the learner has, when it is due, and at the end."""

from __future__ import annotations

import pytest
import torch

from livegym.rl.spec import shape_hash, spec_of
from livegym.rundir.run import bus_file, create_run
from livegym.weights.bus_reader import BusReader
from livegym.weights.learner import BusObserver
from tests.bus_weights import left_by_a_dead_writer
from tests.dummy import counting_env
from tests.test_learning import learner_of


@pytest.fixture
def run(tmp_path):
    made = create_run(tmp_path, "Counting", "train")
    yield made
    bus_file(made.run_id).unlink(missing_ok=True)


def begun(run, learner, interval=1e-9) -> BusObserver:
    observer = BusObserver(interval)
    observer.begin(run, learner, spec_of(counting_env()), {"numEnvs": 2})
    return observer


def test_each_iteration_is_published_as_the_agent_has_it(run):
    learner = learner_of(iterations=3)
    observer = begun(run, learner)
    reader, publications = BusReader(bus_file(run.run_id)), []
    assert reader.description["config"] == {"numEnvs": 2}
    assert reader.shape_hash == shape_hash(spec_of(counting_env()), learner.policy_state())

    def after(it):
        observer.after_iteration(it)
        found = reader.read(len(publications))
        state = learner.policy_state()
        assert all(torch.equal(found.model[name], value) for name, value in state.items())
        publications.append((found.version, found.frame, found.model["running_mean_std.count"].item()))

    learner.train(after)
    observer.end(complete=True)
    assert [version for version, _, _ in publications] == [1, 2, 3]
    assert [frame for _, frame, _ in publications] == sorted(frame for _, frame, _ in publications)
    assert (
        publications[0][2] < publications[1][2] < publications[2][2]
    )  # the normaliser that is bound anew by each update, not an old one
    assert reader.ended


def test_it_publishes_no_more_often_than_asked_and_the_last_version_at_the_end(run):
    learner = learner_of(iterations=5)
    observer = begun(run, learner, interval=1000.0)
    reader = BusReader(bus_file(run.run_id))
    learner.train(observer.after_iteration)
    assert reader.read(0).version == 1
    observer.end(complete=True)
    assert (reader.read(1).version, reader.count) == (5, 2)
    observer.end(complete=True)  # twice is no harm


def test_weights_in_the_middle_of_an_update_are_not_published_at_the_end(run):
    learner = learner_of(iterations=5)
    observer = begun(run, learner, interval=1000.0)
    reader = BusReader(bus_file(run.run_id))
    learner.train(observer.after_iteration)
    observer.end(complete=False)
    assert reader.read(0).version == 1
    assert reader.ended


def test_without_an_interval_there_is_no_bus(run):
    observer = begun(run, learner_of(), interval=0.0)
    assert not bus_file(run.run_id).exists()
    observer.end(complete=True)


def test_weights_that_are_not_finite_are_not_published(run):
    learner = learner_of(iterations=2)
    observer = begun(run, learner)
    reader = BusReader(bus_file(run.run_id))

    def after(it):
        if it.version == 2:
            with torch.no_grad():
                learner.agent.model.a2c_network.mu.bias.fill_(float("nan"))
        observer.after_iteration(it)

    learner.train(after)
    assert reader.read(0).version == 1
    observer.end(complete=True)
    assert reader.count == 1


def test_without_memory_for_a_bus_training_continues_with_a_warning(run, caplog, monkeypatch):
    monkeypatch.setattr("livegym.weights.learner.bus_file", lambda run_id: run.path / "nowhere" / run_id)
    learner = learner_of(iterations=1)
    observer = begun(run, learner)
    learner.train(observer.after_iteration)
    observer.end(complete=True)
    assert caplog.text.count("no weight bus") == 1


def test_a_resumed_run_counts_on_after_what_a_dead_writer_had_published(run, caplog):
    file = bus_file(run.run_id)
    assert BusObserver(1.0).highest_version(run) == 0
    left_by_a_dead_writer(file, 41)
    assert BusObserver(1.0).highest_version(run) == 41
    file.write_bytes(b"damaged")
    assert BusObserver(1.0).highest_version(run) == 0
    assert "is too short" in caplog.text


def test_a_new_writer_removes_what_dead_ones_left(run, tmp_path, monkeypatch):
    monkeypatch.setattr("livegym.weights.learner.bus_file", lambda run_id: tmp_path / f"livegym.0.{run_id}")
    monkeypatch.setattr("livegym.weights.learner.KEPT_LEFT_OVERS", 0.0)
    left = tmp_path / "livegym.0.left"
    left_by_a_dead_writer(left, 41)
    assert left.exists()
    observer = begun(run, learner_of())
    assert not left.exists()
    observer.end(complete=True)
