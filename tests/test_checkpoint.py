"""Checkpoints: complete or absent, and verified before use."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_samples import as_bytes, meta, put, rl_games_file, save, state

from livegym.rundir import checkpoint_io
from livegym.rundir.checkpoint import (
    CheckpointError,
    checkpoint_fingerprint,
    clean_temporaries,
    files_of,
    find_latest_checkpoint_file,
    list_checkpoints,
    meta_of,
    newest_usable,
    read_checkpoint,
    set_best,
    sidecar_of,
    write_checkpoint,
)

pytest_plugins = ["disk_fixtures"]

# -- writing


def test_a_checkpoint_comes_back_with_its_metadata_and_sidecar(run):
    path = save(run, 7, reward=1.5)
    assert path.name == "Ant_v7_ep7.pth"
    loaded = read_checkpoint(path)
    assert torch.equal(loaded["model"]["a2c_network.mu.weight"], torch.full((3, 4), 0.5))
    assert loaded["config"] == {"task": {"name": "Ant"}, "seed": 0}
    assert loaded["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999)
    stored = meta_of(loaded)
    assert (stored.version, stored.epoch, stored.frame, stored.score, stored.task) == (7, 7, 700, 1.5, "Ant")
    assert stored.torch == torch.__version__
    assert stored.rl_games == "1.6.5"
    sidecar = json.loads(sidecar_of(path).read_text())
    assert sidecar["bytes"] == path.stat().st_size
    assert sidecar["version"] == 7
    assert sorted(sidecar) == sorted(
        ["version", "epoch", "frame", "reward", "shape_hash", "sha256", "bytes", "wall_time", "task", "run_id"]
    )
    assert sorted(os.listdir(run / "nn")) == sorted(file.name for file in files_of(path))


def test_a_name_is_never_written_twice(run):
    before = save(run, 7).read_bytes()
    with pytest.raises(CheckpointError, match=r"Ant_v7_ep7\.pth: exists; a checkpoint's name is never written twice"):
        save(run, 7, value=9.0)
    assert (run / "nn" / "Ant_v7_ep7.pth").read_bytes() == before
    assert len(os.listdir(run / "nn")) == len(files_of(run / "nn" / "Ant_v7_ep7.pth")) == 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_never_written(run, bad):
    poisoned = state()
    poisoned["model"]["a2c_network.mu.weight"][1, 2] = bad
    with pytest.raises(CheckpointError, match=r"has NaN or Infinity in 'a2c_network\.mu\.weight'"):
        write_checkpoint(run / "nn", poisoned, meta())
    assert os.listdir(run / "nn") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"last_mean_rewards": np.float64(1.0)}, r"state\['last_mean_rewards'\] is a numpy.float64"),
        ({"learner": {"meters": [1, {2}]}}, r"state\['learner'\]\['meters'\]\[1\] is a builtins.set"),
        ({"config": {"path": Path("x")}}, r"state\['config'\]\['path'\] is a pathlib\.(_local\.)?PosixPath"),
        ({"learner": {(1, 2): 3}}, r"state\['learner'\] has a key of type tuple"),
    ],
)
def test_only_tensors_and_plain_python_are_written(run, change, message):
    with pytest.raises(TypeError, match=message):
        write_checkpoint(run / "nn", {**state(), **change}, meta())
    assert os.listdir(run / "nn") == []


def test_a_view_does_not_drag_its_whole_storage_into_the_file(run):
    large = torch.zeros(1_000_000)
    path = write_checkpoint(run / "nn", {**state(), "model": {"w": large[10:20], "t": large[:6].view(2, 3).T}}, meta())
    assert path.stat().st_size < 20_000
    assert read_checkpoint(path)["model"]["t"].shape == (3, 2)


@pytest.mark.parametrize("reward", [float("nan"), -float("inf"), None])
def test_an_unknown_reward_is_null(run, reward):
    path = save(run, 1, reward=reward)
    assert json.loads(sidecar_of(path).read_text())["reward"] is None
    assert meta_of(read_checkpoint(path)).score is None


@pytest.mark.parametrize("fill", ["everything", "all but the checkpoint"])
def test_a_full_disk_leaves_nothing_behind(small_disk, fill):
    nn = small_disk / "nn"
    nn.mkdir()
    size = len(as_bytes(state())) + 4096
    free_bytes = os.statvfs(small_disk).f_bavail * 4096 - (0 if fill == "everything" else size // 4096 * 4096)
    (small_disk / "other").write_bytes(bytes(free_bytes))
    with pytest.raises(OSError, match="No space"):
        save(small_disk, 7)
    assert os.listdir(nn) == []
    (small_disk / "other").unlink()
    assert read_checkpoint(save(small_disk, 7))


def test_a_sidecar_that_cannot_be_named_takes_the_checkpoint_with_it(run):
    (run / "nn" / "Ant_v7_ep7.pth.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        save(run, 7)
    assert os.listdir(run / "nn") == ["Ant_v7_ep7.pth.json"]


def test_a_file_system_without_hard_links_will_do(run, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    assert read_checkpoint(save(run, 7))
    with pytest.raises(CheckpointError, match="never written twice"):
        save(run, 7)
    assert len(os.listdir(run / "nn")) == len(files_of(run / "nn" / "Ant_v7_ep7.pth")) == 4


def test_a_killed_writer_leaves_only_whole_files_and_temporaries(run):
    written = 0
    for attempt in range(12):
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            for version in range(1000 * attempt, 1000 * attempt + 1000):
                save(run, version)
            os._exit(0)
        while not list_checkpoints(run):
            time.sleep(0.005)
        time.sleep(random.Random(attempt).uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        entries = list_checkpoints(run)
        for entry in entries:
            assert torch.load(entry.path, weights_only=True)["livegym"]["version"] == entry.version
            assert read_checkpoint(entry.path)
        written += len(entries)
        clean_temporaries(run / "nn")
        assert not [name for name in os.listdir(run / "nn") if not name.startswith("Ant_v")]
        for path in (run / "nn").iterdir():
            path.unlink()
    assert written >= 12


# -- reading what somebody else wrote


@pytest.mark.parametrize("numpy_one", [False, True])
def test_a_plain_rl_games_file_is_read_without_its_prefixes(run, numpy_one):
    loaded = read_checkpoint(put(run, "Ant.pth", rl_games_file(numpy_one)))
    assert list(loaded["model"]) == ["a2c_network.mu.weight", "value_mean_std.count"]
    assert loaded["last_mean_rewards"] == 12.5
    assert type(loaded["last_mean_rewards"]) is float
    assert meta_of(loaded) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(-2.5), -2.5),
        (np.float16(0.5), 0.5),
        (np.array(1.5, dtype=">f8")[()], 1.5),
        (np.int64(-3), -3),
        (np.int32(7), 7),
        (np.uint8(200), 200),
        (np.uint64(2**63), 2**63),
        (np.bool_(True), True),
    ],
)
def test_numpy_scalars_become_plain_numbers(run, value, expected):
    loaded = read_checkpoint(put(run, "Ant.pth", rl_games_file(x=value)))
    assert loaded["x"] == expected
    assert type(loaded["x"]) is type(expected)


@pytest.mark.parametrize("value", [np.array([1.0]), np.datetime64("2025-01-01"), np.str_("x"), np.complex64(1)])
def test_other_numpy_values_are_refused(run, value):
    with pytest.raises(CheckpointError, match=r"^Ant\.pth: .*NumPy|^Ant\.pth: refers to 'numpy"):
        read_checkpoint(put(run, "Ant.pth", rl_games_file(x=value)))


def test_a_newer_format_says_what_to_do(run, monkeypatch):
    monkeypatch.setattr(checkpoint_io, "FORMAT", 2)
    newer = {**state(), "livegym": {**meta().to_dict(), "format": 2}}
    path = put(run, "Ant.pth", as_bytes(newer))
    assert read_checkpoint(path)
    monkeypatch.setattr(checkpoint_io, "FORMAT", 1)
    with pytest.raises(CheckpointError, match=r"has format 2; this livegym reads up to 1\. Update livegym"):
        read_checkpoint(path)


def test_what_is_no_readable_file_is_refused(run):
    os.mkfifo(run / "nn" / "pipe.pth")
    (run / "nn" / "directory.pth").mkdir()
    (run / "nn" / "loop.pth").symlink_to("loop.pth")
    for name, message in [
        ("pipe", "is not a file"),
        ("directory", "is not a file"),
        ("gone", "No such file"),
        ("loop", "Too many levels"),
        ("nul\0", "null (byte|character)"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            read_checkpoint(run / "nn" / f"{name}.pth")


def test_a_link_is_read_with_its_targets_sidecar(run):
    path = save(run, 7)
    set_best(run / "nn", path)
    assert read_checkpoint(run / "nn" / "best.pth")
    sidecar_of(path).write_text("{}")
    with pytest.raises(CheckpointError, match=r"Ant_v7_ep7\.pth: does not match its sidecar"):
        read_checkpoint(run / "nn" / "best.pth")


def test_a_new_file_beside_an_old_sidecar_is_refused_until_either_changes(run):
    path = save(run, 7)
    ours = (path.read_bytes(), sidecar_of(path).read_bytes())
    (run / "other" / "nn").mkdir(parents=True)
    other = save(run / "other", 7, value=2.0)
    path.write_bytes(other.read_bytes())
    with pytest.raises(CheckpointError, match=r"does not match its sidecar \(still being copied\?\)"):
        read_checkpoint(path)
    before = checkpoint_fingerprint(path)
    shutil.copy(sidecar_of(other), sidecar_of(path))
    assert checkpoint_fingerprint(path) != before
    assert read_checkpoint(path)["model"]["a2c_network.mu.weight"][0, 0] == 2.0
    for cut in (b"", b"{", ours[1][:50], b"null", b'{"bytes": 1}', b"\xff"):
        sidecar_of(path).write_bytes(cut)
        with pytest.raises(CheckpointError, match="does not match its sidecar"):
            read_checkpoint(path)
    sidecar_of(path).unlink()
    assert read_checkpoint(path)


def test_the_fingerprint_notices_a_repair_of_the_same_size_and_an_older_time(run):
    good = as_bytes(state())
    path = put(run, "last_Ant_ep_9999.pth", bytes(len(good)))
    os.utime(path, (2e9, 2e9))
    save(run, 7)
    assert find_latest_checkpoint_file(run) == path
    usable = newest_usable(run)
    assert usable.path.name == "Ant_v7_ep7.pth"
    assert usable.skipped == ["last_Ant_ep_9999.pth: is not a PyTorch file (no zip)"]
    before = checkpoint_fingerprint(path)
    assert checkpoint_fingerprint(path) == before
    path.write_bytes(good)
    os.utime(path, (1e9, 1e9))
    assert checkpoint_fingerprint(path) != before
    assert newest_usable(run).path == path
    assert checkpoint_fingerprint(run / "nn" / "gone.pth") == (None, None)
