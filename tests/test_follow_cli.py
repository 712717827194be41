"""A test that follows a training: over one directory, rsync, unison, scp and slow copies, with damage on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
import torch

from livegym.rundir.checkpoint import list_checkpoints, remove_checkpoint
from tests.processes import SMALL, TRAIN, Running, results, run, runs

pytestmark = pytest.mark.slow
TEST = ("config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.5", "logLevel=debug")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run with checkpoints at 1, 2, ... 12."""
    cwd = tmp_path_factory.mktemp("trained")
    done = run(cwd, *SMALL, "maxIterations=12", "saveFrequency=1", "keepLast=null")
    assert done.returncode == 0, done.stdout
    return cwd


def copy_without_checkpoints(trained, to, keep=1):
    """The run as it was after `keep` iterations; returns (run directory, later checkpoints still to come)."""
    shutil.copytree(trained / "runs", to / "runs", symlinks=True)
    (path,) = runs(to)
    later = []
    for entry in list_checkpoints(path):
        if entry.epoch > keep:
            later.append(entry.path.name)
            remove_checkpoint(entry.path)
    for name in ("best.pth", "best.txt"):
        (path / "nn" / name).unlink(missing_ok=True)
    return path, sorted(later, key=lambda n: int(n.split("_v")[1].split("_")[0]))


def source_of(trained, name):
    (path,) = runs(trained)
    return path / "nn" / name


def arrive(trained, path, name):
    shutil.copy2(source_of(trained, name), path / "nn" / name)
    shutil.copy2(f"{source_of(trained, name)}.json", path / "nn" / f"{name}.json")


def test_exactly_so_many_episodes_a_table_and_results(trained):
    done = run(trained, "config=test", "checkpoint=latest", "testGamesNum=25")
    assert done.returncode == 0, done.stdout
    assert "mean return" in done.stdout
    found = results(trained)
    assert len(found["episodes"]) == found["episode_count"] == 25
    assert found["task"] == "Cartpole"
    assert found["success_rate"] is None
    assert os.readlink(trained / "runs" / "latest_train") == runs(trained)[0].name  # a test never moves it


def test_newer_weights_act_within_the_episode_and_are_recorded(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    with Running(tmp_path, *TEST) as test:
        test.wait_for("following")
        for name in later[:3]:
            arrive(trained, path, name)
            test.wait_for(name)
        assert test.end() == 0
    swaps = results(tmp_path)["swaps"]
    assert [(s["file"], s["accepted"]) for s in swaps] == [(name, True) for name in later[:3]]
    assert [s["version"] for s in swaps] == [2, 3, 4]


def test_every_selector(trained, tmp_path):
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    (path,) = runs(tmp_path)
    stamp = path.name.split("_train_")[1]
    best = (path / "nn" / "best.txt").read_text().strip()
    lone = tmp_path / "elsewhere.pth"
    shutil.copy(path / "nn" / "Cartpole_v3_ep3.pth", lone)
    cases = [
        ("latest", "Cartpole_v12_ep12.pth"),
        ("latest_train", "Cartpole_v12_ep12.pth"),
        ("latest_test", "Cartpole_v12_ep12.pth"),
        ("best", best),
        (str(path), "Cartpole_v12_ep12.pth"),
        (stamp, "Cartpole_v12_ep12.pth"),
        ("elsewhere.pth", "elsewhere.pth"),
    ]
    for selector, file in cases:
        done = run(tmp_path, "config=test", f"checkpoint={selector}", "testGamesNum=1", "reloadInterval=0")
        assert done.returncode == 0, done.stdout
        assert results(tmp_path)["checkpoint"].endswith(file), selector


def test_a_test_may_start_before_the_run(tmp_path):
    with Running(tmp_path, *TEST, "task=Cartpole", name="test") as test:
        test.wait_for("waiting for a policy")
        assert not (tmp_path / "runs").exists()
        assert run(tmp_path, *SMALL, "maxIterations=3").returncode == 0
        test.wait_for("following")
        assert test.end() == 0
    with Running(tmp_path / "runs", *TEST, name="test2") as test:  # another place, nothing there
        test.wait_for("waiting for a policy")
        assert test.end(signal.SIGTERM) == 0


def damaged(kind, good: bytes) -> bytes:
    if kind == "truncated":
        return good[: len(good) // 2]
    if kind == "garbage":
        return os.urandom(len(good))
    flipped = bytearray(good)
    for position in range(len(good) // 3, len(good) // 2, 7):  # not only in padding, which means nothing
        flipped[position] ^= 0xFF
    return bytes(flipped)


@pytest.mark.parametrize("kind", ["truncated", "garbage", "bit flipped"])
def test_a_damaged_file_is_refused_once_and_taken_when_it_is_mended(trained, tmp_path, kind):
    path, later = copy_without_checkpoints(trained, tmp_path)
    name = later[0]
    target = path / "nn" / name
    with Running(tmp_path, *TEST) as test:
        test.wait_for("following")
        target.write_bytes(damaged(kind, source_of(trained, name).read_bytes()))
        test.wait_for("old policy keeps acting")
        time.sleep(2.0)
        assert test.text.count("old policy keeps acting") == 1
        target.write_bytes(source_of(trained, name).read_bytes())
        os.utime(target, (1e9, 1e9))  # older than everything
        test.wait_for("now acting: version 2")
        assert test.end() == 0
    assert [s["accepted"] for s in results(tmp_path)["swaps"]] == [False, True]


def test_weights_that_are_not_finite_or_do_not_fit_are_refused(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    state = torch.load(source_of(trained, later[0]), weights_only=True)
    state["model"]["a2c_network.mu.bias"].fill_(float("nan"))
    torch.save(state, path / "nn" / later[0])
    assert run(tmp_path, *SMALL, "train.network.units=[7,7]", "maxIterations=9", "runsDir=other").returncode == 0
    with Running(tmp_path, *TEST) as test:
        test.wait_for("old policy keeps acting")
        (other,) = (p for p in (tmp_path / "other").iterdir() if p.is_dir() and not p.is_symlink())
        wide = list_checkpoints(other)[0].path
        shutil.copy(wide, path / "nn" / wide.name)
        test.wait_for("does not fit")
        assert "[32, 4]" in test.text
        arrive(trained, path, later[-1])
        test.wait_for("now acting: version 12")
        assert test.end() == 0


def test_a_new_file_beside_an_old_sidecar_waits_for_its_own(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    name = later[0]
    shutil.copy2(f"{source_of(trained, later[1])}.json", path / "nn" / f"{name}.json")
    shutil.copy2(source_of(trained, name), path / "nn" / name)
    with Running(tmp_path, *TEST) as test:
        test.wait_for("sidecar")
        shutil.copy2(f"{source_of(trained, name)}.json", path / "nn" / f"{name}.json")  # only the sidecar changes
        test.wait_for("now acting: version 2")
        assert test.end() == 0


def test_a_slow_copy_is_taken_once_and_whole(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    data = source_of(trained, later[0]).read_bytes()
    with Running(tmp_path, *TEST) as test:
        test.wait_for("following")
        with (path / "nn" / later[0]).open("wb", buffering=0) as out:
            for start in range(0, len(data), len(data) // 6):
                out.write(data[start : start + len(data) // 6])
                time.sleep(0.6)
        test.wait_for("now acting: version 2")
        assert test.end() == 0
    assert test.text.count("now acting") == 1
    assert test.text.count("old policy keeps acting") <= 1


COPIES = {
    "rsync -a": "rsync -a {source}/runs/ runs/",
    "rsync --inplace": "rsync -a --inplace {source}/runs/ runs/",
    "unison": "unison {source}/runs runs -batch -auto -silent -confirmbigdel=false",
}


@pytest.mark.parametrize("tool", COPIES)
def test_a_training_is_followed_over_a_copying_loop_also_when_its_directory_moves_away(tmp_path, tool):
    server, laptop = tmp_path / "server", tmp_path / "laptop"
    (server / "runs").mkdir(parents=True), laptop.mkdir()
    (laptop / "runs").mkdir()
    environment = {**os.environ, "UNISON": str(tmp_path / "unison")}
    command = f"while true; do {COPIES[tool].format(source=server)} 2>/dev/null; sleep 0.3; done"
    loop = subprocess.Popen(["bash", "-c", command], cwd=laptop, env=environment, start_new_session=True)
    try:
        with (
            Running(laptop, *TEST, name="test") as test,
            Running(server, *SMALL, "maxIterations=100000", "saveInterval=0.5", name="train") as training,
        ):
            test.wait_for("now acting", count=3)
            assert training.end() == 130
            time.sleep(1.5)
            newest = list_checkpoints(runs(server)[0])[0].version
            test.wait_for(f"now acting: version {newest},")
            os.killpg(loop.pid, signal.SIGKILL)
            server.rename(tmp_path / "gone")
            time.sleep(1.5)
            assert test.process.poll() is None
            assert test.end() == 0
        assert "Traceback" not in test.text
        swaps = [s for s in results(laptop)["swaps"] if s["accepted"]]
        assert [s["version"] for s in swaps] == sorted({s["version"] for s in swaps})
        assert os.readlink(laptop / "runs" / "latest_train") == runs(laptop)[0].name
    finally:
        if loop.poll() is None:
            os.killpg(loop.pid, signal.SIGKILL)
        loop.wait()


@pytest.fixture
def ssh_server(tmp_path):
    """A real sshd on loopback with a key of its own; yields the options that reach it."""
    if shutil.which("sshd") is None and not os.path.exists("/usr/sbin/sshd"):
        pytest.skip("sshd is not installed (Debian: openssh-server)")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # where sshd, run by root, separates privileges
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    (keys / "authorized").write_text((keys / "user.pub").read_text())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "Port": port, "ListenAddress": "127.0.0.1", "HostKey": keys / "host", "PidFile": keys / "pid", "UsePAM": "no",
        "AuthorizedKeysFile": keys / "authorized", "PasswordAuthentication": "no", "StrictModes": "no",
        "Subsystem": "sftp internal-sftp",
    }  # fmt: skip
    (keys / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", keys / "config"], stderr=subprocess.PIPE, text=True)
    try:
        assert "listening" in server.stderr.readline()
        yield [
            "-P",
            str(port),
            "-i",
            str(keys / "user"),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ]
    finally:
        server.terminate()
        server.wait()


def test_scp_brings_newer_weights(trained, tmp_path, ssh_server):
    path, later = copy_without_checkpoints(trained, tmp_path)
    with Running(tmp_path, *TEST) as test:
        test.wait_for("following")
        for name in later[:2]:
            source = source_of(trained, name)
            copy = ["scp", "-q", *ssh_server, f"127.0.0.1:{source}", f"127.0.0.1:{source}.json", str(path / "nn")]
            subprocess.run(copy, check=True)
            test.wait_for(f"({name}")
        assert test.end() == 0


def test_a_named_file_is_never_replaced_and_an_interval_of_zero_polls_never(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    first = path / "nn" / "Cartpole_v1_ep1.pth"
    for choice in (f"checkpoint={first}", "checkpoint=latest"):
        interval = "reloadInterval=0.5" if "nn" in choice else "reloadInterval=0"
        with Running(tmp_path, "config=test", "testGamesNum=0", choice, interval) as test:
            test.wait_for("testing")
            arrive(trained, path, later[0])
            time.sleep(2.0)
            assert test.end() == 0
        assert results(tmp_path)["swaps"] == []
        remove_checkpoint(path / "nn" / later[0])


def test_best_follows_the_best_only(trained, tmp_path):
    path, later = copy_without_checkpoints(trained, tmp_path)
    (path / "nn" / "best.txt").write_text("Cartpole_v1_ep1.pth\n")
    with Running(tmp_path, "config=test", "testGamesNum=0", "reloadInterval=0.5", "checkpoint=best") as test:
        test.wait_for("following")
        arrive(trained, path, later[5])
        time.sleep(1.5)
        assert "now acting" not in test.text
        (path / "nn" / "best.txt").write_text(f"{later[5]}\n")
        test.wait_for(f"({later[5]}")
        assert test.end() == 0


def test_follow_latest_moves_to_a_newer_run_and_a_test_of_a_named_run_stays(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=2").returncode == 0
    named = ("config=test", "testGamesNum=0", f"checkpoint={runs(tmp_path)[0].name}", "reloadInterval=0.5")
    with (
        Running(tmp_path, *TEST, "followLatest=true", name="mover") as mover,
        Running(tmp_path, *named, name="stayer") as stayer,
    ):
        mover.wait_for("following"), stayer.wait_for("following")
        assert run(tmp_path, *SMALL, "maxIterations=2", "seed=3").returncode == 0
        mover.wait_for("a newer run")
        mover.wait_for("now acting")
        stayer.wait_for("is followed further")
        stayer.wait_for("acting: version 2; there is a newer run")
        assert "now acting" not in stayer.text
        assert mover.end() == 0
        assert stayer.end() == 0


def test_what_contradicts_the_run_is_refused_and_task_keys_apply_last(trained):
    other = run(trained, "config=test", "task=Ant", f"checkpoint={runs(trained)[0]}", "testGamesNum=1")
    assert other.returncode == 2
    assert "Ant" in other.stdout
    assert "Cartpole" in other.stdout
    changed = run(
        trained,
        "config=test",
        "checkpoint=latest",
        "testGamesNum=1",
        "task.rewards.upright=3",
        "task.terminations.fell=false",
    )
    assert changed.returncode == 0, changed.stdout
    spec = run(trained, "config=test", "checkpoint=latest", "testGamesNum=1", "task.decimation=4")
    assert spec.returncode == 2
    assert "control step" in spec.stdout


def test_a_checkpoint_is_enough_anywhere(trained, tmp_path):
    lone = tmp_path / "policy.pth"
    shutil.copy(source_of(trained, "Cartpole_v12_ep12.pth"), lone)
    done = run(tmp_path, "config=test", "checkpoint=policy.pth", "testGamesNum=2")
    assert done.returncode == 0, done.stdout
    assert results(tmp_path)["task"] == "Cartpole"


def test_agents_without_a_policy(tmp_path):
    for agent in ("zero", "random"):
        done = run(tmp_path, "config=test", f"agent={agent}", "task=Ant", "testGamesNum=2")
        assert done.returncode == 0, done.stdout
        assert results(tmp_path)["agent"] == agent


@pytest.mark.parametrize("where", ["no runs", "none of this task", "dangling", "empty"])
def test_nothing_to_test_says_where_it_looked_and_what_to_type(tmp_path, where):
    if where != "no runs":
        (tmp_path / "runs").mkdir()
    if where == "dangling":
        (tmp_path / "runs" / "latest_train").symlink_to("Cartpole_train_20260101_000000")
    if where == "empty":
        (tmp_path / "runs" / "Cartpole_train_20260101_000000" / "nn").mkdir(parents=True)
    done = run(tmp_path, "config=test", "task=Cartpole", "checkpoint=latest")
    assert done.returncode == 2
    assert str(tmp_path) in done.stdout
    assert f"python {TRAIN}" in done.stdout
    assert "Traceback" not in done.stdout
    assert not list(tmp_path.rglob("*_test_*"))


def test_results_are_strict_json(trained):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    assert run(trained, "config=test", "checkpoint=latest", "testGamesNum=1").returncode == 0
    text = (trained / "runs" / "latest_test" / "results.json").read_text()
    json.loads(text, parse_constant=refuse)
