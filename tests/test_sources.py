"""Which weights a watcher offers, from real files in a run directory."""

from __future__ import annotations

import dataclasses
import queue
from pathlib import Path

import pytest
import torch

from livegym.play.watch import Watcher
from livegym.rl.spec import shape_hash
from livegym.rundir.checkpoint import CheckpointMeta, read_checkpoint, remove_checkpoint, set_best, write_checkpoint
from livegym.rundir.run import Run, create_run, point_latest
from livegym.utils.errors import UserError
from livegym.weights.newer_run import Leaving
from livegym.weights.sources import CheckpointSource, candidate_of
from tests.test_live import candidate, live_of, policy_of, spec_with


@pytest.fixture
def runs(tmp_path) -> Path:
    return tmp_path / "runs"


def save(run: Run, version: int, epoch: int | None = None, spec=None, **changes) -> Path:
    spec = spec or spec_with()
    model = policy_of(spec).state()
    meta = CheckpointMeta(
        task="Counting", run_id=run.run_id, version=version, epoch=epoch or version, frame=0,
        shape_hash=shape_hash(spec, model), score=float(version),
    )  # fmt: skip
    state = {"model": model, "config": {}, "spec": spec.to_dict(), "epoch": epoch or version, **changes}
    return write_checkpoint(run.nn, state, meta)


def test_a_version_of_another_shape_waits_while_people_have_pinned(tmp_path):
    """It was refused for good then, and following it again later did not help (onMismatch=reinit)."""
    other = spec_with(observations=(("episode", 1), ("step", 1), ("speed", 2)))
    live, built, events = live_of(history=2), [], queue.SimpleQueue()
    watcher = Watcher(live, Offers(candidate(2, other)), events, build_for=built.append)
    live.pin()
    live.adopt()
    watcher.poll()
    assert (built, events.empty()) == ([], True)
    live.follow()
    live.adopt()
    watcher.poll()
    assert [c.version for c in built] == [2]


class Offers:
    """A source that offers one candidate again and again."""

    def __init__(self, offered):
        self.offered = offered

    def poll(self, acting):
        return self.offered

    def refusals(self):
        return []

    def refuse(self, offered, for_good):
        raise AssertionError("refused")


def acting(run: Run, version: int):
    return candidate(version, run_id=run.run_id, file=run.nn / f"Counting_v{version}_ep{version}.pth")


def source_of(run: Run, follow="newest", leaving=Leaving.NEVER) -> CheckpointSource:
    return CheckpointSource(run, follow, run.path.parent, "Counting", leaving)


def test_the_highest_version_is_offered_once(runs):
    run = create_run(runs, "Counting", "train")
    save(run, 2), save(run, 10), save(run, 9)
    source = source_of(run)
    assert source.poll(acting(run, 1)).version == 10
    assert source.poll(acting(run, 10)) is None


def test_after_a_resume_from_an_older_checkpoint_the_version_decides_and_not_the_epoch(runs):
    run = create_run(runs, "Counting", "train")
    save(run, 50), save(run, 51, epoch=20)
    assert source_of(run).poll(acting(run, 50)).epoch == 20


def test_a_file_of_another_run_that_was_copied_here_is_offered_once(runs):
    run, other = (create_run(runs, "Counting", "train") for _ in range(2))
    save(run, 2)
    copied = run.nn / save(other, 20).name
    copied.write_bytes((other.nn / copied.name).read_bytes())
    source = source_of(run)
    offered = source.poll(acting(run, 2))
    assert (offered.version, offered.run_id) == (20, other.run_id)
    assert source.poll(offered) is None
    save(run, 21)
    assert source.poll(offered).version == 21


def test_a_damaged_newest_file_does_not_hide_a_good_one_before_it(runs):
    run = create_run(runs, "Counting", "train")
    save(run, 2)
    save(run, 3).write_bytes(b"garbage")
    source = source_of(run)
    assert source.poll(acting(run, 1)).version == 2
    assert [(r.file, r.accepted) for r in source.refusals()] == [("Counting_v3_ep3.pth", False)]
    assert source.poll(acting(run, 2)) is None  # not read again
    assert source.refusals() == []


def test_a_foreign_file_that_says_nonsense_does_not_end_the_following(runs):
    run = create_run(runs, "Counting", "train")
    torch.save({"model": policy_of().state(), "epoch": "many"}, run.nn / "last_X_ep_99_.pth")
    save(run, 2)
    source = source_of(run)
    assert source.poll(acting(run, 1)).version == 2
    assert "epoch" in source.refusals()[0].reason
    with pytest.raises(UserError, match="epoch"):
        candidate_of(run.nn / "last_X_ep_99_.pth", read_checkpoint(run.nn / "last_X_ep_99_.pth"), 0.0)


def test_a_copy_under_a_higher_name_is_not_newer_than_what_is_in_it(runs):
    run = create_run(runs, "Counting", "train")
    path = save(run, 2)
    (run.nn / "last_Counting_ep_9999.pth").write_bytes(path.read_bytes())
    source = source_of(run)
    assert source.poll(acting(run, 2)) is None
    assert source.poll(acting(run, 1)).version == 2


def test_following_the_latest_continues_in_the_new_run_also_after_a_refusal(runs):
    old, new = create_run(runs, "Counting", "train"), create_run(runs, "Counting", "train")
    save(old, 500), save(new, 1)
    point_latest(runs, "train", new)
    source = source_of(old, leaving=Leaving.ALWAYS)
    first = source.poll(acting(old, 500))
    assert (first.version, first.run) == (1, new.name)
    source.refuse(first, for_good=True)
    save(new, 2)
    assert source.poll(acting(old, 500)).version == 2  # 500 was another run's


def test_without_being_asked_to_nothing_is_followed_elsewhere(runs):
    old, new = create_run(runs, "Counting", "train"), create_run(runs, "Counting", "train")
    save(old, 5), save(new, 6)
    point_latest(runs, "train", new)
    assert source_of(old).poll(acting(old, 5)) is None


def test_the_best_follows_its_pointer_also_to_a_lower_version(runs):
    run = create_run(runs, "Counting", "train")
    save(run, 7)
    set_best(run.nn, save(run, 3))
    source = source_of(run, follow="best")
    assert source.poll(acting(run, 7)).version == 3
    assert source.poll(acting(run, 3)) is None


def test_what_was_reported_is_forgotten_with_its_file(runs):
    run = create_run(runs, "Counting", "train")
    bad = save(run, 3)
    bad.write_bytes(b"garbage")
    source = source_of(run)
    source.poll(acting(run, 1))
    remove_checkpoint(bad)
    source.poll(acting(run, 1))
    assert source._bad == {}
    assert source._reported == set()


def test_the_watcher_offers_refuses_and_survives(runs, caplog):
    run = create_run(runs, "Counting", "train")
    live = live_of(dataclasses.replace(candidate(1), run_id=run.run_id, file=run.nn / "Counting_v1_ep1.pth"))
    events: queue.SimpleQueue = queue.SimpleQueue()
    watcher = Watcher(live, source_of(run), events)
    save(run, 2)
    watcher.poll()
    save(run, 3)
    watcher.poll()  # the last one was not adopted yet: it is given up for the newer one
    assert live.adopt().version == 3
    assert live.adopt() is None
    save(run, 4, spec=dataclasses.replace(spec_with(), control_dt=0.5))
    watcher.poll()
    watcher.poll()
    assert live.adopt() is None
    assert "control step is 0.5 s, expected 0.1 s" in events.get().reason
    assert events.empty()  # refused once


def test_a_file_that_is_pruned_while_it_is_looked_at_is_nobodys_fault(runs, monkeypatch):
    """Retention took it between the listing and the reading: it was told as a refusal."""
    run = create_run(runs, "Counting", "train")
    save(run, 1)
    gone = save(run, 2)

    def read(file):
        gone.unlink(missing_ok=True)
        return read_checkpoint(file)

    monkeypatch.setattr("livegym.weights.sources.read_checkpoint", read)
    source = source_of(run)
    assert source.poll(acting(run, 1)) is None
    assert source.refusals() == []
