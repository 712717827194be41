"""Which checkpoint is newest or best, and which ones stay."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_samples import Shell, as_bytes, meta, put, rl_games_file, save, state, with_pickle

from livegym.rundir.checkpoint import (
    CheckpointError,
    best_checkpoint_file,
    files_of,
    find_latest_checkpoint_file,
    highest_version,
    list_checkpoints,
    newest_usable,
    prune,
    prune_env_states,
    read_env_state,
    set_best,
    sidecar_of,
    write_checkpoint,
    write_env_state,
)
from livegym.utils import files

pytest_plugins = ["disk_fixtures"]

# -- which one is newest


def test_newest_is_by_number_not_by_name_or_time(run):
    for name in (
        "last_Ant_ep_200.pth",
        "last_Ant_ep_1000.pth",
        "Ant_ep_90_rew_-3.5.pth",
        "last_Ant_ep_1000_rew_12.pth",
    ):
        os.utime(put(run, name, as_bytes(state())), (1e9, 1e9))
    os.utime(run / "nn" / "last_Ant_ep_200.pth", (2e9, 2e9))
    assert [entry.epoch for entry in list_checkpoints(run)] == [1000, 1000, 200, 90]
    save(run, 9)
    save(run, 10)
    assert [e.version for e in list_checkpoints(run)] == [1000, 1000, 200, 90, 10, 9]


def test_version_comes_before_epoch(run):
    for version, epoch in ((3, 90), (20, 5), (20, 6)):
        write_checkpoint(run / "nn", state(), meta(version, epoch))
    assert [(e.version, e.epoch) for e in list_checkpoints(run)] == [(20, 6), (20, 5), (3, 90)]


def test_a_file_that_does_not_say_its_epoch_is_opened_once(run, monkeypatch):
    put(run, "Ant.pth", rl_games_file())  # epoch 950
    put(run, "renamed.pth", save(run, 960).read_bytes())
    put(run, "garbage.pth", b"x")
    put(run, "last_Ant_ep_940_rew_3.pth", b"x")
    names = [entry.path.name for entry in list_checkpoints(run)]
    assert names == ["renamed.pth", "Ant_v960_ep960.pth", "Ant.pth", "last_Ant_ep_940_rew_3.pth", "garbage.pth"]
    monkeypatch.setattr("livegym.rundir.listing.read_checkpoint", lambda path: pytest.fail("opened again"))
    assert [entry.path.name for entry in list_checkpoints(run)] == names


def test_temporaries_links_and_directories_are_no_checkpoints(run):
    path = save(run, 7)
    set_best(run / "nn", path)
    data = path.read_bytes()
    for name in (
        ".unison.Ant_v8_ep8.pth.1.unison.tmp",
        ".Ant_v8_ep8.pth.Xy12Zq",
        "Ant_v8_ep8.pth.tmp",
        ".Ant_v8_ep8.pth",
    ):
        put(run, name, data)
    put(run, "~syncthing~Ant_v8_ep8.pth", data)
    put(run, files.temporary_name(run / "nn" / "Ant_v9_ep9.pth").name, data)
    (run / "nn" / "Ant_v10_ep10.pth").mkdir()
    (run / "nn" / "Ant_v11_ep11.pth").symlink_to("gone.pth")
    assert [entry.path for entry in list_checkpoints(run)] == [path]
    assert list_checkpoints(run / "nothing") == []
    assert find_latest_checkpoint_file(run / "nothing") is None
    assert newest_usable(run / "nothing") is None


def test_a_copy_of_the_best_file_counts_after_the_original(run):
    path = save(run, 7)
    put(run, "best.pth", path.read_bytes())
    assert [entry.path.name for entry in list_checkpoints(run)] == ["Ant_v7_ep7.pth", "best.pth"]
    assert best_checkpoint_file(run) == run / "nn" / "best.pth"


def test_highest_version_counts_names_sidecars_and_environment_states(run):
    assert highest_version(run) == 0
    save(run, 9)
    save(run, 10).unlink()
    assert highest_version(run) == 10
    put(run, "last_Ant_ep_12_rew_1.pth", b"x")
    put(run, ".Ant_v99_ep99.pth", b"x")
    assert highest_version(run) == 12
    write_env_state(run, 13, {})
    assert highest_version(run) == 13


# -- best, retention


def test_best_is_the_link_then_the_twin_then_the_highest_reward(run):
    assert best_checkpoint_file(run) is None
    paths = [save(run, version, reward=reward) for version, reward in ((1, -5.0), (2, 3.0), (3, None), (4, 2.0))]
    assert best_checkpoint_file(run) == paths[1]
    set_best(run / "nn", paths[0])
    assert os.readlink(run / "nn" / "best.pth") == "Ant_v1_ep1.pth"
    assert best_checkpoint_file(run) == paths[0]
    (run / "nn" / "best.pth").unlink()
    assert best_checkpoint_file(run) == paths[0]
    (run / "nn" / "best.txt").write_text("gone.pth")
    assert best_checkpoint_file(run) == paths[1]


def kept(run: Path, keep_last: int | None, keep_every: int | None = None) -> list[int]:
    """The versions that are left of 1..12 (the best is 2) after pruning."""
    for path in (run / "nn").iterdir():
        path.unlink()
    paths = [save(run, version) for version in range(1, 13)]
    set_best(run / "nn", paths[1])
    prune(run / "nn", keep_last, keep_every)
    left = [entry.version for entry in list_checkpoints(run)]
    there = {file.name for file in (run / "nn").glob("Ant_*")}
    assert there == {file.name for entry in list_checkpoints(run) for file in files_of(entry.path)}
    return left


def test_pruning_keeps_the_newest_the_best_and_every_nth(run):
    everything = list(range(12, 0, -1))
    assert kept(run, None) == kept(run, -1) == everything
    assert kept(run, 0) == kept(run, 1) == [12, 2]
    assert kept(run, 3) == [12, 11, 10, 2]
    assert kept(run, 3, keep_every=5) == [12, 11, 10, 5, 2]
    assert kept(run, 50) == everything


def test_pruning_leaves_foreign_files_alone(run):
    foreign = put(run, "last_Ant_ep_1.pth", b"x")
    for version in (1, 2, 3):
        save(run, version)
    assert [path.name for path in prune(run / "nn", 1)] == ["Ant_v2_ep2.pth", "Ant_v1_ep1.pth"]
    assert foreign.exists()


def test_what_cannot_be_pruned_is_logged_once(run, monkeypatch, caplog):
    files.warn_once.cache_clear()
    paths = [save(run, version) for version in range(1, 6)]
    unlink = os.unlink

    def refusing(path, *args, **kwargs):
        if Path(path) == paths[0]:
            raise PermissionError(1, "Operation not permitted")
        if Path(path) == paths[1] and paths[1].exists():
            unlink(paths[1])  # somebody else was quicker
        unlink(path, *args, **kwargs)

    monkeypatch.setattr(os, "unlink", refusing)
    for _ in range(3):
        prune(run / "nn", 2)
    assert [entry.version for entry in list_checkpoints(run)] == [5, 4, 1]
    assert [r.getMessage() for r in caplog.records] == [
        f"{paths[0]} could not be removed (Operation not permitted); it stays"
    ]
    assert sidecar_of(paths[0]).exists()


# -- the environments' state


def test_environment_states_come_back_and_only_the_newest_stays(run):
    for version in (1, 2, 10):
        write_env_state(run, version, {"sim": {"qpos": torch.full((2, 3), float(version))}, "steps": [1, 2]})
    assert read_env_state(run, 2)["sim"]["qpos"][0, 0] == 2.0
    assert sorted(path.name for path in prune_env_states(run, 10)) == ["env_state_v1.pt", "env_state_v2.pt"]
    assert read_env_state(run, 2) is None
    assert read_env_state(run, 10)["steps"] == [1, 2]


def test_environment_states_are_read_as_carefully_as_checkpoints(run):
    with pytest.raises(TypeError, match=r"env_state\['x'\] is a numpy"):
        write_env_state(run, 1, {"x": np.float64(1)})
    (run / "env_state_v1.pt").write_bytes(with_pickle(pickle.dumps(Shell("true"), protocol=2)))
    with pytest.raises(CheckpointError, match=r"^env_state_v1.pt: refers to 'posix.system'"):
        read_env_state(run, 1)
