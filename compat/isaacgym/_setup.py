"""Methods of `Gym` that build a scene, step it, and end it."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace

import numpy as np

from livegym.compat.core import asset as assets
from livegym.compat.core import attractors, scaling, terrain
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import (
    AssetOptions,
    ForceSensorProperties,
    HeightFieldParams,
    SimParams,
    SimType,
    Transform,
    TriangleMeshParams,
)
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)


class Setup:
    """Simulations, assets, environments, actors, ground."""

    def create_sim(self, compute_device=0, graphics_device=0, type=SimType.SIM_PHYSX, params=None):
        """Return a new simulation; devices are ignored. Only SIM_PHYSX has a stand-in."""
        if int(type) != int(SimType.SIM_PHYSX):
            raise NotImplementedError("create_sim(SIM_FLEX): soft bodies have no stand-in here; use SIM_PHYSX.")
        params = SimParams() if params is None else params
        if params.use_gpu_pipeline:
            raise NotImplementedError(
                "create_sim: use_gpu_pipeline=True asks for tensors on a GPU; this stand-in computes on the CPU. "
                "Set pipeline=cpu and sim_device=cpu."
            )
        return Sim(params)

    def destroy_sim(self, sim):
        """Do nothing: a simulation ends when nothing refers to it."""

    def prepare_sim(self, sim):
        """Compile the scene; from here on nothing can be added."""
        sim.compile()
        return True

    def simulate(self, sim):
        """Advance by `dt`."""
        sim.simulate()

    def fetch_results(self, sim, wait):
        """Do nothing: results are there when `simulate` returns."""

    def get_sim_params(self, sim):
        """Return a copy of the parameters."""
        return _copy(sim.params)

    def set_sim_params(self, sim, params):
        """Take over parameters; once compiled, gravity can change, and `dt`, substeps and sensors cannot."""
        sim.set_params(params)

    def get_frame_count(self, sim):
        """Return the number of `simulate` calls."""
        return sim.frames

    def get_sim_time(self, sim):
        """Return the simulated time, s."""
        return sim.frames * sim.params.dt

    # assets

    def load_asset(self, sim, rootpath, filename, options=None):
        """Import a .urdf or .xml (MJCF) file."""
        asset = assets.load_asset(rootpath, filename, AssetOptions() if options is None else options)
        for note in asset.notes:
            log.info("%s: %s", asset.file, note)
        return asset

    def load_urdf(self, sim, rootpath, filename, options=None):
        """Import a .urdf file."""
        return self.load_asset(sim, rootpath, filename, options)

    def load_mjcf(self, sim, rootpath, filename, options=None):
        """Import a .xml (MJCF) file."""
        return self.load_asset(sim, rootpath, filename, options)

    def create_box(self, sim, width, height, depth, options=None):
        """Return a box, edge lengths along x, y, z in m."""
        return assets.box(width, height, depth, AssetOptions() if options is None else options)

    def create_sphere(self, sim, radius, options=None):
        """Return a sphere, radius in m."""
        return assets.sphere(radius, AssetOptions() if options is None else options)

    def create_capsule(self, sim, radius, width, options=None):
        """Return a capsule along x: radius, and length of the straight part, in m."""
        return assets.capsule(radius, width, AssetOptions() if options is None else options)

    def create_asset_force_sensor(self, asset, body_idx, local_pose, props=None):
        """Put a force sensor on a body of actors created later; return its index."""
        if not 0 <= int(body_idx) < len(asset.bodies):
            raise UserError(
                f"create_asset_force_sensor: body {body_idx} of {asset.name}, which has {len(asset.bodies)} bodies. "
                "find_asset_rigid_body_index gives the index of a name, or -1 if there is no such body."
            )
        flags = ForceSensorProperties() if props is None else props
        asset.sensors.append(assets.ForceSensor(int(body_idx), _copy(local_pose), _copy(flags)))
        return len(asset.sensors) - 1

    # the scene

    def add_ground(self, sim, params):
        """Add an infinite plane that touches everything."""
        sim.only_before("add_ground")
        sim.ground.plane = _copy(params)

    def add_triangle_mesh(self, sim, vertices, triangles, params):
        """Add a terrain that is a height field, see livegym.compat.core.terrain."""
        sim.only_before("add_triangle_mesh")
        terrain.check_counts(vertices, triangles, int(params.nb_vertices), int(params.nb_triangles))
        field = terrain.from_mesh(vertices, triangles, _origin(params), float(params.dynamic_friction))
        sim.ground.fields.append(_with_surface(field, params))

    def add_heightfield(self, sim, samples, params):
        """Add a terrain of samples: `nbColumns` along x, `column_scale` apart, by `nbRows` along y, `row_scale` apart.

        Those along y follow one another in memory, whatever the shape of the array.
        """
        sim.only_before("add_heightfield")
        rows = terrain.samples_of(samples, int(params.nbColumns), int(params.nbRows))
        spacing = (float(params.column_scale), float(params.row_scale))
        height, friction = float(params.vertical_scale), float(params.dynamic_friction)
        field = terrain.from_heights(rows, spacing, height, _origin(params), friction)
        sim.ground.fields.append(_with_surface(field, params))

    def create_env(self, sim, lower, upper, num_per_row):
        """Add an environment; its cell only gives an origin for drawing."""
        return sim.add_env(lower, upper, num_per_row)

    def create_actor(self, env, asset, pose, name=None, group=-1, filter=-1, segmentationId=0):
        """Place an asset in an environment; return its handle there."""
        return env.add(asset, pose, name, int(group), int(filter), int(segmentationId)).handle

    def begin_aggregate(self, env, max_bodies, max_shapes, enable_self_collisions):
        """Do nothing: MuJoCo's broad phase needs no aggregates."""
        return True

    def end_aggregate(self, env):
        """Do nothing, as `begin_aggregate`."""
        return True

    def create_rigid_body_attractor(self, env, properties):
        """Pull a body to a pose by a spring; return its handle."""
        return attractors.add(env, properties)

    def get_attractor_properties(self, env, attractor):
        """Return a copy of an attractor's properties."""
        return _copy(env.attractors[attractor])

    def set_actor_scale(self, env, actor, scale):
        """Make a rigid actor larger or smaller than its asset, before prepare_sim."""
        scaling.scale(env.actors[actor], float(np.asarray(scale).item()))
        return True

    def get_actor_scale(self, env, actor):
        """Return an actor's size, of its asset's."""
        return env.actors[actor].scale


def _copy(value):
    """A copy of a record, so that later changes of the caller's do not count."""
    return copy.deepcopy(value)


def _origin(params: HeightFieldParams | TriangleMeshParams) -> tuple[float, float, float]:
    place: Transform = params.transform
    if abs(abs(place.r.w) - 1.0) > 1e-6:
        raise NotImplementedError(
            "A rotated terrain is not supported: turn the samples or vertices instead of the transform."
        )
    return (place.p.x, place.p.y, place.p.z)


def _with_surface(field, params):
    """A terrain with what its parameters say beside its shape and friction."""
    return replace(field, restitution=float(params.restitution), segmentation=int(params.segmentation_id))
