"""Finds and makes the configured gate. Each gate is a module of this package, or of a project's `gates/`.

A gate's module has a function `make(config, size) -> GateAdapter`; `size` is the number of actions that it judges at
once. An entry point `livegym.gates` may name such a function of any module.

adapter = make_gate(config, size=4)         # None: gate=off
seen = adapter.sees(env)                 # (N, adapter.width), from the built-in simulator
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
    """The kind of observation that a gate uses."""

    RAW = "the packed raw observation"
    OBS = "the policy's observation"
    STATE = "the simulator's state"  # clients cannot send it


@dataclass(frozen=True)
class GateAdapter:
    """A gate, and the observation that it needs."""

    gate: Gate
    width: int  # values in a row of the gate's observation
    kind: str  # type of these values: float32 or uint8
    observe: Callable[[Env], np.ndarray]  # environments -> (N, width)
    what: GateInput

    def for_clients(self, has_raw: bool) -> str | None:
        """Return the reason why clients cannot use this gate, or None. `has_raw`: whether clients send raw fields."""
        if self.what is GateInput.OBS or (self.what is GateInput.RAW and has_raw):
            return None
        return (
            f"the gate {self.gate.name} needs {self.what.value}, which clients do not send. "
            "Allowed: gate=off, or a gate that needs only what clients send"
        )


def raw_rows(env: Env) -> np.ndarray:
    """Return the packed raw observations (N, R) of a stream task's environments."""
    task = env.task
    assert isinstance(task, StreamTask)
    return task.pack(task.raw(env.sim)).cpu().numpy()


def gate_of(gate: str, task: str) -> str:
    """Resolve the name of a task's gate: `auto` is `cost` for a `CostTask`, else `off`. Raises UserError if unknown."""
    gates = registry.names("gates")
    if gate not in ("auto", "off", *gates):
        raise not_one_of("gate", gate, ("auto", "off", *gates))
    if gate != "auto":
        return gate
    return "cost" if issubclass(TASKS[task], CostTask) else "off"


def make_gate(config: SettledConfig, size: int) -> GateAdapter | None:
    """Make the configured gate, for `size` actions at once; return None for `gate=off`.

    A gate gets the whole configuration, because a gate of an outside project may need any key. Raises UserError if
    the task lacks something that the gate needs, or if a project's gate cannot be made.
    """
    name = gate_of(config.gate, config.task.name)
    return None if name == "off" else registry.make("gates", name, GateAdapter, config, size)


def layout_of(spec: PolicySpec, adapter: GateAdapter | None) -> Layout:
    """Return the layout of an experience in the replay buffer."""
    if adapter is None:
        return Layout.of(spec.obs_width, spec.action)
    return Layout.of(spec.obs_width, spec.action, adapter.width, adapter.kind)
