"""The Territory simulator in a process of its own, which sends raw observations as a game would.

    python train.py config=continuous task=Territory simulator=external online.training_interval=0
    python examples/territory_client.py --url http://127.0.0.1:58080/ --streams 4

Each territory is a stream. The server computes the features and, from the next raw observation, the reward. Only where
an episode ends there is no next one, and the client tells the reward itself; with a discount of 0 it makes no
difference whether it was a time limit.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym_client import Client, Decision, LivegymError, Refused


def raw_of(env: Env, names: list[str]) -> dict[str, dict[str, np.ndarray]]:
    """The raw observation of each territory, by the name of its stream."""
    raw = env.task.raw(env.sim)  # type: ignore[attr-defined]
    return {name: {field: value[i].cpu().numpy() for field, value in raw.items()} for i, name in enumerate(names)}


def decided(client: Client, env: Env, names: list[str]) -> list[Decision]:
    """What is decided on the territories as they are now."""
    outcomes = client.decide_all(raw_of(env, names))
    for outcome in outcomes.values():
        if isinstance(outcome, Refused):
            raise outcome
    return [decision for decision in outcomes.values() if isinstance(decision, Decision)]


def actions_of(decisions: list[Decision], env: Env) -> torch.Tensor:
    """(N, 2) int64: chunk and type; where nothing is to be done, as little as can be."""
    idle = env.zero_action()
    rows = [idle[i].tolist() if d.action is None else d.action for i, d in enumerate(decisions)]
    return torch.tensor(rows, dtype=idle.dtype)


def main() -> None:
    """Steps all territories together and prints what they earn."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default="http://127.0.0.1:58080/", help="as the server prints it")
    options.add_argument("--token", help="where the server asks for one")
    options.add_argument("--steps", type=int, default=2_000, help="decisions in each stream")
    options.add_argument("--streams", type=int, default=2, help="territories")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    config = to_typed(compose(["task=Territory", f"numEnvs={given.streams}"]))
    env = make_env(config.task, config.sim, config.physics, given.streams, given.seed)
    env.reset()
    names = [f"territory-{i}" for i in range(given.streams)]
    rewards: list[float] = []
    with Client(given.url, given.token) as client:
        for step in range(given.steps):
            decisions = decided(client, env, names)
            result = env.step(actions_of(decisions, env))
            rewards += result.reward.tolist()
            for i in (result.terminated | result.truncated).nonzero().flatten().tolist():
                client.reward(decisions[i], float(result.reward[i]), done=True)
            if len(rewards) >= 100 or step + 1 == given.steps:
                print(f"{(step + 1) * len(names):8d} decisions  mean reward {np.mean(rewards):7.3f}", flush=True)
                rewards.clear()


if __name__ == "__main__":
    try:
        main()
    except LivegymError as error:
        raise SystemExit(f"error: {error}") from error
