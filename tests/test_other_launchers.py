"""Habits of other projects: their keys, their launchers, their presets; each is told what to do here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from livegym.cfg import cli
from livegym.cfg.compose import prepare
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.schema.keys import NO_COUNTERPART, Schema, fold
from livegym.utils.errors import UserError
from tests.patience import PATIENCE_S
from tests.processes import SMALL, TRAIN, run, runs

KEYS = [
    ("multi_gpu=true", "A run trains in one process"),
    ("train.params.config.multi_gpu=true", "A run trains in one process"),
    ("wandb_activate=true", "Use wandb=true"),
    ("wandb_project=mine", "Use wandbProject=mine"),
    ("wandb_entity=us", "Use wandbEntity=us"),
    ("wandb_group=mine", "Use wandbGroup=mine"),
    ("logger=wandb", "TensorBoard (tensorboard --logdir runs), and with wandb=true for W&B"),
    ("mlflow=true", "TensorBoard (tensorboard --logdir runs), and with wandb=true for W&B"),
    ("pipeline=gpu", "device=cuda"),
    ("algo=sac", "Use train.algorithm=sac"),
    ("train.algo=sac", "Use train.algorithm=sac"),
    ("num_threads=4", "Use sim.threads=4"),
    ("load_run=x", "Use checkpoint=x"),
    ("capture_video=true", "Use videoRecord in a test, trainVideoEvery in training."),
]


@pytest.mark.parametrize(("typed", "words"), KEYS)
def test_a_key_of_another_project_is_told_what_there_is_instead(typed, words):
    with pytest.raises(UserError, match="there is no such key") as error:
        prepare([typed])
    assert words in str(error.value).splitlines()[0]


def test_so_is_an_option_of_another_project():
    with pytest.raises(UserError, match=r"--multi_gpu: unknown option\. A run trains in one process"):
        cli.parse_options(["--multi_gpu"])


def test_no_name_without_a_counterpart_hides_a_key_of_ours():
    keys = {fold(key.name) for key in Schema(train=PPOConfig).walk()}
    assert keys.isdisjoint(NO_COUNTERPART)


@pytest.mark.parametrize("given", [{"WORLD_SIZE": "2"}, {"WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}])
def test_a_launcher_of_several_processes_is_refused_in_a_line(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["train.py", "task=Cartpole"])
    assert cli.run(lambda cfg: pytest.fail("a job was run")) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "a run trains in one process. Allowed: WORLD_SIZE unset or 1." in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["1", "", " 1 "])
def test_one_process_is_fine(monkeypatch, size):
    monkeypatch.setenv("WORLD_SIZE", size)
    cli._refuse_several_processes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            b"seed: 5\n",
            "does not say that its keys belong to the root. Allowed: a preset that begins with the line: # @p",
        ),
        (b"seed: 5\n# @package _global_\n", "does not say that its keys belong to the root"),
        (b"# caf\xe9\n# @package _global_\nseed: 5\n", "cannot be read ('utf-8' codec"),
        (b"# mine\n# @package _global_\nseed: 5\n", "does not say that its keys belong to the root"),
        (b"# @author A B\n# @package _global_\nseed: 5\n", "does not say that its keys belong to the root"),
        ("\n#@package _global_\n# café\nseed: 5\n".encode(), "seed: 5"),
    ],
)
def test_a_preset_says_where_its_keys_belong(tmp_path, text, words):
    presets = tmp_path / "mine" / "cfg" / "config"
    presets.mkdir(parents=True)
    (presets / "mine.yaml").write_bytes(text)
    done = run(tmp_path, "config=mine", f"projectDir={tmp_path / 'mine'}", "--cfg", "job")
    assert words in done.stdout
    assert "Traceback" not in done.stdout
    assert done.returncode == (0 if words.startswith("seed") else 2)


@pytest.mark.slow
def test_a_sweep_over_lists_has_one_job_for_each_list(tmp_path):
    done = run(tmp_path, "-m", *SMALL, "maxIterations=1", "train.network.units=[16],[32,16]")
    assert done.returncode == 0, done.stdout
    units = [(path / "config.yaml").read_text() for path in runs(tmp_path)]
    assert ["- 32\n" in text for text in units] == [False, True]


MEMORY = {
    "full": "mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 8k /dev/zero > /dev/shm/x || true",
    "read-only": "mount -t tmpfs -o ro tmpfs /dev/shm",
    "absent": "for d in null zero urandom random; do touch $T/$d && mount --bind /dev/$d $T/$d; done; "
    "mount --rbind $T /dev && test ! -e /dev/shm",
}


@pytest.mark.slow
@pytest.mark.parametrize("state", MEMORY)
def test_a_machine_without_shared_memory_trains_and_is_followed_from_files(tmp_path, state):
    """In a mount namespace of its own, with real mounts."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("unshare is not allowed here")
    devices = tmp_path / "dev"
    devices.mkdir()
    train = f"{sys.executable} {TRAIN}"
    script = "\n".join(
        [
            f"T={devices}",
            f"{MEMORY[state]} || exit 77",
            f"{train} {' '.join(SMALL)} maxIterations=3 || exit 1",
            f"{train} config=test checkpoint=latest testGamesNum=2 || exit 1",
        ]
    )
    command = ["unshare", "-rm", "bash", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, text=True, stdout=-1, stderr=-2, timeout=PATIENCE_S)
    if done.returncode == 77:
        pytest.skip(f"cannot be mounted here: {done.stdout}")
    assert done.returncode == 0, done.stdout
    assert "finished after 3 iterations" in done.stdout
    assert done.stdout.count("no weight bus") == 1
    assert "polling its files" in done.stdout
    assert "Traceback" not in done.stdout
