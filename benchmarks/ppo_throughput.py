"""PPO frames/s on Ant: complete training runs (physics, policy, updates, curves, checkpoints) of livegym and peers.

All sides learn Gymnasium's Ant-v5 with the network, horizon, minibatch and number of passes that rl_games ships for
it. The sides are `livegym`, `train.py` itself; `rl_games`, its Runner on EnvPool at its best settings;
`rl_games_defaults`, with the library's own threads and compiling; `sb3`, Stable-Baselines3 on Gymnasium. Each side runs
in the best of several modes. `--busy` repeats the first three while another process uses one core.

    python -m benchmarks.ppo_throughput --quick
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Side, arguments, begin, effort, measure, present, ratios, report, rounds_of, summary
from benchmarks.peers import EPOCHS, HORIZON, MINIBATCH, UNITS
from benchmarks.trainings import OURS, PEERS, POLL, TOY_POLL, Training


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    seconds: float  # of training after the first iterations
    probe: float = 15.0  # s, to find the best mode
    modes: int | None = None  # number of modes that are probed; None: all
    poll: float = POLL  # s between two polls of a curve


PLANS = {"full": Plan(60.0), "quick": Plan(20.0), "toy": Plan(0.0, modes=1, poll=TOY_POLL)}
WARM_UP = 240.0  # s that the start may take: with one core busy, compiling alone takes minutes
SKIP = 3  # iterations at the start that are not counted
TAG = "performance/step_inference_rl_update_fps"  # ours and rl_games'
Mode = Sequence[str]


def ours(num_envs: int, threads: int) -> list[str]:
    """Our command line with rl_games' settings for Ant."""
    return [
        *OURS, "task=Ant", f"numEnvs={num_envs}",
        f"train.network.units=[{','.join(map(str, UNITS))}]", "train.network.initial_log_std=0",
        f"train.horizon_length={HORIZON}", f"train.num_minibatches={num_envs * HORIZON // MINIBATCH}",
        f"train.mini_epochs={EPOCHS}", f"train.torch_threads={threads}", "maxIterations=1000000",
    ]  # fmt: skip


def rl_games(actors: int, threads: int) -> list[str]:
    """rl_games' own settings for Ant, without compiling, which is slower on a CPU."""
    return [*PEERS, "rl_games", "--actors", str(actors), "--threads", str(threads)]


MODES: dict[str, tuple[str, list[Mode]]] = {  # side -> (tag of its curve, commands)
    "livegym": (TAG, [ours(n, threads) for n in (128, 256) for threads in (1, 2)]),
    "rl_games": (TAG, [rl_games(n, threads) for n in (64, 128, 256) for threads in (1, 2)]),
    "rl_games_defaults": (TAG, [[*PEERS, "rl_games", "--actors", "64", "--defaults"]]),
    "sb3": (
        "time/fps",
        [[*PEERS, "sb3", "--vector", v, "--envs", n] for v, n in (("dummy", "8"), ("subproc", "2"), ("subproc", "4"))],
    ),
}


def rate(tag: str, command: Mode, seconds: float, poll: float) -> float:
    """Frames/s of one training run over `seconds`, without its start."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        training = Training(command, Path(name), tag, poll=poll)
        curve = training.run(
            lambda c: len(c) > SKIP + 1 and c.wall[-1] - c.wall[SKIP] >= seconds, WARM_UP + 2 * seconds
        )
        return curve.rate(SKIP)


def best(side: str, plan: Plan) -> float:
    """Frames/s of a side in its best mode."""
    tag, commands = MODES[side][0], MODES[side][1][: plan.modes]
    chosen = commands[0] if len(commands) == 1 else max(commands, key=lambda c: rate(tag, c, plan.probe, plan.poll))
    print(f"{side}: {' '.join(chosen[1:])}", file=sys.stderr)
    return rate(tag, chosen, plan.seconds, plan.poll)


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--busy", action="store_true", help="also measure while another process uses one core")
    options = parser.parse_args()
    if options.side:
        print(json.dumps({"frames_per_s": best(options.side, PLANS[options.effort])}))
        return
    begin(options)
    needs = {"rl_games": "envpool", "rl_games_defaults": "envpool", "sb3": "stable_baselines3"}
    all_sides = {name: Side("benchmarks.ppo_throughput", effort(options), needs=needs.get(name, "")) for name in MODES}
    sides, count = present(options, all_sides), rounds_of(options)
    table, figures = [["with", "frames/s", "livegym /"]], {}

    def add(names: Iterable[str], suffix: str, key: str, quiet: bool) -> None:
        rounds = measure({name: sides[name] for name in names if name in sides}, count, quiet)
        for name, found in summary(rounds, "frames_per_s").items():
            ratio = ratios(rounds, "frames_per_s", "livegym", name)
            table.append([f"{name}{suffix}", str(found), str(ratio)])
            if name == "livegym":
                figures[f"frames_per_s{key}"] = found.median
            else:
                figures[f"ratio_{name}{key}_fps"] = ratio.median

    add(sides, "", "", quiet=not options.force)
    if options.busy:
        taken = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            add(("livegym", "rl_games", "rl_games_defaults"), ", one core busy", "_busy", quiet=False)
        finally:
            taken.kill()
            taken.wait()
    report(options, table, figures)


if __name__ == "__main__":
    main()
