"""Names and constants of the compiled model, the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.sim.model import MjcfModel


class Named(Simulator):
    """The methods of the contract that work before there are environments."""

    world: MjcfModel

    def names(self, kind: str) -> list[str]:
        return self.world.names(kind)

    def geom_ids(self, names: Sequence[str]) -> list[int]:
        return self.world.ids("geom", names)

    def geom_body_ids(self) -> list[int]:
        return [int(body) for body in self.world.model.geom_bodyid]

    def geom_shapes(self) -> list[str]:
        kinds = (mujoco.mjtGeom(int(kind)).name for kind in self.world.model.geom_type)
        return [kind.removeprefix("mjGEOM_").lower() for kind in kinds]

    def body_ids(self, names: Sequence[str]) -> list[int]:
        return self.world.ids("body", names)

    def site_ids(self, names: Sequence[str]) -> list[int]:
        return self.world.ids("site", names)

    def actuator_ids(self, names: Sequence[str]) -> list[int]:
        return self.world.ids("actuator", names)

    def qpos_ids(self, joints: Sequence[str]) -> list[int]:
        return self.world.joint_columns(joints, self.world.model.jnt_qposadr, free=7, ball=4)

    def qvel_ids(self, joints: Sequence[str]) -> list[int]:
        return self.world.joint_columns(joints, self.world.model.jnt_dofadr, free=6, ball=3)

    @property
    def default_qpos(self) -> Tensor:
        return torch.from_numpy(self.world.model.qpos0.astype(np.float32))

    def keyframe_qpos(self, name: str) -> Tensor:
        (row,) = self.world.ids("key", [name])
        return torch.from_numpy(self.world.model.key_qpos[row].astype(np.float32))

    @property
    def ctrl_range(self) -> Tensor:
        return torch.from_numpy(self.world.model.actuator_ctrlrange.astype(np.float32))

    def model_xml(self) -> str:
        return self.world.xml()
