"""A task's methods as functions of tensors, so that they can be traced, and what depends on what in them.

    methods = TaskMethods(env)
    needs = methods.needs(methods.control)        # needs.reads: {"controls": {"action", "targets"}, ...}
    with methods.given(buffers, fields, n):       # inside, the task reads and writes these tensors
        controls = env.task.control(action)

A task keeps its memory in buffers, to which its objects hold references, and reads the simulator's fields. Both are
replaced while a method is traced: each attribute that is a buffer is found once, by walking the task's objects. What
cannot be replaced (a view of a buffer, a buffer in a tuple) is refused, because the trace would silently use the value
of the moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from livegym.tasks.env import Env
from livegym.utils.errors import UserError

Tensors = dict[str, Tensor]

NO_VALUES = ("_like", "new_", "sym_size", "size.")
"""Parts of the names of operators that read the shape of their argument, and not its values."""


class NotExportable(UserError):
    """Raised if a task's methods cannot be traced."""


@dataclass(frozen=True)
class Needs:
    """Inputs that one method of a task reads, and buffers that it writes."""

    reads: dict[str, frozenset[str]]  # output, or buffer after the method -> the inputs that it depends on
    writes: frozenset[str]  # buffers that the method changes


class TaskMethods:
    """The methods of an Env's task, with buffers and fields that can be replaced."""

    def __init__(self, env: Env) -> None:
        """Raises NotExportable if the task keeps a buffer in a way in which it cannot be replaced."""
        self.env, self.task = env, env.task
        self.buffers: Tensors = dict(self.task.buffers)
        self.fields: Tensors = dict(getattr(env.sim, "fields", {}))
        self._places = _places(self.task, self.buffers, {id(env.sim)})

    @contextlib.contextmanager
    def given(self, buffers: Mapping[str, Tensor], fields: Mapping[str, Tensor], n: Any) -> Iterator[None]:
        """Inside, the task has these buffers (which it may change in place), and n environments with these fields."""
        sim, own_n = self.env.sim, self.env.sim.num_envs
        try:
            self._put(buffers)
            if self.fields:
                sim.fields.update(fields)  # type: ignore[attr-defined]
            object.__setattr__(sim, "num_envs", n)
            yield
        finally:
            self._put(self.buffers)
            if self.fields:
                sim.fields.update(self.fields)  # type: ignore[attr-defined]
            object.__setattr__(sim, "num_envs", own_n)

    def _put(self, values: Mapping[str, Tensor]) -> None:
        for holder, key, name in self._places:
            if isinstance(holder, (dict, list)):
                holder[key] = values[name]
            else:
                object.__setattr__(holder, key, values[name])

    def control(self, action: Tensor) -> Tensors:
        """The outputs of `Task.control`."""
        return {"controls": self.task.control(action)}

    def observe(self, action: Tensor) -> Tensors:
        """The outputs of `Task.observe`: block -> (N, width)."""
        return self.task.observe(self.env.sim)

    def update(self, action: Tensor) -> Tensors:
        """The outputs of `Task.update`: none, it changes buffers."""
        self.task.update(self.env.sim)
        return {}

    def needs(self, method: Callable[[Tensor], Tensors]) -> Needs:
        """The needs of `method`, one of the three above. Raises NotExportable if it cannot be traced."""
        names = ["action", *self.buffers, *self.fields]
        values = [self.env.zero_action(), *self.buffers.values(), *self.fields.values()]
        outputs: list[str] = []

        def flat(*args: Tensor) -> list[Tensor]:
            given = dict(zip(names, args, strict=True))
            buffers = {name: given[name].clone() for name in self.buffers}
            with self.given(buffers, {name: given[name] for name in self.fields}, len(args[0])):
                results = method(given["action"])
            outputs[:] = [*results, *buffers]
            return [value.clone() for value in (*results.values(), *buffers.values())]

        try:
            trace = make_fx(torch.func.functionalize(flat), tracing_mode="fake", _allow_non_fake_inputs=True)
            graph = trace(*[value.clone() for value in values]).graph
        except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise _untraceable(self.env.config.name, method.__name__, error) from error
        sources = _sources(graph, names)
        found = dict(zip(outputs, sources, strict=True))
        changed = frozenset(b for b in self.buffers if not found[b][1])
        return Needs({name: inputs for name, (inputs, _) in found.items()}, changed)


def _untraceable(task: str, method: str, error: Exception) -> NotExportable:
    reason = " ".join(str(error).split())[:300]
    return NotExportable(
        f"task {task} cannot be exported with its actions: its {method}() cannot be followed by torch.export "
        f"({type(error).__name__}: {reason}). Write it with tensor operations only, without .item() and without "
        "branches on values, or export the network alone: exportParts=policy"
    )


def _places(root: Any, buffers: Tensors, skip: set[int]) -> list[tuple[Any, Any, str]]:
    """(holder, attribute or key, buffer) for each place where an object of the task holds a buffer."""
    wanted = {id(value): name for name, value in buffers.items()}
    memory = {value.untyped_storage().data_ptr(): name for name, value in buffers.items() if value.numel()}
    found: list[tuple[Any, Any, str]] = []
    seen, todo = set(skip), [root]
    while todo:
        holder = todo.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for key, value in _items(holder):
            name = wanted.get(id(value))
            if name is None and isinstance(value, Tensor):
                name = memory.get(value.untyped_storage().data_ptr()) if value.numel() else None
                if name is None:
                    continue
                raise _hidden(root, f"a view of its buffer {name!r} in {type(holder).__name__}.{key}")
            if name is None:
                todo.append(value)
            elif isinstance(holder, tuple):
                raise _hidden(root, f"its buffer {name!r} in a tuple")
            else:
                found.append((holder, key, name))
    return found


def _items(holder: Any) -> list[tuple[Any, Any]]:
    if isinstance(holder, dict):
        return list(holder.items())
    if isinstance(holder, (list, tuple)):
        return list(enumerate(holder))
    if isinstance(holder, (type, Tensor)) or callable(holder) or not hasattr(holder, "__dict__"):
        return []
    return list(vars(holder).items())


def _hidden(task: Any, what: str) -> NotExportable:
    return NotExportable(
        f"task {type(task).__name__} cannot be exported with its actions: it keeps {what}. Keep the buffer itself, as "
        "`self.buffer(...)` returns it, or export the network alone: exportParts=policy"
    )


def _sources(graph: torch.fx.Graph, names: list[str]) -> list[tuple[frozenset[str], bool]]:
    """For each output of a graph: the inputs that it depends on, and whether it is an input, unchanged."""
    depends: dict[torch.fx.Node, frozenset[str]] = {}
    same: dict[torch.fx.Node, bool] = {}
    places = iter(names)
    for node in graph.nodes:
        if node.op == "placeholder":
            depends[node], same[node] = frozenset([next(places)]), True
        elif node.op != "output":
            target = str(node.target)
            inputs = [] if any(part in target for part in NO_VALUES) else node.all_input_nodes
            if target == "aten.copy.default":
                inputs = [node.args[1]]  # the first one is overwritten
            depends[node] = frozenset().union(*(depends[i] for i in inputs))
            same[node] = "clone" in target and all(same[i] for i in inputs)
    output = next(node for node in graph.nodes if node.op == "output")
    return [(depends[node], same[node]) for node in output.args[0]]
