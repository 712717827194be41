"""Run directories: their names and order, and the links to the latest; with processes that compete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from checkpoint_samples import new_run

from livegym.rundir.run import create_run, latest_dangles, list_runs, open_run, point_latest, read_latest
from livegym.utils import files
from livegym.utils.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
WHEN = datetime(2025, 8, 1, 9, 59, 43)


def python(code: str, *arguments: object, **options) -> subprocess.Popen:
    """A process that can import the product."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)


@pytest.fixture
def warnings(caplog):
    """The warnings logged so far."""
    files.warn_once.cache_clear()
    return lambda: [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


# -- names and order


def test_a_run_is_named_by_task_kind_and_time(tmp_path):
    run = create_run(tmp_path / "runs", "Ant", "train", WHEN)
    assert run.path == tmp_path / "runs" / "Ant_train_20250801_095943"
    assert run.nn.is_dir()
    assert run.summaries.is_dir()
    assert open_run(run.path) == run
    assert len(run.run_id) == 32
    assert Path(run) == run.path


def test_a_served_run_is_named_by_its_environment_and_is_of_the_same_task_as_the_old_ones(tmp_path):
    old = create_run(tmp_path, "Spaces", "continuous", WHEN)
    run = create_run(tmp_path, "Spaces", "continuous", WHEN, title="ALE/Pong-v5")
    assert run.name == "ALE-Pong-v5_continuous_20250801_095943"
    assert create_run(tmp_path, "Spaces", "continuous", WHEN, title="../?").name == f"{old.name}_2"
    assert create_run(tmp_path, "Spaces", "continuous", WHEN, title="." + "x" * 80).name.startswith(f"{'x' * 63}_con")
    assert open_run(run.path) == run
    assert [run.task, old.task] == ["Spaces"] * 2
    assert {run, old} < set(list_runs(tmp_path, "continuous", "Spaces"))


def test_a_test_run_has_no_directory_for_checkpoints(tmp_path):
    assert os.listdir(create_run(tmp_path, "Ant", "test", WHEN)) == ["run.json"]


def test_runs_of_the_same_second_get_numbers(tmp_path):
    names = [create_run(tmp_path, "Ant", "train", WHEN).name for _ in range(11)]
    assert names[:3] == [f"Ant_train_20250801_095943{suffix}" for suffix in ("", "_2", "_3")]
    assert [run.name for run in list_runs(tmp_path)] == names[::-1]  # _11 is newer than _2


def test_four_processes_in_the_same_second_get_four_runs(tmp_path):
    code = (
        "import sys; from pathlib import Path; from datetime import datetime\n"
        "from livegym.rundir.run import create_run\n"
        "print(create_run(Path(sys.argv[1]), 'Ant', 'train', datetime(2025, 8, 1, 9, 59, 43)).name)"
    )
    children = [python(code, tmp_path) for _ in range(4)]
    names = {child.communicate()[0].strip() for child in children}
    assert names == {f"Ant_train_20250801_095943{suffix}" for suffix in ("", "_2", "_3", "_4")}
    assert len({run.run_id for run in list_runs(tmp_path)}) == 4


def test_newest_is_started_last_over_months_and_years_whatever_the_file_times_say(tmp_path):
    for when in ("20250930_230000", "20260109_080000", "20251001_000000"):
        new_run(tmp_path, when)
    new_run(tmp_path, "20260201_000000", task="Hand_Grasp")
    new_run(tmp_path, "20260201_000000", kind="test")
    os.utime(tmp_path / "Ant_train_20250930_230000", (4e9, 4e9))
    assert [run.name[-15:] for run in list_runs(tmp_path, "train", "Ant")] == [
        "20260109_080000",
        "20251001_000000",
        "20250930_230000",
    ]
    assert [run.task for run in list_runs(tmp_path, "train", "Hand_Grasp")] == ["Hand_Grasp"]
    assert list_runs(tmp_path, ("train", "continuous"))[0].task == "Hand_Grasp"


def test_other_directories_are_no_runs(tmp_path):
    for name in ("Ant_train_20251399_000000", "multirun", "Ant_train", "Ant_play_20250801_095943"):
        (tmp_path / name).mkdir()
    (tmp_path / "Ant_train_20250801_095943").write_text("a file")
    assert list_runs(tmp_path) == []
    assert list_runs(tmp_path / "missing") == []
    with pytest.raises(UserError, match="not a run directory"):
        open_run(tmp_path / "multirun")
    with pytest.raises(UserError, match="no such directory"):
        open_run(tmp_path / "missing")


def test_a_renamed_run_and_a_foreign_one_can_be_opened(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    renamed = open_run(run.path.rename(tmp_path / "my best ant"))
    assert (renamed.task, renamed.kind, renamed.run_id) == ("Ant", "train", run.run_id)
    (tmp_path / "Ant_01-12-33-44" / "nn").mkdir(parents=True)
    foreign = open_run(tmp_path / "Ant_01-12-33-44")
    assert (foreign.task, foreign.kind, foreign.run_id) == ("", "train", "")


def test_a_runs_directory_that_cannot_be_made_is_an_error_with_its_path(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UserError, match=f"runsDir={tmp_path}/runs: a run directory cannot be created"):
        create_run(tmp_path / "runs", "Ant", "train", WHEN)


# -- latest_train


def test_the_link_is_relative_and_has_a_twin(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    point_latest(tmp_path, "train", run)
    assert os.readlink(tmp_path / "latest_train") == run.name
    assert (tmp_path / "latest_train.txt").read_text() == run.name + "\n"
    assert read_latest(tmp_path, "train") == run.path
    assert read_latest(tmp_path, "test") is None
    moved = tmp_path.parent / f"{tmp_path.name}_copied"
    shutil.copytree(tmp_path, moved, symlinks=True)
    assert read_latest(moved, "train") == moved / run.name


def test_pointing_again_puts_nothing_into_the_old_run(tmp_path):
    old, new = (create_run(tmp_path, "Ant", kind, WHEN) for kind in ("train", "continuous"))
    before = sorted(os.listdir(old))
    point_latest(tmp_path, "train", old)
    point_latest(tmp_path, "continuous", new)
    assert read_latest(tmp_path, "train") == new.path
    assert sorted(os.listdir(old)) == before


def test_the_link_is_right_where_the_runs_directory_is_a_link_itself(tmp_path):
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("disk/deep")
    run = create_run(tmp_path / "runs", "Ant", "train", WHEN)
    point_latest(tmp_path / "runs", "train", run)
    assert os.readlink(tmp_path / "disk" / "deep" / "latest_train") == run.name


def test_eight_processes_pointing_never_fail_and_the_reader_never_misses_the_link(tmp_path):
    runs = [create_run(tmp_path, "Ant", "train", WHEN) for _ in range(8)]
    point_latest(tmp_path, "train", runs[0])
    code = (
        "import sys, warnings; from pathlib import Path; from livegym.rundir.run import open_run, point_latest\n"
        "run = open_run(Path(sys.argv[1]))\n"
        "for _ in range(60): point_latest(run.path.parent, 'train', run)"
    )
    children = [python(code, run.path, stderr=subprocess.PIPE) for run in runs]
    names, looks = {run.name for run in runs}, 0
    while any(child.poll() is None for child in children):
        assert os.readlink(tmp_path / "latest_train") in names
        assert (tmp_path / "latest_train.txt").read_text().strip() in names
        looks += 1
    assert looks > 100
    assert [(child.returncode, child.communicate()[1]) for child in children] == [(0, "")] * 8
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


@pytest.mark.parametrize("error", [OSError(1314, "A required privilege is not held"), PermissionError(1, "refused")])
def test_where_links_are_refused_one_warning_and_the_twin_remain(tmp_path, monkeypatch, warnings, error):
    old, new = (create_run(tmp_path, "Ant", "train", WHEN) for _ in range(2))
    point_latest(tmp_path, "train", old)

    def refuse(*_):
        raise error

    monkeypatch.setattr(os, "symlink", refuse)
    for _ in range(3):
        point_latest(tmp_path, "train", new)
    assert len(warnings()) == 1
    assert read_latest(tmp_path, "train") == new.path  # not the old link


def test_a_real_directory_with_the_links_name_is_left_alone(tmp_path, warnings):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    (tmp_path / "latest_train").mkdir()
    (tmp_path / "latest_train" / "notes").write_text("mine")
    for _ in range(2):
        point_latest(tmp_path, "train", run)
    assert (tmp_path / "latest_train" / "notes").read_text() == "mine"
    assert len(warnings()) == 1
    assert read_latest(tmp_path, "train") == run.path


@pytest.mark.parametrize("obstacle", ["file", "self"])
def test_a_file_or_a_link_to_itself_is_replaced(tmp_path, obstacle, warnings):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    link = tmp_path / "latest_train"
    link.write_text("x") if obstacle == "file" else link.symlink_to("latest_train")
    assert read_latest(tmp_path, "train") is None
    point_latest(tmp_path, "train", run)
    assert os.readlink(link) == run.name
    assert warnings() == []


def test_absolute_dangling_and_looping_links_are_read(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    link, twin = tmp_path / "latest_train", tmp_path / "latest_train.txt"
    for target in (f"/home/other/runs/{run.name}", str(run.path)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert read_latest(tmp_path, "train") == run.path
    link.unlink()
    link.symlink_to("Ant_train_20990101_000000")
    assert read_latest(tmp_path, "train") is None
    assert latest_dangles(tmp_path, "train")
    twin.write_text(f"C:\\runs\\{run.name}\n")
    assert read_latest(tmp_path, "train") == run.path
    assert not latest_dangles(tmp_path, "train")
    link.unlink()
    link.symlink_to("latest_train")
    assert read_latest(tmp_path, "train") == run.path
    twin.write_bytes(b"\x00\xff")
    assert read_latest(tmp_path, "train") is None


def test_a_copy_made_by_following_the_link_still_serves(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    shutil.copytree(run.path, tmp_path / "latest_train")
    assert read_latest(tmp_path, "train") == tmp_path / "latest_train"
