"""Copies of runs by real rsync and unison: what they hold, what they are good for, and that they do not grow."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from checkpoint_samples import as_bytes

from livegym.live.model_slot import SPACED
from livegym.play import copy_cleaner
from livegym.play.copy_cleaner import CopyCleaner
from livegym.rundir.checkpoint import (
    CheckpointError,
    best_checkpoint_file,
    files_of,
    find_latest_checkpoint_file,
    highest_version,
    list_checkpoints,
    list_playable,
    newest_playable,
    newest_usable,
    prune,
    read_checkpoint,
    set_best,
    write_env_state,
)
from livegym.rundir.copies import LISTED, delete_pruned, note_pruned, pruned_names
from livegym.rundir.lock import LOCK_NAME, RunLock
from livegym.rundir.provenance import Provenance
from livegym.rundir.rsync_filter import FILTER, FILTER_NAME, write_filter
from livegym.rundir.run import Run, begin_run, create_run, open_run, point_latest
from livegym.rundir.select import read_complete, resolve_checkpoint
from livegym.utils.errors import UserError
from livegym.utils.files import strict_json
from livegym.weights.archive import Archive
from livegym.weights.newer_run import Leaving
from livegym.weights.sources import CheckpointSource
from tests.test_live import candidate, live_of
from tests.test_sources import acting, save

HOT_RELOAD = Path(__file__).parent.parent / "docs" / "hot-reload.md"


def copy(source: Path, target: Path, *options: str) -> None:
    """What the documents' loop does once; a file that is deleted meanwhile is no error."""
    command = ["rsync", *(options or ("-aF", "--inplace")), f"{source}/", f"{target}/"]
    assert subprocess.run(command).returncode in (0, 24)


def names(folder: Path) -> set[str]:
    files = (file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir())
    return {file.relative_to(folder).as_posix() for file in files}


@pytest.fixture
def server(tmp_path) -> Run:
    """A training run on a server, with three checkpoints, of which the second is the best."""
    run = begin_run(tmp_path / "server", "Counting", "train", Provenance("", "", [], []))
    for version in (4, 12, 30):
        save(run, version, learner={"curriculum": version / 100, "best_return": 1.0}, optimizer=[torch.ones(9)])
    set_best(run.nn, run.nn / "Counting_v12_ep12.pth")
    write_env_state(run, 30, {"qpos": torch.ones(3)})
    point_latest(run.path.parent, "train", run)
    return run


@pytest.fixture
def laptop(server, tmp_path) -> Run:
    """The same run in a copy with the filter."""
    copy(server.path.parent, tmp_path / "laptop")
    return open_run(tmp_path / "laptop" / server.name)


# -- the policy file


def test_a_policy_file_has_what_a_test_reads_and_nothing_else(server):
    path = server.nn / "Counting_v30_ep30.pth"
    _, _, policy, sidecar = files_of(path)
    assert (policy.name, sidecar.name) == ("Counting_v30_ep30.policy", "Counting_v30_ep30.policy.json")
    complete, played = read_checkpoint(path), read_checkpoint(policy)
    assert set(played) == {"model", "config", "spec", "epoch", "livegym", "learner"}
    assert played["learner"] == {"curriculum": 0.3}
    assert all(torch.equal(played["model"][name], value) for name, value in complete["model"].items())
    assert all(played[key] == complete[key] for key in ("config", "spec", "epoch", "livegym"))
    assert torch.load(policy, weights_only=True)["livegym"]["version"] == 30
    stored = json.loads(sidecar.read_text())
    assert (stored["bytes"], stored["version"], stored["reward"]) == (policy.stat().st_size, 30, 30.0)


@pytest.mark.parametrize("damage", ["cut", "changed", "garbage"])
def test_a_damaged_policy_file_is_refused(laptop, damage):
    policy = laptop.nn / "Counting_v30_ep30.policy"
    data = policy.read_bytes()
    middle = len(data) // 2
    flipped = bytes(byte ^ 0xFF for byte in data[middle : middle + 99])
    policy.write_bytes(
        {"cut": data[:middle], "garbage": b"x"}.get(damage, data[:middle] + flipped + data[middle + 99 :])
    )
    with pytest.raises(CheckpointError, match=r"Counting_v30_ep30\.policy: does not match its sidecar"):
        read_checkpoint(policy)
    assert newest_playable(laptop).path.name == "Counting_v12_ep12.policy"


def test_a_policy_file_counts_only_if_its_checkpoint_is_not_there(server):
    assert list_playable(server) == list_checkpoints(server)
    (server.nn / "Counting_v30_ep30.pth").unlink()
    assert [entry.version for entry in list_checkpoints(server)] == [12, 4]
    assert [entry.path.suffix for entry in list_playable(server)] == [".policy", ".pth", ".pth"]
    assert (newest_usable(server).path.name, find_latest_checkpoint_file(server).name) == (
        "Counting_v12_ep12.pth",
        "Counting_v30_ep30.policy",
    )
    for file in files_of(server.nn / "Counting_v30_ep30.pth")[:2]:
        file.unlink(missing_ok=True)
    assert highest_version(server) == 30  # its number is never given again
    (server.path / "env_state_v30.pt").unlink()
    assert highest_version(server) == 30


# -- what a copy holds, and what it is good for


def test_the_filter_leaves_out_what_only_a_resume_reads(server, tmp_path):
    only_resume = {server.replay_file, server.pending_file, server.answers_file, server.sessions_file}
    only_resume |= {server.parts_file, server.not_learned_file}
    only_resume |= {server.path / LOCK_NAME, server.nn / f".x.{os.getpid()}.0123abcd.1.tmp"}
    for file in (*only_resume, server.summaries / "events.out.tfevents.1", server.log_file):
        file.write_bytes(b"x")
    point_latest(server.path.parent, "test", create_run(server.path.parent, "Counting", "test"))
    copy(server.path.parent, tmp_path / "laptop")
    left_out = names(server.path.parent) - names(tmp_path / "laptop")
    only_resume |= set(server.nn.glob("*.pth")) | set(server.nn.glob("*.pth.json")) | set(server.path.glob("*.pt"))
    only_resume |= {server.path.parent / "latest_test", server.path.parent / "latest_test.txt"}
    assert left_out == {file.relative_to(server.path.parent).as_posix() for file in only_resume}
    assert len(left_out) == 18
    copy(server.path.parent, tmp_path / "all", "-a")
    assert names(tmp_path / "all") == names(server.path.parent)


def test_the_profile_for_unison_leaves_out_the_same_files():
    profile = re.search(r"```text\n# ~/.unison.*?```", HOT_RELOAD.read_text(), re.S)[0]
    names = {name for given in re.findall(r"ignore = Name {(.*)}", profile) for name in given.split(",")}
    rules = re.findall(r"^- ([^/\n]+)/?$", FILTER, re.M)
    assert "decisions" in rules
    assert names == set(rules)


def test_a_training_run_writes_the_filter_once_and_a_test_does_not(tmp_path):
    def begin(kind: str) -> str:
        begin_run(tmp_path / kind, "Counting", kind, Provenance("", "", [], []))
        filter_file = tmp_path / kind / FILTER_NAME
        return filter_file.read_text() if filter_file.exists() else ""

    assert [begin(kind) for kind in ("train", "continuous", "test")] == [FILTER, FILTER, ""]
    (tmp_path / "train" / FILTER_NAME).write_text("- mine\n")
    assert begin("train") == "- mine\n"
    write_filter(tmp_path / "nowhere")  # a convenience: its failure is a warning


@pytest.mark.parametrize(
    ("selector", "file"),
    [
        ("latest", "Counting_v30_ep30.policy"),
        ("best", "Counting_v12_ep12.policy"),
        ("Counting", "Counting_v30_ep30.policy"),
        ("{run}", "Counting_v30_ep30.policy"),
        ("{run}/nn/best.pth", "Counting_v12_ep12.policy"),
        ("{run}/nn/Counting_v4_ep4.pth", "Counting_v4_ep4.policy"),
        ("{run}/nn/Counting_v4_ep4.policy", "Counting_v4_ep4.policy"),
        ("latest_test", "Counting_v12_ep12.policy"),
    ],
)
def test_every_selector_works_in_a_copy_that_has_policy_files_only(laptop, selector, file):
    test = create_run(laptop.path.parent, "Counting", "test")
    began = laptop.nn / "Counting_v12_ep12.pth"  # of a copy that had the complete ones
    test.results_file.write_text(strict_json({"checkpoint": str(began)}))
    assert list_checkpoints(laptop) == []
    selection = resolve_checkpoint(selector.format(run=laptop.path), laptop.path.parent)
    assert selection.file.name == file
    assert read_checkpoint(selection.file)["model"]


def test_best_is_found_by_scores_too(laptop):
    (laptop.nn / "best.txt").unlink()
    assert best_checkpoint_file(laptop).name == "Counting_v30_ep30.policy"  # its score is 30


def test_a_policy_file_is_followed_and_found_in_the_history(laptop):
    source = CheckpointSource(laptop, "newest", laptop.path.parent, "Counting", Leaving.NEVER)
    found = source.poll(acting(laptop, 12))
    assert (found.version, found.level, found.run) == (30, 0.3, laptop.name)
    assert source.poll(acting(laptop, 30)) is None
    archive = Archive(lambda: laptop, laptop.name)
    archive.refresh()
    assert [(entry.label, entry.score) for entry in archive.entries] == [(4, 4.0), (12, 12.0), (30, 30.0)]
    assert archive.load(4).version == 4


@pytest.mark.parametrize("selector", ["latest", "best", "{run}", "{run}/nn/Counting_v4_ep4.policy"])
def test_training_from_a_copy_with_the_filter_is_refused_with_what_to_do(laptop, selector):
    typed = selector.format(run=laptop.path)
    with pytest.raises(UserError) as refused:
        read_complete(typed, laptop.path.parent)
    assert str(refused.value).startswith(f"checkpoint={typed}: {laptop.nn}")
    assert "copy it without the filter (rsync -a instead of rsync -aF)" in str(refused.value)


def test_training_takes_the_newest_complete_checkpoint_of_a_mixed_copy_and_says_so(server, laptop):
    for name in ("Counting_v4_ep4.pth", "Counting_v12_ep12.pth"):
        shutil.copy2(server.nn / name, laptop.nn / name)
    selection, state = read_complete("latest", laptop.path.parent)
    assert (selection.file.name, state["livegym"]["version"]) == ("Counting_v12_ep12.pth", 12)
    assert selection.note.startswith("Counting_v30_ep30.policy is a policy file")
    with pytest.raises(UserError, match="is a policy file"):
        read_complete(str(laptop.nn / "Counting_v30_ep30.policy"), laptop.path.parent)
    assert read_complete("best", laptop.path.parent)[0].file.name == "Counting_v12_ep12.pth"


def test_a_run_of_before_policy_files_is_followed_in_a_whole_copy(server, tmp_path):
    for file in server.nn.glob("*.policy*"):
        file.unlink()
    copy(server.path.parent, tmp_path / "whole", "-a")
    assert resolve_checkpoint("latest", tmp_path / "whole").file.name == "Counting_v30_ep30.pth"


def test_among_copied_runs_the_one_to_which_latest_train_moves_is_followed(server, laptop):
    source = CheckpointSource(laptop, "newest", laptop.path.parent, "Counting", Leaving.WHEN_ENDED)
    source.move_if_changed()
    second = create_run(server.path.parent, "Counting", "train")
    copy(server.path.parent, laptop.path.parent)  # it has no checkpoint yet
    source.move_if_changed()
    assert source.run.name == laptop.name
    save(second, 1)
    point_latest(second.path.parent, "train", second)
    copy(server.path.parent, laptop.path.parent)
    source.move_if_changed()
    assert source.run.name == second.name
    assert source.poll(acting(laptop, 30)).run == second.name
    copy(server.path.parent, laptop.path.parent)
    source.move_if_changed()
    assert source.run.name == second.name  # nobody goes back


# -- a copy that does not grow


def test_a_run_lists_what_it_has_deleted_up_to_a_bound(server):
    assert [path.name for path in prune(server.nn, 1)] == ["Counting_v4_ep4.pth"]
    assert pruned_names(server) == {"Counting_v4_ep4.pth"}
    assert not list(server.nn.glob("*_v4_*"))
    prune(server.nn, 1)  # nothing to delete
    note_pruned(server, [server.nn / f"Counting_v{version}_ep{version}.pth" for version in range(100, 100 + LISTED)])
    assert len(pruned_names(server)) == LISTED
    assert "Counting_v4_ep4.pth" not in pruned_names(server)


def versions(run: Run) -> list[int]:
    return sorted(entry.version for entry in list_playable(run))


@pytest.mark.parametrize("options", [("-aF", "--inplace"), ("-a",)])
def test_what_the_server_has_deleted_is_deleted_in_the_copy(server, tmp_path, options):
    source, target = server.path.parent, tmp_path / "laptop"
    copy(source, target, *options)
    run = open_run(target / server.name)
    for version in (40, 50, 60, 70):
        save(server, version)
        set_best(server.nn, server.nn / "Counting_v30_ep30.pth")
        os.utime(server.nn / "best.txt", (version, version))  # rsync compares size and whole seconds
        prune(server.nn, 2)
        copy(source, target, *options)
    assert versions(run) == [4, 12, 30, 40, 50, 60, 70]
    gone = delete_pruned(run, keep=lambda: {12})
    assert sorted(path.stem for path in gone) == ["Counting_v40_ep40", "Counting_v4_ep4", "Counting_v50_ep50"]
    assert versions(run) == [12, 30, 60, 70]
    assert versions(server) == [30, 60, 70]
    assert not [name for name in names(run.nn) if "_v40_" in name]
    assert delete_pruned(run, keep=set)
    assert names(run.nn) == {name for name in names(server.nn) if options == ("-a",) or ".pth" not in name}


def test_nothing_else_is_deleted(laptop, tmp_path):
    outside = tmp_path / "outside_v1_ep1.pth"
    outside.write_bytes(b"x")
    listed = [
        "../../outside_v1_ep1.pth", str(outside), "..\\outside_v1_ep1.pth", "best.txt", "run.json", "", ".", "..",
        "Counting_v4_ep4.policy", "Counting_v4_ep4.pth.json", "x/Counting_v4_ep4.pth", "Counting_v99_ep99.pth",
    ]  # fmt: skip
    (laptop.path / "pruned.txt").write_text("\n".join(listed))
    before = names(tmp_path)
    assert delete_pruned(laptop, keep=set) == []
    assert names(tmp_path) == before
    (laptop.path / "pruned.txt").write_bytes(b"\xff\xfe\x00" * 99)
    assert delete_pruned(laptop, keep=set) == []


@pytest.fixture
def all_pruned(laptop) -> Run:
    """A copy in which every checkpoint is listed as deleted."""
    note_pruned(laptop, [entry.path for entry in list_playable(laptop)])
    return laptop


def test_the_newest_the_best_and_what_is_needed_stay(all_pruned):
    assert delete_pruned(all_pruned, keep=lambda: {4}) == []
    assert [path.name for path in delete_pruned(all_pruned, keep=set)] == ["Counting_v4_ep4.policy"]
    assert versions(all_pruned) == [12, 30]


def test_in_a_protected_run_and_in_one_that_was_written_here_nothing_is_deleted(all_pruned):
    all_pruned.pin_file.touch()
    assert delete_pruned(all_pruned, keep=set) == []
    all_pruned.pin_file.unlink()
    with RunLock(all_pruned):
        assert delete_pruned(all_pruned, keep=set) == []
    assert delete_pruned(all_pruned, keep=set) == []  # it was resumed here, so it is no copy any more
    lock = all_pruned.path / LOCK_NAME
    lock.write_text(lock.read_text().replace(socket.gethostname(), f"not-{socket.gethostname()}"))  # the server's
    assert delete_pruned(all_pruned, keep=set) != []


def test_a_file_that_cannot_be_deleted_stays_whole(all_pruned, monkeypatch):
    unlink = os.unlink

    def refusing(path, *args, **kwargs):
        if str(path).endswith(".policy"):
            raise PermissionError(1, "Operation not permitted")
        unlink(path, *args, **kwargs)

    monkeypatch.setattr(os, "unlink", refusing)
    assert delete_pruned(all_pruned, keep=set) == []
    assert read_checkpoint(all_pruned.nn / "Counting_v4_ep4.policy")


def cleaner_of(run: Run, version: int, **rule) -> tuple[CopyCleaner, object]:
    """A test of its own run in which a version of the copied run acts."""
    first = candidate(version, run_id=run.run_id, file=run.nn / f"Counting_v{version}_ep{version}.policy")
    live = live_of(first, **rule)
    return CopyCleaner(live, lambda: run, create_run(run.path.parent, "Counting", "test")), live


def test_a_test_keeps_what_acts_and_its_history_and_deletes_the_rest_with_one_line(server, laptop, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(copy_cleaner, "INTERVAL", 0.0)
    cleaner, live = cleaner_of(laptop, 4, history=1, spaced=SPACED)
    (laptop.nn / "best.txt").unlink()
    for version in (40, 50, 60):
        save(server, version)
    copy(server.path.parent, laptop.path.parent)
    prune(server.nn, 1)
    copy(server.path.parent, laptop.path.parent)
    live.prepare(candidate(50, run_id=laptop.run_id, file=laptop.nn / "Counting_v50_ep50.policy"))
    live.adopt()
    assert live.history.labels == [4, 50]
    cleaner.clean()
    assert versions(laptop) == [4, 12, 50, 60]  # 12 is the best of the server
    save(server, 70)
    prune(server.nn, 1)
    live.pin()
    live.rollback(4)
    live.adopt()
    copy(server.path.parent, laptop.path.parent)
    cleaner.clean()
    assert versions(laptop) == [4, 12, 50, 70]
    said = [r.getMessage() for r in caplog.records if "has deleted" in r.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"{laptop.nn}: 2 older checkpoints that the training run has deleted were deleted here")


def test_the_version_that_latest_test_means_stays(all_pruned, monkeypatch):
    monkeypatch.setattr(copy_cleaner, "INTERVAL", 0.0)
    earlier = create_run(all_pruned.path.parent, "Counting", "test")
    earlier.results_file.write_text(strict_json({"checkpoint": str(all_pruned.nn / "Counting_v4_ep4.policy")}))
    cleaner, _ = cleaner_of(all_pruned, 30)
    cleaner.clean()
    assert versions(all_pruned) == [4, 12, 30]
    played = [{"accepted": True, "version": 12, "run": all_pruned.name}]
    earlier.results_file.write_text(strict_json({"checkpoint": None, "swaps": played}))
    cleaner.clean()
    assert versions(all_pruned) == [12, 30]


def test_a_copy_is_looked_at_every_few_seconds_only(all_pruned):
    cleaner, _ = cleaner_of(all_pruned, 30)
    cleaner.clean()
    assert versions(all_pruned) == [12, 30]
    save(all_pruned, 8)
    note_pruned(all_pruned, [all_pruned.nn / "Counting_v8_ep8.pth"])
    cleaner.clean()
    assert versions(all_pruned) == [8, 12, 30]


# -- unison


def test_the_profile_for_unison_copies_the_same_one_way(server, tmp_path):
    profile = re.search(r"```text\n(# ~/\.unison/livegym\.prf\n.*?)```", HOT_RELOAD.read_text(), re.S)[1]
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    own = create_run(laptop, "Counting", "test")
    settings = profile.replace("/home/you/livegym/runs", str(laptop))
    settings = settings.replace("ssh://server//home/me/livegym/runs", str(server.path.parent))
    assert "home/" not in settings
    (tmp_path / "unison").mkdir()
    (tmp_path / "unison" / "livegym.prf").write_text(settings)

    def synchronise() -> None:
        environment = {**os.environ, "UNISON": str(tmp_path / "unison")}
        done = subprocess.run(["unison", "livegym"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    server.replay_file.write_bytes(b"x")
    synchronise()
    copy(server.path.parent, tmp_path / "by rsync")
    run = open_run(laptop / server.name)
    assert names(run.path) == names(tmp_path / "by rsync" / server.name)
    assert versions(run) == [4, 12, 30]
    prune(server.nn, 1)
    synchronise()
    assert versions(run) == [12, 30]
    assert own.path.exists()
    assert not list(server.path.parent.glob("*_test_*"))


def test_files_of_other_programs_with_the_new_suffix_are_no_policies(laptop):
    (laptop.nn / "last.policy").write_bytes(as_bytes({"model": {}}))
    (laptop.nn / ".Counting_v50_ep50.policy.Xy12Zq").write_bytes(b"x")  # rsync's temporary
    assert newest_playable(laptop).path.name == "Counting_v30_ep30.policy"
    assert highest_version(laptop) == 30
