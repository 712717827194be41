"""`gate=cost`: the task's cost function judges the raw observation (`online/cost_gate.py`)."""

from __future__ import annotations

from livegym.online.cost_gate import CostGate
from livegym.online.gates import GateAdapter, GateInput, raw_rows
from livegym.projects import registry
from livegym.schema.settled import SettledConfig
from livegym.tasks import TASKS
from livegym.tasks.stream_task import CostTask
from livegym.utils.errors import UserError

THRESHOLD = 0.0  # least expected reward, unless online.gate_threshold is set


def make(config: SettledConfig, size: int) -> GateAdapter:
    """Make the gate of the task's cost function. Raises UserError if the task has none."""
    task = TASKS[config.task.name](config.task.params)
    if not isinstance(task, CostTask):
        others = [name for name in registry.names("gates") if name != "cost"]
        raise UserError(
            f"gate=cost: task {config.task.name} has no cost function. Allowed: {', '.join(others)}, off. "
            "To give a task of your own a cost function, make it a CostTask: docs/new-stream.md"
        )
    threshold = THRESHOLD if config.online.gate_threshold is None else config.online.gate_threshold
    return GateAdapter(
        CostGate(task, config.task.rewards, threshold), task.raw_width, "float32", raw_rows, GateInput.RAW
    )
