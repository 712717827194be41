"""The arithmetic of the benchmarks, by hand; speed itself is measured in benchmarks/, never asserted."""

from __future__ import annotations

import sys

import pytest

from benchmarks.harness import Side, measure, ratios, run_side, spread, summary
from benchmarks.tasks import BENCHES, make

ROUNDS = [
    {"ours": {"rate": 10.0}, "peer": {"rate": 5.0}},
    {"ours": {"rate": 30.0}, "peer": {"rate": 10.0}},
    {"ours": {"rate": 20.0}, "peer": {"rate": 20.0}},
]


def test_medians_and_ratios_are_taken_within_rounds():
    assert summary(ROUNDS, "rate")["ours"] == spread([10.0, 30.0, 20.0])
    assert summary(ROUNDS, "rate")["ours"].median == 20.0
    ratio = ratios(ROUNDS, "rate", "ours", "peer")
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.0, 3.0)


def test_sides_are_processes_in_an_order_that_turns(tmp_path):
    (tmp_path / "side.py").write_text(
        "import json, sys, time\nprint('noise')\nprint(json.dumps({'at': time.monotonic(), 'n': len(sys.argv)}))\n"
    )
    side = Side("side", ["x"], {"PYTHONPATH": str(tmp_path)}, sys.executable)
    rounds = measure({"a": side, "b": side}, 2, quiet=False)
    assert rounds[0]["a"]["at"] < rounds[0]["b"]["at"]
    assert rounds[1]["b"]["at"] < rounds[1]["a"]["at"]
    assert rounds[0]["a"]["n"] == 4  # --side a x


def test_a_side_that_fails_is_reported_whole():
    with pytest.raises(RuntimeError, match="No module named no_such_module"):
        run_side("a", Side("no_such_module"))


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_task_is_the_peers_environment(name):
    gymnasium = pytest.importorskip("gymnasium")
    peer = gymnasium.make(BENCHES[name].peer)
    env = make(name, num_envs=2)
    assert env.layout.width("policy") == peer.observation_space.shape[0]
    assert env.max_length == peer.spec.max_episode_steps
    assert env.sim.control_dt == pytest.approx(peer.unwrapped.dt)
    assert env.task.action_spec.size == peer.action_space.shape[0]
    peer.close()
