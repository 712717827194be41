"""The module that becomes the graph: observation and states in, actions, controls and next states out.

    controller = Controller(network, spec, plan, methods, env.max_length)
    controller.inputs                     # names: obs, the simulator's fields, states, noise
    outputs = controller(values)          # values in that order; outputs in the order of `controller.outputs`

The order is that of `Env.step`: with the whole task inside, `update` and `observe` of the step before come first. Every
state begins an episode as zeros, except for buffers that the task's `reset` fills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from livegym.deploy.plan import Plan
from livegym.deploy.tracing import TaskMethods
from livegym.rl.algorithm import Network
from livegym.rl.distribution import Distribution
from livegym.rl.spec import PolicySpec
from livegym.tasks.base import Box
from livegym.tasks.env import EPISODE_TIME

OBS, NOISE = "obs", "noise"
COUNT, LATE = "steps", "last_actions"
ACTIONS, CONTROLS = "actions", "controls"
NEXT = "next_"


class Controller(nn.Module):
    """The graph of a plan."""

    def __init__(
        self,
        network: Network,
        spec: PolicySpec,
        plan: Plan,
        methods: TaskMethods | None,
        max_length: int,
    ) -> None:
        """`methods`: of the task, if any of them is inside; `max_length`: control steps of an episode."""
        super().__init__()
        self.network_module = network.module  # its parameters become those of the graph
        self._network, self._spec = network, spec
        self.plan, self.methods = plan, methods
        self.max_length = max_length
        self.widths = dict(spec.observations)  # block -> columns that the policy sees, with its history
        self.states = self._all_states()
        fields = [] if methods is None else [(name, methods.fields[name]) for name in plan.fields]
        self.shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            **({OBS: ((self.obs_width,), torch.float32)} if plan.blocks else {}),
            **{self.field_name(name): (tuple(value.shape[1:]), value.dtype) for name, value in fields},
            **self.states,
            **({NOISE: (self._noise_shape(), torch.float32)} if plan.wanted.stochastic else {}),
        }
        self.inputs = list(self.shapes)
        outputs = [ACTIONS, *([CONTROLS] if plan.controls else [])]
        self.outputs = [*outputs, *(NEXT + name for name in self.states)]

    # names and shapes

    def width(self, block: str) -> int:
        """Numbers of a block in one control step."""
        return self.widths[block] // self.plan.past.get(block, (1, 0))[0]

    @property
    def obs_width(self) -> int:
        """Columns of `obs`."""
        return sum(self.width(name) for name in self.plan.blocks)

    def _all_states(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """State -> (shape of one environment, dtype): the task's buffers, pasts, the recurrent memory, the count."""
        plan, states = self.plan, {}
        if self.methods is not None:
            buffers = self.methods.buffers
            states = {
                self.state_name(name): (tuple(buffers[name].shape[1:]), buffers[name].dtype) for name in plan.buffers
            }
        for name, (history, delay) in plan.past.items():
            states[f"past_{name}"] = ((history + delay, self.width(name)), torch.float32)
        for i, memory in enumerate(self._network.first_memory()):
            states[f"memory_{i}"] = ((memory.shape[0], memory.shape[2]), memory.dtype)
        if plan.wanted.action_delay:
            states[LATE] = ((plan.wanted.action_delay, self._spec.action.width), torch.float32)
        if plan.counts:
            states[COUNT] = ((), torch.int64)
        return states

    def state_name(self, buffer: str) -> str:
        """The name in the graph of a buffer of the task."""
        taken = (OBS, NOISE, COUNT, LATE, ACTIONS, CONTROLS, *self.plan.fields)
        return f"task_{buffer}" if buffer in taken else buffer

    def field_name(self, name: str) -> str:
        """The name in the graph of a field of the simulator, which may be `sensor:<name>`."""
        return name.replace(":", "_")

    def _noise_shape(self) -> tuple[int, ...]:
        return (self._spec.action.width,)

    @property
    def is_discrete(self) -> bool:
        """Whether actions are choices: their noise is uniform in [0, 1), otherwise it is standard normal."""
        return not isinstance(self._spec.action, Box)

    def zeros(self, n: int) -> dict[str, Tensor]:
        """All inputs of n environments, as zeros."""
        return {name: torch.zeros(n, *shape, dtype=dtype) for name, (shape, dtype) in self.shapes.items()}

    # the graph

    def forward(self, values: Sequence[Tensor]) -> list[Tensor]:
        """One control step: the inputs in order -> the outputs in order."""
        given = dict(zip(self.inputs, values, strict=True))
        task = _Task(self, given)
        seen, new = self._observed(task, given)
        memory = tuple(given[name].transpose(0, 1).contiguous() for name in self.states if name.startswith("memory_"))
        out = self._network(seen, memory)
        new |= {f"memory_{i}": state.transpose(0, 1) for i, state in enumerate(out.memory)}
        results = {ACTIONS: self.chosen(out, given.get(NOISE))}
        if self.plan.controls:
            applied = results[ACTIONS]
            if LATE in given:
                new[LATE] = torch.cat([given[LATE][:, 1:], applied[:, None]], 1)
                applied = given[LATE][:, 0]
            results[CONTROLS] = task.control(applied)
            new |= task.buffers()
        if COUNT in given:
            new[COUNT] = given[COUNT] + 1
        results |= {NEXT + name: new[name] for name in self.states}
        return [results[name].clone() for name in self.outputs]  # an output must not be an input itself

    def _observed(self, task: _Task, given: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The observation of the policy (N, width), and the next past values."""
        blocks, new = task.observe(), {}
        start = 0
        for name in self.plan.blocks:
            blocks[name] = given[OBS][:, start : start + self.width(name)]
            start += self.width(name)
        seen = []
        for name in self.widths:
            if name in self.plan.past:
                new[f"past_{name}"] = past = _pushed(given[f"past_{name}"], blocks[name], task.first)
                history, delay = self.plan.past[name]
                seen.append(past[:, past.shape[1] - delay - history : past.shape[1] - delay].flatten(1))
            else:
                seen.append(blocks[name])
        return torch.cat(seen, dim=1), new

    def observed(self, given: Mapping[str, Tensor]) -> Tensor:
        """The observation of the policy (N, width) in a control step with these inputs."""
        return self._observed(_Task(self, given), given)[0]

    def usual_input(self) -> tuple[Tensor, Tensor] | None:
        """See `Network`."""
        return self._network.usual_input()

    def chosen(self, out: Distribution, noise: Tensor | None) -> Tensor:
        """The action: the most likely one or, with noise, a sample; clipped as `Env` clips it."""
        if isinstance(self._spec.action, Box):
            assert out.mean is not None
            if noise is None:
                return out.mean.clamp(-1.0, 1.0)
            assert out.log_std is not None
            return (out.mean + out.log_std.exp() * noise).clamp(-1.0, 1.0)
        if noise is None:
            return out.mode()
        columns = [_drawn(logits, noise[:, i : i + 1]) for i, logits in enumerate(out.logits)]
        return columns[0] if out.single else torch.stack(columns, 1)


class _Task:
    """The task's methods within one call of the graph, over copies of the states that the graph is given."""

    def __init__(self, owner: Controller, given: Mapping[str, Tensor]) -> None:
        self.owner, self.plan = owner, owner.plan
        self.methods = owner.methods
        self.n = n = next(iter(given.values())).shape[0]
        self.count = given.get(COUNT)
        self.first = None if self.count is None else self.count == 0  # (N,) the first control step of an episode
        if self.methods is None:
            return
        like = next(iter(given.values()))
        kept = {name: given[owner.state_name(name)].clone() for name in self.plan.buffers}
        self.now = {name: kept.get(name, _zeros(like, n, value)) for name, value in self.methods.buffers.items()}
        self.fields = {
            name: given[owner.field_name(name)] if name in self.plan.fields else _zeros(like, n, value)
            for name, value in self.methods.fields.items()
        }

    def observe(self) -> dict[str, Tensor]:
        """The blocks that the graph computes; with the whole task inside, after its `update`."""
        if self.methods is None or not self.plan.inside:
            return {}
        if self.plan.updates and self.first is not None:
            before = {name: value.clone() for name, value in self.now.items()}
            with self.methods.given(self.now, self.fields, self.n):
                self.methods.task.update(self.methods.env.sim)
            self.now = {name: _where(self.first, before[name], value) for name, value in self.now.items()}
        with self.methods.given(self.now, self.fields, self.n):
            blocks = self.methods.task.observe(self.methods.env.sim)
        blocks = {name: blocks[name].clone() for name in self.plan.inside if name != EPISODE_TIME}
        if EPISODE_TIME in self.plan.inside:
            assert self.count is not None
            blocks[EPISODE_TIME] = (self.count.float() / self.owner.max_length)[:, None]
        return blocks

    def control(self, action: Tensor) -> Tensor:
        """action (N, ...) -> controls (N, nu)."""
        assert self.methods is not None
        with self.methods.given(self.now, self.fields, self.n):
            return self.methods.task.control(action)

    def buffers(self) -> dict[str, Tensor]:
        """The states that are buffers of the task, after the step."""
        return {self.owner.state_name(name): self.now[name] for name in self.plan.buffers}


def _zeros(like: Tensor, n: int, value: Tensor) -> Tensor:
    return torch.zeros((n, *value.shape[1:]), dtype=value.dtype, device=like.device)


def _where(mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Rows (N, ...) of `one` where mask (N,) holds, otherwise of `other`."""
    mask = mask.reshape(-1, *(1 for _ in one.shape[1:]))
    if one.dtype is torch.bool:  # onnxruntime has no Where for bool
        return (mask & one) | (~mask & other)
    return torch.where(mask, one, other)


def _pushed(past: Tensor, now: Tensor, first: Tensor | None) -> Tensor:
    """past (N, length, width), newest last, with `now` (N, width); in a first step, `now` everywhere."""
    assert first is not None
    moved = torch.cat([past[:, 1:], now[:, None]], 1)
    return _where(first, now[:, None].expand(-1, past.shape[1], -1), moved)


def _drawn(logits: Tensor, uniform: Tensor) -> Tensor:
    """logits (N, n), uniform (N, 1) in [0, 1) -> (N,) samples, by inversion of the cumulative probabilities."""
    below = torch.softmax(logits, 1).cumsum(1)
    return (below <= uniform * below[:, -1:]).sum(1).clamp(max=logits.shape[1] - 1)
