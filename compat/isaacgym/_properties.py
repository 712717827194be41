"""Methods of `Gym` that read and set the properties of actors, and those that only concern looks."""

from __future__ import annotations

import copy

from livegym.compat.core import properties, tendons
from livegym.compat.core.values import Vec3


class Properties:
    """Getters return copies; setters count before and after the scene is compiled."""

    def get_actor_dof_properties(self, env, actor):
        """Return a structured array, one row a DOF."""
        return properties.get_dofs(env.actors[actor])

    def set_actor_dof_properties(self, env, actor, props):
        """Set drive modes, gains, limits, friction and armature."""
        properties.set_dofs(env.sim, env.actors[actor], props)
        return True

    def get_actor_rigid_body_properties(self, env, actor):
        """Return a record a body."""
        return properties.get_bodies(env.actors[actor])

    def set_actor_rigid_body_properties(self, env, actorHandle, props, recomputeInertia=False):
        """Set masses, centres of mass and inertias; with `recomputeInertia` inertias scale with the masses."""
        properties.set_bodies(env.sim, env.actors[actorHandle], props, bool(recomputeInertia))
        return True

    def get_actor_rigid_shape_properties(self, env, actor):
        """Return a record a shape."""
        return properties.get_shapes(env.actors[actor])

    def set_actor_rigid_shape_properties(self, env, actor, props):
        """Set friction, restitution and filters; MuJoCo has no use for the other fields."""
        properties.set_shapes(env.sim, env.actors[actor], props)
        return True

    def get_asset_rigid_shape_properties(self, asset):
        """Return a record a shape."""
        return [copy.copy(record) for record in asset.shape_properties]

    def set_asset_rigid_shape_properties(self, asset, props):
        """Set the shape properties of actors created later."""
        asset.shape_properties = properties.checked_shapes(props, asset, asset.name)
        return True

    def get_actor_tendon_properties(self, env, actor):
        """Return a record a tendon."""
        return tendons.get(env.actors[actor])

    def set_actor_tendon_properties(self, env, actor, props):
        """Set stiffness, damping and limits of tendons."""
        tendons.put(env.sim, env.actors[actor], props)
        return True

    def get_asset_tendon_properties(self, asset):
        """Return a record a tendon."""
        return copy.deepcopy(asset.tendons)

    def set_asset_tendon_properties(self, asset, props):
        """Set the tendon properties of actors created later."""
        asset.tendons = tendons.checked(list(props), len(asset.tendons), asset.name)
        return True

    def get_actor_actuator_properties(self, env, actor):
        """Return copies of the properties of the file's actuators."""
        return copy.deepcopy(env.actors[actor].asset.actuators)

    def enable_actor_dof_force_sensors(self, env, actor):
        """Have the DOF force tensor contain the limits' forces of this actor, too."""
        chosen = env.actors[actor]
        if not chosen.measures_dof_forces:
            env.sim.only_before("enable_actor_dof_force_sensors")
        chosen.measures_dof_forces = True
        return True

    # looks: they count in the pictures of cameras

    def set_rigid_body_color(self, env, actor, body, mesh, color):
        """Give a body a colour in the pictures of cameras."""
        env.actors[actor].colours[int(body)] = copy.copy(color)

    def get_rigid_body_color(self, env, actor, body, mesh):
        """Return the colour that was set for a body, otherwise white."""
        return copy.copy(env.actors[actor].colours.get(int(body), Vec3(1.0, 1.0, 1.0)))

    def set_rigid_body_segmentation_id(self, env, actor, body, id):
        """Give a body a number in segmentations that is not its actor's."""
        env.actors[actor].segmentations[int(body)] = int(id)

    def get_rigid_body_segmentation_id(self, env, actor, body):
        """Return the number of a body in segmentations, by default that given to create_actor."""
        chosen = env.actors[actor]
        return chosen.segmentations.get(int(body), chosen.segmentation)

    def set_light_parameters(self, sim, light, intensity, ambient, direction):
        """Do nothing."""
