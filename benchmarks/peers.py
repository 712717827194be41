"""Training runs of the peers, as their users write them.

python -m benchmarks.peers rl_games --folder /tmp/x --actors 64 [--defaults] [--seed 1]
python -m benchmarks.peers sb3 --folder /tmp/x --vector subproc --envs 4 [--seed 1]
python -m benchmarks.peers sb3_cartpole --folder /tmp/x [--seed 1]
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import TOY

# rl_games' own settings for Ant on EnvPool (rl_games/configs/mujoco/ant_envpool.yaml), which all sides share
UNITS = (256, 128, 64)
HORIZON = 64
MINIBATCH = 2048
EPOCHS = 4
FOREVER = 10**9
NEEDS = {"rl_games": "envpool", "sb3": "stable_baselines3", "sb3_cartpole": "stable_baselines3"}


def rl_games(options: argparse.Namespace) -> None:
    """Trains with rl_games on EnvPool: its Runner, its observer, its TensorBoard."""
    import sys

    import yaml
    from rl_games import __file__ as package
    from rl_games.torch_runner import Runner

    params: dict[str, Any] = yaml.safe_load((Path(package).parent / "configs/mujoco/ant_envpool.yaml").read_text())
    params = params["params"]
    params["seed"] = options.seed
    if not options.defaults:
        params["torch_threads"] = options.threads
        params["config"]["torch_compile"] = False
    config = params["config"]
    config["env_config"] = {"env_name": "Ant-v5", "env_type": "gymnasium", "seed": options.seed}
    config |= {"device": "cpu", "device_name": "cpu", "num_actors": options.actors, "train_dir": str(options.folder)}
    config |= {"learning_rate": float(config["learning_rate"]), "max_epochs": 1 if options.toy else FOREVER}
    sys.argv = sys.argv[:1]
    runner = Runner()
    runner.load({"params": params})
    runner.reset()
    runner.run({"train": True})


def sb3(options: argparse.Namespace) -> None:
    """Trains with Stable-Baselines3 on Gymnasium's Ant-v5, with the same network, batch and number of passes."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    torch.set_num_threads(1)
    kind = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}[options.vector]
    vec = make_vec_env("Ant-v5", n_envs=options.envs, seed=options.seed, vec_env_cls=kind)
    steps = 64 * HORIZON // options.envs
    network = {"net_arch": list(UNITS), "activation_fn": torch.nn.ELU}
    model = PPO(
        "MlpPolicy",
        vec,
        n_steps=steps,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        policy_kwargs=network,
        device="cpu",
        tensorboard_log=str(options.folder),
        seed=options.seed,
    )
    model.learn(1 if options.toy else FOREVER, log_interval=1)


def sb3_cartpole(options: argparse.Namespace) -> None:
    """Trains with Stable-Baselines3 on our Cartpole, with rl-zoo's settings for CartPole."""
    import torch
    from stable_baselines3 import PPO

    from livegym.learners.sb3 import SB3Env

    torch.set_num_threads(1)
    vec = SB3Env("Cartpole", num_envs=8, seed=options.seed)
    model = PPO(
        "MlpPolicy",
        vec,
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        device="cpu",
        tensorboard_log=str(options.folder),
        seed=options.seed,
    )
    model.learn(1 if options.toy else 100_000, log_interval=1)


PEERS = {"rl_games": rl_games, "sb3": sb3, "sb3_cartpole": sb3_cartpole}


def main() -> None:
    """Runs one peer's training until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS, nargs="?", help="may be omitted with --toy, which then runs all")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--toy", action="store_true", help="train as little as possible, to check that the peers work")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--actors", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--defaults", action="store_true", help="rl_games' own threads and compiling")
    parser.add_argument("--vector", choices=("dummy", "subproc"), default="subproc")
    parser.add_argument("--envs", type=int, default=4)
    options = parser.parse_args()
    if options.toy:
        _toy(options)
        return
    if options.peer is None or options.folder is None:
        parser.error("a peer and --folder are required")
    PEERS[options.peer](options)


def _toy(options: argparse.Namespace) -> None:
    print(TOY)
    for name in [options.peer] if options.peer else PEERS:
        if find_spec(NEEDS[name]) is None:
            print(f"{name}: skipped: {NEEDS[name]} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder:
            options.folder = Path(folder)
            PEERS[name](options)


if __name__ == "__main__":
    main()
