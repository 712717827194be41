"""The ONNX file: from a module to the bytes of a graph with metadata, and a graph that runs.

    data = to_onnx(controller, metadata)
    run = open_onnx(data, controller.outputs)       # run(inputs) -> outputs, by onnxruntime

The metadata has livegym's own description as JSON under `livegym`, and the keys under which other exporters of robot
policies write theirs. The file holds no paths and no Python names of the machine that wrote it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.deploy.controller import Controller
from livegym.deploy.onnx_session import Graph
from livegym.deploy.states import Law
from livegym.deploy.verify import Run
from livegym.rl.interface import Actuator, PolicyInterface
from livegym.utils.errors import UserError

OPSET = 18
NEEDED = ("onnx", "onnxscript", "onnxruntime")
KEY = "livegym"  # of our own description


def check_installed() -> None:
    """Raises UserError if a package of the extra is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"config=export needs {', '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed. "
            "Install the extra: pip install 'livegym[export]'"
        )


def to_onnx(controller: Controller, metadata: Mapping[str, str]) -> bytes:
    """The bytes of the file. Raises UserError if torch cannot export the module."""
    import onnx

    batch = torch.export.Dim("batch", min=1)
    example = list(controller.zeros(2).values())
    with _quiet():
        try:
            program = torch.onnx.export(
                controller.eval(),
                (example,),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=([{0: batch} for _ in example],),
                input_names=controller.inputs,
                output_names=controller.outputs,
                verbose=False,
            )
        except (torch.onnx.OnnxExporterError, RuntimeError, TypeError, ValueError) as error:
            raise UserError(
                f"torch.onnx cannot export this policy ({type(error).__name__}: {' '.join(str(error).split())[:300]}). "
                "Export the network alone: exportParts=policy"
            ) from error
    assert program is not None
    model = program.model_proto
    _forget_the_machine(model)
    model.producer_name, model.graph.name = "livegym", "policy"
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _forget_the_machine(model: Any) -> None:
    """Remove what the exporter notes of the Python code: names and, in stack traces, paths."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    model.producer_version = ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's own lines and warnings, which are about its inside."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    before = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


def open_onnx(content: bytes, outputs: Sequence[str]) -> Run:
    """The graph of these bytes, as a function. Raises UserError if onnxruntime cannot load it."""
    graph = Graph(content, "the exported file")

    def run(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        values = graph(outputs, {name: np.ascontiguousarray(value.numpy()) for name, value in given.items()})
        return {name: torch.from_numpy(value) for name, value in values.items()}

    return run


def metadata_of(interface: PolicyInterface, law: Law) -> dict[str, str]:
    """The metadata of a file. Lists are comma-separated, numbers in full precision; unknown keys are left out."""
    driving: dict[str, list[Actuator]] = {}
    for actuator in interface.actuators:
        driving.setdefault(actuator.joint, []).append(actuator)
    joints = [joint for joint in interface.joints if joint.name in driving and joint.kind in ("hinge", "slide")]
    motors = [driving[joint.name] for joint in joints]
    lists: dict[str, Sequence[Any]] = {
        "observation_names": [block.name for block in interface.inputs],
        "command_names": [],
    }
    if joints:
        lists["joint_names"] = [joint.name for joint in joints]
        lists["default_joint_pos"] = [law.neutral.get(joint.name, joint.default[0]) for joint in joints]
        if all(len(on_joint) == 1 and on_joint[0].kind != "other" for on_joint in motors):
            lists["joint_stiffness"] = [one.stiffness for (one,) in motors]
            lists["joint_damping"] = [one.damping for (one,) in motors]
    if law.scale is not None:
        lists["action_scale"] = law.scale
    texts = {name: ",".join(str(value) for value in values) for name, values in lists.items()}
    return {KEY: json.dumps(interface.to_dict(), allow_nan=False), "run_path": interface.origin.run, **texts}
