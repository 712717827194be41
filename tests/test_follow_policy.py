"""A policy that follows a run as a test does: never torn, never back, and a robot's loop notices nothing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import livegym
from livegym.rl.algorithms.ppo.settings import NetworkConfig
from livegym.rl.spec import shape_hash
from livegym.rundir.checkpoint import read_checkpoint
from livegym.rundir.lock import RunLock
from livegym.rundir.run import Run, bus_file, create_run, point_latest
from livegym.tasks.base import Box
from livegym.utils.errors import UserError
from livegym.utils.search_path import child_environment
from livegym.weights.publish import Publisher, VersionFacts
from tests.patience import PATIENCE_S, until
from tests.test_live import policy_of
from tests.test_load_policy import RECURRENT, SPEC, TRAIN, save

OBS = np.zeros((2, 3), np.float32)


@pytest.fixture
def run(tmp_path) -> Run:
    made = create_run(tmp_path / "runs", "Kettle", "train")
    point_latest(made.path.parent, "train", made)
    yield made
    bus_file(made.run_id).unlink(missing_ok=True)


class Training:
    """A run that is live on this machine: it holds the lock and publishes weights with a mean action."""

    def __init__(self, run: Run) -> None:
        self.model = policy_of(SPEC, TRAIN).state()
        self.model["a2c_network.mu.weight"].zero_()
        self.lock = RunLock(run).acquire()
        description = {"run": run.name, "spec": SPEC.to_dict()}
        self.bus = Publisher(bus_file(run.run_id), description, shape_hash(SPEC, self.model), self.model)

    def publish(self, version: int, bias: float) -> None:
        self.model["a2c_network.mu.bias"].fill_(bias)
        self.bus.publish(self.model, VersionFacts(version, version, version, None))

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_) -> None:
        self.bus.close()
        self.lock.release()


def watching() -> bool:
    return any(thread.name == "weights-watcher" for thread in threading.enumerate())


def followed(run: Run, **options):
    return livegym.follow(run.path, **{"reload_interval": 0.05, **options})


def acts_with(policy, version: int, obs=OBS[0]) -> None:
    """Steps the policy until this version acts."""
    until(lambda: policy(obs) is not None and policy.version == version)


def test_it_takes_over_newer_files_between_two_calls(run):
    save(run, 1, bias=0.25)
    with followed(run) as policy:
        assert (policy(OBS[0]).tolist(), policy.version, policy.source) == ([0.25, 0.25], 1, "files")
        assert policy.spec == SPEC
        save(run, 2, bias=-0.5)
        acts_with(policy, 2)
        assert policy(torch.zeros(3)).tolist() == [-0.5, -0.5]
        assert [(e.version, e.accepted) for e in policy.events] == [(2, True)]
        assert watching()
    assert not watching()
    save(run, 3, bias=0.75)
    assert (policy(OBS[0]).tolist(), policy.version) == ([-0.5, -0.5], 2)  # closed: it acts on, and follows nothing


def test_it_follows_the_bus_of_a_live_run_and_its_files_after_that(run):
    save(run, 1, bias=0.25)
    with Training(run) as training, followed(run, reload_interval=3600.0) as policy:
        training.publish(2, -0.5)
        acts_with(policy, 2)
        assert (policy(OBS[0]).tolist(), policy.source) == ([-0.5, -0.5], "bus")
        training.__exit__()
        save(run, 3, bias=0.75)
        acts_with(policy, 3)
        assert policy.source == "files"


def test_what_is_refused_is_recorded_and_the_old_policy_acts(run, caplog):
    save(run, 1, bias=0.25)
    with followed(run) as policy:
        save(run, 2, spec=dataclasses.replace(SPEC, action=Box(3)), bias=0.5)
        save(run, 3, train=dataclasses.replace(TRAIN, network=NetworkConfig(units=[5])), bias=0.5)
        (run.nn / "Kettle_v4_ep4.pth").write_bytes(b"half of a fi")
        until(lambda: policy(OBS[0]).tolist() == [0.25, 0.25] and {e.version for e in policy.events} == {2, 3, 4})
        reasons = {event.version: event.reason for event in policy.events}
        assert "its action is Box(size=3), expected Box(size=2)" in reasons[2]
        assert "actor_mlp.0.weight" in reasons[3]
        assert "not a PyTorch file" in reasons[4]
        assert "refused" in caplog.text
        assert "onMismatch" not in caplog.text  # a key of a test, which is not there to be set
        assert not any(event.accepted for event in policy.events)
        save(run, 5, bias=-0.5)
        acts_with(policy, 5)


def test_an_action_is_of_one_whole_version_and_versions_never_go_back(run):
    """Each version's mean action is a function of its number; a writer publishes as fast as it can."""
    save(run, 1, bias=1 / 1024)
    end = threading.Event()

    def write() -> None:
        version = 2
        while not end.is_set():
            training.publish(version, (version % 1000) / 1024)
            version += 1

    with Training(run) as training, followed(run, num_envs=2) as policy:
        writer = threading.Thread(target=write)
        writer.start()
        seen = []
        deadline = time.monotonic() + 60.0
        while len(set(seen)) < 50 and time.monotonic() < deadline:
            action = policy(OBS)
            seen.append(policy.version)
            assert (action == np.float32((policy.version % 1000) / 1024)).all()
        end.set()
        writer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) >= 50


def test_a_blend_ramps_from_one_version_to_the_next(run):
    save(run, 1, bias=0.0)
    with followed(run, swap="blend", blend_seconds=0.4) as policy:  # 4 steps of 0.1 s
        save(run, 2, bias=1.0)
        until(lambda: policy._live._ready)
        actions = [round(float(policy(OBS[0])[0]), 6) for _ in range(5)]
        assert actions == [0.25, 0.5, 0.75, 1.0, 1.0]
        assert not policy.blending


def test_with_swap_reset_the_new_version_plays_new_episodes(run):
    save(run, 1, bias=0.25)
    with followed(run, swap="reset", num_envs=2) as policy:
        policy(OBS)
        save(run, 2, bias=-0.5)
        acts_with(policy, 2, OBS)
        assert policy(OBS)[:, 0].tolist() == [0.25, 0.25]
        policy.reset([1])
        assert policy(OBS)[:, 0].tolist() == [0.25, -0.5]
        policy.reset()
        assert policy(OBS)[:, 0].tolist() == [-0.5, -0.5]


def test_a_swap_keeps_what_a_recurrent_policy_remembers_and_a_reset_forgets_it(run):
    save(run, 1, train=RECURRENT)
    with followed(run) as policy:
        obs = np.ones(3, np.float32)
        fresh = policy(obs)
        remembered = [policy(obs) for _ in range(3)][-1]
        model = policy._live.weights()[1]
        save(run, 2, train=RECURRENT)
        acts_with(policy, 2, obs)
        memory = policy._live._acting.slot.memory
        assert all(bool(m.abs().max() > 0) for m in memory)
        assert not all(
            torch.equal(a, b) for a, b in zip(model.values(), policy._live.weights()[1].values(), strict=True)
        )
        policy.rollback(1)
        policy.reset()
        assert np.array_equal(policy(obs), fresh)
        assert not np.array_equal(fresh, remembered)


def test_pin_and_rollback(run):
    save(run, 1, bias=0.25)
    with followed(run) as policy:
        policy.pin()
        policy(OBS[0])
        save(run, 2, bias=-0.5)
        until(lambda: policy._live._ready)
        assert policy(OBS[0])[0] == 0.25
        policy.unpin()
        assert policy(OBS[0])[0] == -0.5
        policy.rollback()
        assert (policy(OBS[0])[0], policy.version) == (0.25, 1)
        with pytest.raises(UserError, match=r"rollback: version 7 is not kept. Kept: 1, 2 \(history=8\)"):
            policy.rollback(7)


def test_several_environments_need_to_be_named(run):
    save(run, 1)
    with followed(run) as one, followed(run, num_envs=2) as two:
        assert (one(OBS[:1]).shape, one(OBS[0]).shape, two(OBS).shape) == ((1, 2), (2,), (2, 2))
        with pytest.raises(UserError, match=r"of 2 environments. Allowed: 1, .*num_envs=2"):
            one(OBS)
        with pytest.raises(UserError, match=r"of 1 environments. Allowed: 2"):
            two(OBS[0])
        with pytest.raises(UserError, match=r"env_ids=\[2\].*0 to 1"):
            two.reset([2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"swap": "blent"}, "swap=blent: unknown. Allowed: now, reset, blend. Did you mean blend"),
        ({"weights": "net"}, "weights=net: unknown. Allowed: auto, files, bus"),
        ({"num_envs": 0}, "num_envs=0: out of range. Allowed: a whole number, at least 1"),
        ({"num_envs": 2.0}, "num_envs=2.0"),
        ({"history": -1}, "history=-1"),
        ({"blend_seconds": float("nan")}, "blend_seconds=nan: out of range. Allowed: a number of seconds"),
        ({"reload_interval": "30"}, "reload_interval='30'"),
        ({"reload_interval": 0}, "reload_interval=0: follows nothing. Allowed: above 0.*livegym.load_policy"),
        ({"device": "tpu"}, "device=tpu"),
        ({"weights": "bus"}, "weights=bus: .* is not published on this machine"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(run, options, message):
    save(run, 1)
    with pytest.raises(UserError, match=message):
        followed(run, **options)


def test_the_best_checkpoint_is_not_on_the_bus(run):
    save(run, 1)
    with pytest.raises(UserError, match=r"weights=bus: follow\('best'\) follows the best checkpoint, which exists as"):
        livegym.follow("best", weights="bus", runs_dir=run.path.parent)


def test_a_file_that_contradicts_itself_is_named(run):
    file = save(run, 1)
    state = read_checkpoint(file)
    other = dataclasses.replace(TRAIN, network=NetworkConfig(units=[5]))
    state["config"] = {"task": {"name": "Kettle"}, "train": dataclasses.asdict(other)}
    for path in run.nn.iterdir():
        path.unlink()
    torch.save(state, file)
    with pytest.raises(UserError, match=r"Kettle_v1_ep1.pth: .*Its weights contradict its own configuration"):
        followed(run)


def test_the_processs_switch_interval_is_restored_by_the_last_one(run):
    save(run, 1)
    before = sys.getswitchinterval()
    first, second = followed(run), followed(run)
    assert sys.getswitchinterval() == pytest.approx(2e-4)
    first.close()
    assert sys.getswitchinterval() == pytest.approx(2e-4)
    second.close()
    assert sys.getswitchinterval() == before


def test_a_file_by_name_cannot_be_followed(run):
    with pytest.raises(UserError, match=r"this is one file, which never changes.*livegym.load_policy"):
        livegym.follow(save(run, 1))


def test_it_waits_for_a_first_checkpoint_if_it_may(run):
    with pytest.raises(UserError, match=r"there is no checkpoint yet.*follow\(..., patience=<seconds>\)"):
        followed(run)
    threading.Timer(0.3, lambda: save(run, 1)).start()
    with followed(run, patience=60.0) as policy:
        assert policy.version == 1


@pytest.mark.slow
def test_a_program_that_never_closes_its_policy_ends(run, tmp_path):
    save(run, 1)
    program = "import livegym, numpy; p = livegym.follow('latest'); print(p(numpy.zeros(3, 'float32')), p.version)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=child_environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("1")
