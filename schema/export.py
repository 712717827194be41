"""The root keys for exporting a policy as one ONNX file (`config=export`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key

PARTS = ("policy", "controls", "task")


@dataclass
class ExportKeys:
    """Contents and place of the file that `config=export` writes."""

    exportFile: Optional[str] = key(
        None,
        "ONNX file to write, which must not exist; null: <Task>_v<version>.onnx in export/ in the run's directory, or "
        "in the current directory if the checkpoint is not in a run",
        mode="export",
        example="exportFile=ant.onnx",
    )
    exportParts: Optional[str] = key(
        None,
        "what is inside: policy (normaliser, network, clipping), controls (also the steps from action to actuators), "
        "task (also the task's memory and observation, from fields of the simulator); null: controls, or policy if the "
        "task has no actuators",
        choices=PARTS,
        mode="export",
        example="exportParts=task",
    )
    exportModel: bool = key(
        False,
        "also write the simulator's model, with motors and contact sensors, as MJCF beside the file: <name>.xml. It "
        "refers to the meshes of this machine",
        mode="export",
    )
    exportStochastic: bool = key(
        False, "sample actions: the file gets a noise input; false: the most likely action", mode="export"
    )
    exportActionDelay: int = key(
        0,
        "number of control steps by which actions are applied late inside the file; a robot has its own delay, so it "
        "needs 0",
        unit="control steps",
        low=0,
        high=100,
        mode="export",
    )
    exportSensorDelays: bool = key(
        False,
        "put the delays of task.delay into the file; a robot has its own delays, so it needs false",
        mode="export",
    )
