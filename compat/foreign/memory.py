"""Save and restore what a foreign environment remembers, as well as that can be done without its help.

    memory = Memory(env, num_envs)       # right after its constructor
    state = memory.save()
    memory.restore(state)                # in an environment that may have been made from a changed file

An environment's attributes are its state and its constants at once, and nothing says which is which. A constant must
keep what the file says *now*: a limit that was edited between two runs must not be replaced by the old one. So the
attributes right after the constructor are kept, and only these are saved:

- numbers and tensors that differ from then: a run has changed them;
- tensors with a row for each environment, if the rows differ: something was drawn for each, and the simulation was made
  with it;
- views of the simulation's own tensors.

A limit for each of 16 DOFs looks like 16 drawn numbers if there are 16 environments. So if the number of environments
is also one of the `sizes` of an environment, what a run has not changed counts as a constant.

Tensors count if their length is a multiple of the number of environments, those in dictionaries included. So do those
of the environment's components: objects of the same package in its attributes, and in theirs. The simulation is saved
apart. What the environment keeps in other objects, or in closures, is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

Value = Tensor | int | float | bool
State = dict[str, Any]
"""Attribute, component.attribute, or attribute/key of a dictionary -> tensor or number."""


class Memory:
    """The memory of one environment."""

    def __init__(
        self, env: Any, num_envs: int, sizes: Collection[int] = (), buffers: Mapping[str, Tensor] | None = None
    ) -> None:
        """`sizes`: numbers of DOFs, bodies and the like; `buffers`: the simulation's tensors. Both may become more."""
        self._env = env
        self._num_envs = num_envs
        self._sizes = sizes
        self._buffers = {} if buffers is None else buffers
        self._package = type(env).__module__.partition(".")[0]
        self._fresh: State = {name: _copy(value) for name, value in self._values()}

    def save(self) -> State:
        """Copies of what a run has changed, or drawn."""
        return {name: _copy(value) for name, value in self._values() if self._is_remembered(name, value)}

    def restore(self, state: Mapping[str, Any]) -> list[str]:
        """Restore what `save` returned, and give every other value the one of the constructor.

        Tensors keep their memory, which the simulation may share. Returns the names that are restored: those whose
        component or dictionary is not here any more are left out. Raises ValueError if one of them is of another kind
        or shape here; nothing is changed then.
        """
        here = dict(self._values())
        for name, value in state.items():
            if name in here and _kind(here[name]) != _kind(value):
                raise ValueError(f"{name} is {_kind(value)} in the saved state, but here it is {_kind(here[name])}")
        for name, value in here.items():
            if name not in state and name in self._fresh and self._is_remembered(name, value):
                self._write(name, value, self._fresh[name])
        # last: views of one tensor may be in both
        return sorted([name for name, value in state.items() if self._write(name, here.get(name), value)])

    def _is_remembered(self, name: str, value: Value) -> bool:
        fresh = self._fresh.get(name)
        if not isinstance(value, Tensor):
            return not isinstance(fresh, type(value)) or fresh != value
        if not isinstance(fresh, Tensor) or fresh.shape != value.shape or not _equal(fresh, value):
            return True
        drawn = (len(value) == self._num_envs and self._num_envs not in self._sizes) or self._is_of_simulation(value)
        return drawn and not _equal(value, value[:1].expand_as(value))

    def _is_of_simulation(self, value: Tensor) -> bool:
        memory = value.untyped_storage().data_ptr()
        return any(memory == buffer.untyped_storage().data_ptr() for buffer in self._buffers.values())

    def _write(self, name: str, here: Value | None, value: Value) -> bool:
        """Whether there is a place for it; `here` is the present value, None if the environment has none yet."""
        own = isinstance(here, Tensor) and 0 not in here.stride() and not here.is_inference()  # not an expanded one
        if own and isinstance(here, Tensor) and isinstance(value, Tensor):
            here.copy_(value)
            return True
        path, _, key = name.partition("/")
        component, _, attribute = path.rpartition(".")
        owner = dict(self._components()).get(component)
        if owner is None:
            return False
        if not key:
            setattr(owner, attribute, _copy(value))
            return True
        kept = getattr(owner, attribute, None)
        if isinstance(kept, dict):
            kept[key] = _copy(value)
        return isinstance(kept, dict)

    def _components(self) -> Iterator[tuple[str, Any]]:
        """The environment as '', and its components by their path."""
        seen, waiting = {id(self._env)}, [("", self._env)]
        while waiting:
            path, owner = waiting.pop(0)
            yield path, owner
            for name, value in list(vars(owner).items()):
                known = type(value).__module__.partition(".")[0] == self._package and hasattr(value, "__dict__")
                if known and not isinstance(value, type | Tensor) and id(value) not in seen:
                    seen.add(id(value))
                    waiting.append((f"{path}.{name}" if path else name, value))

    def _values(self) -> Iterator[tuple[str, Value]]:
        for path, owner in self._components():
            for name, value in list(vars(owner).items()):
                full = f"{path}.{name}" if path else name
                if type(value) in (int, float, bool) or self._is_of_environments(value):
                    yield full, value
                elif isinstance(value, dict):
                    for key, inner in value.items():
                        if isinstance(key, str) and self._is_of_environments(inner):
                            yield f"{full}/{key}", inner

    def _is_of_environments(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() > 0 and len(value) > 0 and len(value) % self._num_envs == 0


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether all elements are equal; NaN equals NaN."""
    return torch.equal(a, b) or bool(((a == b) | (a != a) & (b != b)).all())


def _copy(value: Value) -> Value:
    return value.clone() if isinstance(value, Tensor) else value


def _kind(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else "a number"
