"""`gate=lookahead`: a copy of the simulator, rolled forward, judges an action (`online/look_ahead.py`)."""

from __future__ import annotations

from livegym.online.backup_policy import BackupPolicy
from livegym.online.gates import GateAdapter, GateInput
from livegym.online.look_ahead import LookAhead
from livegym.schema.settled import SettledConfig
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError


def make(config: SettledConfig, size: int) -> GateAdapter:
    """Make a gate that looks ahead in `size` scratch environments.

    Raises UserError without a built-in simulator, or if the backup policy cannot be used.
    """
    if config.simulator == "external":
        raise UserError(
            "gate=lookahead needs the state of the simulator, which clients do not send. "
            "Allowed with simulator=external: off, or a gate that needs only what clients send. "
            "Or set simulator=builtin"
        )
    scratch = make_env(config.task, config.sim, config.physics, size, config.seed)
    rule = config.online
    backup = None if rule.look_ahead_policy is None else BackupPolicy.read(config, scratch)
    gate = LookAhead(scratch, rule.look_ahead, rule.gate_threshold, rule.look_ahead_trigger, backup)
    return GateAdapter(gate, gate.width, "uint8", gate.observe, GateInput.STATE)
