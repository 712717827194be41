"""Asks a livegym server for decisions, and sends it their rewards. It needs only numpy and websockets.

    from livegym_client import Client

    with Client("http://127.0.0.1:58080/") as client:
        decision = client.decide("robot-1", [0.0, 0.1, 0.0, -0.2])
        ...                                                     # execute decision.action, observe the reward
        decision = client.decide("robot-1", [0.0, 0.1, 0.0, -0.1], reward=0.98)

`client.episodes(env)` does this for a Gymnasium environment:

    for step in client.episodes(gymnasium.make("CartPole-v1")):
        if step.terminated or step.truncated:
            print(step.total)                                   # the episode's return
"""

from livegym_client.client import Client
from livegym_client.errors import Denied, LivegymError, Refused, Unreachable
from livegym_client.runner import Runner, Step
from livegym_client.wire import Decision

__all__ = ["Client", "Decision", "Denied", "LivegymError", "Refused", "Runner", "Step", "Unreachable"]
