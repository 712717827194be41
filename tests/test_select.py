"""What checkpoint=<selector> means, what it says if there is nothing, and that it makes nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from checkpoint_samples import new_run, save

from livegym.rundir.checkpoint import remove_checkpoint, set_best
from livegym.rundir.run import Run, point_latest
from livegym.rundir.select import NothingYet, resolve_checkpoint
from livegym.utils.errors import UserError


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """An empty runs/, relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    return Path("runs")


def finished_test(runs: Path, when: str, checkpoint: object, task: str = "Ant") -> Run:
    """A finished test run that recorded `checkpoint`."""
    run = new_run(runs, when, task=task, kind="test")
    run.results_file.write_text(json.dumps({"checkpoint": checkpoint}))
    return run


def everything(directory: Path) -> dict[str, object]:
    """Every name below a directory with what it holds or points to."""
    paths = sorted(directory.rglob("*"))
    return {str(p): os.readlink(p) if p.is_symlink() else p.read_bytes() if p.is_file() else None for p in paths}


# -- latest


def test_latest_is_the_run_of_the_link_and_its_newest_checkpoint(runs):
    run = new_run(runs, "20250801_095943", versions=(2, 10, 9))
    new_run(runs, "20250901_000000", versions=(1,))  # newer, but the link is what counts
    point_latest(runs, "train", run)
    for selector in ("latest", "latest_train"):
        selection = resolve_checkpoint(selector, runs, "Ant")
        assert selection.run == runs / "Ant_train_20250801_095943"
        assert selection.file == selection.run / "nn" / "Ant_v10_ep10.pth"
        assert (selection.fixed, selection.follow, selection.note) == (False, "newest", "")


def test_without_a_link_the_twin_counts_and_then_the_run_started_last(runs):
    for when in ("20250930_230000", "20260109_080000", "20251001_000000"):
        new_run(runs, when, versions=(1,))
    new_run(runs, "20260301_000000", task="Cartpole", versions=(1,))
    new_run(runs, "20260401_000000", kind="test")
    os.utime(runs / "Ant_train_20250930_230000", (4e9, 4e9))
    assert resolve_checkpoint("latest", runs, "Ant").run.name == "Ant_train_20260109_080000"
    assert resolve_checkpoint("latest", runs).run.name == "Cartpole_train_20260301_000000"
    (runs / "latest_train.txt").write_text("Ant_train_20251001_000000\n")
    assert resolve_checkpoint("latest", runs, "Ant").run.name == "Ant_train_20251001_000000"


@pytest.mark.parametrize("selector", ["latest", "latest_train", "best"])
def test_messages_name_the_checkpoint_that_was_typed(tmp_path, monkeypatch, selector):
    monkeypatch.chdir(tmp_path)
    runs = Path("runs")
    typed = rf"^checkpoint={selector}: "
    with pytest.raises(NothingYet, match=f"{typed}there is no directory"):
        resolve_checkpoint(selector, runs)
    runs.mkdir()
    with pytest.raises(NothingYet, match=f"{typed}.* has no training run"):
        resolve_checkpoint(selector, runs)
    (runs / "latest_train").symlink_to("Ant_train_20250802_000000")
    with pytest.raises(NothingYet, match=f"{typed}the target of .*latest_train does not exist"):
        resolve_checkpoint(selector, runs)
    new_run(runs, "20250803_000000")
    with pytest.raises(NothingYet, match=f"{typed}there is no checkpoint in"):
        resolve_checkpoint(selector, runs)


def test_a_link_to_another_task_or_to_a_test_is_passed_over_with_a_word(runs):
    own_run = new_run(runs, "20250801_000000", versions=(1,))
    point_latest(runs, "train", new_run(runs, "20250901_000000", task="Cartpole", versions=(1,)))
    selection = resolve_checkpoint("latest", runs, "Ant")
    assert selection.run == own_run.path
    latest = "the latest run, Cartpole_train_20250901_000000, is of task Cartpole"
    assert selection.note == f"{latest}, so the newest run of Ant is used"
    point_latest(runs, "train", new_run(runs, "20250902_000000", kind="test"))
    selection = resolve_checkpoint("latest", runs, "Ant")
    assert (selection.run, selection.note) == (
        own_run.path,
        "runs/latest_train is not used: Ant_test_20250902_000000 is a test",
    )


def test_runs_without_a_usable_checkpoint_are_passed_over_with_a_word(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    broken = new_run(runs, "20250802_000000")
    (broken.nn / "Ant_v1_ep1.pth").write_bytes(b"")
    new_run(runs, "20250803_000000")
    selection = resolve_checkpoint("latest", runs, "Ant")
    assert selection.run.name == "Ant_train_20250801_000000"
    assert selection.note == (
        "Ant_train_20250803_000000 is skipped: it has no checkpoint yet; "
        "Ant_train_20250802_000000 is skipped: Ant_v1_ep1.pth: is empty"
    )


def test_if_no_file_is_usable_the_message_says_what_is_wrong_with_the_newest(runs):
    run = new_run(runs, "20250801_000000")
    for version in (1, 2):
        (run.nn / f"Ant_v{version}_ep{version}.pth").write_bytes(b"")
    with pytest.raises(NothingYet, match=r"none of 2 files in .* is usable \(Ant_v2_ep2.pth: is empty\)"):
        resolve_checkpoint("latest", runs, "Ant")


def test_a_broken_newest_file_gives_way_to_the_one_before_with_a_word(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 2))
    (run.nn / "Ant_v3_ep3.pth").write_bytes(b"")
    selection = resolve_checkpoint("latest", runs, "Ant")
    assert selection.file.name == "Ant_v2_ep2.pth"
    assert selection.note == "Ant_v3_ep3.pth: is empty"


def test_a_link_that_arrived_before_its_run_leads_to_the_run_before(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    (runs / "latest_train").symlink_to("Ant_train_20250802_000000")
    selection = resolve_checkpoint("latest", runs, "Ant")
    assert selection.run.name == "Ant_train_20250801_000000"
    assert selection.note == "the target of runs/latest_train does not exist, so the newest run is used"


def test_continuous_runs_count_as_training(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    point_latest(runs, "continuous", new_run(runs, "20250802_000000", kind="continuous", versions=(1,)))
    assert resolve_checkpoint("latest", runs, "Ant").run.name == "Ant_continuous_20250802_000000"


def test_where_there_is_nothing_four_messages_say_where_and_what_to_type(runs):
    here, train = Path.cwd(), "python train.py config=train_headless task=Ant"

    def message(directory: str = "runs", task: str | None = "Ant") -> str:
        with pytest.raises(NothingYet) as error:
            resolve_checkpoint("latest", Path(directory), task)
        assert error.value.exit_code == 2
        return str(error.value)

    assert message("nowhere") == f"checkpoint=latest: there is no directory {here}/nowhere. Train first: {train}"
    new_run(runs, "20250801_000000", task="Cartpole", versions=(1,))
    assert message() == (
        f"checkpoint=latest: {here}/runs has no training run of Ant (there are runs of: Cartpole). Train first: {train}"
    )
    (runs / "latest_train").symlink_to("Ant_train_20250802_000000")
    assert message() == (
        f"checkpoint=latest: the target of {here}/runs/latest_train does not exist, and {here}/runs has no other "
        f"training run of Ant. Copy the run that it names to this directory, or: {train}"
    )
    new_run(runs, "20250802_000000")
    assert message() == (
        f"checkpoint=latest: there is no checkpoint in {here}/runs/Ant_train_20250802_000000/nn yet. "
        f"Wait for the first one. If nothing is training: {train}"
    )
    shutil.rmtree("runs")
    runs.mkdir()
    assert message(task=None).endswith("has no training run. Train first: " + train.replace("Ant", "<Task>"))


# -- best


def test_best_is_another_file_than_latest_and_is_followed(runs):
    run = new_run(runs, "20250801_000000")
    paths = [save(run.path, version, reward=reward) for version, reward in ((1, 5.0), (2, 1.0))]
    set_best(run.nn, paths[0])
    best, latest = (resolve_checkpoint(selector, runs, "Ant") for selector in ("best", "latest"))
    assert (best.file.name, best.follow, best.fixed) == ("Ant_v1_ep1.pth", "best", False)
    assert (latest.file.name, latest.follow) == ("Ant_v2_ep2.pth", "newest")


def test_before_there_is_a_best_the_newest_is_taken_with_a_word(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    selection = resolve_checkpoint("best", runs, "Ant")
    assert (selection.file.name, selection.follow) == ("Ant_v1_ep1.pth", "best")
    assert "has no best checkpoint yet" in selection.note


def test_a_broken_best_gives_way_to_the_newest_with_a_word(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 2))
    set_best(run.nn, run.nn / "Ant_v1_ep1.pth")
    (run.nn / "Ant_v1_ep1.pth").write_bytes(b"")
    selection = resolve_checkpoint("best", runs, "Ant")
    assert selection.file.name == "Ant_v2_ep2.pth"
    assert (
        selection.note
        == "Ant_v1_ep1.pth: does not match its sidecar (still being copied?), so the newest checkpoint is used"
    )


# -- latest_test


def test_latest_test_is_the_checkpoint_that_the_test_used(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 2))
    file = run.nn / "Ant_v1_ep1.pth"
    for recorded in (str(file), str(file.absolute()), f"/home/other/runs/{run.name}/nn/{file.name}"):
        point_latest(runs, "test", finished_test(runs, "20250802_000000", recorded))
        selection = resolve_checkpoint("latest_test", runs)
        assert selection.file.resolve() == file.resolve()
        assert (selection.fixed, selection.follow) == (True, None)
    assert selection.run == run.path


def test_tests_without_a_checkpoint_are_passed_over(runs):
    run = new_run(runs, "20250801_000000", versions=(1,))
    finished_test(runs, "20250802_000000", str(run.nn / "Ant_v1_ep1.pth"))
    finished_test(runs, "20250803_000000", None)
    finished_test(runs, "20250804_000000", "gone.pth")
    new_run(runs, "20250805_000000", kind="test")
    assert resolve_checkpoint("latest_test", runs, "Ant").file.name == "Ant_v1_ep1.pth"
    with pytest.raises(NothingYet, match="has no test of Cartpole"):
        resolve_checkpoint("latest_test", runs, "Cartpole")


def long_test(runs: Path, began_with: Path, swaps: list[dict[str, object]]) -> None:
    """A test that began with one file and then swapped."""
    test = finished_test(runs, "20250802_000000", str(began_with))
    test.results_file.write_text(json.dumps({"checkpoint": str(began_with), "swaps": swaps}))


def test_latest_test_is_the_newest_version_that_was_played_and_is_still_there(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 20, 30, 40))
    played = [{"accepted": True, "version": v, "run": run.name, "file": ""} for v in (5, 20, 25, 30)]
    refused = {"accepted": False, "version": 40, "run": run.name, "file": "Ant_v40_ep40.pth"}
    long_test(runs, run.nn / "Ant_v1_ep1.pth", [*played, refused])
    selection = resolve_checkpoint("latest_test", runs)
    assert (selection.file.name, selection.fixed, selection.note) == ("Ant_v30_ep30.pth", True, "")

    remove_checkpoint(run.nn / "Ant_v30_ep30.pth")
    selection = resolve_checkpoint("latest_test", runs)
    assert selection.file.name == "Ant_v20_ep20.pth"
    assert selection.note == (
        "Ant_test_20250802_000000 played version 30 last, of which there is no checkpoint; "
        "testing version 20, which it also played"
    )


def test_latest_test_takes_the_next_older_version_if_none_that_was_played_was_saved(runs):
    run = new_run(runs, "20250801_000000", versions=(17, 34, 51))
    played = [{"accepted": True, "version": v, "run": run.name, "file": ""} for v in (5, 20, 40)]
    long_test(runs, run.nn / "Ant_v1_ep1.pth", played)  # which was pruned meanwhile
    selection = resolve_checkpoint("latest_test", runs)
    assert selection.file.name == "Ant_v34_ep34.pth"
    assert selection.note.endswith("testing version 34, the newest older version of that run")


def test_latest_test_stays_with_the_run_that_was_played_last(runs):
    first = new_run(runs, "20250801_000000", versions=(1, 9))
    second = new_run(runs, "20250801_100000", versions=(3,))
    moved = [{"accepted": True, "version": v, "run": r.name} for v, r in ((9, first), (3, second))]
    long_test(runs, first.nn / "Ant_v1_ep1.pth", moved)
    assert resolve_checkpoint("latest_test", runs).file == second.nn / "Ant_v3_ep3.pth"


@pytest.mark.parametrize(
    "swaps",
    [None, 3, [], [3], [{}], [{"accepted": True}], [{"accepted": True, "version": "9", "run": 3}],
     [{"accepted": True, "version": 9, "run": "../../etc"}], [{"accepted": True, "version": True, "run": None}]],
)  # fmt: skip
def test_odd_swaps_in_results_are_passed_over(runs, swaps):
    run = new_run(runs, "20250801_000000", versions=(1,))
    long_test(runs, run.nn / "Ant_v1_ep1.pth", swaps)
    assert resolve_checkpoint("latest_test", runs).file.name == "Ant_v1_ep1.pth"


# -- a run


def test_a_run_directory_can_be_named_in_many_ways(runs, tmp_path):
    run = new_run(runs, "20250801_095943", versions=(1,))
    new_run(runs, "20250802_000000", versions=(1,))
    point_latest(runs, "train", run)
    names = ["runs/Ant_train_20250801_095943", "runs/Ant_train_20250801_095943/", f"{tmp_path}/{run.path}"]
    names += ["runs/Ant_train_20250801_095943/nn", "Ant_train_20250801_095943", "0801", "095943"]
    names += ["runs/latest_train", "runs/latest_train/", "runs/latest_train/nn"]
    for name in names:
        selection = resolve_checkpoint(name, runs)
        assert selection.run.resolve() == run.path.resolve(), name
        assert selection.run.name == run.name
        assert (selection.file.name, selection.fixed, selection.follow) == ("Ant_v1_ep1.pth", False, "newest")


def test_a_part_of_several_names_is_an_error_that_lists_them(runs):
    for when in ("20250801_000000", "20250802_000000"):
        new_run(runs, when, versions=(1,))
    with pytest.raises(UserError) as error:
        resolve_checkpoint("202508", runs)
    assert str(error.value) == (
        "checkpoint=202508: matches 2 runs: Ant_train_20250802_000000, Ant_train_20250801_000000. Type more of the name"
    )


def test_a_name_that_fits_nothing_gets_the_nearest(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    with pytest.raises(UserError, match=r"Did you mean latest_train\?"):
        resolve_checkpoint("lates_train", runs)
    with pytest.raises(UserError, match=r"Did you mean Ant_train_20250801_000000\?"):
        resolve_checkpoint("Ant_trian_20250801_000000", runs)
    with pytest.raises(UserError, match="no such file or directory"):
        resolve_checkpoint("runs/Ant_trian", runs)
    with pytest.raises(UserError, match="empty"):
        resolve_checkpoint(" ", runs)


def test_a_word_may_also_be_a_directory_that_is_no_run(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    Path("Ant").mkdir()
    assert resolve_checkpoint("Ant", runs).run.name == "Ant_train_20250801_000000"
    with pytest.raises(UserError, match="not a run directory"):
        resolve_checkpoint("./runs", runs.absolute())


def test_a_named_run_is_not_passed_over(runs):
    new_run(runs, "20250801_000000", versions=(1,))
    empty = new_run(runs, "20250802_000000")
    with pytest.raises(NothingYet, match="Ant_train_20250802_000000/nn: there is no checkpoint yet"):
        resolve_checkpoint(str(empty.path), runs)
    test = new_run(runs, "20250803_000000", kind="test")
    with pytest.raises(UserError, match="a test has no checkpoints"):
        resolve_checkpoint(str(test.path), runs)


# -- a file


def test_a_named_file_is_never_replaced(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 2))
    selection = resolve_checkpoint("runs/Ant_train_20250801_000000/nn/Ant_v1_ep1.pth", runs)
    assert (selection.file.name, selection.fixed, selection.follow) == ("Ant_v1_ep1.pth", True, None)
    assert selection.run == run.path
    lone = Path(shutil.copy(selection.file, "lone.pth"))
    assert (resolve_checkpoint("lone.pth", runs).file, resolve_checkpoint("lone.pth", runs).run) == (lone, None)


def test_best_pth_is_pinned_to_the_file_that_it_is_now(runs):
    run = new_run(runs, "20250801_000000", versions=(1, 2))
    set_best(run.nn, run.nn / "Ant_v1_ep1.pth")
    for _ in range(2):
        selection = resolve_checkpoint(str(run.nn / "best.pth"), runs)
        assert (selection.file.name, selection.fixed) == ("Ant_v1_ep1.pth", True)
        (run.nn / "best.pth").unlink(missing_ok=True)  # a copy without links has the twin


def test_a_missing_file_says_where_it_looked_and_what_is_there(runs):
    new_run(runs, "20250801_000000", versions=(1, 2))
    with pytest.raises(UserError, match=r"no such file in .*/nn\. Available: Ant_v2_ep2\.pth, Ant_v1_ep1\.pth"):
        resolve_checkpoint("runs/Ant_train_20250801_000000/nn/Ant_v3_ep3.pth", runs)
    with pytest.raises(UserError, match=r"is neither a \.pth nor a \.policy file"):
        resolve_checkpoint("runs/Ant_train_20250801_000000/run.json", runs)


def test_reading_makes_and_moves_nothing(runs, tmp_path):
    point_latest(runs, "train", new_run(runs, "20250801_000000", versions=(1,)))
    finished_test(runs, "20250802_000000", "gone.pth")
    before = everything(tmp_path)
    for selector in ("latest", "best", "latest_test", "nothing", "0801", "runs/Nope/nn/x.pth", "runs/Nope", "x\0"):
        for directory in (runs, Path("nowhere")):
            try:
                resolve_checkpoint(selector, directory, "Ant")
            except UserError as error:
                assert "\n" not in str(error)  # noqa: PT017 - some succeed
    assert everything(tmp_path) == before
