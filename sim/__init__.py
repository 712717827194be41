"""What moves the bodies: one contract (`base`), one module an engine. Only this file knows engine names.

sim = create(config.sim, config.physics, task.model_path(), num_envs=512, decimation=2)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sim.base import Simulator
from utils.errors import not_one_of

# engine -> (module, class): imported only when chosen, so that one engine's libraries are not another's burden
ENGINES = {
    "mujoco": ("sim.mujoco_batch", "MujocoSimulator"),
    "reference": ("sim.reference", "ReferenceSimulator"),
}


def create(
    sim_config: Any,
    physics_config: Any,
    model_path: str | Path,
    num_envs: int,
    decimation: int,
    parts: Mapping[str, Path] | None = None,
) -> Simulator:
    """The simulator of `num_envs` copies of the MJCF at `model_path`, ready for `require` and then `start`.

    `parts`: name of a frame in it -> an MJCF that is attached there.

    `sim_config` and `physics_config` are read by attribute only (`cfg.schema.SimConfig`, `PhysicsConfig`).
    `decimation` is in the model's own physics steps; `physics.substeps` cuts those and keeps the control rate.
    Raises UserError for an unknown engine, a physics setting that there is not, and a model that cannot be read.
    """
    if sim_config.engine not in ENGINES:
        raise not_one_of("sim.engine", sim_config.engine, ENGINES)
    module, name = ENGINES[sim_config.engine]
    engine = getattr(import_module(module), name)
    return engine(sim_config, physics_config, Path(model_path), num_envs, decimation, parts)
