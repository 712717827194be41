"""A graph that runs: ONNX Runtime behind one class, for the files that we write and for those of others.

    graph = Graph(content, "cartpole.onnx")             # content: the bytes of the file
    graph.inputs["obs"]                                 # Signature: shape without the first axis, dtype
    graph(["actions"], {"obs": obs})                    # {"actions": (n, ...)}

A file may come from anywhere, so what it refers to outside of itself is refused: ONNX Runtime would look for weights in
other files (`external_data`) in the working directory. Every fault that ONNX Runtime reports becomes a UserError.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from livegym.utils.errors import UserError

NEEDED = ("onnx", "onnxruntime")
TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}
"""ONNX Runtime's name of a type -> NumPy's."""


@dataclass(frozen=True)
class Signature:
    """Shape and type of an input or output."""

    shape: tuple[int | None, ...]  # of one environment, which is the first axis; None: not fixed
    dtype: str

    def admits(self, shape: Sequence[int], dtype: str) -> bool:
        """Whether it can be a tensor (n, *shape) of this dtype."""
        fits = len(shape) == len(self.shape) and all(
            mine is None or mine == n for mine, n in zip(self.shape, shape, strict=True)
        )
        return fits and self.dtype == dtype


class Graph:
    """A graph in memory, with one thread."""

    def __init__(self, content: bytes, name: str) -> None:
        """`name`: of the file, for messages. Raises UserError if ONNX Runtime cannot load it or is not installed."""
        missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
        if missing:
            raise UserError(
                f"{name}: an ONNX file needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not "
                "installed. Install the extra: pip install 'livegym[export]'"
            )
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as native

        self._name = name
        self._errors: tuple[type[Exception], ...] = (
            RuntimeError,
            *(one for one in vars(native).values() if isinstance(one, type) and issubclass(one, Exception)),
        )
        _check_whole(content, name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what it would say is in the UserError
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            raise UserError(f"{name}: onnxruntime cannot load it ({_in_one_line(error)})") from error
        self.metadata: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self.inputs = {one.name: _signature(one) for one in self._session.get_inputs()}
        self.outputs = {one.name: _signature(one) for one in self._session.get_outputs()}

    def __call__(self, outputs: Sequence[str], given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute these outputs. Raises UserError if the graph cannot."""
        try:
            values = self._session.run(list(outputs), dict(given))
        except self._errors as error:
            raise UserError(f"{self._name}: onnxruntime cannot run it ({_in_one_line(error)})") from error
        return dict(zip(outputs, values, strict=True))


def _signature(one: Any) -> Signature:
    shape = tuple(size if isinstance(size, int) else None for size in one.shape[1:])
    return Signature(shape, TYPES.get(one.type, one.type))


def _check_whole(content: bytes, name: str) -> None:
    """Raises UserError if the bytes are no ONNX model, or one that refers to other files."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise UserError(f"{name}: is no ONNX file, or only a part of one ({_in_one_line(error)})") from error
    for tensor in _tensors(model, onnx.TensorProto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            places = [entry.value for entry in tensor.external_data if entry.key == "location"]
            raise UserError(
                f"{name}: its tensor {tensor.name!r} is in another file ({', '.join(places) or 'unnamed'}). Allowed: a "
                "file that holds all its weights, as config=export writes it"
            )


def _tensors(message: Any, kind: type) -> Iterator[Any]:
    """All tensors in a protocol buffer, at any depth: initializers, attributes, those of inner graphs."""
    if isinstance(message, kind):
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(inner, kind)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
