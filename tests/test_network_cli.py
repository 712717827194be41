"""Weights over the network, by the command line: a training without a port, servers beside it, and followers."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import livegym
from livegym.utils.errors import UserError
from tests.patience import PATIENCE_S, until
from tests.processes import SMALL, Running, results, run, runs

pytestmark = pytest.mark.slow
TRAINING = (
    *SMALL, "config=train_headless", "maxIterations=100000", "keepLast=null", "publishInterval=0.1", "sim.threads=1"
)  # fmt: skip
PACED = ("testGamesNum=0", "playSpeed=1", "logLevel=debug")
TOKEN = "a token for tests"
OBS = np.array([0.0, 0.0, 0.1, 0.0], np.float32)


def address_of(server: Running) -> str:
    """The address that a server has printed, without its token."""
    found: list[str] = []

    def printed() -> bool:
        found[:] = re.findall(r" at (http://127\.0\.0\.1:\d+)", server.text)
        return bool(found)

    until(printed, lambda: server.text, server.process)
    return found[0]


def listening(pid: int) -> list[str]:
    """The sockets of a process that accept connections."""
    done = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if f"pid={pid}," in line]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """(the training's directory, the laptop's)"""
    return tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("laptop")


@pytest.fixture(scope="module")
def training(places):
    with Running(places[0], *TRAINING, name="train") as process:
        process.wait_for("checkpoint")
        yield process


@pytest.fixture(scope="module")
def server(places, training):
    """config=serve_weights beside it, with a token."""
    with Running(
        places[0], "config=serve_weights", "streamPort=0", name="serve", env={"LIVEGYM_STREAM_TOKEN": TOKEN}
    ) as process:
        process.wait_for("offering")
        yield process


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv("LIVEGYM_WEIGHTS_TOKEN", TOKEN)


def test_a_viewer_without_files_follows_and_relays(places, training, server, token, tmp_path):
    """One machine follows the training's server, another one the page of the first."""
    assert TOKEN not in server.text.replace(f"token={TOKEN.replace(' ', '+')}", "")
    page = ("config=test_stream", "streamPort=0", *PACED, f"checkpoint={address_of(server)}")
    with Running(places[1], *page, name="page") as first:
        first.wait_for("(network", 3)
        assert not runs(places[1])
        with Running(tmp_path, "config=test", *PACED, f"checkpoint={address_of(first)}", name="test") as second:
            second.wait_for("(network", 3)
            assert second.end() == 0
        assert first.end() == 0
    for place in (places[1], tmp_path):
        swaps = results(place)["swaps"]
        assert len(swaps) >= 3
        assert all(swap["accepted"] and swap["source"] == "network" for swap in swaps)
        versions = [swap["version"] for swap in swaps]
        assert versions == sorted(set(versions))
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/weights/[0-9a-f]{32}/\d+", results(place)["checkpoint"])
    if sys.platform == "linux":
        assert listening(training.process.pid) == []
        assert len(listening(server.process.pid)) == 1


def test_without_the_token_or_with_one_on_the_command_line_nothing_begins(server, tmp_path, monkeypatch):
    monkeypatch.delenv("LIVEGYM_WEIGHTS_TOKEN", raising=False)
    address = address_of(server)
    done = run(tmp_path, "config=test", f"checkpoint={address}", "testGamesNum=0", stdin=subprocess.DEVNULL)
    assert (done.returncode, "it needs a token" in done.stdout) == (2, True), done.stdout
    typed = run(tmp_path, "config=test", f"checkpoint={address}/?token=s3cret9", "testGamesNum=0")
    assert (typed.returncode, "process list" in typed.stdout, "s3cret9" in typed.stdout) == (2, True, False)
    file = tmp_path / "token"
    file.write_text("a wrong token")
    file.chmod(0o600)
    wrong = run(tmp_path, "config=test", f"checkpoint={address}", f"weightsTokenFile={file}", "testGamesNum=1")
    assert (wrong.returncode, "that token is wrong" in wrong.stdout) == (2, True), wrong.stdout
    assert not (tmp_path / "runs").exists()
    file.write_text(TOKEN)
    right = run(tmp_path, "config=test", f"checkpoint={address}", f"weightsTokenFile={file}", "testGamesNum=1")
    assert right.returncode == 0, right.stdout
    assert TOKEN not in (tmp_path / "runs" / "latest_test" / "train.log").read_text()


def test_training_needs_files_and_says_so(tmp_path):
    for more in (("config=train_headless",), ("config=train_headless", "resume=true"), ("config=export",)):
        done = run(tmp_path, *more, "checkpoint=http://127.0.0.1:9")
        assert (done.returncode, "this needs files" in done.stdout) == (2, True), done.stdout
    done = run(tmp_path, "config=test", "checkpoint=http://127.0.0.1:9", "weights=bus")
    assert (done.returncode, "come over the network" in done.stdout) == (2, True), done.stdout
    done = run(tmp_path, "config=test", "checkpoint=http://127.0.0.1:9", "testGamesNum=1")
    assert (done.returncode, "cannot be reached" in done.stdout) == (2, True), done.stdout
    assert not (tmp_path / "runs").exists()


def test_python_programs_follow_an_address(server, training, token, tmp_path):
    address = address_of(server)
    loaded = livegym.load_policy(address)
    assert loaded.version >= 1
    assert loaded(OBS).shape == (1,)
    with livegym.follow(address, runs_dir=tmp_path) as policy:
        assert policy.source == "network"
        first = policy.version
        until(lambda: policy(OBS) is not None and policy.version > first + 1)
        assert policy.run == loaded.run
    fixed = livegym.load_policy(f"{address}/weights/{loaded.run}/1")
    assert fixed.version == 1
    with pytest.raises(UserError, match="never changes"):
        livegym.follow(f"{address}/weights/{loaded.run}/1")
    with pytest.raises(UserError, match="Allowed: weights=auto"):
        livegym.follow(address, weights="files")
    with pytest.raises(UserError, match="that token is wrong"):
        livegym.follow(address, token="another one")


def test_the_page_and_the_dashboard_of_a_run_serve_its_weights(tmp_path):
    for name, more in (
        ("watch", (*TRAINING, "watch=true", "config=train")),
        ("continuous", ("config=continuous", "task=Cartpole", "sim.threads=1")),
    ):
        place = tmp_path / name
        place.mkdir()
        arguments = [a for a in more if not (a == "config=train_headless" and name == "watch")]
        with Running(place, *arguments, "streamPort=0", name=name) as process:
            until(lambda p=process: re.search(r"http://127\.0\.0\.1:\d+", p.text), lambda p=process: p.text)
            address = re.search(r"http://127\.0\.0\.1:\d+", process.text)[0]
            policy = livegym.follow(address, runs_dir=place, patience=PATIENCE_S)
            with policy:
                first = policy.version
                if name == "watch":
                    until(lambda p=policy, v=first: p(OBS) is not None and p.version > v)
                (path,) = runs(place, "train" if name == "watch" else "continuous")
                assert policy.run == path.name
            process.end()
