"""Which gates there are, what each sees, and how it is made: a gate of one's own is a line in `GATES`.

seat = make_gate(config, size=4)         # None: gate=off
seen = seat.sees(env)                    # (N, seat.width) of a built-in simulator
seat.gate.evaluate(seen, action, confidence)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from livegym.online.cost_gate import CostGate
from livegym.online.experience import Layout
from livegym.online.gate import Gate
from livegym.online.look_ahead import LookAhead
from livegym.rl.spec import PolicySpec
from livegym.schema import RootConfig
from livegym.tasks import TASKS
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.stream_task import CostTask, StreamTask
from livegym.utils.errors import UserError, not_one_of

COST_THRESHOLD = 0.0


class Sees(Enum):
    """What a gate judges by."""

    RAW = "the packed raw observation"
    OBS = "what the policy sees"
    STATE = "the simulator's state"  # which clients do not have


@dataclass(frozen=True)
class GateSeat:
    """A gate and what it sees."""

    gate: Gate
    width: int  # values in a row of what it sees
    kind: str  # their type: float32 or uint8
    sees: Callable[[Env], np.ndarray]  # environments -> (N, width)
    what: Sees

    def for_clients(self, has_raw: bool) -> str | None:
        """Why clients cannot be served, whose observations are raw or not; None: they can."""
        if self.what is Sees.OBS or (self.what is Sees.RAW and has_raw):
            return None
        return (
            f"the gate {self.gate.name} judges by {self.what.value}, which clients do not send. "
            "Allowed: gate=off, or one that judges by what they send"
        )


def raw_rows(env: Env) -> np.ndarray:
    """(N, R) packed raw observations of a stream task's environments."""
    task = env.task
    assert isinstance(task, StreamTask)
    return task.pack(task.raw(env.sim)).cpu().numpy()


def _cost(config: RootConfig, size: int) -> GateSeat:
    task = TASKS[config.task.name](config.task.params)
    if not isinstance(task, CostTask):
        others = [name for name in GATES if name != "cost"]
        raise UserError(
            f"gate=cost: task {config.task.name} has no cost function. Allowed: {', '.join(others)}, off. "
            "A task of your own has one where it is a CostTask: docs/new-stream.md"
        )
    threshold = COST_THRESHOLD if config.online.gate_threshold is None else config.online.gate_threshold
    return GateSeat(CostGate(task, config.task.rewards, threshold), task.raw_width, "float32", raw_rows, Sees.RAW)


def _look_ahead(config: RootConfig, size: int) -> GateSeat:
    if config.simulator == "external":
        raise UserError(
            "gate=lookahead needs the state of the simulator, which clients do not send. "
            "Allowed with simulator=external: off, or a gate that judges by what clients send. Or simulator=builtin"
        )
    assert config.seed is not None
    scratch = make_env(config.task, config.sim, config.physics, size, config.seed)
    gate = LookAhead(scratch, config.online.look_ahead, config.online.gate_threshold)

    def states(env: Env) -> np.ndarray:
        return gate.rows.pack(env.state_dict())

    return GateSeat(gate, gate.rows.width, "uint8", states, Sees.STATE)


GATES: dict[str, Callable[[RootConfig, int], GateSeat]] = {"cost": _cost, "lookahead": _look_ahead}
"""Name -> what makes it, for a configuration and for how many environments at once."""


def gate_of(config: RootConfig) -> str:
    """The name of the gate that is meant: `auto` is cost where the task has one, else off."""
    if config.gate not in ("auto", "off", *GATES):
        raise not_one_of("gate", config.gate, ("auto", "off", *GATES))
    if config.gate != "auto":
        return config.gate
    return "cost" if issubclass(TASKS[config.task.name], CostTask) else "off"


def make_gate(config: RootConfig, size: int) -> GateSeat | None:
    """The configured gate, for `size` actions at once; None where there is none.

    Raises UserError where the task does not have what it needs.
    """
    name = gate_of(config)
    return None if name == "off" else GATES[name](config, size)


def layout_of(spec: PolicySpec, seat: GateSeat | None) -> Layout:
    """What is kept of each experience."""
    if seat is None:
        return Layout.of(spec.obs_width, spec.action)
    return Layout.of(spec.obs_width, spec.action, seat.width, seat.kind)
