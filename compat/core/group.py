"""The environments that one engine steps, with what has been written into its batch.

group = Group(scene, variants)       # environments of one make-up, or of one except for sizes and masses
group.engine.step()
group.ids                            # (n,) their numbers in the simulation; env.row is the inverse
"""

from __future__ import annotations

import os

import numpy as np

from livegym.compat.core import properties, scaling
from livegym.compat.core.engine import Engine
from livegym.compat.core.makeup import Variant
from livegym.compat.core.record import EnvGroup, Scene
from livegym.compat.core.values import Transform


class Group(EnvGroup):
    """Environments of one engine, which is made of their variants."""

    engine: Engine

    def __init__(self, scene: Scene, variants: list[Variant], threads: int) -> None:
        envs = [env for variant in variants for env in variant.envs]
        super().__init__(sorted(envs, key=lambda env: env.index))
        self.filters = properties.filters(self.envs[0])
        for variant in variants:
            properties.write_model(variant.envs[0], variant.model, variant.layout)
        first = variants[0]
        rows = [np.array([env.row for env in variant.envs]) for variant in variants]
        props = properties.dof_table(self.envs)
        models = [variant.model for variant in variants]
        threads = min(threads or os.cpu_count() or 1, len(self.envs))
        threshold = float(scene.params.physx.bounce_threshold_velocity)
        substeps = int(scene.params.substeps)
        self.engine = Engine(first.spec, models, rows, first.layout, props, substeps, threads, threshold)
        properties.write_restitution(self)
        properties.mark_different(self, (variant.envs for variant in variants))
        scaling.write(self)
        self.engine.flush_first = lambda: properties.flush(self)
        self._place()

    def _place(self) -> None:
        """Put every actor at its pose."""
        for handle, slot in enumerate(self.engine.layout.actors):
            poses = np.array([_pose(env.actors[handle].pose) for env in self.envs])
            slot.write_pose(self.engine, slice(None), poses)
        self.engine.moved()


def _pose(pose: Transform) -> list[float]:
    p, r = pose.p, pose.r
    return [p.x, p.y, p.z, r.w, r.x, r.y, r.z]
