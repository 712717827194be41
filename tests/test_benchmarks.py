"""The arithmetic of the benchmarks, by hand; speed itself is measured in benchmarks/, never asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.assault import missed
from benchmarks.copies import SHELL, Copy
from benchmarks.cores import core_counts
from benchmarks.harness import TOY, Side, arguments, begin, measure, present, ratios, run_side, spread, summary
from benchmarks.online_soak import grown_by
from benchmarks.tasks import BENCHES, make
from tests.patience import PATIENCE_S

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
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


TOYS = [
    "assault", "copies", "cores", "env_throughput", "grasping", "gymnasium_overhead", "hot_swap", "isaacgym",
    "isaacgym_learning", "look_ahead", "neighbours", "network_weights", "online", "online_day", "online_learning",
    "online_soak", "peers",
    "plot_by_version", "plot_swaps", "ppo_throughput", "reload", "scaling", "soak", "stream", "time_to_solve",
]  # fmt: skip


def test_every_benchmark_has_a_toy_run():
    programs = [file.stem for file in sorted(BENCHMARKS.glob("*.py")) if "__main__" in file.read_text()]
    assert programs == TOYS


def test_every_other_file_is_used_by_a_program_that_has_one():
    files = {file.stem: file.read_text() for file in BENCHMARKS.glob("*.py") if file.stem != "__init__"}
    used, found = set(), set(TOYS)
    while found:
        used |= found
        texts = [files[name] for name in found]
        named = {name for text in texts for name in re.findall(r"\bbenchmarks(?:\.| import )(\w+)", text)}
        found = named & set(files) - used
    assert set(files) == used


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_a_benchmark_runs_at_toy_size(name):
    """The whole program, with tiny counts: its figures mean nothing, but it ends, and well."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--toy"]
    done = subprocess.run(command, cwd=BENCHMARKS.parent, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(TOY)


def test_an_assault_says_which_budgets_are_missed():
    """The latency of its docstring was never checked."""
    calm = {"p99": 8.0, "lost": 0, "refused": 0, "accepted": 1}
    good = {"nothing": calm, "spinning": calm, "churn": {**calm, "p99": 23.9}}
    slow = {**good, "churn": {**calm, "p99": 25.0}}
    assert missed([good] * 2 + [slow], [2.9, 3.0, 9.0]) == []  # medians over the rounds
    assert missed([good] + [slow] * 2, [3.1, 3.2, 0.9]) == [
        "beside churn: p99 is 3.1 times that beside spinning; allowed: 3", "HTTP alone: p50 is 3.1 ms; allowed: 3",
    ]  # fmt: skip
    assert missed([good, {**good, "nothing": {**calm, "lost": 2, "refused": 1}}], [1.0]) == [
        "beside nothing: 2 lost; allowed: none", "beside nothing: 1 refused; allowed: none",
    ]  # fmt: skip
    only_refused = {**good, "churn": {**calm, "accepted": 0}, "names": {**calm, "accepted": 0}}
    assert missed([{**good, "names": calm}, only_refused], [1.0]) == [
        "beside names: the server accepted none of its messages in a round, so it was no attack"
    ]


def test_a_copy_counts_the_bytes_that_rsync_transfers_and_those_that_are_there(tmp_path):
    shell = tmp_path / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o700)
    run = tmp_path / "server" / "Counting_train_20260102_120008"
    run.mkdir(parents=True)
    copied = Copy(tmp_path / "copy", ["-aF", "--inplace"])
    for second, size in ((0.0, 1_000_000), (1.0, 1_500_000), (2.0, 2_000_000), (3.0, 2_000_000)):
        (run / "curve").write_bytes(bytes(range(250)) * (size // 250))
        copied.update(tmp_path / "server", shell, second)
    assert copied.sizes == [1_000_000, 1_500_000, 2_000_000, 2_000_000]
    assert 1_000_000 < copied.traffic[0] < 1_010_000
    assert all(traffic < 100_000 for traffic in copied.traffic[1:])  # only what is new, and repetitions not at all
    assert copied.traffic_per_hour == pytest.approx(3600 * sum(copied.traffic[1:]) / 1e6 / 3)
    assert copied.growth_per_hour == 0.0


def test_the_curve_over_cores_ends_with_all_of_them():
    assert [core_counts(n) for n in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]


def test_a_toy_run_writes_no_figures(tmp_path):
    options = arguments("x").parse_args(["--toy", "--json", str(tmp_path / "figures.json")])
    with pytest.raises(SystemExit, match="--toy writes no figures"):
        begin(options)


def test_a_toy_run_names_the_peer_that_is_not_installed(capsys):
    sides = {"ours": Side("x"), "peer": Side("x", needs="no_such_package")}
    assert list(present(arguments("x").parse_args(["--toy"]), sides)) == ["ours"]
    assert capsys.readouterr().out == "peer: skipped: no_such_package is not installed\n"
    assert list(present(arguments("x").parse_args(["--quick"]), sides)) == ["ours", "peer"]  # a result needs it


def test_the_growth_of_trainers_is_counted_within_each_process_once_its_memory_has_its_size():
    """Process 1 grows from 200 to 203 MB after it has settled, process 2 from 300 to 301; process 3 is too young."""
    seen = [
        (1, 0, 90),
        (1, 30, 200),
        (1, 60, 203),
        (2, 65, 100),
        (2, 95, 300),
        (2, 100, 301),
        (3, 105, 80),
        (3, 110, 190),
    ]
    samples = [{"pid": pid, "t": float(t), "trainer_own_mb": float(mb)} for pid, t, mb in seen]
    assert grown_by([*samples, {"pid": None, "t": 120.0}]) == 4.0
