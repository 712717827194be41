"""Turn a task's blocks into the groups that policy and critic see, with noise, delay and history for each block.

    seen = Observations(layout, config, num_envs, device)
    groups = seen.step(blocks, rng, noise_scale)         # once a control step: group -> (N, width)
    first = seen.begin(blocks, env_ids, rng, noise_scale)  # environments (n,) began an episode: group -> (n, width)

Noise comes first, then the delay, then the history: a value keeps the noise with which it was measured. Only the
policy's group is changed in this way; the critic sees the present, true values. At the start of an episode, all past
values are the present one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from livegym.schema import TaskConfig
from livegym.tasks.delays import DelayBuffer
from livegym.tasks.env_state import put_rows, rows_of
from livegym.tasks.terms import POLICY, ObservationLayout
from livegym.utils.errors import UserError, did_you_mean


class Observations:
    """Noise, delay and history of the policy's blocks; the past values are in `buffers`."""

    def __init__(self, layout: ObservationLayout, config: TaskConfig, num_envs: int, device: torch.device) -> None:
        """Raises UserError if noise, delay or history are for a block that the policy does not see."""
        policy_blocks = layout.groups[POLICY]
        for key in ("noise", "delay", "history"):
            for name in getattr(config, key):
                if name not in policy_blocks:
                    raise UserError(
                        f"task.{key}.{name}: no such block in observations.policy. "
                        f"Allowed: {', '.join(policy_blocks)}.{did_you_mean(name, policy_blocks)}"
                    )
        self.layout, self.noise = layout, dict(config.noise)
        self.delay, self.history = dict(config.delay), dict(config.history)
        self.past = {
            name: DelayBuffer(
                num_envs, self.delay.get(name, 0) + self.history.get(name, 1), layout.widths[name], device
            )
            for name in policy_blocks
            if name in self.delay or name in self.history
        }

    @property
    def buffers(self) -> dict[str, Tensor]:
        """block -> (N, length, width) past values."""
        return {name: past.values for name, past in self.past.items()}

    def state_dict(self, env_ids: Tensor) -> dict[str, Tensor]:
        """The past values of environments (n,): block -> (n, length, width)."""
        return rows_of(self.buffers, env_ids)

    def load_state_dict(self, state: Mapping[str, Tensor], env_ids: Tensor) -> None:
        """Restore a `state_dict` into environments (n,)."""
        put_rows(self.buffers, state, env_ids)

    def step(self, blocks: Mapping[str, Tensor], rng: torch.Generator, noise_scale: Tensor) -> dict[str, Tensor]:
        """Observe a new control step: blocks (N, width each) -> group -> (N, width).

        noise_scale (N,): the factor on the yaml's noise in each environment.
        """
        now = self._noisy(blocks, rng, noise_scale)
        for name, past in self.past.items():
            past.push(now[name])
        return self._grouped(blocks, now, slice(None))

    def quiet(self, blocks: Mapping[str, Tensor], new: bool) -> Tensor:
        """(N, width): what the policy would see without noise; nothing is drawn, so each row depends on itself alone.

        `new`: the blocks are those of a new control step; otherwise those that were observed last, noise in their past
        values included.
        """
        now = {name: blocks[name] for name in self.layout.groups[POLICY]}
        for name, past in self.past.items() if new else ():
            past.push(now[name])
        return torch.cat([self._delayed(name, now, slice(None)) for name in now], dim=1)

    def begin(
        self, blocks: Mapping[str, Tensor], env_ids: Tensor, rng: torch.Generator, noise_scale: Tensor
    ) -> dict[str, Tensor]:
        """Begin an episode in environments (n,): blocks (N, width each) -> group -> (n, width), first observations."""
        rows = {name: block[env_ids] for name, block in blocks.items()}
        now = self._noisy(rows, rng, noise_scale[env_ids])
        for name, past in self.past.items():
            past.fill(env_ids, now[name])
        return self._grouped(rows, now, env_ids)

    def _noisy(self, blocks: Mapping[str, Tensor], rng: torch.Generator, scale: Tensor) -> dict[str, Tensor]:
        """The policy's blocks with noise."""
        now = {name: blocks[name] for name in self.layout.groups[POLICY]}
        for name, std in self.noise.items():
            if std:
                draw = torch.randn(now[name].shape, generator=rng, device=scale.device)
                now[name] = now[name] + std * scale[:, None] * draw
        return now

    def _grouped(
        self, blocks: Mapping[str, Tensor], now: Mapping[str, Tensor], rows: Tensor | slice
    ) -> dict[str, Tensor]:
        groups = {}
        for group, names in self.layout.groups.items():
            parts = [self._delayed(name, now, rows) if group == POLICY else blocks[name] for name in names]
            groups[group] = torch.cat(parts, dim=1)
        return groups

    def _delayed(self, name: str, now: Mapping[str, Tensor], rows: Tensor | slice) -> Tensor:
        if name not in self.past:
            return now[name]
        return self.past[name].last(self.history.get(name, 1), self.delay.get(name, 0))[rows]
