"""The names of Isaac Gym's `gymapi`: values, records, enumerations, constants, and the one `Gym` object.

gym = gymapi.acquire_gym()
sim = gym.create_sim(0, 0, gymapi.SIM_PHYSX, gymapi.SimParams())
"""

from __future__ import annotations

import torch

from livegym.compat.core import values
from livegym.compat.core.asset import AssetModel as Asset
from livegym.compat.core.record import Env
from livegym.compat.core.scene import Sim

from ._absent import Absent
from ._cameras import CameraMethods
from ._properties import Properties
from ._queries import Queries
from ._setup import Setup
from ._tensors import TensorMethods
from ._viewer import ViewerMethods

Tensor = torch.Tensor
globals().update({name: getattr(values, name) for name in values.__all__})
globals().update(values.constants())


class Gym(Setup, Queries, Properties, TensorMethods, CameraMethods, ViewerMethods, Absent):
    """Every method of Isaac Gym: it works, or it raises NotImplementedError with what to do instead."""


_GYM = Gym()


def acquire_gym(*args):
    """Return the `Gym` object, which has no state of its own."""
    return _GYM


__all__ = ["Asset", "Env", "Gym", "Sim", "Tensor", "acquire_gym", *values.__all__, *values.constants()]
