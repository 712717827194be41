"""A training on one machine and a viewer on another one, whose network fails for a minute: two network namespaces."""

from __future__ import annotations

import re
import time

import pytest

from tests.network_namespaces import HERE, two_machines, why_not
from tests.processes import SMALL, Running, results, runs

pytestmark = [pytest.mark.slow, pytest.mark.full]
DOWN_S = 60.0
TOKEN = "a-token-for-tests"


def test_a_viewer_goes_on_while_the_cable_is_pulled_and_catches_up(tmp_path):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    server, laptop = tmp_path / "server", tmp_path / "laptop"
    server.mkdir()
    laptop.mkdir()
    token = {"LIVEGYM_STREAM_TOKEN": TOKEN, "LIVEGYM_WEIGHTS_TOKEN": TOKEN}
    training = (*SMALL, "config=train_headless", "maxIterations=100000", "publishInterval=0.2", "sim.threads=1")
    with (
        two_machines() as (first, second, cable),
        Running(server, *training, name="train", under=first.under) as train,
        Running(
            server, "config=serve_weights", "streamBindAll=true", name="serve", env=token, under=first.under
        ) as serve,
    ):
        serve.wait_for("offering")
        test = ("config=test", "testGamesNum=0", "playSpeed=1", f"checkpoint=http://{HERE}:58080")
        with Running(laptop, *test, name="test", env=token, under=second.under) as follower:
            follower.wait_for("(network", 3)
            first.run("ip", "link", "set", cable, "down")
            follower.wait_for("trying again")
            before = acting(follower)
            episodes = follower.text.count("episodes, mean return")
            time.sleep(DOWN_S)
            assert acting(follower) == before
            assert follower.text.count("episodes, mean return") > episodes  # it went on acting
            first.run("ip", "link", "set", cable, "up")
            follower.wait_for("connected again")
            follower.wait_for("(network", follower.text.count("(network") + 2)
            assert acting(follower) > before
            assert follower.end() == 0
        assert train.process.poll() is None
    swaps = results(laptop)["swaps"]
    versions = [swap["version"] for swap in swaps]
    assert versions == sorted(set(versions))
    assert all(swap["accepted"] for swap in swaps)
    assert not runs(laptop)


def acting(follower: Running) -> int:
    """The version that acts, by the newest status line."""
    return int(re.findall(r"acting: version (\d+)", follower.text)[-1])
