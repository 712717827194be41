"""A policy from an ONNX file that `config=export` wrote, with the same calls as one from a checkpoint.

    policy = livegym.load_policy("cartpole.onnx")
    action = policy(obs)                  # the blocks of policy.interface.inputs beside each other
    policy.controls                       # what goes to the actuators, if the file computes it
    policy.reset()                        # new episodes begin: all states are those of an episode's start

The graph's states (memory, past values, targets) are kept here between two calls. A state that only the robot knows at
the start of an episode (`State.given`) must be set before the first call. It needs onnx and onnxruntime, which the
extra `export` installs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from livegym.deploy.controller import ACTIONS, CONTROLS, NEXT, NOISE, OBS
from livegym.deploy.onnx_file import KEY
from livegym.deploy.onnx_session import Graph, Signature
from livegym.deploy.rows import EnvIds, Rows, rows_named
from livegym.rl.interface import PolicyInterface, State
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint_io import read_bytes
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError

SUFFIX = ".onnx"


class OnnxPolicy:
    """A policy with fixed weights, for one environment or many. Use it from one thread at a time."""

    def __init__(self, file: Path, stochastic: bool, seed: int) -> None:
        """Raises UserError if the file cannot be used, or does not say what it takes and gives."""
        self.file = file
        self._graph = Graph(read_bytes(file), str(file))
        self.interface = _interface(file, self._graph.metadata)
        self.spec = _spec(file, self.interface)
        self.version = self.interface.origin.version
        self.run = self.interface.origin.run
        self.controls: Any = None
        """Controls of the last call, in the kind of its observation; None if the file does not compute them."""
        self._noise = NOISE in self._graph.inputs
        self._results = self._checked_graph()
        if self._noise != stochastic:
            allowed = "stochastic=True" if self._noise else "stochastic=False, or a file from exportStochastic=true"
            raise UserError(
                f"stochastic={stochastic}: {file.name} {'samples' if self._noise else 'takes the most likely action'}. "
                f"Allowed: {allowed}"
            )
        self._rng = np.random.default_rng(seed)
        self._states: dict[str, np.ndarray] = {}  # empty: no call yet, or none since `reset`
        self._unset: dict[str, np.ndarray] = {}  # given state -> (n,) bool, environments whose value is not known

    def _checked_graph(self) -> dict[str, Signature]:
        """Its outputs. Raises UserError unless the graph takes and gives what the description says."""
        graph, described = self._graph, self.interface
        if described.fields:
            names = ", ".join(field.name for field in described.fields)
            raise UserError(
                f"{self.file.name}: takes fields of the simulator ({names}), not an observation. Allowed: a file "
                "from exportParts=controls or exportParts=policy; for this one, see examples/robot/robot.py"
            )
        states = {state.name: Signature(state.shape, state.dtype) for state in described.states}
        real = "float32"
        takes = {OBS: Signature((described.obs_width,), real), **states}
        if self._noise:
            takes[NOISE] = Signature((described.action.size,), real)
        single = described.action.kind == "Discrete"
        action = Signature(() if single else (described.action.size,), "int64" if described.action.choices else real)
        gives = {ACTIONS: action, **{NEXT + name: one for name, one in states.items()}}
        if CONTROLS in graph.outputs:
            gives[CONTROLS] = Signature((len(described.actuators) or None,), real)
        for word, expected, found in (("takes", takes, graph.inputs), ("gives", gives, graph.outputs)):
            if set(expected) != set(found) or not all(_agree(one, found[name]) for name, one in expected.items()):
                raise UserError(
                    f"{self.file.name}: its graph {word} {_text(found)}, which is not what its description says: "
                    f"{_text(expected)}. Export it again"
                )
        return gives

    def __call__(self, obs: Any) -> Any:
        """Observations (width,) or (n, width) -> actions; see `LoadedPolicy`.

        A file with states keeps those of the n environments of the first call, and refuses another number until
        `reset()`. Raises UserError if a state that only the robot knows is not set, and if the graph gives NaN or Inf.
        """
        rows = Rows.of(obs, self.spec, torch.device("cpu"))
        count = len(rows.values)
        known = len(next(iter(self._states.values()))) if self._states else count
        if known != count:
            raise UserError(
                f"the observation is of {count} environments, but this policy remembers {known}. Allowed: {known}. To "
                "begin with another number, call reset() first"
            )
        self._refuse_unset(count)
        states = self._states or {state.name: _start(state, count) for state in self.interface.states}
        given = {OBS: rows.values.numpy(), **states, **self._drawn(count)}
        results = self._graph(list(self._results), given)
        self._check_results(results, count)
        self._states = {name: results[NEXT + name] for name in states}
        controls = results.get(CONTROLS)
        self.controls = None if controls is None else rows.as_given(torch.from_numpy(controls))
        return rows.back(torch.from_numpy(results[ACTIONS]))

    def _refuse_unset(self, count: int) -> None:
        for index, state in enumerate(self.interface.states):
            unset = self._unset.get(state.name, np.full(count, state.given))
            if unset.any():
                some = "" if unset.all() else f", {np.flatnonzero(unset).tolist()}"
                shape = ", ".join(map(str, (int(unset.sum()), *state.shape)))
                raise UserError(
                    f"state {state.name}: only the robot knows it when an episode begins. Call "
                    f"set_state({state.name!r}, values{some}) first, with values of shape ({shape}), {state.dtype}. An "
                    f"example: policy.interface.states[{index}].start"
                )

    def _check_results(self, results: Mapping[str, np.ndarray], count: int) -> None:
        for name, value in results.items():
            if len(value) != count or not self._results[name].admits(value.shape[1:], str(value.dtype)):
                raise UserError(
                    f"{self.file.name}: its graph gives {name} as {value.dtype}{list(value.shape)} for {count} "
                    "environments, which is not what its description says. Export it again"
                )
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                where = [int(index) for index in np.argwhere(~np.isfinite(value))[0]]
                raise UserError(
                    f"{self.file.name}: gives {value[tuple(where)]} in {name} at {where}. Allowed: finite numbers. Its "
                    "weights or its states are damaged; a robot cannot act on it"
                )

    def _drawn(self, count: int) -> dict[str, np.ndarray]:
        if not self._noise:
            return {}
        shape = (count, self.interface.action.size)
        normal = self.interface.action.choices is None
        drawn = self._rng.standard_normal(shape) if normal else self._rng.random(shape)
        return {NOISE: drawn.astype(np.float32)}

    def reset(self, env_ids: EnvIds = None) -> None:
        """New episodes begin in these environments: their states are those of an episode's start.

        States that only the robot knows must be set again there. Without `env_ids`, all environments begin, and the
        next call may bring another number of them. Raises UserError for a number that no environment has.
        """
        if env_ids is None:
            self._states, self._unset = {}, {}
        elif self._states:
            count = len(next(iter(self._states.values())))
            ids = rows_named(env_ids, count).numpy()
            for state in self.interface.states:
                value = self._states[state.name].copy()
                value[ids] = _start(state, len(ids))
                self._states[state.name] = value
                self._unset.setdefault(state.name, np.zeros(count, bool))[ids] = state.given

    def set_state(self, name: str, value: Any, env_ids: EnvIds = None) -> None:
        """Set a state, such as the targets at which the robot stands: (n, ...) for the n environments in `env_ids`.

        Without `env_ids`, of all environments; before the first call that also says how many there are. Raises
        UserError for an unknown name, and for a value of another shape.
        """
        states = {state.name: state for state in self.interface.states}
        if name not in states:
            raise UserError(f"state {name}: unknown. Allowed: {', '.join(states) or 'none'}")
        state = states[name]
        given = _values(state, value)
        count = len(next(iter(self._states.values()))) if self._states else len(given)
        if env_ids is not None and not self._states:
            raise UserError(
                f"env_ids={env_ids}: no environments are known yet. Set state {name} of all: (n, ...) without env_ids"
            )
        ids = rows_named(env_ids, count).numpy()
        if len(given) != len(ids):
            raise UserError(f"state {name} is of {len(given)} environments. Allowed: {len(ids)}")
        if not self._states:
            self._states = {other.name: _start(other, count) for other in self.interface.states}
            self._unset = {other.name: np.full(count, other.given) for other in self.interface.states}
        new = self._states[name].copy()
        new[ids] = given
        self._states[name] = new
        self._unset.setdefault(name, np.zeros(count, bool))[ids] = False

    @property
    def recurrent(self) -> bool:
        """Whether it remembers something between two calls."""
        return bool(self.interface.states)

    def __repr__(self) -> str:
        return f"OnnxPolicy({self.spec.task}, version {self.version}, {self.file})"


def _start(state: State, count: int) -> np.ndarray:
    """The state of `count` environments at the start of an episode: (count, ...)."""
    start = 0 if state.start is None else np.reshape(state.start, state.shape)
    return np.full((count, *state.shape), start, state.dtype)


def _values(state: State, value: Any) -> np.ndarray:
    """The state (n, ...) that a caller gives. Raises UserError for another shape, and for NaN or Inf."""
    given = np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value)
    if given.ndim == 0 or given.shape[1:] != state.shape or given.dtype.kind not in "fiub":
        raise UserError(
            f"state {state.name} has shape {given.shape} and dtype {given.dtype}. Allowed: "
            f"(n, {', '.join(map(str, state.shape))}), {state.dtype}"
        )
    cast = given.astype(state.dtype)
    if cast.dtype.kind == "f" and not np.isfinite(cast).all():
        raise UserError(f"state {state.name} has {given[~np.isfinite(cast)].flat[0]}. Allowed: finite numbers")
    return cast


def _agree(one: Signature, other: Signature) -> bool:
    """Whether two signatures can be of the same tensor; an axis that is not fixed fits any."""
    sizes = zip(one.shape, other.shape, strict=False)
    return (
        one.dtype == other.dtype
        and len(one.shape) == len(other.shape)
        and all(None in pair or pair[0] == pair[1] for pair in sizes)
    )


def _text(signatures: Mapping[str, Signature]) -> str:
    """`obs float32[n, 4], steps int64[n]`."""
    return ", ".join(
        f"{name} {one.dtype}[{', '.join(['n', *('?' if size is None else str(size) for size in one.shape)])}]"
        for name, one in sorted(signatures.items())
    )


def _interface(file: Path, metadata: Mapping[str, str]) -> PolicyInterface:
    """The description in the file. Raises UserError if there is none, or if it cannot be read."""
    if KEY not in metadata:
        raise UserError(
            f"{file}: does not say what its policy takes and gives. Allowed: ONNX files that config=export wrote"
        )
    try:
        return PolicyInterface.from_dict(json.loads(metadata[KEY]))
    except (ValueError, RecursionError, UserError) as error:
        raise UserError(f"{file}: its description cannot be read ({error})") from error


def _spec(file: Path, interface: PolicyInterface) -> PolicySpec:
    """The spec of the graph; its blocks are those of one control step."""
    action, kinds = interface.action, {"Box": Box, "Discrete": Discrete, "MultiDiscrete": MultiDiscrete}
    if action.kind not in kinds or (action.kind != "Box" and not action.choices):
        raise UserError(f"{file}: its action is of kind {action.kind!r}. Allowed: {', '.join(kinds)} with choices")
    if action.kind == "Box":
        made: Box | Discrete | MultiDiscrete = Box(action.size)
    else:
        choices = action.choices or ()
        made = Discrete(choices[0]) if action.kind == "Discrete" else MultiDiscrete(choices)
    blocks = tuple((block.name, block.width) for block in interface.inputs)
    return PolicySpec(interface.task, blocks, (), made, interface.control_dt)
