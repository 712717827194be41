"""An environment of your own, in its own process, on which a server trains a policy.

    python train.py config=continuous task=Cartpole simulator=external online.training_interval=0
    python examples/gym_client.py --url http://127.0.0.1:58080/ --steps 20000

`CartPole` below stands for any Gymnasium environment. It is the cart-pole of Barto, Sutton and Anderson (1983) with the
parameters of livegym's task Cartpole, because the server serves a policy for that task's observation (4 numbers) and
action (one push).
"""

from __future__ import annotations

import argparse
from math import cos, pi, sin

import gymnasium
import numpy as np

from livegym_client import Client, LivegymError, Runner

# m/s^2, kg, kg, m: half the pole's length
GRAVITY = 9.81
CART = 1.0
POLE = 1.0
HALF = 0.5
PUSH = 400.0  # N at action 1
DT, SUBSTEPS = 1 / 60, 4
TRACK, FALLEN = 3.0, pi / 2  # m, rad
STEPS = 500


class CartPole(gymnasium.Env):
    """Push a cart so that the pole on it stays upright; observes cart position and speed, pole angle and speed."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Start near the middle, nearly upright and nearly at rest."""
        super().reset(seed=seed)
        self._state = self.np_random.uniform(-1, 1, 4) * [0.1, 0.25, 0.1, 0.25]
        self._count = 0
        return self._state.astype(np.float32), {}

    def step(self, action):
        """Push for a 60th of a second."""
        force = PUSH * float(np.clip(action[0], -1.0, 1.0))
        for _ in range(SUBSTEPS):
            self._advance(force, DT / SUBSTEPS)
        x, speed, angle, turning = self._state
        self._count += 1
        failed = abs(x) > TRACK or abs(angle) > FALLEN
        reward = 1.0 - angle**2 - 0.01 * abs(speed) - 0.005 * abs(turning) - 2.0 * failed
        return self._state.astype(np.float32), float(reward), bool(failed), self._count >= STEPS, {}

    def _advance(self, force: float, dt: float) -> None:
        """Make one semi-implicit Euler step of a cart with a uniform pole on it."""
        x, speed, angle, turning = self._state
        total, moment = CART + POLE, POLE * HALF
        push = (force + moment * turning**2 * sin(angle)) / total
        slack = HALF * (4 / 3 - POLE * cos(angle) ** 2 / total)
        angular = (GRAVITY * sin(angle) - cos(angle) * push) / slack
        linear = push - moment * angular * cos(angle) / total
        speed, turning = speed + dt * linear, turning + dt * angular
        self._state = np.array([x + dt * speed, speed, angle + dt * turning, turning])


def main() -> None:
    """Run `--streams` environments in turn and print their mean rewards."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default="http://127.0.0.1:58080/", help="as the server prints it")
    options.add_argument("--token", help="the server's token, if it needs one")
    options.add_argument("--steps", type=int, default=10_000, help="decisions in each stream")
    options.add_argument("--streams", type=int, default=1, help="number of environments")
    given = options.parse_args()
    with Client(given.url, given.token) as client:
        runners = [Runner(CartPole(), client, f"cart-{i}", seed=i) for i in range(given.streams)]
        rewards: list[float] = []
        for step in range(given.steps):
            for runner in runners:
                rewards += runner.run(1)
            if len(rewards) >= 100 or step + 1 == given.steps:
                count = (step + 1) * given.streams
                ended = sum(runner.episodes for runner in runners)
                print(f"{count:8d} decisions  mean reward {np.mean(rewards):7.3f}  {ended} episodes", flush=True)
                rewards.clear()


if __name__ == "__main__":
    try:
        main()
    except LivegymError as error:
        raise SystemExit(f"error: {error}") from error
