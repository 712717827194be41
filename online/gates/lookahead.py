"""`gate=lookahead`: a copy of the simulator, rolled forward, judges an action (`online/look_ahead.py`)."""

from __future__ import annotations

import numpy as np

from livegym.online.gates import GateAdapter, GateInput
from livegym.online.look_ahead import LookAhead
from livegym.schema.settled import SettledConfig
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.utils.errors import UserError


def make(config: SettledConfig, size: int) -> GateAdapter:
    """Make a gate that looks ahead in `size` scratch environments. Raises UserError without a built-in simulator."""
    if config.simulator == "external":
        raise UserError(
            "gate=lookahead needs the state of the simulator, which clients do not send. "
            "Allowed with simulator=external: off, or a gate that needs only what clients send. "
            "Or set simulator=builtin"
        )
    scratch = make_env(config.task, config.sim, config.physics, size, config.seed)
    gate = LookAhead(scratch, config.online.look_ahead, config.online.gate_threshold)

    def states(env: Env) -> np.ndarray:
        return gate.rows.pack(env.state_dict())

    return GateAdapter(gate, gate.rows.width, "uint8", states, GateInput.STATE)
