"""Methods of `Gym` that answer questions about assets, environments and actors: counts, names, indices."""

from __future__ import annotations

import copy

import mujoco

from livegym.compat.core.values import DofType, IndexDomain, JointType, Quat, Transform, Vec3

PARTS = {"rigid_body": "bodies", "dof": "dofs", "joint": "joints", "actuator": "actuator_names"}
"""The word in the names of methods -> the attribute of an asset."""


def _names(asset, part):
    return list(getattr(asset, PARTS[part]))


def _find(asset, part, name):
    names = _names(asset, part)
    return names.index(name) if name in names else -1


def _offset(env, actor, domain, part):
    """The index of an actor's first body, DOF or joint in a domain."""
    if domain == IndexDomain.DOMAIN_ACTOR:
        return 0
    size = {"rigid_body": "body_count", "dof": "dof_count"}.get(part)
    before = sum(len(_names(other.asset, part)) for other in env.actors[:actor])
    if domain == IndexDomain.DOMAIN_ENV:
        return before
    earlier = env.sim.envs[: env.index]
    if size:
        return before + sum(getattr(other, size) for other in earlier)
    return before + sum(len(_names(a.asset, part)) for other in earlier for a in other.actors)


def _index(env, actor, name, domain, part):
    found = _find(env.actors[actor].asset, part, name)
    return found if found < 0 else found + _offset(env, actor, domain, part)


class Queries:
    """Counts, names and indices. An unknown name gives -1."""

    # assets

    def get_asset_actuator_joint_name(self, asset, index):
        """Return the name of the joint that an actuator drives."""
        return asset.actuator_joints[index]

    def get_asset_actuator_properties(self, asset):
        """Return copies of the properties of the file's actuators."""
        return copy.deepcopy(asset.actuators)

    def get_asset_dof_properties(self, asset):
        """Return a copy of the DOF properties of the file."""
        return asset.dof_properties.copy()

    def get_asset_dof_type(self, asset, index):
        """Return whether a DOF turns or slides."""
        slides = asset.model.joint(asset.dofs[index]).type[0] == mujoco.mjtJoint.mjJNT_SLIDE
        return DofType.DOF_TRANSLATION if slides else DofType.DOF_ROTATION

    def get_asset_joint_type(self, asset, index):
        """Return the type of a joint, fixed ones included."""
        name = asset.joints[index]
        if name not in asset.dofs:
            return JointType.JOINT_FIXED
        slides = asset.model.joint(name).type[0] == mujoco.mjtJoint.mjJNT_SLIDE
        return JointType.JOINT_PRISMATIC if slides else JointType.JOINT_REVOLUTE

    def get_asset_rigid_shape_count(self, asset):
        """Return the number of colliding shapes."""
        return len(asset.shapes)

    def get_asset_tendon_count(self, asset):
        """Return the number of tendons."""
        return len(asset.tendons)

    def get_asset_tendon_name(self, asset, index):
        """Return a tendon's name."""
        return asset.tendon_names[index]

    # actors

    def get_actor_asset(self, env, actor):
        """Return the asset of an actor."""
        return env.actors[actor].asset

    def get_actor_count(self, env):
        """Return the number of actors of an environment."""
        return len(env.actors)

    def get_actor_handle(self, env, index):
        """Return the handle of the actor with that index in its environment: they are the same."""
        return index if 0 <= index < len(env.actors) else -1

    def get_actor_name(self, env, actor):
        """Return an actor's name."""
        return env.actors[actor].name

    def find_actor_handle(self, env, name):
        """Return the handle of the actor of that name."""
        return next((a.handle for a in env.actors if a.name == name), -1)

    def get_actor_index(self, env, actor, domain):
        """Return an actor's index in its environment or in the simulation."""
        if actor < 0:
            return -1
        return env.actors[actor].index if domain == IndexDomain.DOMAIN_SIM else actor

    def find_actor_index(self, env, name, domain):
        """Return the index of the actor of that name."""
        return self.get_actor_index(env, self.find_actor_handle(env, name), domain)

    def get_actor_rigid_shape_count(self, env, actor):
        """Return the number of an actor's colliding shapes."""
        return len(env.actors[actor].asset.shapes)

    def get_actor_tendon_count(self, env, actor):
        """Return the number of an actor's tendons."""
        return len(env.actors[actor].asset.tendons)

    def get_actor_tendon_name(self, env, actor, index):
        """Return the name of an actor's tendon."""
        return env.actors[actor].asset.tendon_names[index]

    def get_actor_root_rigid_body_handle(self, env, actor):
        """Return the handle of an actor's root body."""
        return _offset(env, actor, IndexDomain.DOMAIN_ENV, "rigid_body")

    def get_actor_force_sensor_count(self, env, actor):
        """Return the number of force sensors of an actor."""
        return len(env.actors[actor].sensors)

    # environments and simulation

    def get_env(self, sim, index):
        """Return an environment."""
        return sim.envs[index]

    def get_env_count(self, sim):
        """Return the number of environments."""
        return len(sim.envs)

    def get_env_origin(self, env):
        """Return the origin of an environment's cell, for drawing."""
        return copy.deepcopy(env.origin)

    def get_env_rigid_body_count(self, env):
        """Return the number of bodies of an environment."""
        return env.body_count

    def get_env_dof_count(self, env):
        """Return the number of DOFs of an environment."""
        return env.dof_count

    def get_env_joint_count(self, env):
        """Return the number of joints of an environment, fixed ones included."""
        return sum(len(actor.asset.joints) for actor in env.actors)

    def get_sim_actor_count(self, sim):
        """Return the number of actors of all environments."""
        return sim.actor_count

    def get_sim_rigid_body_count(self, sim):
        """Return the number of bodies of all environments."""
        return sum(env.body_count for env in sim.envs)

    def get_sim_dof_count(self, sim):
        """Return the number of DOFs of all environments."""
        return sum(env.dof_count for env in sim.envs)

    def get_sim_joint_count(self, sim):
        """Return the number of joints of all environments."""
        return sum(self.get_env_joint_count(env) for env in sim.envs)

    def get_sim_force_sensor_count(self, sim):
        """Return the number of force sensors of all environments."""
        return sum(len(actor.sensors) for env in sim.envs for actor in env.actors)

    def get_rigid_transform(self, env, body):
        """Return the pose of an environment's body; before the scene is compiled, with all DOFs at 0."""
        if not 0 <= body < env.body_count:
            raise IndexError(
                f"body handle {body} of environment {env.index}, which has {env.body_count} bodies. "
                "find_actor_rigid_body_handle gives -1 if there is no body of that name."
            )
        if env.sim.compiled:
            engine = env.group.engine
            place, turn = (engine.kinematics(name)[env.row, body + 1] for name in ("xpos", "xquat"))
            return _transform(place, turn)
        for actor in env.actors:
            if body < len(actor.asset.bodies):
                model = actor.asset.model
                data = mujoco.MjData(model)
                mujoco.mj_kinematics(model, data)
                return actor.pose * _transform(data.xpos[body + 1], data.xquat[body + 1])
            body -= len(actor.asset.bodies)
        raise AssertionError("unreachable: the bodies of an environment are those of its actors")


def _transform(place, turn):
    w, x, y, z = (float(value) for value in turn)
    return Transform(Vec3(*(float(value) for value in place)), Quat(x, y, z, w))


def _add(name, function, doc):
    function.__name__ = name
    function.__qualname__ = f"Queries.{name}"
    function.__doc__ = doc
    setattr(Queries, name, function)


def _add_asset_queries(part):
    word = part.replace("rigid_", "").replace("_", " ")
    _add(f"get_asset_{part}_count", lambda self, asset: len(_names(asset, part)), f"Number of {word}s of an asset.")
    _add(f"find_asset_{part}_index", lambda self, asset, name: _find(asset, part, name), f"Index of a {word}, or -1.")
    _add(f"get_asset_{part}_name", lambda self, asset, index: _names(asset, part)[index], f"Name of a {word}.")
    _add(
        f"get_actor_{part}_count",
        lambda self, env, actor: len(_names(env.actors[actor].asset, part)),
        f"Number of {word}s of an actor.",
    )
    if part == "actuator":
        return
    _add(f"get_asset_{part}_names", lambda self, asset: _names(asset, part), f"Names of an asset's {word}s.")
    _add(
        f"get_asset_{part}_dict",
        lambda self, asset: {name: i for i, name in enumerate(_names(asset, part))},
        f"Index of each {word} of an asset by its name.",
    )


def _add_actor_queries(part):
    word = part.replace("rigid_", "")
    env_domain = IndexDomain.DOMAIN_ENV
    _add(
        f"get_actor_{part}_names",
        lambda self, env, actor: _names(env.actors[actor].asset, part),
        f"Names of an actor's {word}s.",
    )
    _add(
        f"get_actor_{part}_dict",
        lambda self, env, actor: {name: i for i, name in enumerate(_names(env.actors[actor].asset, part))},
        f"Index of each {word} of an actor by its name.",
    )
    _add(
        f"get_actor_{part}_index",
        lambda self, env, actor, index, domain: index + _offset(env, actor, domain, part),
        f"Index in a domain of the {word} with that index in its actor.",
    )
    _add(
        f"get_actor_{part}_handle",
        lambda self, env, actor, index: index + _offset(env, actor, env_domain, part),
        f"Index in the environment of the {word} with that index in its actor.",
    )
    _add(
        f"find_actor_{part}_index",
        lambda self, env, actor, name, domain: _index(env, actor, name, domain, part),
        f"Index in a domain of the {word} of that name, or -1.",
    )
    _add(
        f"find_actor_{part}_handle",
        lambda self, env, actor, name: _index(env, actor, name, env_domain, part),
        f"Index in the environment of the {word} of that name, or -1.",
    )


for _part in PARTS:
    _add_asset_queries(_part)
    if _part != "actuator":
        _add_actor_queries(_part)
