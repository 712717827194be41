"""How the configured gate is found and made, and what it sees. Each gate is a module here, or in a project's `gates/`.

A gate's module has a function `make(config, size) -> GateAdapter`, for a configuration and for how many environments at
once. An entry point `livegym.gates` names such a function of any module.

adapter = make_gate(config, size=4)         # None: gate=off
seen = adapter.sees(env)                 # (N, adapter.width) of a built-in simulator
adapter.gate.evaluate(seen, action, confidence)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from livegym.online.experience import Layout
from livegym.online.gate import Gate
from livegym.projects import registry
from livegym.rl.spec import PolicySpec
from livegym.schema.settled import SettledConfig
from livegym.tasks import TASKS
from livegym.tasks.env import Env
from livegym.tasks.stream_task import CostTask, StreamTask
from livegym.utils.errors import not_one_of


class GateInput(Enum):
    """What a gate judges by."""

    RAW = "the packed raw observation"
    OBS = "what the policy sees"
    STATE = "the simulator's state"  # which clients do not have


@dataclass(frozen=True)
class GateAdapter:
    """A gate and what it sees."""

    gate: Gate
    width: int  # values in a row of what it sees
    kind: str  # their type: float32 or uint8
    sees: Callable[[Env], np.ndarray]  # environments -> (N, width)
    what: GateInput

    def for_clients(self, has_raw: bool) -> str | None:
        """Why clients cannot be served, whose observations are raw or not; None: they can."""
        if self.what is GateInput.OBS or (self.what is GateInput.RAW and has_raw):
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


def gate_of(gate: str, task: str) -> str:
    """The name of the gate that is meant for a task: `auto` is cost if the task has one, else off."""
    gates = registry.names("gates")
    if gate not in ("auto", "off", *gates):
        raise not_one_of("gate", gate, ("auto", "off", *gates))
    if gate != "auto":
        return gate
    return "cost" if issubclass(TASKS[task], CostTask) else "off"


def make_gate(config: SettledConfig, size: int) -> GateAdapter | None:
    """The configured gate, for `size` actions at once; None if there is none.

    A gate is made from the whole configuration: one of somebody's own may need any key. Raises UserError if the task
    does not have what it needs, or another project's gate cannot be made.
    """
    name = gate_of(config.gate, config.task.name)
    return None if name == "off" else registry.make("gates", name, GateAdapter, config, size)


def layout_of(spec: PolicySpec, adapter: GateAdapter | None) -> Layout:
    """What is kept of each experience."""
    if adapter is None:
        return Layout.of(spec.obs_width, spec.action)
    return Layout.of(spec.obs_width, spec.action, adapter.width, adapter.kind)
