"""The environments that one engine steps, with what has been written into its batch.

group = Group(scene, make_up, 0)     # environments of one make-up, or of one except for sizes and masses
group.engine.step()
group.ids                            # (n,) their numbers in the simulation; env.row is the inverse
"""

from __future__ import annotations

import numpy as np

from livegym.compat.core import properties, scaling
from livegym.compat.core.engine import Engine
from livegym.compat.core.makeup import MakeUp
from livegym.compat.core.record import EnvGroup, Scene
from livegym.compat.core.values import Transform
from livegym.utils.cores import cores


class Group(EnvGroup):
    """Environments of one engine."""

    engine: Engine

    def __init__(self, scene: Scene, make_up: MakeUp, threads: int) -> None:
        """`threads`: 0 is one for each processor that this process may use."""
        super().__init__(sorted(make_up.all_envs, key=lambda env: env.index))
        others = [(np.array([env.row for env in envs]), sizes) for envs, sizes in make_up.others]
        props = properties.dof_table(self.envs)
        threads = min(threads or cores(), len(self.envs))
        threshold = float(scene.params.physx.bounce_threshold_velocity)
        substeps = int(scene.params.substeps)
        self.engine = Engine(
            make_up.spec, make_up.model, others, make_up.layout, props, substeps, threads, threshold
        )  # fmt: skip
        properties.write_restitution(self)
        properties.mark_different(self, [make_up.envs, *(envs for envs, _ in make_up.others)])
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
