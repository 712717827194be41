"""Gymnasium's Pendulum-v1."""

from __future__ import annotations

from gym_project.tasks.gymnasium_task import GymnasiumTask


class PendulumV1(GymnasiumTask):
    """Pendulum-v1."""

    environment = "Pendulum-v1"
