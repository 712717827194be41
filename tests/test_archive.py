"""Older versions from a run's checkpoint files: listed, and loaded when somebody asks for them."""

from __future__ import annotations

import queue
import time

import pytest
import torch

from livegym.live.model_slot import SPACED
from livegym.play.control_requests import Compare, RollBack
from livegym.play.controls import Controls
from livegym.play.watch import Watcher
from livegym.rundir.checkpoint import remove_checkpoint
from livegym.rundir.run import Run, create_run
from livegym.utils.errors import UserError
from livegym.weights import archive as archive_module
from livegym.weights.archive import Archive
from tests.dummy import counting_env
from tests.test_controls import play
from tests.test_live import candidate, live_of
from tests.test_sources import save, source_of


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    monkeypatch.setattr(archive_module, "REFRESH", 0.0)
    made = create_run(tmp_path / "runs", "Counting", "train")
    for version in (4, 12, 30):
        save(made, version)
    return made


def archive_of(run: Run, first_run: str | None = None) -> Archive:
    archive = Archive(lambda: run, run.name if first_run is None else first_run)
    archive.refresh()
    return archive


def watched(run: Run, **rule):
    """A policy whose version 40 acts, and the watcher that can load the run's files."""
    rule = {"history": 4, "spaced": SPACED, **rule}
    live = live_of(candidate(40, bias=0.5, run_id=run.run_id, file=run.nn / "Counting_v40_ep40.pth"), **rule)
    archive = archive_of(run)
    return live, Watcher(live, source_of(run), queue.SimpleQueue(), archive=archive)


def test_the_files_are_listed_oldest_first_with_score_and_age(run):
    entries = archive_of(run).entries
    assert [(entry.label, entry.epoch, entry.score) for entry in entries] == [
        (4, 4, 4.0),
        (12, 12, 12.0),
        (30, 30, 30.0),
    ]
    assert all(abs(entry.made - time.time()) < 3600 for entry in entries)


def test_versions_of_a_run_that_a_test_moved_to_have_its_name(run):
    assert archive_of(run, first_run="another").entries[0].label == f"{run.name}: 4"


def test_a_version_is_loaded_with_its_weights(run):
    loaded = archive_of(run).load(12)
    assert (loaded.version, loaded.run, loaded.source) == (12, run.name, "files")
    assert set(loaded.model) == set(candidate(1).model)


def test_a_file_that_is_gone_or_damaged_is_explained(run):
    archive = archive_of(run)
    file = archive.get(12).file
    file.write_bytes(b"no archive")
    with pytest.raises(UserError, match="version 12 cannot be loaded"):
        archive.load(12)
    remove_checkpoint(file)
    with pytest.raises(UserError, match="version 12 cannot be loaded"):
        archive.load(12)
    archive.refresh()
    with pytest.raises(UserError, match="version 12 has no checkpoint any more"):
        archive.load(12)


def test_a_rollback_to_a_file_acts_once_it_is_loaded(run, caplog):
    live, watcher = watched(run)
    watcher.recall()  # lists the files
    env = counting_env(num_envs=2, length=50)
    controls = Controls(speed=None)
    play(env, {2: [RollBack(12)]}, steps=4, actor=live, controls=controls)
    assert live.label == 40  # it is not in memory yet, and nobody waits for it
    assert "loading version 12 from the run's checkpoints" in [text for _, text in controls.notices]
    watcher.recall()
    play(env, {}, steps=3, actor=live, controls=controls)
    assert (live.label, live.pinned) == (12, True)
    assert live.history.labels == [12, 40]
    env.sim.close()


def test_two_files_are_compared_after_both_are_loaded(run):
    live, watcher = watched(run)
    watcher.recall()
    env = counting_env(num_envs=2, length=50)
    controls = Controls(speed=None)
    play(env, {1: [Compare(4, 30)]}, steps=2, actor=live, controls=controls)
    watcher.recall()
    play(env, {}, steps=3, actor=live, controls=controls)
    assert controls.comparing == (4, 30)
    assert live.pool.labels == {0: 4, 1: 30}
    env.sim.close()


def test_a_file_that_disappeared_meanwhile_changes_nothing(run, caplog):
    live, watcher = watched(run)
    watcher.recall()
    assert live.recall([12], lambda: pytest.fail("it was not loaded"))
    remove_checkpoint(run.nn / "Counting_v12_ep12.pth")
    watcher.recall()
    assert live.adopt() is None
    assert "version 12 has no checkpoint any more" in caplog.text
    assert not live.recall([12], lambda: None)  # it is not listed any more
    with pytest.raises(UserError, match="version 12 is not kept"):
        live.rollback(12)


def test_a_pool_draws_from_the_files_too(run):
    live, watcher = watched(run, pool_envs=1)
    watcher.recall()
    live.adopt()
    assert live.history.labels == [4, 12, 30, 40]
    drawn = set()
    for _ in range(60):
        live.forget(torch.tensor([1]))
        drawn.add(live.pool.labels[1])
    assert drawn == {4, 12, 30}


def test_what_is_loaded_keeps_its_age_among_the_others(run):
    live, watcher = watched(run)
    watcher.recall()
    for version in range(41, 41 + 4 + SPACED):  # more than memory holds
        live.prepare(candidate(version, run_id=run.run_id, file=run.nn / f"Counting_v{version}_ep{version}.pth"))
        live.adopt()
    assert live.recall([4], lambda: None)
    watcher.recall()
    live.adopt()
    assert len(live.history) == 4 + SPACED
    assert 4 in live.history.labels
    assert live.history.labels[-4:] == list(range(53, 57))
