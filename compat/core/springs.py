"""Springs with dampers, solved implicitly as PhysX solves them, so that no stiffness makes a step diverge.

A spring of stiffness K and damping D whose force counts at the end of a step of length h, with x' = x + h v' and
v' = v + h a, exerts

    f = -K x - (D + h K) v - (h D + h^2 K) a

`passive` says that with a stiffness, a damping and an added inertia. `constraint` says it as a constraint of MuJoCo,
which exerts f = -(a + b v + k d x) / R, with R = (1 - d) / d * weight, where `weight` is the inverse inertia that the
model has for that constraint. It is exact while the added inertia is between 1e-4 and 1e4 of 1 / weight; a stiffer
spring is a rigid constraint.

    solref, solimp = constraint(5e7, 5e3, 0.005, weight=20.0)
"""

from __future__ import annotations

import numpy as np

SMALLEST, LARGEST = 1e-4, 0.9999
"""Range of MuJoCo's impedance."""
SMALLEST_INERTIA = 1e-15
"""Stands for 0 as added inertia."""


def added_inertia(stiffness: np.ndarray, damping: np.ndarray, h: float) -> np.ndarray:
    """The inertia that makes a spring implicit, in the unit of the moved coordinate."""
    return h * damping + h * h * stiffness


def passive(stiffness: np.ndarray, damping: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stiffness, damping and added inertia with which an explicit spring is an implicit one."""
    return stiffness, damping + h * stiffness, added_inertia(stiffness, damping, h)


def constraint(
    stiffness: np.ndarray | float, damping: np.ndarray | float, h: float, weight: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's solref (..., 2) and solimp (..., 5) of a constraint that is such a spring."""
    stiffness, damping = np.asarray(stiffness, float), np.asarray(damping, float)
    added = np.maximum(added_inertia(stiffness, damping, h), SMALLEST_INERTIA)
    impedance = np.clip(weight * added / (weight * added + 1.0), SMALLEST, LARGEST)
    solref = np.stack([-stiffness / added * impedance, -(damping + h * stiffness) / added * impedance], -1)
    solimp = np.stack([impedance, impedance, *(np.full_like(impedance, x) for x in (0.001, 0.5, 2.0))], -1)
    return solref, solimp
