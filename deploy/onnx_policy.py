"""A policy from an ONNX file that `config=export` wrote, with the same calls as one from a checkpoint.

    policy = livegym.load_policy("cartpole.onnx")
    action = policy(obs)                  # the blocks of policy.interface.inputs beside each other
    policy.controls                       # what goes to the actuators, if the file computes it
    policy.reset()                        # new episodes begin: all states are those of an episode's start

The graph's states (memory, past values, targets) are kept here between two calls. It needs onnxruntime, which the extra
`export` installs. The file's bytes are given to onnxruntime, so a graph cannot refer to other files.
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
        self._session = _session(file)
        self.interface = _interface(file, self._session.get_modelmeta().custom_metadata_map)
        self.spec = _spec(file, self.interface)
        self.version = self.interface.origin.version
        self.run = self.interface.origin.run
        self.controls: Any = None
        """Controls of the last call, in the kind of its observation; None if the file does not compute them."""
        inputs = {one.name: one.shape for one in self._session.get_inputs()}
        self._outputs = [one.name for one in self._session.get_outputs()]
        self._check_graph(inputs)
        self._noise = NOISE in inputs
        if self._noise != stochastic:
            allowed = "stochastic=True" if self._noise else "stochastic=False, or a file from exportStochastic=true"
            raise UserError(
                f"stochastic={stochastic}: {file.name} {'samples' if self._noise else 'takes the most likely action'}. "
                f"Allowed: {allowed}"
            )
        self._rng = np.random.default_rng(seed)
        self._states: dict[str, np.ndarray] = {}

    def _check_graph(self, inputs: Mapping[str, Any]) -> None:
        """Raises UserError unless the graph's inputs and outputs are those that the description names."""
        states = {state.name: state for state in self.interface.states}
        if self.interface.fields:
            names = ", ".join(field.name for field in self.interface.fields)
            raise UserError(
                f"{self.file.name}: takes fields of the simulator ({names}), not an observation. Allowed: a file "
                "from exportParts=controls or exportParts=policy; for this one, see examples/robot/robot.py"
            )
        needed = {OBS, *states, *([NOISE] if NOISE in inputs else [])}
        given = {ACTIONS, *(NEXT + name for name in states)}
        fits = needed == set(inputs) and given <= set(self._outputs)
        if not fits or any(tuple(inputs[name][1:]) != state.shape for name, state in states.items()):
            raise UserError(
                f"{self.file.name}: its graph takes {', '.join(inputs)} and gives {', '.join(self._outputs)}, which "
                f"is not what its description says: {', '.join(sorted(needed))}. Export it again"
            )

    def __call__(self, obs: Any) -> Any:
        """Observations (width,) or (n, width) -> actions; see `LoadedPolicy`.

        A file with states keeps those of the n environments of the first call, and refuses another number until
        `reset()`.
        """
        rows = Rows.of(obs, self.spec, torch.device("cpu"))
        count = len(rows.values)
        if not self._states:
            self._states = {state.name: _start(state, count) for state in self.interface.states}
        known = next((len(value) for value in self._states.values()), count)
        if known != count:
            raise UserError(
                f"the observation is of {count} environments, but this policy remembers {known}. Allowed: {known}. To "
                "begin with another number, call reset() first"
            )
        given = {OBS: rows.values.numpy(), **self._states, **self._drawn(count)}
        results = dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))
        self._states = {name: results[NEXT + name] for name in self._states}
        controls = results.get(CONTROLS)
        self.controls = None if controls is None else rows.as_given(torch.from_numpy(controls))
        return rows.back(torch.from_numpy(results[ACTIONS]))

    def _drawn(self, count: int) -> dict[str, np.ndarray]:
        if not self._noise:
            return {}
        shape = (count, self.interface.action.size)
        normal = self.interface.action.choices is None
        drawn = self._rng.standard_normal(shape) if normal else self._rng.random(shape)
        return {NOISE: drawn.astype(np.float32)}

    def reset(self, env_ids: EnvIds = None) -> None:
        """New episodes begin in these environments: their states are those of an episode's start.

        Without `env_ids`, in all, and the next call may bring another number of environments. Raises UserError for a
        number that no environment has.
        """
        if env_ids is None:
            self._states = {}
        elif self._states:
            count = len(next(iter(self._states.values())))
            ids = rows_named(env_ids, count).numpy()
            for state in self.interface.states:
                value = self._states[state.name].copy()
                value[ids] = _start(state, len(ids))
                self._states[state.name] = value

    def set_state(self, name: str, value: Any) -> None:
        """Set a state (n, ...) of n environments, such as the targets at which the robot stands.

        Raises UserError for an unknown name, and for a value of another shape than that of one environment, or of n.
        """
        states = {state.name: state for state in self.interface.states}
        if name not in states:
            raise UserError(f"state {name}: unknown. Allowed: {', '.join(states) or 'none'}")
        state = states[name]
        given = np.asarray(value, state.dtype)
        if given.shape[1:] != state.shape or given.ndim == 0:
            raise UserError(f"state {name} has shape {given.shape}. Allowed: (n, {', '.join(map(str, state.shape))})")
        if not self._states:
            self._states = {other.name: _start(other, len(given)) for other in self.interface.states}
        if len(given) != len(self._states[name]):
            raise UserError(f"state {name} is of {len(given)} environments. Allowed: {len(self._states[name])}")
        self._states[name] = given.copy()

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


def _session(file: Path) -> Any:
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as native
    except ModuleNotFoundError as error:
        raise UserError(
            f"{file}: an ONNX file needs onnxruntime, which is not installed. Install the extra: "
            "pip install 'livegym[export]'"
        ) from error
    errors = tuple(one for one in vars(native).values() if isinstance(one, type) and issubclass(one, Exception))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(read_bytes(file), options, providers=["CPUExecutionProvider"])
    except errors as error:
        raise UserError(f"{file}: onnxruntime cannot load it ({' '.join(str(error).split())[:300]})") from error


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
