"""Gymnasium's CartPole-v1."""

from __future__ import annotations

from gym_project.tasks.gymnasium_task import GymnasiumTask


class CartPoleV1(GymnasiumTask):
    """CartPole-v1."""

    environment = "CartPole-v1"
